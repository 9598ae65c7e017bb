"""A disk that can be told to fail: an SQLite VFS that counts its operations and does harm at the nth.

`kill` ends the process before the operation, `torn` after half of a write, `power` loses or garbles what was
not synced and then ends the process; `ioerr` and `full` raise, once or until told otherwise.
"""

from __future__ import annotations

import os
import random
import signal
from typing import Any

import apsw

SECTOR = 512


class Plan:
    """What goes wrong, and when. `count` runs on whether or not anything is planned."""

    def __init__(self, action: str = "", at: int = 0, *, sticky: bool = False, seed: int = 0) -> None:
        self.action = action
        self.at = at
        self.sticky = sticky
        self.count = 0
        self.fired = 0
        self.random = random.Random(seed)
        self.files: dict[str, FaultyFile] = {}
        self.vfs: FaultyVFS | None = None  # held here: SQLite only knows it by name

    def due(self) -> bool:
        self.count += 1
        if not self.action or (self.count < self.at) or (self.count > self.at and not self.sticky):
            return False
        self.fired += 1
        return True

    def harm(self, what: str) -> None:
        if not self.due():
            return
        match self.action:
            case "kill" | "torn":
                os.kill(os.getpid(), signal.SIGKILL)
            case "power":
                for file in self.files.values():
                    file.lose_unsynced(self.random)
                os.kill(os.getpid(), signal.SIGKILL)
            case "ioerr":
                raise _io_error(what)
            case "full":
                if what == "write":
                    raise apsw.FullError("injected: disk full")
                raise _io_error(what)


def _io_error(what: str) -> Exception:
    error = apsw.IOError(f"injected: {what}")
    error.extendedresult = {  # type: ignore[attr-defined]
        "write": apsw.SQLITE_IOERR_WRITE,
        "sync": apsw.SQLITE_IOERR_FSYNC,
        "truncate": apsw.SQLITE_IOERR_TRUNCATE,
        "read": apsw.SQLITE_IOERR_READ,
    }.get(what, apsw.SQLITE_IOERR)
    return error


class FaultyVFS(apsw.VFS):
    def __init__(self, name: str, plan: Plan) -> None:
        self.plan = plan
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: Any) -> FaultyFile:
        return FaultyFile(self.plan, name, flags)

    def xDelete(self, name: str, syncdir: bool) -> None:
        self.plan.harm("delete")
        super().xDelete(name, syncdir)


class FaultyFile(apsw.VFSFile):
    def __init__(self, plan: Plan, name: Any, flags: Any) -> None:
        self.plan = plan
        self.path = name if isinstance(name, str) or name is None else name.filename()
        self._unsynced: list[tuple[int, bytes, bytes]] = []  # offset, old, new
        super().__init__("", name, flags)
        if self.path:
            plan.files[self.path] = self

    def xWrite(self, data: bytes, offset: int) -> None:
        if self.plan.action == "torn" and self.plan.count + 1 == self.plan.at:
            super().xWrite(data[: len(data) // 2], offset)
        self.plan.harm("write")
        if self.plan.action == "power":
            self._remember(data, offset)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self.plan.harm("sync")
        super().xSync(flags)
        self._unsynced.clear()

    def xTruncate(self, size: int) -> None:
        self.plan.harm("truncate")
        super().xTruncate(size)
        self._unsynced = [(o, old, new) for o, old, new in self._unsynced if o < size]

    def _remember(self, data: bytes, offset: int) -> None:
        size = self.xFileSize()
        old = super().xRead(max(0, min(len(data), size - offset)), offset) if size > offset else b""
        self._unsynced.append((offset, old, bytes(data)))

    def lose_unsynced(self, chance: random.Random) -> None:
        """Each sector that was not synced is kept, dropped or garbled."""
        if not os.path.exists(self.path):  # a journal that was deleted since
            return
        fd = os.open(self.path, os.O_RDWR)
        try:
            for offset, old, new in reversed(self._unsynced):
                for start in range(0, len(new), SECTOR):
                    piece = new[start : start + SECTOR]
                    fate = chance.choice(("keep", "drop", "garble"))
                    if fate == "keep":
                        continue
                    before = old[start : start + SECTOR].ljust(len(piece), b"\0")
                    os.pwrite(fd, before if fate == "drop" else chance.randbytes(len(piece)), offset + start)
        finally:
            os.close(fd)
