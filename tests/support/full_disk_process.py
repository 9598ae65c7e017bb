"""A home on a small disk that gets full: run in a mount namespace (`unshare -rm`), prints what happened as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.cli_support import Command
from support.example_model import ExampleModel
from support.served_command import Served, repeat, set_up, until

PROMPT = "/api/sessions/s/prompt"
ROOM_BYTES = 64 * 1024  # enough for a lock, too little for a database


def fill(path: Path) -> None:
    """Write a file until the disk has no space left."""
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    at, size = os.fstat(fd).st_size, 1 << 24
    while size >= 4096:
        try:
            os.posix_fallocate(fd, at, size)
            at += size
        except OSError:
            size //= 2
    os.close(fd)


def run(mainstay: Command, *arguments: str) -> tuple[str, int]:
    """Run a command; return what it said on stderr, and its exit code."""
    process = mainstay.start(*arguments)
    return process.communicate()[1], process.returncode


def main(folder: Path) -> dict[str, Any]:
    home = folder / "home"
    home.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=700", "tmpfs", str(home)], check=True)
    model, mainstay, seen = ExampleModel(repeat), Command(folder), {}
    mainstay.env["KEY"] = "none"
    set_up(mainstay, model)
    filler = home / "filler"
    with Served(mainstay).ready() as server:
        seen["before"] = server.post(PROMPT, b'{"text":"before"}')
        fill(filler)
        until(lambda: server.get("/readyz")[0] == 503)
        seen["ready"] = server.get("/readyz")
        seen["during"] = server.post(PROMPT, b'{"text":"during"}')
        doctor = mainstay.start("doctor", "--offline")
        seen["doctor"] = (doctor.communicate()[0], doctor.returncode)
        filler.unlink()
        until(lambda: server.get("/readyz")[0] == 200)
        seen["after"] = server.post(PROMPT, b'{"text":"after"}')
        seen["journal"] = server.events("s")
        server.end()
    run(mainstay, "backup", str(folder / "backup"))
    fill(filler)
    os.truncate(filler, filler.stat().st_size - ROOM_BYTES)
    seen["restore"] = run(mainstay, "restore", str(folder / "backup"), "--yes")
    filler.unlink()
    seen["run"] = run(mainstay, "run", "--session", "s", "still there?")
    fill(filler)
    for name, arguments in (("serve", ["serve", "--port", "0"]), ("list", ["session", "list"])):
        seen[name] = run(mainstay, *arguments)
    model.close()
    return seen


if __name__ == "__main__":
    began = time.monotonic()
    print(json.dumps(main(Path(sys.argv[1])) | {"took_s": time.monotonic() - began}))
