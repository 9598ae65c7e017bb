"""Names and files on disk: folders for whatever a platform calls its rooms, and reading that stays inside a folder."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import time
import unicodedata

NAME_BYTES_MAX = 120
_PLAIN = re.compile(r"[A-Za-z0-9_@+,%.-]")  # "%" is how a session's key writes what it cannot hold
_HIDDEN = re.compile(r"^\.")
# What the runtime itself keeps beside the folders of channels, rooms and threads.
_TAKEN = re.compile(
    r"(memory\.md|agents\.md|skills|patterns|knowledge|attachments|scratch|workspace\.db.*)", re.IGNORECASE
)
_SETTLED_NS = 2_000_000_000  # a file written this recently may be written again without its times showing it
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW


def folder_name(part: str) -> str:
    """A folder's name for any text: no two texts share one, even where the file system ignores case and accents' forms.

    `=2F` stands for a byte that a name cannot have. Letters keep their case for whoever reads the name; which of them
    are capitals is written after `==`. A long name is cut and gets a hash.
    """
    if not part:
        return "="
    settled = unicodedata.normalize("NFC", part) == part
    name = "".join(char if _stays(char, settled) else _escaped(char) for char in part)
    if _HIDDEN.match(name) or _TAKEN.fullmatch(name):
        name = _escaped(name[0]) + name[1:]
    capitals = "".join("1" if "A" <= char <= "Z" else "0" for char in part)
    if "1" in capitals:
        name += f"=={int(capitals[::-1], 2):x}"
    if len(name.encode()) > NAME_BYTES_MAX:
        digest = hashlib.sha256(part.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        name = name.encode()[: NAME_BYTES_MAX - 40].decode(errors="ignore") + f"==h{digest}"
    return name


def _stays(char: str, settled: bool) -> bool:
    if char.isascii():
        return _PLAIN.match(char) is not None
    return settled and char.isalnum() and unicodedata.normalize("NFKC", char.casefold()) == char


def _escaped(char: str) -> str:
    return "".join(f"={byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def scopes_of(session: str) -> tuple[str, ...]:
    """Channel and room of a key `channel:room:thread`; nothing for other keys, a person's (`user:…`) among them."""
    parts = session.split(":")
    return (parts[0], parts[1]) if len(parts) == 3 and parts[0] != "user" else ()


def read_inside(root: str, path: str, bytes_max: int) -> tuple[bytes, int]:
    """The beginning of a file that really lies inside `root`, and its whole size. Raises OSError.

    Links are followed where they stay inside. What was found is then opened step by step from `root` without following
    any, so that a link put there meanwhile leads nowhere.
    """
    top, real = os.path.realpath(root), os.path.realpath(path)
    if not real.startswith(top.rstrip("/") + "/"):
        raise PermissionError(errno.EPERM, "it leads out of its folder", path)
    steps = os.path.relpath(real, top).split("/")
    folder = os.open(top, _READ | os.O_DIRECTORY)
    try:
        for step in steps[:-1]:
            inner = os.open(step, _READ | os.O_DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = inner
        file = os.open(steps[-1], _READ | os.O_NONBLOCK, dir_fd=folder)  # a pipe must not hold us up
    finally:
        os.close(folder)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a file", path)
        return _read(file, bytes_max), found.st_size
    finally:
        os.close(file)


class Watched:
    """A file that is looked at often: read again only when it has changed, always from inside `root`."""

    __slots__ = ("_bytes_max", "_found", "_mark", "_path", "_root")

    def __init__(self, root: str, path: str, bytes_max: int) -> None:
        self._root = root
        self._path = path
        self._bytes_max = bytes_max
        self._mark: tuple[int, ...] = ()
        self._found: tuple[bytes, int] | None = None

    def read(self) -> tuple[bytes, int] | None:
        """As `read_inside`: the very same object while the file stays as it is, None if there is none."""
        try:
            now = os.stat(self._path)
            mark = (now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_dev)
            if mark == self._mark:
                return self._found
            found = read_inside(self._root, self._path, self._bytes_max)
        except FileNotFoundError:
            self._mark, self._found = (), None
            return None
        except OSError:
            self._mark, self._found = (), None
            raise
        self._found = self._found if found == self._found else found
        settled = abs(time.time_ns() - max(now.st_mtime_ns, now.st_ctime_ns)) > _SETTLED_NS
        self._mark = mark if settled else ()
        return self._found


def _read(file: int, bytes_max: int) -> bytes:
    pieces: list[bytes] = []
    while bytes_max > 0 and (piece := os.read(file, bytes_max)):
        pieces.append(piece)
        bytes_max -= len(piece)
    return b"".join(pieces)
