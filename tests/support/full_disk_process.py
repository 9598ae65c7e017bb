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
    fill(filler)
    for name, arguments in (("serve", ["serve", "--port", "0"]), ("list", ["session", "list"])):
        process = mainstay.start(*arguments)
        seen[name] = (process.communicate()[1], process.returncode)
    model.close()
    return seen


if __name__ == "__main__":
    began = time.monotonic()
    print(json.dumps(main(Path(sys.argv[1])) | {"took_s": time.monotonic() - began}))
