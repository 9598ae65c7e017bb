"""Finds the process that listens on a TCP port of this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

LISTEN_STATE = "0A"
LSOF_TIMEOUT_S = 5.0


def find_listener(port: int, proc: Path = Path("/proc")) -> str:
    """Return `process 4711 (nginx)`, or `a process of another user`, or "" if none is found."""
    if not (proc / "net" / "tcp").exists():
        return _find_by_lsof(port)
    sockets = {socket for name in ("tcp", "tcp6") for socket in _list_listening_sockets(proc / "net" / name, port)}
    if not sockets:
        return ""
    for process in proc.iterdir():
        if process.name.isdigit() and _has_socket(process / "fd", sockets):
            return f"process {process.name} ({_process_name(process)})"
    return "a process of another user"


def _list_listening_sockets(table: Path, port: int) -> list[str]:
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:  # no IPv6 here
        return []
    rows = [line.split() for line in lines]
    return [
        f"socket:[{row[9]}]" for row in rows if row[3] == LISTEN_STATE and int(row[1].rpartition(":")[2], 16) == port
    ]


def _has_socket(folder: Path, sockets: set[str]) -> bool:
    try:
        return any(os.readlink(entry) in sockets for entry in os.scandir(folder))
    except OSError:  # another user's process, or it has ended
        return False


def _process_name(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "ended meanwhile"


def _find_by_lsof(port: int) -> str:
    """Use lsof where there is no /proc, as on macOS."""
    command = ["lsof", "-nP", f"-iTCP:{port}", "-sTCP:LISTEN", "-Fpc"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=LSOF_TIMEOUT_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    facts = {line[0]: line[1:] for line in output.splitlines() if line}
    return f"process {facts['p']} ({facts.get('c', '?')})" if "p" in facts else ""
