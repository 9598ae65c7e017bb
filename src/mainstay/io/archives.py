"""Unpacks untrusted zip and tar archives, and copies untrusted folders: only plain files and folders, within limits.

Protects against path traversal, symlinks, devices, archive bombs, and names that some file systems take for the same.
An archive that breaks a rule is refused as a whole; the caller removes the files written until then. Links are never
created: they refuse the archive, or are left out and reported if the caller asks for that.
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
from mainstay.io.path_resolver import NAME_BYTES_MAX, casefold_path, find_name_problem, shorten_for_message

_CHUNK_BYTES = 64 * 1024
_TAR_BLOCK_BYTES = 512
_TAR_EXTENSION_BYTES_MAX = 64 * 1024  # of a pax or GNU extension header
_RATIO_FREE_BYTES = 1024 * 1024  # may be unpacked from any archive, whatever the ratio
_ZIP_END_BYTES_MAX = 22 + 65_535
_ZIP_ENTRY_BYTES_MAX = 512  # in the central directory, for each file
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class ArchiveRefused(MainstayError):
    """The archive or folder breaks a rule or a limit, or is not an archive."""


class ArchiveLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on unpacking an archive."""

    archive_bytes_max: int = 64 * 1024 * 1024
    files_max: int = 10_000  # files and folders together
    unpacked_bytes_max: int = 256 * 1024 * 1024  # unpacked, all files together
    file_bytes_max: int = 64 * 1024 * 1024  # unpacked, each file
    compression_ratio_max: int = 200  # unpacked bytes for each packed byte, beyond the first megabyte
    depth_max: int = 24
    path_bytes_max: int = 1024


DEFAULT_ARCHIVE_LIMITS = ArchiveLimits()


class ArchiveEntry(msgspec.Struct, frozen=True):
    """One file, folder or link of an archive."""

    name: str
    mode: int
    is_folder: bool
    read_chunks: Callable[[], Iterator[bytes]]
    is_link: bool = False


def unpack(
    source: Path,
    target_folder: Path,
    limits: ArchiveLimits = DEFAULT_ARCHIVE_LIMITS,
    *,
    excluded_names: frozenset[str] = frozenset(),
    omitted_links: list[str] | None = None,
) -> list[str]:
    """Unpack a .zip, .tar, .tar.gz or .tgz, or copy a folder; return the sorted relative paths of the files.

    `target_folder` must exist, be empty and be private to the caller. Files and folders named in `excluded_names` are
    skipped, with all that is in them. A link refuses the archive, unless `omitted_links` is given: then links are left
    out, and their paths are added to it. Raises ArchiveRefused.
    """
    writer = _EntryWriter(target_folder, limits, excluded_names, omitted_links)
    try:
        if source.is_dir():
            return writer.write(_read_folder_entries(source, excluded_names), limits.unpacked_bytes_max)
        with _open_archive(source, limits) as file:
            budget = max(_RATIO_FREE_BYTES, limits.compression_ratio_max * os.fstat(file.fileno()).st_size)
            limits = msgspec.structs.replace(limits, unpacked_bytes_max=min(limits.unpacked_bytes_max, budget))
            return writer.write(_read_entries(file, limits), limits.unpacked_bytes_max)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, struct.error, UnicodeDecodeError):
        raise ArchiveRefused("the archive is damaged or in an unsupported format") from None
    except gzip.BadGzipFile:
        raise ArchiveRefused("the archive is damaged") from None
    except OSError as error:
        raise ArchiveRefused(
            f"{shorten_for_message(str(source))} cannot be unpacked: {error.strerror or error}"
        ) from None


@contextmanager
def _open_archive(source: Path, limits: ArchiveLimits) -> Iterator[BinaryIO]:
    try:
        opened = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # opening a pipe would block
    except FileNotFoundError:
        raise ArchiveRefused(f"there is no {shorten_for_message(str(source))}") from None
    with open(opened, "rb") as file:
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode):
            raise ArchiveRefused(f"{shorten_for_message(str(source))} is neither a file nor a folder")
        if status.st_size > limits.archive_bytes_max:
            raise ArchiveRefused(f"the archive is larger than {limits.archive_bytes_max} bytes")
        yield file


def _read_entries(file: BinaryIO, limits: ArchiveLimits) -> Iterator[ArchiveEntry]:
    """Detect the format by content, not by file name."""
    head = file.read(_TAR_BLOCK_BYTES)
    file.seek(0)
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return _read_zip_entries(file, limits)
    if head[:2] == b"\x1f\x8b":
        return _read_tar_entries(_CappedStream(gzip.GzipFile(fileobj=file, mode="rb"), limits))
    if _is_tar_header(head):
        return _read_tar_entries(_CappedStream(file, limits))
    raise ArchiveRefused("the file is not a supported archive (.zip, .tar, .tar.gz or .tgz)")


# --- writing -------------------------------------------------------------------------------------


class _EntryWriter:
    """Writes the files and folders of one archive, all within `folder`."""

    def __init__(
        self, folder: Path, limits: ArchiveLimits, excluded_names: frozenset[str], omitted_links: list[str] | None
    ) -> None:
        self._folder = folder
        self._limits = limits
        self._excluded_names = excluded_names
        self._omitted_links = omitted_links
        self._paths = _UnpackedPaths(limits)

    def write(self, entries: Iterator[ArchiveEntry], bytes_max: int) -> list[str]:
        """Return the sorted paths of the files. `bytes_max` limits all of them together."""
        written = []
        for entry in entries:
            components = _split_path(entry.name, self._limits)
            if not components or not self._excluded_names.isdisjoint(components):
                continue
            # a link takes its name as a file does: no later entry can lead through it
            self._paths.add(components, entry.is_folder)
            if entry.is_link:
                self._omit_link(entry, components)
                continue
            target = self._folder.joinpath(*components)
            (target if entry.is_folder else target.parent).mkdir(mode=0o755, parents=True, exist_ok=True)
            if entry.is_folder:
                continue
            if entry.mode & (stat.S_ISUID | stat.S_ISGID):
                raise ArchiveRefused(f"{shorten_for_message(entry.name)} has the setuid or setgid bit set")
            bytes_max -= _write_file(target, entry, min(self._limits.file_bytes_max, bytes_max))
            written.append("/".join(components))
        return sorted(written)

    def _omit_link(self, entry: ArchiveEntry, components: list[str]) -> None:
        if self._omitted_links is None:
            raise ArchiveRefused(f"{shorten_for_message(entry.name)} is a link, not a regular file")
        self._omitted_links.append("/".join(components))


def _write_file(target: Path, entry: ArchiveEntry, bytes_max: int) -> int:
    written = 0
    with open(os.open(target, _CREATE_FLAGS, 0o755 if entry.mode & stat.S_IXUSR else 0o644), "wb") as file:
        for chunk in entry.read_chunks():
            written += len(chunk)
            if written > bytes_max:
                raise ArchiveRefused(f"{shorten_for_message(entry.name)} is too large, or the unpacked archive is")
            file.write(chunk)
    return written


def _split_path(name: str, limits: ArchiveLimits) -> list[str]:
    """Split a path into its components, checked; empty for the top folder itself."""
    if name.startswith("/"):
        raise ArchiveRefused(f"a path is absolute: {shorten_for_message(name)}")
    components = [component for component in name.split("/") if component not in ("", ".")]
    for component in components:
        if component == "..":
            raise ArchiveRefused(f"a path leads out of the archive: {shorten_for_message(name)}")
        try:
            size = len(component.encode())
        except UnicodeEncodeError:
            raise ArchiveRefused(f"a name is not valid Unicode: {shorten_for_message(name)}") from None
        if why := "it is too long" if size > NAME_BYTES_MAX else find_name_problem(component):
            raise ArchiveRefused(f"{shorten_for_message(component)} is not an allowed name: {why}")
    if len(name.encode()) > limits.path_bytes_max or len(components) > limits.depth_max:
        raise ArchiveRefused(f"a path is too long or too deep: {shorten_for_message(name)}")
    return components


class _UnpackedPaths:
    """The paths unpacked so far. Finds names that a case-insensitive or normalising file system takes for the same."""

    def __init__(self, limits: ArchiveLimits) -> None:
        self._files_max = limits.files_max
        self._paths_by_key: dict[str, tuple[str, bool]] = {}

    def add(self, components: list[str], is_folder: bool) -> None:
        for end in range(1, len(components)):
            self._add("/".join(components[:end]), is_folder=True)
        self._add("/".join(components), is_folder=is_folder)

    def _add(self, path: str, *, is_folder: bool) -> None:
        known = self._paths_by_key.get(casefold_path(path))
        if known is None:
            self._paths_by_key[casefold_path(path)] = (path, is_folder)
            if len(self._paths_by_key) > self._files_max:
                raise ArchiveRefused(f"there are more than {self._files_max} files and folders")
        elif known[0] != path:
            names = f"{shorten_for_message(known[0])} and {shorten_for_message(path)}"
            raise ArchiveRefused(f"two names collide on some file systems: {names}")
        elif not (is_folder and known[1]):
            raise ArchiveRefused(f"{shorten_for_message(path)} occurs twice")


# --- folders -------------------------------------------------------------------------------------


def _read_folder_entries(folder: Path, excluded_names: frozenset[str]) -> Iterator[ArchiveEntry]:
    todo = [""]
    while todo:
        above = todo.pop()
        with os.scandir(folder / above) as listed:
            children = sorted(listed, key=lambda child: child.name)
        for child in children:
            path = f"{above}{child.name}"
            mode = child.stat(follow_symlinks=False).st_mode
            if child.name in excluded_names:
                continue
            if stat.S_ISDIR(mode):
                todo.append(f"{path}/")
            elif not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
                raise _special_file_error(path)
            read_chunks = partial(_read_file_chunks, folder / path)
            yield ArchiveEntry(path, mode, stat.S_ISDIR(mode), read_chunks, stat.S_ISLNK(mode))


def _read_file_chunks(path: Path) -> Iterator[bytes]:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ArchiveRefused(f"{shorten_for_message(path.name)} was changed while it was being read")
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def _special_file_error(name: str) -> ArchiveRefused:
    return ArchiveRefused(f"{shorten_for_message(name)} is a special file, not a regular file")


# --- zip -----------------------------------------------------------------------------------------


def _read_zip_entries(file: BinaryIO, limits: ArchiveLimits) -> Iterator[ArchiveEntry]:
    _check_zip_directory(file, limits)
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            mode = info.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
                raise _special_file_error(info.filename)
            if "\0" in info.orig_filename:  # zipfile would truncate the name there
                raise ArchiveRefused(f"a name contains a NUL character: {shorten_for_message(info.filename)}")
            if info.flag_bits & 0x1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ArchiveRefused(
                    f"{shorten_for_message(info.filename)} is encrypted or uses an unsupported compression"
                )
            is_link = stat.S_ISLNK(mode)
            is_folder = info.is_dir() and not is_link
            yield ArchiveEntry(info.filename, mode, is_folder, partial(_read_zip_chunks, archive, info), is_link)


def _read_zip_chunks(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(info) as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def _check_zip_directory(file: BinaryIO, limits: ArchiveLimits) -> None:
    """Check the size of the central directory first: zipfile reads all of it into memory."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _ZIP_END_BYTES_MAX))
    tail = file.read()
    at = len(tail) - 22 if tail[-22:-18] == b"PK\x05\x06" and tail[-2:] == b"\0\0" else tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < 22:
        raise ArchiveRefused("the archive is damaged: the end record is missing")
    if tail[max(0, at - 20) : at].startswith(b"PK\x06\x07"):
        raise ArchiveRefused("zip64 archives are not supported")
    if int.from_bytes(tail[at + 12 : at + 16], "little") > limits.files_max * _ZIP_ENTRY_BYTES_MAX:
        raise ArchiveRefused(f"there are more than {limits.files_max} files and folders")


# --- tar -----------------------------------------------------------------------------------------


class _CappedStream:
    """A stream with a limit on the bytes read from it; skipped bytes count too."""

    def __init__(self, stream: BinaryIO | gzip.GzipFile, limits: ArchiveLimits) -> None:
        self._stream = stream
        self._bytes_left = limits.unpacked_bytes_max + limits.files_max * 4 * _TAR_BLOCK_BYTES + _CHUNK_BYTES

    def read_exactly(self, size: int) -> bytes:
        """Read exactly `size` bytes. Raises EOFError if there are fewer."""
        data = self._read_some(size)
        if len(data) < size:
            raise EOFError
        return data

    def drain(self) -> None:
        """Read to the end, so that gzip checks its CRC."""
        while self._read_some(_CHUNK_BYTES):
            pass

    def _read_some(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise ArchiveRefused("the unpacked archive is too large")
        return data


def _read_tar_entries(stream: _CappedStream) -> Iterator[ArchiveEntry]:
    extension: dict[str, str] = {}  # pax and GNU headers, for the next entry
    while any(head := stream.read_exactly(_TAR_BLOCK_BYTES)):
        if not _is_tar_header(head):
            raise ArchiveRefused("the archive is damaged: a header has a wrong checksum")
        kind, size = head[156:157], _parse_octal(head[124:136])
        if kind in (b"x", b"g", b"L", b"K"):
            if size > _TAR_EXTENSION_BYTES_MAX:
                raise ArchiveRefused("the archive has an extension header that is too large")
            data = stream.read_exactly(_round_up_to_block(size))[:size]
            if kind == b"L":
                extension["path"] = _decode_name(data.rstrip(b"\0"))
            elif kind == b"x":
                extension.update(_parse_pax_records(data))
            continue
        name = extension.get("path") or _parse_tar_name(head)
        is_link = kind in (b"1", b"2")
        if (
            not (is_link or kind in (b"0", b"\0", b"5"))
            or "size" in extension
            or any(key.startswith("GNU.sparse") for key in extension)
        ):
            raise _special_file_error(name)
        extension = {}
        folder = kind == b"5" or (name.endswith("/") and not is_link)
        reader = _TarEntryReader(stream, 0 if folder or is_link else size)
        yield ArchiveEntry(name, _parse_octal(head[100:108]), folder, reader.read_chunks, is_link)
        reader.skip_rest()
    stream.drain()


class _TarEntryReader:
    """Reads the data of one tar entry, once and to its end."""

    def __init__(self, stream: _CappedStream, size: int) -> None:
        self._stream = stream
        self._bytes_left = size
        self._padding_bytes = _round_up_to_block(size) - size

    def read_chunks(self) -> Iterator[bytes]:
        while self._bytes_left:
            chunk = self._stream.read_exactly(min(self._bytes_left, _CHUNK_BYTES))
            self._bytes_left -= len(chunk)
            yield chunk

    def skip_rest(self) -> None:
        for _ in self.read_chunks():
            pass
        self._stream.read_exactly(self._padding_bytes)


def _round_up_to_block(size: int) -> int:
    return -(-size // _TAR_BLOCK_BYTES) * _TAR_BLOCK_BYTES


def _is_tar_header(head: bytes) -> bool:
    """Verify the header checksum, for which its own field counts as spaces."""
    if len(head) < _TAR_BLOCK_BYTES:
        return False
    try:
        return _parse_octal(head[148:156]) == sum(head[:148]) + sum(head[156:]) + 8 * 0x20
    except ArchiveRefused:
        return False


def _parse_octal(field: bytes) -> int:
    text = field.strip(b" \0")
    if not text:
        return 0
    if not text.isdigit() or b"8" in text or b"9" in text:
        raise ArchiveRefused("the archive is damaged, or an entry is larger than 8 GB, which is not supported")
    return int(text, 8)


def _parse_tar_name(head: bytes) -> str:
    name = head[:100].split(b"\0")[0]
    prefix = head[345:500].split(b"\0")[0] if head[257:263] == b"ustar\0" else b""
    return _decode_name(prefix + b"/" + name if prefix else name)


def _parse_pax_records(data: bytes) -> dict[str, str]:
    """Parse pax records such as `18 path=some/name\\n`; the number is the length of the record itself."""
    records = {}
    while data:
        length, _, _ = data.partition(b" ")
        end = int(length) if length.isdigit() and len(length) < 6 else 0
        record = data[len(length) + 1 : end - 1]
        if end < len(length) + 4 or end > len(data) or data[end - 1 : end] != b"\n" or b"=" not in record:
            raise ArchiveRefused("the archive is damaged: an extension header cannot be parsed")
        key, _, value = record.partition(b"=")
        if key in (b"path", b"size") or key.startswith(b"GNU.sparse"):
            records[_decode_name(key)] = _decode_name(value)
        data = data[end:]
    return records


def _decode_name(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ArchiveRefused("a name in the archive is not UTF-8") from None
