"""Archives and folders from elsewhere, unpacked into a folder of ours: plain files and folders, within bounds.

Nothing that is written has a name that leads elsewhere, is a link or a device, or can be taken for another file.
What breaks a rule is refused as a whole; the caller removes what was written until then.
"""

from __future__ import annotations

import gzip
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

import msgspec

from mainstay.core.errors import MainstayError
from mainstay.io.beneath import NAME_BYTES_MAX, brief, creatable, folded

_CHUNK = 64 * 1024
_BLOCK = 512
_NOTE_BYTES_MAX = 64 * 1024  # what a tar file says about its next entry
_FREE_BYTES = 1024 * 1024  # so much may come out of whatever is small
_ZIP_END_MAX = 22 + 65_535
_ZIP_ENTRY_MAX = 512  # bytes, for each file that is listed
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class ArchiveRefused(MainstayError):
    """This archive or folder holds something that we do not unpack, or is none."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How much may come out of an archive."""

    archive_bytes_max: int = 64 * 1024 * 1024
    files_max: int = 10_000  # and folders
    bytes_max: int = 256 * 1024 * 1024
    file_bytes_max: int = 64 * 1024 * 1024
    ratio_max: int = 200  # bytes that one byte may become, once they are many
    depth_max: int = 24
    path_bytes_max: int = 1024


BOUNDS = Bounds()


class Entry(msgspec.Struct, frozen=True):
    """One file or folder, as an archive tells of it."""

    name: str
    mode: int
    folder: bool
    chunks: Callable[[], Iterator[bytes]]


def unpack(source: Path, into: Path, bounds: Bounds = BOUNDS, *, left_out: frozenset[str] = frozenset()) -> list[str]:
    """A .zip, .tar, .tar.gz or .tgz, or a folder; its files as paths below `into`, which is there, empty, and ours.

    What has a name that is `left_out`, and what lies in it, is passed over. Raises ArchiveRefused.
    """
    try:
        if source.is_dir():
            return _place(_folder_entries(source, left_out), into, bounds, left_out)
        with _opened(source, bounds) as file:
            budget = max(_FREE_BYTES, bounds.ratio_max * os.fstat(file.fileno()).st_size)
            bounds = msgspec.structs.replace(bounds, bytes_max=min(bounds.bytes_max, budget))
            return _place(_entries(file, bounds), into, bounds, left_out)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, struct.error, UnicodeDecodeError):
        raise ArchiveRefused("the archive is damaged, or made in a way that is not supported") from None
    except gzip.BadGzipFile:
        raise ArchiveRefused("the archive is damaged") from None
    except OSError as error:
        raise ArchiveRefused(f"{brief(str(source))} cannot be unpacked: {error.strerror or error}") from None


@contextmanager
def _opened(source: Path, bounds: Bounds) -> Iterator[BinaryIO]:
    try:
        opened = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would hold us for ever
    except FileNotFoundError:
        raise ArchiveRefused(f"there is no {brief(str(source))}") from None
    with open(opened, "rb") as file:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode):
            raise ArchiveRefused(f"{brief(str(source))} is neither a file nor a folder")
        if found.st_size > bounds.archive_bytes_max:
            raise ArchiveRefused(f"the archive has more than {bounds.archive_bytes_max} bytes")
        yield file


def _entries(file: BinaryIO, bounds: Bounds) -> Iterator[Entry]:
    """By what the file is, not by what it is called."""
    head = file.read(_BLOCK)
    file.seek(0)
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return _zip_entries(file, bounds)
    if head[:2] == b"\x1f\x8b":
        return _tar_entries(_Counted(gzip.GzipFile(fileobj=file, mode="rb"), bounds))
    if _is_header(head):
        return _tar_entries(_Counted(file, bounds))
    raise ArchiveRefused("this is no archive that can be unpacked: .zip, .tar, .tar.gz or .tgz")


# --- placing -------------------------------------------------------------------------------------


def _place(entries: Iterator[Entry], into: Path, bounds: Bounds, left_out: frozenset[str]) -> list[str]:
    names = _Names(bounds)
    placed = []
    total = 0
    for entry in entries:
        steps = _steps(entry.name, bounds)
        if not steps or not left_out.isdisjoint(steps):
            continue
        names.take(steps, entry.folder)
        target = into.joinpath(*steps)
        (target if entry.folder else target.parent).mkdir(mode=0o755, parents=True, exist_ok=True)
        if entry.folder:
            continue
        if entry.mode & (stat.S_ISUID | stat.S_ISGID):
            raise ArchiveRefused(f"{brief(entry.name)} would run with somebody else's rights")
        total += _write(target, entry, min(bounds.file_bytes_max, bounds.bytes_max - total))
        placed.append("/".join(steps))
    return sorted(placed)


def _write(target: Path, entry: Entry, bytes_max: int) -> int:
    written = 0
    with open(os.open(target, _NEW, 0o755 if entry.mode & stat.S_IXUSR else 0o644), "wb") as file:
        for chunk in entry.chunks():
            written += len(chunk)
            if written > bytes_max:
                raise ArchiveRefused(f"{brief(entry.name)} is too large, or too much comes out of the archive")
            file.write(chunk)
    return written


def _steps(name: str, bounds: Bounds) -> list[str]:
    """Where something goes, below the folder; none for the folder itself."""
    if name.startswith("/"):
        raise ArchiveRefused(f"a path begins at the root: {brief(name)}")
    steps = [step for step in name.split("/") if step not in ("", ".")]
    for step in steps:
        if step == "..":
            raise ArchiveRefused(f"a path leads out of the archive: {brief(name)}")
        try:
            size = len(step.encode())
        except UnicodeEncodeError:
            raise ArchiveRefused(f"a name is not text: {brief(name)}") from None
        if why := "it is too long" if size > NAME_BYTES_MAX else creatable(step):
            raise ArchiveRefused(f"nothing can be called {brief(step)}: {why}")
    if len(name.encode()) > bounds.path_bytes_max or len(steps) > bounds.depth_max:
        raise ArchiveRefused(f"a path is too long: {brief(name)}")
    return steps


class _Names:
    """The names so far, each under what a careless file system takes for the same."""

    def __init__(self, bounds: Bounds) -> None:
        self._files_max = bounds.files_max
        self._known: dict[str, tuple[str, bool]] = {}

    def take(self, steps: list[str], folder: bool) -> None:
        for end in range(1, len(steps)):
            self._take("/".join(steps[:end]), folder=True)
        self._take("/".join(steps), folder=folder)

    def _take(self, path: str, *, folder: bool) -> None:
        known = self._known.get(folded(path))
        if known is None:
            self._known[folded(path)] = (path, folder)
            if len(self._known) > self._files_max:
                raise ArchiveRefused(f"there are more than {self._files_max} files and folders")
        elif known[0] != path:
            raise ArchiveRefused(f"two names may be taken for one: {brief(known[0])} and {brief(path)}")
        elif not (folder and known[1]):
            raise ArchiveRefused(f"{brief(path)} is there twice")


# --- folders -------------------------------------------------------------------------------------


def _folder_entries(folder: Path, left_out: frozenset[str]) -> Iterator[Entry]:
    todo = [""]
    while todo:
        above = todo.pop()
        with os.scandir(folder / above) as listed:
            found = sorted(listed, key=lambda one: one.name)
        for one in found:
            path = f"{above}{one.name}"
            mode = one.stat(follow_symlinks=False).st_mode
            if one.name in left_out:
                continue
            if stat.S_ISDIR(mode):
                todo.append(f"{path}/")
            elif not stat.S_ISREG(mode):
                raise ArchiveRefused(f"{brief(path)} is {_kind(mode)}, not a file")
            yield Entry(path, mode, stat.S_ISDIR(mode), partial(_file_chunks, folder / path))


def _file_chunks(path: Path) -> Iterator[bytes]:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ArchiveRefused(f"{brief(path.name)} was changed while it was being read")
        while chunk := file.read(_CHUNK):
            yield chunk


def _kind(mode: int) -> str:
    return "a link" if stat.S_ISLNK(mode) else "something else"


# --- zip -----------------------------------------------------------------------------------------


def _zip_entries(file: BinaryIO, bounds: Bounds) -> Iterator[Entry]:
    _refuse_directory(file, bounds)
    with zipfile.ZipFile(file) as archive:
        for one in archive.infolist():
            mode = one.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise ArchiveRefused(f"{brief(one.filename)} is {_kind(mode)}, not a file")
            if "\0" in one.orig_filename:  # the library would cut it there
                raise ArchiveRefused(f"a name holds a NUL character: {brief(one.filename)}")
            if one.flag_bits & 0x1 or one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ArchiveRefused(f"{brief(one.filename)} is encrypted, or packed in a way that is not supported")
            yield Entry(one.filename, mode, one.is_dir(), partial(_zip_chunks, archive, one))


def _zip_chunks(archive: zipfile.ZipFile, one: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(one) as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _refuse_directory(file: BinaryIO, bounds: Bounds) -> None:
    """The library reads the whole list of what is in it at once: look first how long that is."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _ZIP_END_MAX))
    tail = file.read()
    at = len(tail) - 22 if tail[-22:-18] == b"PK\x05\x06" and tail[-2:] == b"\0\0" else tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < 22:
        raise ArchiveRefused("the archive is damaged: it has no end")
    if tail[max(0, at - 20) : at].startswith(b"PK\x06\x07"):
        raise ArchiveRefused("the archive is made for more than 4 GB, which is not supported")
    if int.from_bytes(tail[at + 12 : at + 16], "little") > bounds.files_max * _ZIP_ENTRY_MAX:
        raise ArchiveRefused(f"there are more than {bounds.files_max} files and folders")


# --- tar -----------------------------------------------------------------------------------------


class _Counted:
    """A stream of which no more than so much is read: what is passed over counts too."""

    def __init__(self, stream: BinaryIO | gzip.GzipFile, bounds: Bounds) -> None:
        self._stream = stream
        self._left = bounds.bytes_max + bounds.files_max * 4 * _BLOCK + _CHUNK

    def read(self, size: int) -> bytes:
        """Exactly so much."""
        data = self._some(size)
        if len(data) < size:
            raise EOFError
        return data

    def finish(self) -> None:
        """To the end, where a packed stream has its sum."""
        while self._some(_CHUNK):
            pass

    def _some(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise ArchiveRefused("too much comes out of the archive")
        return data


def _tar_entries(stream: _Counted) -> Iterator[Entry]:
    said: dict[str, str] = {}  # about the next entry
    while any(head := stream.read(_BLOCK)):
        if not _is_header(head):
            raise ArchiveRefused("the archive is damaged: this is no header")
        kind, size = head[156:157], _octal(head[124:136])
        if kind in (b"x", b"g", b"L"):
            if size > _NOTE_BYTES_MAX:
                raise ArchiveRefused("the archive says too much about an entry")
            notes = stream.read(_padded(size))[:size]
            if kind == b"L":
                said["path"] = _text(notes.rstrip(b"\0"))
            elif kind == b"x":
                said.update(_notes(notes))
            continue
        name = said.get("path") or _name(head)
        if kind not in (b"0", b"\0", b"5") or "size" in said or any(key.startswith("GNU.sparse") for key in said):
            raise ArchiveRefused(
                f"{brief(name)} is {'a link' if kind in (b'1', b'2') else 'something else'}, not a file"
            )
        said = {}
        folder = kind == b"5" or name.endswith("/")
        reader = _TarFile(stream, 0 if folder else size)
        yield Entry(name, _octal(head[100:108]), folder, reader.chunks)
        reader.finish()
    stream.finish()


class _TarFile:
    """The data of one entry, read once and to its end."""

    def __init__(self, stream: _Counted, size: int) -> None:
        self._stream = stream
        self._left = size
        self._padding = _padded(size) - size

    def chunks(self) -> Iterator[bytes]:
        while self._left:
            chunk = self._stream.read(min(self._left, _CHUNK))
            self._left -= len(chunk)
            yield chunk

    def finish(self) -> None:
        for _ in self.chunks():
            pass
        self._stream.read(self._padding)


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _is_header(head: bytes) -> bool:
    """By its sum, in which the sum itself counts as spaces."""
    if len(head) < _BLOCK:
        return False
    try:
        return _octal(head[148:156]) == sum(head[:148]) + sum(head[156:]) + 8 * 0x20
    except ArchiveRefused:
        return False


def _octal(field: bytes) -> int:
    text = field.strip(b" \0")
    if not text:
        return 0
    if not text.isdigit() or b"8" in text or b"9" in text:
        raise ArchiveRefused("the archive is damaged, or made for more than 8 GB, which is not supported")
    return int(text, 8)


def _name(head: bytes) -> str:
    name = head[:100].split(b"\0")[0]
    prefix = head[345:500].split(b"\0")[0] if head[257:263] == b"ustar\0" else b""
    return _text(prefix + b"/" + name if prefix else name)


def _notes(data: bytes) -> dict[str, str]:
    """Records like `18 path=some/name\\n`, in which the number is the record's own length."""
    said = {}
    while data:
        length, _, _ = data.partition(b" ")
        end = int(length) if length.isdigit() and len(length) < 6 else 0
        record = data[len(length) + 1 : end - 1]
        if end < len(length) + 4 or end > len(data) or data[end - 1 : end] != b"\n" or b"=" not in record:
            raise ArchiveRefused("the archive is damaged: it says something about an entry that cannot be read")
        key, _, value = record.partition(b"=")
        if key in (b"path", b"size") or key.startswith(b"GNU.sparse"):
            said[_text(key)] = _text(value)
        data = data[end:]
    return said


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ArchiveRefused("a name in the archive is not UTF-8") from None
