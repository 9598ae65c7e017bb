"""All files below a folder, without what the project ignores, without links, and without end only up to a bound."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from mainstay.io.beneath import FOLDER, PathRefused, is_inside
from mainstay.io.disk import readable
from mainstay.io.files import Confined, Opened
from mainstay.io.ignore import BYTES_MAX, NAMES, Ignored

ENTRIES_MAX = 200_000
DEPTH_MAX = 64
SECONDS_MAX = 20.0


class Seen(msgspec.Struct, frozen=True, gc=False):
    """A file that a walk came across; `folder` is open only until the next one is asked for."""

    folder: int
    name: str
    path: str  # real
    below: str  # from where the walk began


class Walk:
    """Iterate over it once. `cut` says afterwards why it ended early, if it did."""

    def __init__(self, files: Confined, path: str, *, hidden: bool = True, stop: Callable[[], bool] | None = None):
        self._files = files
        self._path = path
        self._hidden = hidden
        self._stop = stop or (lambda: False)
        self._until = time.monotonic() + SECONDS_MAX
        self._entries = 0
        self.cut = ""
        self.root = ""

    def __iter__(self) -> Iterator[Seen]:
        with self._files.find(self._path) as spot:
            self.root = spot.path
            if not spot.is_folder:
                if spot.stat is not None and stat.S_ISREG(spot.stat.st_mode):
                    yield Seen(spot.folder, spot.name, spot.path, spot.name)
                    return
                self._files.open_read(self._path)  # says what is wrong with it
                return
            above, ignored = self._above(spot.path)
            yield from self._folder(spot.folder, [], above, ignored)

    def open(self, seen: Seen) -> Opened:
        return self._files.open_at(seen.folder, seen.name, seen.path)

    def _above(self, path: str) -> tuple[list[str], Ignored]:
        """The rules of the folders that this one lies in, up to where the repository begins, if we may see that."""
        grounds = self._files.grounds
        roots = [root for root in (*grounds.writable, *grounds.readable) if is_inside(path, root)]
        top = min(roots, key=len, default=path)
        begin = path
        while not os.path.lexists(f"{begin}/.git") and begin != top and is_inside(begin, top):
            begin = os.path.dirname(begin)
        if not os.path.lexists(f"{begin}/.git"):
            begin = path
        steps = [step for step in path[len(begin) :].split("/") if step]
        ignored = Ignored()
        if exclude := self._text(f"{begin}/.git/info/exclude"):
            ignored = ignored.within(0, exclude)
        for depth in range(len(steps)):
            for name in NAMES:
                ignored = ignored.within(depth, self._text("/".join((begin, *steps[:depth], name))))
        return steps, ignored

    def _text(self, path: str) -> str:
        try:
            with self._files.open_read(path) as opened:
                return opened.file.read(BYTES_MAX).decode(errors="replace")
        except PathRefused:
            return ""

    def _folder(self, folder: int, below: list[str], above: Sequence[str], ignored: Ignored) -> Iterator[Seen]:
        try:
            with readable(folder) as inner:
                entries = sorted(self._listed(inner))
        except OSError:  # not ours to read
            return
        steps = [*above, *below]
        here = "/".join((self.root.rstrip("/"), *below))
        for name in NAMES:
            if (name, False) in entries:
                ignored = ignored.within(len(steps), self._text(f"{here}/{name}"))
        inner_folders: list[str] = []
        for name, is_folder in entries:
            if self.cut or self._over():
                return
            if (name.startswith(".") and not self._hidden) or ignored.covers([*steps, name], folder=is_folder):
                continue
            path = f"{here}/{name}"
            if self._files.may_be_protected(name) and self._files.is_protected(path):
                continue
            if is_folder:
                inner_folders.append(name)
            else:
                yield Seen(folder, name, path, "/".join((*below, name)))
        if len(below) >= DEPTH_MAX:
            return
        for name in inner_folders:
            yield from self._inner(folder, name, below, above, ignored)

    def _inner(
        self, folder: int, name: str, below: list[str], above: Sequence[str], ignored: Ignored
    ) -> Iterator[Seen]:
        try:
            inner = os.open(name, FOLDER, dir_fd=folder)
        except OSError:  # gone, or a link by now
            return
        try:
            yield from self._folder(inner, [*below, name], above, ignored)
        finally:
            os.close(inner)

    def _listed(self, folder: int) -> Iterator[tuple[str, bool]]:
        """Files and folders. Links are left out: what they lead to is found where it is."""
        with os.scandir(folder) as entries:
            for entry in entries:
                self._entries += 1
                if self._entries > ENTRIES_MAX:
                    self.cut = f"only the first {ENTRIES_MAX} files and folders were looked at"
                    return
                if entry.name == ".git":
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield entry.name, True
                elif entry.is_file(follow_symlinks=False):
                    yield entry.name, False

    def _over(self) -> bool:
        if self._stop():
            self.cut = "it was stopped"
        elif time.monotonic() > self._until:
            self.cut = f"it was stopped after {SECONDS_MAX:g} s"
        return bool(self.cut)
