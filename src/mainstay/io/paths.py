"""Folder names for session keys, and file reads confined to a folder."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import time
import unicodedata

FOLDER_NAME_BYTES_MAX = 120
_UNESCAPED_CHAR = re.compile(r"[A-Za-z0-9_@+,%.-]")  # "%" is the escape character of session keys
_HIDDEN = re.compile(r"^\.")
# Names that the runtime itself uses beside the folders of channels, rooms and threads.
_RESERVED_NAME = re.compile(
    r"(memory\.md|agents\.md|skills|patterns|knowledge|attachments|scratch|workspace\.db.*)", re.IGNORECASE
)
_RECENT_WRITE_NS = 2_000_000_000  # a file written this recently may be written again with the same timestamps
_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW


def encode_folder_name(text: str) -> str:
    """Encode any text as a folder name, injectively even on file systems that ignore case and Unicode composition.

    `=2F` stands for a byte that is not allowed in a name. Letters keep their case for readability; after `==`, a bit
    mask says which of them are capitals. A long name is cut and gets a hash.
    """
    if not text:
        return "="
    is_nfc = unicodedata.normalize("NFC", text) == text
    name = "".join(char if _is_unescaped(char, is_nfc) else _escape_char(char) for char in text)
    if _HIDDEN.match(name) or _RESERVED_NAME.fullmatch(name):
        name = _escape_char(name[0]) + name[1:]
    capitals = "".join("1" if "A" <= char <= "Z" else "0" for char in text)
    if "1" in capitals:
        name += f"=={int(capitals[::-1], 2):x}"
    if len(name.encode()) > FOLDER_NAME_BYTES_MAX:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        name = name.encode()[: FOLDER_NAME_BYTES_MAX - 40].decode(errors="ignore") + f"==h{digest}"
    return name


def _is_unescaped(char: str, is_nfc: bool) -> bool:
    if char.isascii():
        return _UNESCAPED_CHAR.match(char) is not None
    return is_nfc and char.isalnum() and unicodedata.normalize("NFKC", char.casefold()) == char


def _escape_char(char: str) -> str:
    return "".join(f"={byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def parse_session_scopes(session: str) -> tuple[str, ...]:
    """Return channel and room of a session key `channel:room:thread`; () for other keys, such as `user:…`."""
    parts = session.split(":")
    return (parts[0], parts[1]) if len(parts) == 3 and parts[0] != "user" else ()


def read_confined(root: str, path: str, bytes_max: int) -> tuple[bytes, int]:
    """Read up to `bytes_max` bytes of a file inside `root`; return them and the size of the file. Raises OSError.

    Symlinks are followed where they stay inside. The resolved path is then opened component by component from `root`
    without following symlinks, so that a link created meanwhile does not lead out.
    """
    top, real = os.path.realpath(root), os.path.realpath(path)
    if not real.startswith(top.rstrip("/") + "/"):
        raise PermissionError(errno.EPERM, "it leads out of its folder", path)
    components = os.path.relpath(real, top).split("/")
    folder = os.open(top, _READ_FLAGS | os.O_DIRECTORY)
    try:
        for component in components[:-1]:
            inner = os.open(component, _READ_FLAGS | os.O_DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = inner
        file = os.open(components[-1], _READ_FLAGS | os.O_NONBLOCK, dir_fd=folder)  # opening a pipe must not block
    finally:
        os.close(folder)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a file", path)
        return _read_up_to(file, bytes_max), status.st_size
    finally:
        os.close(file)


class CachedFileReader:
    """A cached file inside `root`, read again only when it has changed."""

    __slots__ = ("_bytes_max", "_content", "_fingerprint", "_path", "_root")

    def __init__(self, root: str, path: str, bytes_max: int) -> None:
        self._root = root
        self._path = path
        self._bytes_max = bytes_max
        self._fingerprint: tuple[int, ...] = ()
        self._content: tuple[bytes, int] | None = None

    def read(self) -> tuple[bytes, int] | None:
        """Return what `read_confined` returns: the same object while the file is unchanged, None if there is none."""
        try:
            status = os.stat(self._path)
            mark = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_dev)
            if mark == self._fingerprint:
                return self._content
            content = read_confined(self._root, self._path, self._bytes_max)
        except FileNotFoundError:
            self._fingerprint, self._content = (), None
            return None
        except OSError:
            self._fingerprint, self._content = (), None
            raise
        self._content = self._content if content == self._content else content
        is_settled = abs(time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns)) > _RECENT_WRITE_NS
        self._fingerprint = mark if is_settled else ()
        return self._content


def _read_up_to(file: int, bytes_max: int) -> bytes:
    pieces: list[bytes] = []
    while bytes_max > 0 and (piece := os.read(file, bytes_max)):
        pieces.append(piece)
        bytes_max -= len(piece)
    return b"".join(pieces)
