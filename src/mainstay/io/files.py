"""Files as tools may touch them: inside the folders of a session, whole or not at all, and never what is protected.

A file is replaced by a rename, so a crash leaves the old one or the new one. That also makes hard links harmless to
write to: the other names of the file keep what they had.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import BinaryIO

import msgspec

from mainstay.core.outside import Grounds
from mainstay.io.beneath import (
    Beneath,
    Hook,
    PathIsFolder,
    PathMissing,
    PathRefused,
    Spot,
    brief,
    checked,
    creatable,
    folded,
    is_inside,
)
from mainstay.io.disk import drop, folders, is_there, readable, stage, sync, worded

LOCK = "lock.json"  # of a shelf: whose its things are
LISTED_MAX = 100_000
SCANNED_MAX = 20_000  # files of protected folders that a file with several names is compared with
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # a pipe must not hold us up

_changing = threading.Lock()  # between looking whether a file is still the one that was read, and replacing it


class Info(msgspec.Struct, frozen=True, gc=False):
    """An entry of a folder."""

    name: str
    kind: str  # file, folder, link, other
    size: int = 0
    mtime_ns: int = 0


class Written(msgspec.Struct, frozen=True, gc=False):
    """A file as it was left."""

    path: str
    created: bool
    mark: str
    folders: tuple[str, ...] = ()  # that were made for it


class Opened:
    """A file that is open for reading, under its real path. To be closed."""

    __slots__ = ("file", "path", "stat")

    def __init__(self, file: BinaryIO, path: str, found: os.stat_result) -> None:
        self.file = file
        self.path = path
        self.stat = found

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *raised: object) -> None:
        self.file.close()

    @property
    def mark(self) -> str:
        return mark_of(self.stat)


def mark_of(found: os.stat_result) -> str:
    """Another one as soon as the file is replaced or written to; of its times, one can be set by whoever writes."""
    return f"{found.st_ino}:{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}"


class Confined:
    """The files of one session. Every path may be anything; whatever cannot be done raises PathRefused."""

    def __init__(self, grounds: Grounds, *, openat2: bool = True, between: Hook | None = None) -> None:
        self.grounds = grounds
        self._rights = sorted(_rights(grounds), key=lambda one: -len(one[0]))
        self._between = between or (lambda path: None)
        self._notes = frozenset(note.rstrip("/") for note in grounds.notes)
        self._shelves = tuple(note.rstrip("/") for note in grounds.notes if note.endswith("/"))
        tops = [*(root for root, _ in self._rights), *map(os.path.dirname, self._notes)]
        self._beneath = Beneath(tops, openat2=openat2, between=between)
        self._ours = tuple(folded(root) for root, _ in self._rights)
        self._protected = tuple(folded(path.rstrip("/")) for path in grounds.protected)
        self._barred_names = {path.rsplit("/", 1)[-1] for path in self._protected}

    # --- looking ---------------------------------------------------------------------------------

    def find(self, path: str, *, follow: bool = True, write: bool = False) -> Spot:
        """To be closed. `missing` of it says whether there is something."""
        spot = self._beneath.find(checked(path, self.grounds.cwd), follow=follow)
        try:
            if not self._is_note(spot.path) and not any(is_inside(spot.path, root) for root, _ in self._rights):
                raise PathRefused(f"{brief(path)} is outside of the folders that this session works in.")
            if self.is_protected(spot.path, spot.stat):
                raise PathRefused(f"{brief(path)} is protected: tools neither read nor change it.")
            if write and not self.is_writable(spot.path):
                raise PathRefused(f"{brief(path)} may only be read.")
        except BaseException:
            os.close(spot.folder)
            raise
        return spot

    def real(self, path: str) -> str:
        """Where a path leads."""
        with self.find(path) as spot:
            return spot.path

    def is_writable(self, path: str) -> bool:
        """By the innermost of our folders that a real path lies in; notes are ours to write."""
        if self._is_note(path):
            return True
        return next((writes for root, writes in self._rights if is_inside(path, root)), False)

    def _is_note(self, path: str) -> bool:
        """One of them, or what lies in a folder of a folder of them: beside those stands what says whose they are, and
        by what it is changed."""
        if path in self._notes:
            return True
        for folder in self._shelves:
            name, slash, _ = path[len(folder) + 1 :].partition("/") if path.startswith(f"{folder}/") else ("", "", "")
            if slash and not name.startswith(".") and name != LOCK:
                return True
        return False

    def is_protected(self, path: str, found: os.stat_result | None = None) -> bool:
        """By name, however it is written, and by what the file is, under whatever name."""
        if not self._protected:
            return False
        if self._is_note(path) and not (found is not None and stat.S_ISREG(found.st_mode) and found.st_nlink > 1):
            return False
        text = folded(path)
        if barred := max((len(one) for one in self._protected if is_inside(text, one)), default=0):
            # a folder of ours inside of what is protected is ours: its own scratch folder, in the home
            return barred >= max((len(one) for one in self._ours if is_inside(text, one)), default=0)
        return found is not None and self._is_another_name(found)

    def may_be_protected(self, name: str) -> bool:
        """False if nothing protected has such a name; quick, for whoever looks at many."""
        return bool(self._protected) and folded(name) in self._barred_names

    def _is_another_name(self, found: os.stat_result) -> bool:
        several = stat.S_ISREG(found.st_mode) and found.st_nlink > 1
        if not several and not stat.S_ISDIR(found.st_mode):
            return False
        for path in self.grounds.protected:
            try:
                there = os.stat(path)
            except OSError:
                continue
            if (there.st_ino, there.st_dev) == (found.st_ino, found.st_dev):
                return True
            if several and stat.S_ISDIR(there.st_mode) and _holds(path, found):
                return True
        return False

    def shown(self, path: str) -> str:
        """A real path as a model would write it, on one line."""
        cwd = self.grounds.cwd.rstrip("/")
        return brief(path[len(cwd) + 1 :] if path.startswith(cwd + "/") else path)

    # --- reading ---------------------------------------------------------------------------------

    def open_read(self, path: str) -> Opened:
        with self.find(path) as spot:
            if spot.stat is None:
                raise self._missing(path, spot)
            if spot.is_folder:
                raise PathIsFolder(f"{brief(path)} is a folder: use ls.")
            return self._open(spot.folder, spot.name, spot.path, spot.stat)

    def open_at(self, folder: int, name: str, path: str) -> Opened:
        """A file of an open folder, as a walk comes across them."""
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            raise PathRefused(f"{self.shown(path)} cannot be read: {error.strerror}.") from None
        return self._open(folder, name, path, found)

    def _open(self, folder: int, name: str, path: str, seen: os.stat_result) -> Opened:
        shown = self.shown(path)
        if not stat.S_ISREG(seen.st_mode):  # opening a device may do something
            raise PathRefused(f"{shown} is {_kind(seen)}, not a file.")
        self._between(path)
        try:
            file = os.open(name, _READ, dir_fd=folder)
        except OSError as error:
            raise PathRefused(f"{shown} cannot be read: {error.strerror}.") from None
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise PathRefused(f"{shown} is {_kind(found)}, not a file.")
            if self.is_protected(path, found):
                raise PathRefused(f"{shown} is protected: tools neither read nor change it.")
            return Opened(os.fdopen(file, "rb"), path, found)
        except BaseException:
            os.close(file)
            raise

    def read_bytes(self, path: str, bytes_max: int) -> tuple[bytes, Opened]:
        """A file whole, with what it was when it was read; one that is larger is refused."""
        with self.open_read(path) as opened:
            data = opened.file.read(bytes_max + 1)
            if len(data) > bytes_max:
                raise PathRefused(
                    f"{brief(path)} has {opened.stat.st_size} bytes: more than the {bytes_max} that this can take."
                )
            return data, opened

    def _missing(self, path: str, spot: Spot) -> PathMissing:
        near: list[str] = []
        if len(spot.missing) == 1:
            try:
                names = [one.name for one in self._entries(spot.folder, 2_000)]
                same = [name for name in names if folded(name) == folded(spot.name)]
                near = list(dict.fromkeys(same + get_close_matches(spot.name, names, n=3, cutoff=0.5)))[:3]
            except OSError:
                near = []
        said = f" Near it: {', '.join(map(brief, near))}." if near else ""
        return PathMissing(f"There is no {brief(path)}.{said}", [f"{os.path.dirname(spot.path)}/{one}" for one in near])

    def entries(self, path: str) -> tuple[str, list[Info], bool]:
        """The real path of a folder, what is in it by name, and whether that is all."""
        with self.find(path) as spot:
            if spot.stat is None:
                raise self._missing(path, spot)
            if not spot.is_folder:
                raise PathRefused(f"{brief(path)} is not a folder: use read.")
            try:
                found = list(self._entries(spot.folder, LISTED_MAX + 1))
            except OSError as error:
                raise PathRefused(f"{brief(path)} cannot be listed: {error.strerror}.") from None
            kept = [one for one in found[:LISTED_MAX] if not self.is_protected(f"{spot.path}/{one.name}")]
            return spot.path, sorted(kept, key=lambda one: one.name), len(found) <= LISTED_MAX

    def _entries(self, folder: int, most: int) -> Iterator[Info]:
        with readable(folder) as inner, os.scandir(inner) as entries:
            for count, entry in enumerate(entries):
                if count >= most:
                    return
                yield _info(entry)

    # --- writing ---------------------------------------------------------------------------------

    def write(
        self,
        path: str,
        data: bytes,
        *,
        expected: str | None = None,
        mode: int | None = None,
        real: str = "",
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Written:
        """Replace a file, or make it and the folders it needs. `expected` is the mark of the one to be replaced, ""
        for none, and `real` where the path led; if that is not so any more, nothing is changed. Nor if `cancelled`."""
        with self.find(path, write=True) as spot:
            self._check_target(path, spot)
            _check_place(path, spot, real)
            with folders(spot) as folder:
                with worded(f"{brief(path)} cannot be written"):
                    name = stage(folder, data, spot.stat, mode)
                try:
                    with _changing:
                        if cancelled():
                            raise PathRefused(f"Cancelled: {brief(path)} was left as it was.")
                        self._check_unchanged(path, folder, spot, expected)
                        os.rename(name, spot.name, src_dir_fd=folder, dst_dir_fd=folder)
                        found = os.stat(spot.name, dir_fd=folder, follow_symlinks=False)
                except OSError as error:
                    drop(name, folder)
                    raise PathRefused(f"{brief(path)} cannot be written: {error.strerror}.") from None
                except PathRefused:
                    drop(name, folder)
                    raise
                sync(folder)
            made = [os.path.dirname(spot.path)] * max(len(spot.missing) - 1, 0)
            for at in range(1, len(made)):
                made[at] = os.path.dirname(made[at - 1])
            return Written(spot.path, spot.stat is None, mark_of(found), tuple(made))

    def _check_target(self, path: str, spot: Spot) -> None:
        if spot.is_folder:
            raise PathRefused(f"{brief(path)} is a folder.")
        if spot.stat is not None and not stat.S_ISREG(spot.stat.st_mode):
            raise PathRefused(f"{brief(path)} is {_kind(spot.stat)}, not a file.")
        for name in spot.missing:
            if (reason := creatable(name)) is not None:
                raise PathRefused(f"{brief(name)} is no name for a new file: {reason}.")

    def _check_unchanged(self, path: str, folder: int, spot: Spot, expected: str | None) -> None:
        try:
            now = os.stat(spot.name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            now = None
        if now is not None and not stat.S_ISREG(now.st_mode):
            raise PathRefused(f"{brief(path)} was changed while it was being written.")
        if now is not None and self.is_protected(spot.path, now):
            raise PathRefused(f"{brief(path)} is protected: tools neither read nor change it.")
        if expected is not None and expected != ("" if now is None else mark_of(now)):
            raise PathRefused(f"{brief(path)} was changed by somebody else meanwhile: read it again. It was left so.")

    def remove(self, path: str, *, expected: str | None = None, real: str = "") -> str:
        """A file, or a link itself; its real path."""
        with self.find(path, follow=False, write=True) as spot:
            if spot.stat is None:
                raise self._missing(path, spot)
            _check_place(path, spot, real)
            if spot.is_folder:
                raise PathRefused(f"{brief(path)} is a folder: only files are removed.")
            with _changing, worded(f"{brief(path)} cannot be removed"):
                now = os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)
                if expected is not None and mark_of(now) != expected:
                    raise PathRefused(f"{brief(path)} was changed by somebody else meanwhile. It was left so.")
                os.unlink(spot.name, dir_fd=spot.folder)
            sync(spot.folder)
            return spot.path

    def rename(self, old: str, new: str) -> tuple[str, str]:
        """Move a file to where nothing is yet; both real paths."""
        with self.find(old, follow=False, write=True) as source, self.find(new, follow=False, write=True) as target:
            if source.stat is None:
                raise self._missing(old, source)
            if source.is_folder:
                raise PathRefused(f"{brief(old)} is a folder: only files are moved.")
            if target.stat is not None:
                raise PathRefused(f"{brief(new)} is there already.")
            self._check_target(new, target)
            with folders(target) as folder, worded(f"{brief(old)} cannot be moved"):
                with _changing:
                    if is_there(target.name, folder):
                        raise PathRefused(f"{brief(new)} is there already.")
                    os.rename(source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=folder)
                sync(folder)
            sync(source.folder)
            return source.path, target.path


def _check_place(path: str, spot: Spot, real: str) -> None:
    if real and real != spot.path:
        raise PathRefused(f"{brief(path)} leads elsewhere than a moment ago. Nothing was changed.")


def _rights(grounds: Grounds) -> Iterator[tuple[str, bool]]:
    """Our folders, and whether one may write there. Where others' files are is ours to read at least."""
    given = [(root, True) for root in (*grounds.writable, grounds.scratch) if root]
    given += [(root, False) for root in grounds.readable if root not in {one for one, _ in given}]
    yield from ((root.rstrip("/") or "/", writes) for root, writes in given)
    for root in grounds.outside:
        if not any(is_inside(root, one) for one, _ in given):
            yield root.rstrip("/") or "/", False


def _info(entry: os.DirEntry[str]) -> Info:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return Info(entry.name, "other")
    mode = found.st_mode
    kind = "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "link" if stat.S_ISLNK(mode) else ""
    return Info(entry.name, kind or "other", found.st_size, found.st_mtime_ns)


def _kind(found: os.stat_result) -> str:
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    return kinds.get(stat.S_IFMT(found.st_mode), "something else")


def _holds(folder: str, wanted: os.stat_result) -> bool:
    """True if a protected folder holds this very file, or too many to tell."""
    seen = 0
    for path, _, names in os.walk(folder):
        for name in names:
            seen += 1
            try:
                found = os.lstat(os.path.join(path, name))
            except OSError:
                continue
            if seen > SCANNED_MAX or (found.st_ino, found.st_dev) == (wanted.st_ino, wanted.st_dev):
                return True
    return False
