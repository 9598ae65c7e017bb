"""From a path that a model wrote to an open folder and a name in it, without ever leaving the roots.

Nothing is checked first and opened later: each step is taken from the folder that the last one opened, and none
follows a link. Links are read and their steps taken in the same way, so that one which is swapped meanwhile leads
nowhere. Where the kernel has `openat2`, a path without links is one step.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from mainstay.core.errors import MainstayError

PATH_BYTES_MAX = 4096
NAME_BYTES_MAX = 255
LINKS_MAX = 40

_PATH = getattr(os, "O_PATH", os.O_RDONLY)  # macOS has none: there a folder must be readable to be passed through
FOLDER = _PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KERNELS = ("/proc", "/sys", "/dev")

Hook = Callable[[str], None]


class PathRefused(MainstayError):
    """This path leads nowhere that a tool may go."""


class PathMissing(PathRefused):
    """There is nothing under this path; `near` are names that look like it."""

    def __init__(self, sentence: str, near: Sequence[str] = ()) -> None:
        super().__init__(sentence)
        self.near = tuple(near)


class PathIsFolder(PathRefused):
    """There is a folder where a file was wanted."""


class Spot:
    """A name in an open folder. `missing` are the names that are not there yet, the last one's among them; a folder
    is "." in itself. To be closed."""

    __slots__ = ("folder", "missing", "name", "path", "stat")

    def __init__(self, folder: int, name: str, path: str, found: os.stat_result | None, missing: Sequence[str]) -> None:
        self.folder = folder
        self.name = name
        self.path = path
        self.stat = found
        self.missing = tuple(missing)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.folder)

    @property
    def is_folder(self) -> bool:
        return self.stat is not None and stat.S_ISDIR(self.stat.st_mode)


class Beneath:
    """Finds paths beneath these roots, which are real and absolute. `between` is called with a path after it was
    looked at and before it is opened, for tests that change the world just then."""

    def __init__(self, roots: Sequence[str], *, openat2: bool = True, between: Hook | None = None) -> None:
        # Of roots inside each other the outermost is where a walk begins: the inner one may have become a link.
        tops = sorted({root.rstrip("/") or "/" for root in roots}, key=len)
        self._tops = [one for one in tops if not any(is_inside(one, top) for top in tops if top != one)]
        self._openat2 = openat2
        self._between = between or (lambda path: None)

    def find(self, path: str, *, follow: bool = True) -> Spot:
        """`path` is absolute. Unless `follow`, a link at its end is what is found."""
        shown = path
        for _ in range(LINKS_MAX):
            top, rest = self._top_of(path, shown)
            if self._openat2 and (spot := self._at_once(top, rest, follow=follow)) is not None:
                return spot
            ended = self._walk(top, rest, shown, follow=follow)
            if isinstance(ended, Spot):
                return ended
            path = ended
        raise PathRefused(f"{brief(shown)} goes through too many links.")

    def _top_of(self, path: str, shown: str) -> tuple[str, list[str]]:
        """The root that a path begins in, and its steps from there."""
        for asked in _readings(path):
            for top in self._tops:
                if is_inside(asked, top) and not _is_kernels(asked, top):
                    return top, asked[len(top) :].split("/")
            if _is_kernels(asked, "/"):
                break
        raise PathRefused(f"{brief(shown)} is outside of the folders that this session works in.")

    def _at_once(self, top: str, rest: list[str], *, follow: bool) -> Spot | None:
        """By one call of the kernel, for a path without links; None if that does not do."""
        steps = [step for step in rest if step not in ("", ".")]
        call = _openat2()
        if call is None or ".." in steps or not steps:
            return None
        self._between(top)
        root = _open_top(top)
        try:
            folder = call(root, "/".join(steps[:-1]) or ".")
        finally:
            os.close(root)
        if folder is None:
            return None
        try:
            found = os.stat(steps[-1], dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode) or (stat.S_ISLNK(found.st_mode) and not follow):
                kept, folder = folder, -1
                return Spot(kept, steps[-1], "/".join((top.rstrip("/"), *steps)), found, ())
            return None
        except OSError:
            return None  # the walk says what is wrong
        finally:
            if folder >= 0:
                os.close(folder)

    def _walk(self, top: str, rest: Sequence[str], shown: str, *, follow: bool) -> Spot | str:
        """Step by step. A text says where to begin anew: a link or `..` led out of this root."""
        walk = _Walk(top, rest, shown, self._between)
        try:
            while walk.pending:
                step = walk.pending.popleft()
                if step in ("", "."):
                    continue
                if step == ".." and not walk.up():
                    return "/".join((os.path.dirname(top).rstrip("/"), *walk.pending)) or "/"
                if step == "..":
                    continue
                if (elsewhere := walk.down(step, follow=follow)) is not None:
                    return elsewhere
            return walk.end()
        except OSError as error:
            raise _named(error, shown) from None
        finally:
            walk.close()


class _Walk:
    """Folders opened one inside the other, and the steps that are still to be taken."""

    def __init__(self, top: str, rest: Sequence[str], shown: str, between: Hook) -> None:
        self.top = top
        self._between = between
        self.shown = shown
        self.pending = deque(rest)
        self._folders = [_open_top(top)]
        self._names: list[str] = []
        self._missing: list[str] = []
        self._found: tuple[str, os.stat_result] | None = None  # what is no folder: nothing can come after it
        self._links = 0

    def path(self, *more: str) -> str:
        return "/".join((self.top.rstrip("/"), *self._names, *more)) or "/"

    def up(self) -> bool:
        """By the folder we came from, not by asking the kernel: the folder may have been moved."""
        if self._found is not None or self._missing:
            raise PathMissing(f"{brief(self.shown)}: there is no such folder.")
        if not self._names:
            return False
        self._names.pop()
        os.close(self._folders.pop())
        return True

    def down(self, step: str, *, follow: bool) -> str | None:
        if self._found is not None:
            raise PathRefused(f"{brief(self.shown)}: {brief(self._found[0])} is not a folder.")
        if self._missing:
            self._missing.append(step)
            return None
        try:
            found = os.stat(step, dir_fd=self._folders[-1], follow_symlinks=False)
        except FileNotFoundError:
            self._missing.append(step)
            return None
        last = not any(one not in ("", ".") for one in self.pending)
        if stat.S_ISLNK(found.st_mode) and (follow or not last):
            return self._through(step)
        if stat.S_ISDIR(found.st_mode):
            self._between(self.path(step))
            self._folders.append(os.open(step, FOLDER, dir_fd=self._folders[-1]))
            self._names.append(step)
        else:
            self._found = (step, found)
        return None

    def _through(self, step: str) -> str | None:
        self._links += 1
        if self._links > LINKS_MAX:
            raise PathRefused(f"{brief(self.shown)} goes through too many links.")
        target = os.readlink(step, dir_fd=self._folders[-1])
        if os.path.isabs(target):
            return "/".join((target.rstrip("/"), *self.pending)) or "/"
        self.pending.extendleft(reversed(target.split("/")))
        return None

    def end(self) -> Spot:
        folder = self._folders.pop()
        try:
            if self._found is not None:
                name, found = self._found
                return Spot(folder, name, self.path(name), found, ())
            if self._missing:
                return Spot(folder, self._missing[-1], self.path(*self._missing), None, self._missing)
            return Spot(folder, ".", self.path(), os.fstat(folder), ())
        except BaseException:
            os.close(folder)
            raise

    def close(self) -> None:
        while self._folders:
            os.close(self._folders.pop())


def _readings(path: str) -> Iterator[str]:
    """A path, and then as it is without links: a root may be called by another name. Only its text is taken from here,
    so that it does not matter if it is not true any more."""
    yield path
    folder, name = os.path.split(path)
    try:
        yield os.path.join(os.path.realpath(folder), name)
        yield os.path.realpath(path)
    except OSError:  # a link went away while it was being read
        return


def _is_kernels(path: str, top: str) -> bool:
    """What lies there are no files, whatever they look like; but the owner may have put a root there."""
    return any(is_inside(path, kernel) and not is_inside(top, kernel) for kernel in _KERNELS)


def _open_top(top: str) -> int:
    try:
        return os.open(top, FOLDER)
    except OSError as error:
        raise PathRefused(
            f"{brief(top)}, a folder that this session works in, cannot be opened: {error.strerror}."
        ) from None


def _named(error: OSError, shown: str) -> PathRefused:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return PathRefused(f"{brief(shown)} was changed while it was being opened.")
    return PathRefused(f"{brief(shown)} cannot be opened: {error.strerror}.")


# --- names ---------------------------------------------------------------------------------------


def is_inside(path: str, folder: str) -> bool:
    """By their texts; a folder is inside itself."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def folded(path: str) -> str:
    """The same for all texts that some file system takes for the same name."""
    if path.isascii():
        return path.lower()
    plain = "".join(char for char in unicodedata.normalize("NFKD", path) if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", plain).casefold())


def brief(path: str) -> str:
    """A path as a sentence can hold it: on one line, and not endless."""
    line = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in path)
    return line if len(line) <= 200 else f"{line[:100]}…{line[-90:]}"


def checked(path: str, cwd: str) -> str:
    """An absolute path for what a model wrote, or PathRefused."""
    if not path.strip():
        raise PathRefused("An empty path names no file.")
    if "\0" in path:
        raise PathRefused("A path cannot hold a NUL character.")
    if path == "~" or path.startswith("~/"):
        raise PathRefused("~ is not expanded: write the path from the working folder, or from /.")
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise PathRefused("This path is not text: it holds half characters.") from None
    if size > PATH_BYTES_MAX or any(len(step.encode()) > NAME_BYTES_MAX for step in path.split("/")):
        raise PathRefused(f"{brief(path)} is longer than a path or a name can be.")
    return path if path.startswith("/") else f"{cwd.rstrip('/')}/{path}"


def creatable(name: str) -> str | None:
    """Why no file should get this name, if so: it would be taken for another."""
    if not name.isprintable():
        return "it holds control or invisible characters"
    if "\\" in name:
        return "it holds a backslash; folders are separated by /"
    if name != name.strip() or name.endswith("."):
        return "it begins or ends with a space, or ends with a dot"
    plain = unicodedata.normalize("NFKC", name)
    if plain != name and (plain.strip(".") == "" or "/" in plain or "\\" in plain):
        return "it looks like a path"
    return None


# --- openat2 -------------------------------------------------------------------------------------

_SYSCALL = 437  # the same on every architecture that Python runs on
_BENEATH = 0x08 | 0x04 | 0x02  # RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS, RESOLVE_NO_MAGICLINKS
_lock = threading.Lock()
_known: list[Callable[[int, str], int | None] | None] = []


def _openat2() -> Callable[[int, str], int | None] | None:
    """Opens a folder beneath another without following any link; None where the kernel cannot."""
    with _lock:
        if not _known:
            _known.append(_make_openat2() if sys.platform == "linux" else None)
    return _known[0]


def _make_openat2() -> Callable[[int, str], int | None] | None:
    import ctypes  # only where it is used: it takes longer to load than to use

    how = (ctypes.c_uint64 * 3)(FOLDER, 0, _BENEATH)
    syscall: Any = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long

    def openat2(folder: int, path: str) -> int | None:
        made = syscall(ctypes.c_long(_SYSCALL), folder, os.fsencode(path), ctypes.byref(how), ctypes.c_size_t(24))
        return None if made < 0 else int(made)

    here = os.open("/", FOLDER)
    try:
        probe = openat2(here, ".")
    finally:
        os.close(here)
    if probe is None:  # an older kernel, or a filter that forbids the call
        return None
    os.close(probe)
    return openat2
