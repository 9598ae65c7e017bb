"""Resolves untrusted paths beneath a set of root folders, without races (no path traversal, no symlink escape).

Nothing is checked first and opened later: each component is opened relative to the folder opened before it, and no
open follows a symlink. Symlinks are read and their components resolved in the same way, so that a link swapped
meanwhile does not lead out. Where the kernel has `openat2`, a path without symlinks takes one system call.
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
from typing import Self

from mainstay.core.errors import MainstayError

PATH_BYTES_MAX = 4096
NAME_BYTES_MAX = 255
LINKS_MAX = 40

_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)  # macOS has none: there, folders on the way must be readable
OPEN_FOLDER_FLAGS = _O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KERNEL_FILE_SYSTEMS = ("/proc", "/sys", "/dev")

PathHook = Callable[[str], None]


class PathRefused(MainstayError):
    """A path that tools may not use, or that cannot be opened."""


class PathMissing(PathRefused):
    """Nothing exists at this path; `similar_paths` are existing paths with a similar name."""

    def __init__(self, message: str, similar_paths: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.similar_paths = tuple(similar_paths)


class PathIsFolder(PathRefused):
    """The path is a folder where a file is needed."""


class ResolvedPath:
    """A name in an open folder. `missing_names` are the components that do not exist yet, the last one included; a
    resolved folder has the name ".". Close it after use (context manager)."""

    __slots__ = ("folder_fd", "missing_names", "name", "path", "stat")

    def __init__(
        self, folder_fd: int, name: str, path: str, stat_result: os.stat_result | None, missing_names: Sequence[str]
    ) -> None:
        self.folder_fd = folder_fd
        self.name = name
        self.path = path
        self.stat = stat_result
        self.missing_names = tuple(missing_names)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.folder_fd)

    @property
    def is_folder(self) -> bool:
        return self.stat is not None and stat.S_ISDIR(self.stat.st_mode)


class PathResolver:
    """Resolves paths beneath `roots`, which are absolute and free of symlinks. `before_open` is called with each path
    between its stat and its open, so that tests can change the file system at that moment. Refusals name a path as
    `to_shown` translates it."""

    def __init__(
        self,
        roots: Sequence[str],
        *,
        use_openat2: bool = True,
        before_open: PathHook | None = None,
        to_shown: Callable[[str], str] = lambda path: path,
    ) -> None:
        # Of nested roots, resolution starts at the outermost: the inner one may have become a symlink.
        tops = sorted({root.rstrip("/") or "/" for root in roots}, key=len)
        self._roots = [root for root in tops if not any(is_inside(root, top) for top in tops if top != root)]
        self._use_openat2 = use_openat2
        self._before_open = before_open or (lambda path: None)
        self._to_shown = to_shown

    def resolve(self, path: str, *, follow_symlinks: bool = True) -> ResolvedPath:
        """Resolve an absolute path; raises PathRefused. Without `follow_symlinks`, a final symlink is the result."""
        display_path = self._to_shown(path)
        for _ in range(LINKS_MAX):
            root, rest = self._find_root(path, display_path)
            if (
                self._use_openat2
                and (direct := self._resolve_with_openat2(root, rest, follow_symlinks=follow_symlinks)) is not None
            ):
                return direct
            resolved = self._resolve_stepwise(root, rest, display_path, follow_symlinks=follow_symlinks)
            if isinstance(resolved, ResolvedPath):
                return resolved
            path = resolved
        raise PathRefused(f"{shorten_for_message(display_path)} goes through too many links.")

    def _find_root(self, path: str, display_path: str) -> tuple[str, list[str]]:
        """Return the root that contains the path, and the components below it."""
        for candidate in _path_variants(path):
            for root in self._roots:
                if is_inside(candidate, root) and not _is_kernel_path(candidate, root):
                    return root, candidate[len(root) :].split("/")
            if _is_kernel_path(candidate, "/"):
                break
        raise PathRefused(f"{shorten_for_message(display_path)} is outside of the folders that this session works in.")

    def _resolve_with_openat2(self, root: str, rest: list[str], *, follow_symlinks: bool) -> ResolvedPath | None:
        """Resolve a path without symlinks by one `openat2` call; None if that is not possible."""
        components = [component for component in rest if component not in ("", ".")]
        call = _get_openat2()
        if call is None or ".." in components or not components:
            return None
        self._before_open(root)
        root_fd = _open_root(root, self._to_shown)
        try:
            folder_fd = call(root_fd, "/".join(components[:-1]) or ".")
        finally:
            os.close(root_fd)
        if folder_fd is None:
            return None
        try:
            status = os.stat(components[-1], dir_fd=folder_fd, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) or (stat.S_ISLNK(status.st_mode) and not follow_symlinks):
                result_fd, folder_fd = folder_fd, -1
                return ResolvedPath(result_fd, components[-1], "/".join((root.rstrip("/"), *components)), status, ())
            return None
        except OSError:
            return None  # the stepwise resolution reports what is wrong
        finally:
            if folder_fd >= 0:
                os.close(folder_fd)

    def _resolve_stepwise(
        self, root: str, rest: Sequence[str], display_path: str, *, follow_symlinks: bool
    ) -> ResolvedPath | str:
        """Resolve component by component. If a symlink or `..` leaves this root, return the path to start over with."""
        walk = _PathWalker(root, _open_root(root, self._to_shown), rest, display_path, self._before_open)
        try:
            while walk.pending_names:
                component = walk.pending_names.popleft()
                if component in ("", "."):
                    continue
                if component == ".." and not walk.step_up():
                    return "/".join((os.path.dirname(root).rstrip("/"), *walk.pending_names)) or "/"
                if component == "..":
                    continue
                if (new_path := walk.step_down(component, follow_symlinks=follow_symlinks)) is not None:
                    return new_path
            return walk.finish()
        except OSError as error:
            raise _to_path_refused(error, display_path) from None
        finally:
            walk.close()


class _PathWalker:
    """State of a stepwise resolution: the folders opened so far, and the components still to resolve."""

    def __init__(self, root: str, root_fd: int, rest: Sequence[str], display_path: str, before_open: PathHook) -> None:
        self.root = root
        self._before_open = before_open
        self.display_path = display_path
        self.pending_names = deque(rest)
        self._folder_fds = [root_fd]
        self._names: list[str] = []
        self._missing_names: list[str] = []
        self._leaf: tuple[str, os.stat_result] | None = None  # a non-folder and its stat: no component can follow
        self._link_count = 0

    def join_path(self, *names: str) -> str:
        return "/".join((self.root.rstrip("/"), *self._names, *names)) or "/"

    def step_up(self) -> bool:
        """Go back to the folder we came from, not to the kernel's `..`: the folder may have been moved."""
        if self._leaf is not None or self._missing_names:
            raise PathMissing(f"{shorten_for_message(self.display_path)}: there is no such folder.")
        if not self._names:
            return False
        self._names.pop()
        os.close(self._folder_fds.pop())
        return True

    def step_down(self, component: str, *, follow_symlinks: bool) -> str | None:
        if self._leaf is not None:
            raise PathRefused(
                f"{shorten_for_message(self.display_path)}: {shorten_for_message(self._leaf[0])} is not a folder."
            )
        if self._missing_names:
            self._missing_names.append(component)
            return None
        try:
            status = os.stat(component, dir_fd=self._folder_fds[-1], follow_symlinks=False)
        except FileNotFoundError:
            self._missing_names.append(component)
            return None
        is_last = not any(name not in ("", ".") for name in self.pending_names)
        if stat.S_ISLNK(status.st_mode) and (follow_symlinks or not is_last):
            return self._follow_link(component)
        if stat.S_ISDIR(status.st_mode):
            self._before_open(self.join_path(component))
            self._folder_fds.append(os.open(component, OPEN_FOLDER_FLAGS, dir_fd=self._folder_fds[-1]))
            self._names.append(component)
        else:
            self._leaf = (component, status)
        return None

    def _follow_link(self, component: str) -> str | None:
        self._link_count += 1
        if self._link_count > LINKS_MAX:
            raise PathRefused(f"{shorten_for_message(self.display_path)} goes through too many links.")
        target = os.readlink(component, dir_fd=self._folder_fds[-1])
        if os.path.isabs(target):
            return "/".join((target.rstrip("/"), *self.pending_names)) or "/"
        self.pending_names.extendleft(reversed(target.split("/")))
        return None

    def finish(self) -> ResolvedPath:
        folder_fd = self._folder_fds.pop()
        try:
            if self._leaf is not None:
                name, status = self._leaf
                return ResolvedPath(folder_fd, name, self.join_path(name), status, ())
            if self._missing_names:
                return ResolvedPath(
                    folder_fd, self._missing_names[-1], self.join_path(*self._missing_names), None, self._missing_names
                )
            return ResolvedPath(folder_fd, ".", self.join_path(), os.fstat(folder_fd), ())
        except BaseException:
            os.close(folder_fd)
            raise

    def close(self) -> None:
        while self._folder_fds:
            os.close(self._folder_fds.pop())


def _path_variants(path: str) -> Iterator[str]:
    """Yield the path, then the path with its symlinks resolved: a root may have another name. Only the text is used, so
    a result that is outdated by the time of the open does no harm."""
    yield path
    folder, name = os.path.split(path)
    try:
        yield os.path.join(os.path.realpath(folder), name)
        yield os.path.realpath(path)
    except OSError:  # a symlink was removed meanwhile
        return


def _is_kernel_path(path: str, root: str) -> bool:
    """Return whether the path is in /proc, /sys or /dev, where entries are not plain files, and the root is not."""
    return any(is_inside(path, kernel) and not is_inside(root, kernel) for kernel in _KERNEL_FILE_SYSTEMS)


def _open_root(root: str, to_shown: Callable[[str], str]) -> int:
    try:
        return os.open(root, OPEN_FOLDER_FLAGS)
    except OSError as error:
        shown = shorten_for_message(to_shown(root))
        raise PathRefused(
            f"{shown}, a folder that this session works in, cannot be opened: {error.strerror}."
        ) from None


def _to_path_refused(error: OSError, display_path: str) -> PathRefused:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return PathRefused(f"{shorten_for_message(display_path)} was changed while it was being opened.")
    return PathRefused(f"{shorten_for_message(display_path)} cannot be opened: {error.strerror}.")


# --- names ---------------------------------------------------------------------------------------


def is_inside(path: str, folder: str) -> bool:
    """Compare as text, without touching the disk; a folder is inside itself."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def casefold_path(path: str) -> str:
    """Return a comparison key: equal for all names that some file system takes for the same (case, composition)."""
    if path.isascii():
        return path.lower()
    plain = "".join(char for char in unicodedata.normalize("NFKD", path) if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", plain).casefold())


def shorten_for_message(path: str) -> str:
    """Return the text on one line, printable, and cut in the middle to 200 characters."""
    line = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in path)
    return line if len(line) <= 200 else f"{line[:100]}…{line[-90:]}"


def to_absolute_path(path: str, cwd: str) -> str:
    """Check a path that a model wrote, and make it absolute. Raises PathRefused."""
    if not path.strip():
        raise PathRefused("An empty path names no file.")
    if "\0" in path:
        raise PathRefused("A path must not contain a NUL character.")
    if path == "~" or path.startswith("~/"):
        raise PathRefused("~ is not expanded: write the path from the working folder, or from /.")
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise PathRefused("This path is not valid text: it contains half characters (lone surrogates).") from None
    if size > PATH_BYTES_MAX or any(len(step.encode()) > NAME_BYTES_MAX for step in path.split("/")):
        raise PathRefused(f"{shorten_for_message(path)} is longer than a path or a name can be.")
    return path if path.startswith("/") else f"{cwd.rstrip('/')}/{path}"


def find_name_problem(name: str) -> str | None:
    """Return why a new file must not get this name (it could be mistaken for another), or None if it may."""
    if not name.isprintable():
        return "it contains control or invisible characters"
    if "\\" in name:
        return "it contains a backslash; folders are separated by /"
    if name != name.strip() or name.endswith("."):
        return "it begins or ends with a space, or ends with a dot"
    plain = unicodedata.normalize("NFKC", name)
    if plain != name and (plain.strip(".") == "" or "/" in plain or "\\" in plain):
        return "it looks like a path"
    return None


# --- openat2 -------------------------------------------------------------------------------------

_OPENAT2_SYSCALL = 437  # the same number on every architecture
_OPENAT2_RESOLVE_FLAGS = 0x08 | 0x04 | 0x02  # RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS, RESOLVE_NO_MAGICLINKS
_openat2_lock = threading.Lock()
_openat2_cache: list[Callable[[int, str], int | None] | None] = []


def _get_openat2() -> Callable[[int, str], int | None] | None:
    """Return a function that opens a folder beneath another without following symlinks; None if the kernel has none."""
    with _openat2_lock:
        if not _openat2_cache:
            _openat2_cache.append(_load_openat2() if sys.platform == "linux" else None)
    return _openat2_cache[0]


def _load_openat2() -> Callable[[int, str], int | None] | None:
    import ctypes  # imported late: slow to load

    how = (ctypes.c_uint64 * 3)(OPEN_FOLDER_FLAGS, 0, _OPENAT2_RESOLVE_FLAGS)
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long

    def openat2(folder: int, path: str) -> int | None:
        opened = syscall(
            ctypes.c_long(_OPENAT2_SYSCALL), folder, os.fsencode(path), ctypes.byref(how), ctypes.c_size_t(24)
        )
        return None if opened < 0 else int(opened)

    root = os.open("/", OPEN_FOLDER_FLAGS)
    try:
        probe = openat2(root, ".")
    finally:
        os.close(root)
    if probe is None:  # an older kernel, or a seccomp filter that forbids the call
        return None
    os.close(probe)
    return openat2
