"""The pattern files of one folder: found, and read again only where they have changed."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from itertools import islice

import msgspec

from mainstay.io.paths import read_inside
from mainstay.patterns.index import terms_of
from mainstay.patterns.pattern import Pattern
from mainstay.patterns.read import FILE_BYTES_MAX, Page, Trouble, read_page

FILES_MAX = 20_000
_LISTED_MAX = 5 * FILES_MAX  # before they are put in order
DEPTH_MAX = 16
ENDINGS = (".yaml", ".yml")
_SETTLED_NS = 2_000_000_000  # a file written this recently may be written again without its times showing it

Mark = tuple[int, ...]


class File(msgspec.Struct, frozen=True):
    """What a file said when it was read last. `mark` is empty where it must be read again to be sure."""

    mark: Mark
    digest: bytes
    entries: tuple[tuple[Pattern, Mapping[str, float]], ...] = ()  # with how often each stem is in it
    troubles: tuple[Trouble, ...] = ()


class Look(msgspec.Struct, frozen=True):
    """A folder as it was found: by path, in the order of paths."""

    files: Mapping[str, File]
    troubles: tuple[Trouble, ...] = ()

    def same(self, other: Look) -> bool:
        """Says the same, whenever it was looked at."""
        if self.troubles != other.troubles or self.files.keys() != other.files.keys():
            return False
        return all(
            one is (seen := other.files[path]) or (one.entries is seen.entries and one.troubles == seen.troubles)
            for path, one in self.files.items()
        )


def look(folder: str, before: Look | None) -> Look:
    """What is in a folder now; a file that has not changed since is the very same object."""
    old = before.files if before is not None else {}
    try:
        paths = sorted(islice(_listed(folder, DEPTH_MAX), _LISTED_MAX))
    except (FileNotFoundError, NotADirectoryError):
        paths = []
    except OSError as error:  # it is there and cannot be listed: what it held is not gone for that
        return Look(old, (Trouble(folder, 0, f"it cannot be read: {_reason(error)}"),))
    troubles: tuple[Trouble, ...] = ()
    if len(paths) > FILES_MAX:
        troubles = (Trouble(folder, 0, f"there are more than {FILES_MAX} files; the rest is left out"),)
    files = {path: file for path in paths[:FILES_MAX] if (file := _file(folder, path, old.get(path))) is not None}
    return Look(files, troubles)


def read_alone(path: str) -> File | None:
    """A single file that somebody names; None if there is none."""
    return _file(os.path.dirname(os.path.realpath(path)) or "/", path, None)


def _listed(folder: str, depth: int) -> Iterator[str]:
    """Files of the right endings. Raises OSError for the folder itself; one below it that cannot be read is empty."""
    inner = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                inner.append(entry.path)
            elif entry.name.lower().endswith(ENDINGS):
                yield entry.path
    for path in inner if depth else ():
        try:
            yield from _listed(path, depth - 1)
        except OSError:
            continue


def _file(folder: str, path: str, old: File | None) -> File | None:
    try:
        now = os.stat(path)
        mark: Mark = (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)
        if old is not None and mark == old.mark:
            return old
        data, size = read_inside(folder, path, FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        if os.path.islink(path):
            return _kept(old, (), b"", Trouble(path, 0, "it is a link that leads nowhere"))
        return None
    except OSError as error:
        return _kept(old, (), b"", Trouble(path, 0, f"it cannot be read: {_reason(error)}"))
    settled = abs(time.time_ns() - max(now.st_mtime_ns, now.st_ctime_ns)) > _SETTLED_NS
    mark = mark if settled else ()
    if size > FILE_BYTES_MAX:
        return _kept(old, mark, b"large", Trouble(path, 0, f"it is larger than {FILE_BYTES_MAX} bytes"))
    digest = hashlib.blake2b(data, digest_size=16).digest()
    if old is not None and digest == old.digest:
        return old if mark == old.mark else msgspec.structs.replace(old, mark=mark)
    if not data and not settled and old is not None:
        return old  # somebody has emptied it to write it anew; if not, it will be looked at again
    return _read(old, mark, digest, read_page(path, data))


def _read(old: File | None, mark: Mark, digest: bytes, page: Page) -> File:
    """A pattern that could be read before and cannot be now stays as it was."""
    entries: dict[str, tuple[Pattern, Mapping[str, float]]] = {}
    if old is not None and any(trouble.lost for trouble in page.troubles):
        entries |= {pattern.name: (pattern, terms) for pattern, terms in old.entries}
    entries |= {pattern.name: (pattern, terms_of(pattern)) for pattern in page.patterns}
    return File(mark, digest, tuple(entries.values()), page.troubles)


def _kept(old: File | None, mark: Mark, digest: bytes, trouble: Trouble) -> File:
    if old is not None and old.troubles == (trouble,) and old.mark == mark:
        return old
    return File(mark, digest, old.entries if old is not None else (), (trouble,))


def _reason(error: OSError) -> str:
    said = error.strerror or type(error).__name__
    return said[:1].lower() + said[1:]
