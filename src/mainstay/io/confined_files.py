"""Confined file access for tools: inside the session's folders, atomic writes, and no protected files.

A file is replaced by a rename, so a crash leaves the old one or the new one. That also makes it harmless to write to a
hard link: the other names of the file keep their content.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import BinaryIO

import msgspec

from mainstay.core.file_changes import EntryLocation, EntryState, NewEntry
from mainstay.core.file_fingerprints import compute_fingerprint
from mainstay.core.tool_ports import SessionFolders
from mainstay.io.atomic_write import (
    StagedFile,
    create_missing_folders,
    open_for_listing,
    stage_locked_file,
    sync_folder_fd,
    translate_os_errors,
    unlink_if_exists,
)
from mainstay.io.path_resolver import (
    PathHook,
    PathIsFolder,
    PathMissing,
    PathRefused,
    PathResolver,
    ResolvedPath,
    casefold_path,
    find_name_problem,
    is_inside,
    shorten_for_message,
    to_absolute_path,
)

LOCK_FILE = "lock.json"  # in an obeyed folder: pins its packages, so tools do not write it
FOLDER_ENTRIES_MAX = 100_000
HARD_LINK_SCAN_MAX = 20_000  # files of protected folders that a hard link is compared with
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # opening a pipe must not block

_replace_lock = threading.Lock()  # held from the check that a file is unchanged until it is replaced


class FolderEntry(msgspec.Struct, frozen=True, gc=False):
    """An entry of a folder."""

    name: str
    kind: str  # file, folder, link, other
    size: int = 0
    mtime_ns: int = 0


class WrittenFile(msgspec.Struct, frozen=True, gc=False):
    """The result of a write."""

    path: str
    created: bool
    fingerprint: str
    created_folders: tuple[str, ...] = ()  # created for it, innermost first


class OpenFile:
    """A file open for reading, with its real path. Close it after use (context manager)."""

    __slots__ = ("file", "path", "stat")

    def __init__(self, file: BinaryIO, path: str, stat_result: os.stat_result) -> None:
        self.file = file
        self.path = path
        self.stat = stat_result

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(self, *raised: object) -> None:
        self.file.close()

    @property
    def fingerprint(self) -> str:
        return compute_fingerprint(self.stat)


# Called with a real path, what is there and what will be there, right before that is changed.
ChangeHook = Callable[[str, EntryLocation | None, NewEntry], None]


class ConfinedFiles:
    """Access to the files of one session. Paths are untrusted; any failure raises PathRefused."""

    before_change: ChangeHook | None = None

    def __init__(
        self, folders: SessionFolders, *, use_openat2: bool = True, before_open: PathHook | None = None
    ) -> None:
        self.folders = folders
        self._roots = sorted(_list_roots(folders), key=lambda root: -len(root[0]))
        self._before_open = before_open or (lambda path: None)
        self._obeyed_paths = frozenset(note.rstrip("/") for note in folders.obeyed_paths)
        self._obeyed_folders = tuple(note.rstrip("/") for note in folders.obeyed_paths if note.endswith("/"))
        tops = [*(root for root, _ in self._roots), *map(os.path.dirname, self._obeyed_paths)]
        self._resolver = PathResolver(
            tops, use_openat2=use_openat2, before_open=before_open, to_shown=folders.paths.to_shown
        )
        self._own_roots = tuple(casefold_path(root) for root, _ in self._roots)
        self._protected_paths = tuple(casefold_path(path.rstrip("/")) for path in folders.protected)
        self._protected_names = {path.rsplit("/", 1)[-1] for path in self._protected_paths}

    # --- resolving -------------------------------------------------------------------------------

    def resolve(self, path: str, *, follow_symlinks: bool = True, for_writing: bool = False) -> ResolvedPath:
        """Resolve a path and check access. Close the result after use; its `stat` is None if nothing exists there."""
        host_path = self.folders.paths.to_host(to_absolute_path(path, self.folders.cwd))
        resolved = self._resolver.resolve(host_path, follow_symlinks=follow_symlinks)
        try:
            if not self._is_obeyed(resolved.path) and not any(
                is_inside(resolved.path, root) for root, _ in self._roots
            ):
                raise PathRefused(f"{shorten_for_message(path)} is outside of the folders that this session works in.")
            if self.is_protected(resolved.path, resolved.stat):
                raise PathRefused(f"{shorten_for_message(path)} is protected: tools neither read nor change it.")
            if for_writing and not self.is_writable(resolved.path):
                raise PathRefused(f"{shorten_for_message(path)} may only be read.")
        except BaseException:
            os.close(resolved.folder_fd)
            raise
        return resolved

    def real_path(self, path: str) -> str:
        """Return the path with symlinks resolved."""
        with self.resolve(path) as resolved:
            return resolved.path

    def is_writable(self, path: str) -> bool:
        """Decide by the innermost session folder that contains a real path. Obeyed files are writable."""
        if self._is_obeyed(path):
            return True
        return next((writes for root, writes in self._roots if is_inside(path, root)), False)

    def _is_obeyed(self, path: str) -> bool:
        """Return whether the path is an obeyed file (contexts are made of it), or lies in a subfolder of an obeyed
        folder. Files directly in such a folder do not count: they are the lock file and the state of installing."""
        if path in self._obeyed_paths:
            return True
        for folder in self._obeyed_folders:
            name, slash, _ = path[len(folder) + 1 :].partition("/") if path.startswith(f"{folder}/") else ("", "", "")
            if slash and not name.startswith(".") and name != LOCK_FILE:
                return True
        return False

    def is_protected(self, path: str, stat_result: os.stat_result | None = None) -> bool:
        """Check by name (ignoring case and composition) and by inode (hard links under any name)."""
        if not self._protected_paths:
            return False
        if self._is_obeyed(path) and not (
            stat_result is not None and stat.S_ISREG(stat_result.st_mode) and stat_result.st_nlink > 1
        ):
            return False
        key = casefold_path(path)
        if protected_length := max(
            (len(prefix) for prefix in self._protected_paths if is_inside(key, prefix)), default=0
        ):
            # a session folder inside of a protected folder stays accessible: the scratch folder, in the home
            return protected_length >= max((len(root) for root in self._own_roots if is_inside(key, root)), default=0)
        return stat_result is not None and self._is_link_to_protected(stat_result)

    def may_be_protected(self, name: str) -> bool:
        """Return False if nothing protected has this name. A fast pre-check for walks over many files."""
        return bool(self._protected_paths) and casefold_path(name) in self._protected_names

    def _is_link_to_protected(self, stat_result: os.stat_result) -> bool:
        is_hard_link = stat.S_ISREG(stat_result.st_mode) and stat_result.st_nlink > 1
        if not is_hard_link and not stat.S_ISDIR(stat_result.st_mode):
            return False
        for path in self.folders.protected:
            try:
                protected = os.stat(path)
            except OSError:
                continue
            if (protected.st_ino, protected.st_dev) == (stat_result.st_ino, stat_result.st_dev):
                return True
            if is_hard_link and stat.S_ISDIR(protected.st_mode) and _contains_inode(path, stat_result):
                return True
        return False

    def display_path(self, path: str) -> str:
        """Return a real path as a model would write it (relative to the working folder, or as commands see it), on one
        line."""
        cwd = self.folders.cwd.rstrip("/")
        is_below = path.startswith(cwd + "/")
        return shorten_for_message(path[len(cwd) + 1 :] if is_below else self.folders.paths.to_shown(path))

    # --- reading ---------------------------------------------------------------------------------

    def open_read(self, path: str) -> OpenFile:
        with self.resolve(path) as resolved:
            if resolved.stat is None:
                raise self._build_path_missing(path, resolved)
            if resolved.is_folder:
                raise PathIsFolder(f"{shorten_for_message(path)} is a folder: use ls.")
            return self._open_file(resolved.folder_fd, resolved.name, resolved.path, resolved.stat)

    def open_at(self, folder_fd: int, name: str, path: str) -> OpenFile:
        """Open a file of an open folder, as a walk yields it."""
        try:
            status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        except OSError as error:
            raise PathRefused(f"{self.display_path(path)} cannot be read: {error.strerror}.") from None
        return self._open_file(folder_fd, name, path, status)

    def _open_file(self, folder_fd: int, name: str, path: str, stat_before: os.stat_result) -> OpenFile:
        display_path = self.display_path(path)
        if not stat.S_ISREG(stat_before.st_mode):  # opening a device may have side effects
            raise PathRefused(f"{display_path} is {_describe_file_type(stat_before)}, not a file.")
        self._before_open(path)
        try:
            file = os.open(name, _READ_FLAGS, dir_fd=folder_fd)
        except OSError as error:
            raise PathRefused(f"{display_path} cannot be read: {error.strerror}.") from None
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise PathRefused(f"{display_path} is {_describe_file_type(status)}, not a file.")
            if self.is_protected(path, status):
                raise PathRefused(f"{display_path} is protected: tools neither read nor change it.")
            return OpenFile(os.fdopen(file, "rb"), path, status)
        except BaseException:
            os.close(file)
            raise

    def read_bytes(self, path: str, bytes_max: int) -> tuple[bytes, OpenFile]:
        """Read a whole file; return its content and its (closed) OpenFile. A larger file is refused."""
        with self.open_read(path) as opened:
            data = opened.file.read(bytes_max + 1)
            if len(data) > bytes_max:
                raise PathRefused(
                    f"{shorten_for_message(path)} has {opened.stat.st_size} bytes: "
                    f"more than the {bytes_max} that can be read at once."
                )
            return data, opened

    def _build_path_missing(self, path: str, resolved: ResolvedPath) -> PathMissing:
        near: list[str] = []
        if len(resolved.missing_names) == 1:
            try:
                names = [entry.name for entry in self._scan_folder(resolved.folder_fd, 2_000)]
                same = [name for name in names if casefold_path(name) == casefold_path(resolved.name)]
                near = list(dict.fromkeys(same + get_close_matches(resolved.name, names, n=3, cutoff=0.5)))[:3]
            except OSError:
                near = []
        hint = f" Near it: {', '.join(map(shorten_for_message, near))}." if near else ""
        return PathMissing(
            f"There is no {shorten_for_message(path)}.{hint}",
            [f"{os.path.dirname(resolved.path)}/{name}" for name in near],
        )

    def list_folder(self, path: str) -> tuple[str, list[FolderEntry], bool]:
        """List a folder: its real path, its entries sorted by name, and whether the list is complete."""
        with self.resolve(path) as resolved:
            if resolved.stat is None:
                raise self._build_path_missing(path, resolved)
            if not resolved.is_folder:
                raise PathRefused(f"{shorten_for_message(path)} is not a folder: use read.")
            try:
                listed = list(self._scan_folder(resolved.folder_fd, FOLDER_ENTRIES_MAX + 1))
            except OSError as error:
                raise PathRefused(f"{shorten_for_message(path)} cannot be listed: {error.strerror}.") from None
            visible = [
                entry for entry in listed[:FOLDER_ENTRIES_MAX] if not self.is_protected(f"{resolved.path}/{entry.name}")
            ]
            return resolved.path, sorted(visible, key=lambda entry: entry.name), len(listed) <= FOLDER_ENTRIES_MAX

    def _scan_folder(self, folder_fd: int, entries_max: int) -> Iterator[FolderEntry]:
        with open_for_listing(folder_fd) as inner, os.scandir(inner) as entries:
            for count, entry in enumerate(entries):
                if count >= entries_max:
                    return
                yield _to_folder_entry(entry)

    # --- writing ---------------------------------------------------------------------------------

    def write_file(
        self,
        path: str,
        data: bytes,
        *,
        expected_fingerprint: str | None = None,
        mode: int | None = None,
        expected_path: str = "",
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> WrittenFile:
        """Replace a file atomically, or create it with its parent folders. Nothing is changed if the file's fingerprint
        is not `expected_fingerprint` ("": no file), if the path no longer resolves to `expected_path`, or if cancelled.
        """
        with self.resolve(path, for_writing=True) as resolved:
            self._check_target(path, resolved)
            _check_same_path(path, resolved, expected_path)
            with create_missing_folders(resolved) as folder_fd:
                with (
                    translate_os_errors(f"{shorten_for_message(path)} cannot be written"),
                    stage_locked_file(folder_fd, data, resolved.stat, mode) as staged,
                ):
                    try:
                        with _replace_lock:
                            if is_cancelled():
                                raise PathRefused(f"Cancelled: {shorten_for_message(path)} was left as it was.")
                            current = self._check_unchanged(path, folder_fd, resolved, expected_fingerprint)
                            self._announce_write(resolved, folder_fd, current, data)
                            status = _move_into_place(path, staged, resolved.name, folder_fd)
                    except (OSError, PathRefused):
                        unlink_if_exists(staged.name, folder_fd)
                        raise
                sync_folder_fd(folder_fd)
            created = _list_missing_folders(resolved)
            return WrittenFile(resolved.path, resolved.stat is None, compute_fingerprint(status), tuple(created))

    def _announce_write(
        self, resolved: ResolvedPath, folder_fd: int, current: os.stat_result | None, data: bytes
    ) -> None:
        if self.before_change is None:
            return
        for folder in reversed(_list_missing_folders(resolved)):
            self.before_change(folder, None, EntryState("folder", 0o755))
        old = EntryLocation(folder_fd, resolved.name, current) if current is not None else None
        self.before_change(resolved.path, old, data)

    def _check_target(self, path: str, resolved: ResolvedPath) -> None:
        if resolved.is_folder:
            raise PathRefused(f"{shorten_for_message(path)} is a folder.")
        if resolved.stat is not None and not stat.S_ISREG(resolved.stat.st_mode):
            raise PathRefused(f"{shorten_for_message(path)} is {_describe_file_type(resolved.stat)}, not a file.")
        for name in resolved.missing_names:
            if (reason := find_name_problem(name)) is not None:
                raise PathRefused(f"{shorten_for_message(name)} is not a valid name for a new file: {reason}.")

    def _check_unchanged(
        self, path: str, folder_fd: int, resolved: ResolvedPath, expected_fingerprint: str | None
    ) -> os.stat_result | None:
        """Return what is at the path now; None: nothing."""
        try:
            current = os.stat(resolved.name, dir_fd=folder_fd, follow_symlinks=False)
        except FileNotFoundError:
            current = None
        if current is not None and not stat.S_ISREG(current.st_mode):
            raise PathRefused(f"{shorten_for_message(path)} was changed while it was being written.")
        if current is not None and self.is_protected(resolved.path, current):
            raise PathRefused(f"{shorten_for_message(path)} is protected: tools neither read nor change it.")
        if expected_fingerprint is not None and expected_fingerprint != (
            "" if current is None else compute_fingerprint(current)
        ):
            raise PathRefused(
                f"{shorten_for_message(path)} was changed by another process: read it again. Nothing was changed."
            )
        return current

    def remove_file(self, path: str, *, expected_fingerprint: str | None = None, expected_path: str = "") -> str:
        """Remove a file, or a symlink itself; return its real path."""
        with self.resolve(path, follow_symlinks=False, for_writing=True) as resolved:
            if resolved.stat is None:
                raise self._build_path_missing(path, resolved)
            _check_same_path(path, resolved, expected_path)
            if resolved.is_folder:
                raise PathRefused(f"{shorten_for_message(path)} is a folder: only files are removed.")
            with _replace_lock, translate_os_errors(f"{shorten_for_message(path)} cannot be removed"):
                current = os.stat(resolved.name, dir_fd=resolved.folder_fd, follow_symlinks=False)
                if expected_fingerprint is not None and compute_fingerprint(current) != expected_fingerprint:
                    raise PathRefused(
                        f"{shorten_for_message(path)} was changed by another process meanwhile. Nothing was changed."
                    )
                if self.before_change is not None:
                    self.before_change(resolved.path, EntryLocation(resolved.folder_fd, resolved.name, current), None)
                os.unlink(resolved.name, dir_fd=resolved.folder_fd)
            sync_folder_fd(resolved.folder_fd)
            return resolved.path


def _move_into_place(path: str, staged: StagedFile, name: str, folder_fd: int) -> os.stat_result:
    """Rename a staged file; return its state. Raises PathRefused if another file had taken its name: the label that the
    caller stores must be of the file that was written."""
    found = os.stat(staged.name, dir_fd=folder_fd, follow_symlinks=False)
    if staged.is_at(found):
        os.rename(staged.name, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
        status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        if staged.is_at(status):
            return status
    raise PathRefused(f"{shorten_for_message(path)} was replaced by another process while it was being written.")


def _list_missing_folders(resolved: ResolvedPath) -> list[str]:
    """Return the folders that have to be created for a file, innermost first."""
    missing = [os.path.dirname(resolved.path)] * max(len(resolved.missing_names) - 1, 0)
    for at in range(1, len(missing)):
        missing[at] = os.path.dirname(missing[at - 1])
    return missing


def _check_same_path(path: str, resolved: ResolvedPath, expected_path: str) -> None:
    if expected_path and expected_path != resolved.path:
        raise PathRefused(f"{shorten_for_message(path)} no longer resolves to the same file. Nothing was changed.")


def _list_roots(folders: SessionFolders) -> Iterator[tuple[str, bool]]:
    """Yield the session's folders, each with whether it is writable. Folders of outside files are at least readable."""
    roots = [(root, True) for root in (*folders.writable, folders.scratch) if root]
    roots += [(root, False) for root in folders.readable if root not in {path for path, _ in roots}]
    yield from ((root.rstrip("/") or "/", writes) for root, writes in roots)
    for root in folders.untrusted_folders:
        if not any(is_inside(root, path) for path, _ in roots):
            yield root.rstrip("/") or "/", False


def _to_folder_entry(entry: os.DirEntry[str]) -> FolderEntry:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return FolderEntry(entry.name, "other")
    mode = status.st_mode
    kind = "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "link" if stat.S_ISLNK(mode) else ""
    return FolderEntry(entry.name, kind or "other", status.st_size, status.st_mtime_ns)


def _describe_file_type(stat_result: os.stat_result) -> str:
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    return kinds.get(stat.S_IFMT(stat_result.st_mode), "something else")


def _contains_inode(folder: str, stat_result: os.stat_result) -> bool:
    """Return whether a protected folder contains this inode; True also if it has too many files to scan."""
    scanned = 0
    for path, _, names in os.walk(folder):
        for name in names:
            scanned += 1
            try:
                status = os.lstat(os.path.join(path, name))
            except OSError:
                continue
            if scanned > HARD_LINK_SCAN_MAX or (status.st_ino, status.st_dev) == (
                stat_result.st_ino,
                stat_result.st_dev,
            ):
                return True
    return False
