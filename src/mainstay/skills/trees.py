"""What the files of installed skills hash to, kept by what can be told of them without reading: names, sizes, times.

Contributors are asked on the way of every turn, so what they may look at and hash in one go is bounded (`Allowance`).
Whatever is more is left to a thread, and until that has done it nobody knows whether the skill is what was approved.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from pathlib import Path

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.skills.header import SkillRefused, read_file
from mainstay.skills.lock import digest_of

FILES_QUICK = 500  # files and folders are looked at in one go
BYTES_QUICK = 8 * 1024 * 1024  # and so much is hashed
FILES_MAX = 10_000  # of one installed skill
BYTES_MAX = 256 * 1024 * 1024
AGAIN_S = 10.0  # so often a thread looks at what is too much for anybody else
SETTLED_NS = 2_000_000_000  # a file written this recently may be written again without its times showing it
TOO_LARGE = "too large"  # no tree has this hash
NOT_NOW = "its files are many or large, and are being compared with what was approved"
_KNOWN_MAX = 4096

Mark = tuple[object, ...]


class NotCompared(SkillRefused):
    """Whether these are the files that were approved cannot be told in the time there is."""


class Allowance(msgspec.Struct):
    """What may be looked at and hashed on the way of one turn."""

    files: int = FILES_QUICK
    bytes: int = BYTES_QUICK


class _Tree(msgspec.Struct, frozen=True):
    """What can be told of its files without reading them."""

    mark: bytes
    files: int  # and folders
    bytes: int
    settled: bool  # whatever is changed from now on changes the mark


class _Hashed(msgspec.Struct):
    """A tree that was hashed, and had the same mark before and after."""

    mark: bytes
    digest: str
    files: int
    head: str  # the hash of its SKILL.md, as a `Skill` has it
    number: int  # another one each time
    at: float
    error: str = ""


class Trees:
    """Everything may be asked from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, _Hashed] = {}  # by folder: for as long as nobody saw another mark there
        self._wanted: dict[str, None] = {}
        self._worker: threading.Thread | None = None
        self._number = 0

    def want(self, folder: str) -> None:
        """A thread learns it."""
        with self._lock:
            self._wanted[folder] = None
            if self._worker is None or not self._worker.is_alive():
                self._worker = threading.Thread(target=self._work, name="mainstay-skills", daemon=True)
                self._worker.start()

    # --- on the way of a turn --------------------------------------------------------------------

    def fits(self, folder: str, left: Allowance) -> bool:
        """False if a glance is too much just now, and will not be at another time."""
        known = self._known.get(folder)
        return known is None or not left.files < known.files <= FILES_QUICK

    def glance(self, folder: str, left: Allowance) -> Mark:
        """Another one when something has changed: in so far as there is time to see it."""
        known = self._known.get(folder)
        if known is not None and known.files > left.files:
            if known.files > FILES_QUICK and time.monotonic() > known.at + AGAIN_S:
                self.want(folder)
            return (known.number,)
        try:
            tree = _look(folder, left.files)
        except OSError as error:
            self._forget(folder)
            return (0, error.errno)
        if tree is None:
            left.files = 0
            self._forget(folder)
            return (0,)
        left.files -= tree.files
        if known is not None and known.mark == tree.mark and tree.settled:
            return (known.number,)
        self._forget(folder)
        return (0, tree.mark, 0 if tree.settled else time.time_ns())

    def listed(self, folder: str, head: str, left: Allowance) -> str:
        """The hash, to tell whether a skill may be named: as it was when its files were last looked at, if its SKILL.md
        still has the hash `head`. Raises NotCompared, ConfigError and OSError."""
        known = self._known.get(folder)
        if known is not None and (known.head == head or known.error):
            return _digest(known)
        return self.now(folder, head, left)

    def now(self, folder: str, head: str, left: Allowance | None = None) -> str:
        """The hash of what is there at this moment, with a SKILL.md whose hash is `head`. Without an allowance it takes
        its time; with one it raises NotCompared if that is too much. Raises ConfigError and OSError too."""
        known = self._known.get(folder)
        if known is not None and left is not None and known.files > left.files:
            raise NotCompared(NOT_NOW)
        tree = _look(folder, FILES_MAX if left is None else left.files)
        if tree is None and (left is None or left.files >= FILES_MAX):
            return TOO_LARGE
        if tree is not None and known is not None and known.mark == tree.mark and tree.settled and known.head == head:
            if left is not None:
                left.files -= tree.files
            return _digest(known)
        self._forget(folder)
        if tree is None or (left is not None and tree.bytes > left.bytes):
            self.want(folder)
            raise NotCompared(NOT_NOW)
        if left is not None:
            left.files -= tree.files
            left.bytes -= tree.bytes
        digest, hashed = self._hash(folder, tree)
        if hashed != head:
            raise ConfigError("it was changed while it was read")
        return digest

    # --- beside it -------------------------------------------------------------------------------

    def learn(self, folder: str) -> None:
        """Takes its time. What is too much for a turn is known afterwards, unless it is being changed all the while."""
        try:
            tree = _look(folder, FILES_MAX)
            if tree is not None and not tree.settled and (tree.files > FILES_QUICK or tree.bytes > BYTES_QUICK):
                time.sleep(SETTLED_NS / 1e9 + 0.1)
                tree = _look(folder, FILES_MAX)
        except OSError:  # whoever looks at it next will say so
            return self._forget(folder)
        tree = tree or _Tree(b"", FILES_MAX + 1, 0, True)
        known = self._known.get(folder)
        if known is not None and known.mark == tree.mark and tree.settled:
            known.at = time.monotonic()
            return None
        self._forget(folder)
        if not tree.mark:
            return self._keep(folder, tree, TOO_LARGE)
        try:
            self._hash(folder, tree)
        except (ConfigError, OSError, ValueError) as error:
            self._keep(folder, tree, "", error=str(error))

    def _hash(self, folder: str, tree: _Tree) -> tuple[str, str]:
        """Of the tree, and of its SKILL.md. Kept if nothing changed meanwhile, and whatever changes later will show."""
        digest = digest_of(Path(folder))
        try:
            head = _head(read_file(folder))
        except SkillRefused:
            head = ""
        if (again := _look(folder, FILES_MAX)) is not None and again.mark == tree.mark:
            self._keep(folder, tree, digest, head=head)
        return digest, head

    def _keep(self, folder: str, tree: _Tree, digest: str, *, head: str = "", error: str = "") -> None:
        if not tree.settled:
            return
        with self._lock:
            if len(self._known) >= _KNOWN_MAX:  # all of it can be made again
                self._known.clear()
            self._number += 1
            made = _Hashed(tree.mark, digest, tree.files, head, self._number, time.monotonic(), error)
            self._known[folder] = made

    def _forget(self, folder: str) -> None:
        with self._lock:
            self._known.pop(folder, None)

    def _work(self) -> None:
        """Until nothing is wanted any more."""
        while True:
            with self._lock:
                folder = next(iter(self._wanted), None)
                if folder is None:
                    self._worker = None
                    return
            try:
                self.learn(folder)
            finally:
                with self._lock:
                    del self._wanted[folder]


def _digest(known: _Hashed) -> str:
    if known.error:
        raise ConfigError(known.error)
    return known.digest


def _head(text: str) -> str:
    """As `read_skill` makes it."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _look(folder: str, files_max: int) -> _Tree | None:
    """None if there is more than that. It sees whatever a hash of the tree depends on."""
    now = time.time_ns()
    marks: list[tuple[str, Mark]] = []
    size = files = 0
    settled = True
    todo = [""]
    while todo:
        below = todo.pop()
        with os.scandir(os.path.join(folder, below)) as listed:
            for entry in listed:
                files += 1
                if files > files_max:
                    return None
                path, found = below + entry.name, entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    todo.append(f"{path}/")
                    continue
                size += found.st_size
                if size > BYTES_MAX:
                    return None
                settled = settled and is_settled(found, now)
                marks.append((path, stat_mark(found)))
    whole = hashlib.blake2b(repr(sorted(marks)).encode(), digest_size=16)
    return _Tree(whole.digest(), files, size, settled)


def stat_mark(found: os.stat_result) -> Mark:
    return found.st_dev, found.st_ino, found.st_size, found.st_mode, found.st_mtime_ns, found.st_ctime_ns


def is_settled(found: os.stat_result, now: int) -> bool:
    return abs(now - max(found.st_mtime_ns, found.st_ctime_ns)) > SETTLED_NS
