"""Who listens on a port of this machine, as far as its owner may know."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

LISTENING = "0A"
LOOK_S = 5.0


def listener(port: int, proc: Path = Path("/proc")) -> str:
    """`process 4711 (nginx)`; of another user's `a process of another user`; empty if nobody is seen."""
    if not (proc / "net" / "tcp").exists():
        return _by_lsof(port)
    sockets = {one for name in ("tcp", "tcp6") for one in _sockets(proc / "net" / name, port)}
    if not sockets:
        return ""
    for process in proc.iterdir():
        if process.name.isdigit() and _holds(process / "fd", sockets):
            return f"process {process.name} ({_called(process)})"
    return "a process of another user"


def _sockets(table: Path, port: int) -> list[str]:
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:  # no IPv6 here
        return []
    rows = [line.split() for line in lines]
    return [f"socket:[{row[9]}]" for row in rows if row[3] == LISTENING and int(row[1].rpartition(":")[2], 16) == port]


def _holds(folder: Path, sockets: set[str]) -> bool:
    try:
        return any(os.readlink(one) in sockets for one in os.scandir(folder))
    except OSError:  # another user's, or gone meanwhile
        return False


def _called(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "gone meanwhile"


def _by_lsof(port: int) -> str:
    """Where there is no /proc, as on macOS."""
    words = ["lsof", "-nP", f"-iTCP:{port}", "-sTCP:LISTEN", "-Fpc"]
    try:
        said = subprocess.run(words, capture_output=True, text=True, timeout=LOOK_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    facts = {line[0]: line[1:] for line in said.splitlines() if line}
    return f"process {facts['p']} ({facts.get('c', '?')})" if "p" in facts else ""
