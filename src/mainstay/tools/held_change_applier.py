"""Applies changes of files that a sandbox held back: those that a person approved, and removals asked for before.

Each change is bound to the fingerprint of what was there when it was shown, and to the digest of its new content, so
nothing is applied that was not shown, and nothing twice: what was applied has another fingerprint.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat

import msgspec

from mainstay.core.file_changes import EntryLocation, EntryState, NewEntry
from mainstay.core.file_fingerprints import FolderFingerprint, compute_fingerprint
from mainstay.core.held_changes import (
    HELD_FILE_BYTES_MAX,
    ChangeOutdated,
    HeldChange,
    ShownChange,
    build_new_content,
    decode_changes,
    encode_changes,
    name_paths,
)
from mainstay.core.memory_tiers import format_origin
from mainstay.core.ports import ToolContext
from mainstay.core.tool_ports import FileOriginLabel
from mainstay.core.tree_removal import remove_tree
from mainstay.core.worker_threads import run_in_thread
from mainstay.io.atomic_write import create_missing_folders, sync_folder_fd, unlink_if_exists
from mainstay.io.confined_files import ConfinedFiles
from mainstay.io.path_resolver import PathMissing, PathRefused, is_inside, shorten_for_message
from mainstay.tools.base import SessionFileAccess
from mainstay.tools.tool_call_file_access import ToolCallFiles, format_unkept_note, open_recorder

FOLDER_ENTRIES_MAX = 25_000  # above the limit at which a folder's removal is shown
CHANGED_MEANWHILE = "it was changed meanwhile"
INTERRUPTED = "the process stopped meanwhile, and it is not known whether this was applied before"
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_REMOVALS = ("delete", "delete folder", "delete empty folder")


class ChangeResults(msgspec.Struct):
    """What became of a set of changes: the paths that were applied, and the others with the reason."""

    applied: list[str] = []
    failed: list[str] = []  # "path: reason"
    unkept_note: str = ""  # a line about previous contents that could not be kept


class _NotApplied(Exception):
    """A change could not be applied; the message says why."""


async def apply_requested_removals(
    file_access: SessionFileAccess, context: ToolContext, changes: tuple[HeldChange, ...], script: str
) -> tuple[str, tuple[HeldChange, ...]]:
    """Apply the held removals that the user asked for in this turn; return a note for the result, and the others. What
    the user asked to be written was not held back."""
    if not changes:
        return "", changes
    from mainstay.tools.requested_removals import find_requested_removals  # few commands have changes held back

    requested, keepers = await run_in_thread(lambda: find_requested_removals(file_access, context, changes, script))
    if not requested:
        return "", changes
    # what was moved is the user's: the session may not remove it as a file that it created
    own = [label for path in keepers if (label := file_access.labels.get(path)) is not None and label.session]
    await file_access.labels.save([msgspec.structs.replace(label, session="") for label in own])
    cwd = file_access.folders_of(context.session).cwd
    try:
        document = encode_changes(requested, cwd)
    except UnicodeError:  # a path that is no text: it is reported like the others
        return "", changes
    results = await apply_changes(file_access, context, document, is_repeated=False)
    note = _describe(results, "the user asked for it")
    return note, tuple(change for change in changes if change not in requested)


async def apply_approved_changes(
    file_access: SessionFileAccess, context: ToolContext, document: str, *, folder: str, is_repeated: bool
) -> str:
    """Apply the changes of an approved document; return what became of them, for the model. `folder` is the working
    folder that they were shown for."""
    if file_access.folders_of(context.session).cwd != folder:
        return f"[not applied: it was approved in {shorten_for_message(folder)}, and this session works elsewhere now]"
    results = await apply_changes(file_access, context, document, is_repeated=is_repeated)
    return _describe(results, "the user approved")


def _describe(results: ChangeResults, reason: str) -> str:
    notes = []
    if results.applied:
        notes.append(f"applied, as {reason}: {name_paths(results.applied)}")
    if results.failed:
        notes.append(f"not applied: {name_paths(results.failed)}")
    return "\n".join(filter(None, (f"[{'; '.join(notes)}]", results.unkept_note)))


async def apply_changes(
    file_access: SessionFileAccess, context: ToolContext, document: str, *, is_repeated: bool
) -> ChangeResults:
    """Apply a document of changes. `is_repeated`: a process that stopped may have applied some of them."""
    changes = decode_changes(document)
    call_files = ToolCallFiles(file_access, context)
    recorder = await open_recorder(file_access, context)
    if recorder is not None:
        call_files.confined.before_change = recorder.record
    applier = _ChangeApplier(call_files.confined, is_repeated=is_repeated)
    labels, cwd = file_access.labels, call_files.confined.folders.cwd
    origin = format_origin("conversation", untrusted=True, private=context.has_private_content)
    written = [os.path.join(cwd, change.path) for change in changes if change.change not in _REMOVALS]
    known = {path: labels.get(path) for path in written}
    if recorder is not None:
        recorder.remember_labels([os.path.join(cwd, change.path) for change in changes])
    # before the files are written: there must be no moment at which one of them counts as trusted
    await labels.save([FileOriginLabel(path, origin, old.session if old else "") for path, old in known.items()])

    def apply_all() -> ChangeResults:
        results = ChangeResults()
        for change in changes:
            shown = shorten_for_message(change.path)
            try:
                if context.cancelled:
                    raise _NotApplied("cancelled")
                applier.apply(change, os.path.join(cwd, change.path))
                results.applied.append(shown)
            except _NotApplied as error:
                results.failed.append(f"{shown}: {error}")
            except ChangeOutdated:
                results.failed.append(f"{shown}: {CHANGED_MEANWHILE}")
            except PathRefused as error:
                results.failed.append(f"{shown}: {str(error).rstrip('.')}")
            except OSError as error:
                results.failed.append(f"{shown}: {error.strerror}")
        return results

    results = await call_files.run_blocking(apply_all)
    deleted = [change.path for change in changes if change.change == "delete"]
    gone = [os.path.join(cwd, path) for path in deleted if shorten_for_message(path) in results.applied]
    await labels.remove([path for path in gone if labels.get(path) is not None])
    results.unkept_note = format_unkept_note(recorder)
    return results


class _ChangeApplier:
    """Applies single changes. Raises _NotApplied, ChangeOutdated, PathRefused or OSError; then nothing was changed."""

    def __init__(self, confined: ConfinedFiles, *, is_repeated: bool) -> None:
        self._confined = confined
        self._is_repeated = is_repeated

    def apply(self, change: ShownChange, path: str) -> None:
        match change.change:
            case "create" | "edit" | "replace":
                self._write_file(change, path)
            case "link":
                self._write_link(change, path)
            case "delete":
                self._delete_file(change, path)
            case "delete folder":
                self._delete_folder(change, path)
            case "delete empty folder":
                self._delete_empty_folder(path)

    def _write_file(self, change: ShownChange, path: str) -> None:
        status, data = self._read_current(path)
        mode = int(change.mode, 8) if change.mode else None
        if data is not None and status is not None and _is_applied(change, status, data):
            return
        self._check_before(change, status)
        new = build_new_content(change, data)
        if status is not None and stat.S_ISLNK(status.st_mode):
            self._confined.remove_file(path, expected_fingerprint=change.before, expected_path=path)
            status = None
        before = change.before if status is not None else ""
        self._confined.write_file(path, new, expected_fingerprint=before, mode=mode, expected_path=path)

    def _check_before(self, change: ShownChange, status: os.stat_result | None) -> None:
        if change.before != ("" if status is None else compute_fingerprint(status)):
            raise _NotApplied(CHANGED_MEANWHILE)
        if not change.before and self._is_repeated:  # it may have been created, and removed again since
            raise _NotApplied(INTERRUPTED)

    def _read_current(self, path: str) -> tuple[os.stat_result | None, bytes | None]:
        """Return what is at a path itself, and its content if it is a file of the permitted size."""
        with self._confined.resolve(path, follow_symlinks=False, for_writing=True) as resolved:
            if resolved.path != path:
                raise _NotApplied("a folder above it is a link by now")
            status = resolved.stat
        if status is None or not stat.S_ISREG(status.st_mode) or status.st_size > HELD_FILE_BYTES_MAX:
            return status, None
        try:
            data, opened = self._confined.read_bytes(path, HELD_FILE_BYTES_MAX)
        except PathMissing:
            return None, None
        return opened.stat, data

    def _write_link(self, change: ShownChange, path: str) -> None:
        with self._confined.resolve(path, follow_symlinks=False, for_writing=True) as resolved:
            if resolved.path != path:
                raise _NotApplied("a folder above it is a link by now")
            status = resolved.stat
            is_link = status is not None and stat.S_ISLNK(status.st_mode)
            if is_link and os.readlink(resolved.name, dir_fd=resolved.folder_fd) == change.target:
                return
            self._check_before(change, status)
            with create_missing_folders(resolved) as folder_fd:
                old = EntryLocation(folder_fd, resolved.name, status) if status is not None else None
                self._record(path, old, EntryState("link", target=change.target))
                name = f".{secrets.token_hex(8)}.mainstay"
                os.symlink(change.target, name, dir_fd=folder_fd)
                try:
                    os.rename(name, resolved.name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
                except OSError:
                    unlink_if_exists(name, folder_fd)
                    raise
                sync_folder_fd(folder_fd)

    def _delete_file(self, change: ShownChange, path: str) -> None:
        try:
            self._confined.remove_file(path, expected_fingerprint=change.before, expected_path=path)
        except PathMissing:
            pass

    def _record(self, path: str, old: EntryLocation | None, new: NewEntry) -> None:
        if self._confined.before_change is not None:
            self._confined.before_change(path, old, new)

    def _record_tree(self, path: str, name: str, parent: int) -> None:
        """Record that a folder is removed, after everything in it. `name` is where it is now."""
        if self._confined.before_change is None:
            return
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            inside = os.open(name, _FOLDER_FLAGS, dir_fd=parent)
            try:
                for child in sorted(os.listdir(inside)):
                    self._record_tree(f"{path}/{child}", child, inside)
            finally:
                os.close(inside)
        self._record(path, EntryLocation(parent, name, status), None)

    def _delete_folder(self, change: ShownChange, path: str) -> None:
        """Move the folder aside, compare it, and only then delete it: nothing can be added to it in between."""
        if any(is_inside(protected, path) for protected in self._confined.folders.protected):
            raise _NotApplied("something in it is protected by the configuration")
        folder, name = os.path.split(path)
        aside = f".{name[:80]}.{change.before[:12]}.mainstay"
        with self._confined.resolve(folder, for_writing=True) as resolved:
            if resolved.path != folder:
                raise _NotApplied("a folder above it is a link by now")
            if not resolved.is_folder:
                return
            parent = resolved.folder_fd
            if self._is_repeated and remove_tree(aside, dir_fd=parent) and not _exists(name, parent):
                return
            if not _exists(name, parent):
                return
            with self._confined.resolve(path, follow_symlinks=False, for_writing=True) as target:
                if target.path != path or not target.is_folder:
                    raise _NotApplied(CHANGED_MEANWHILE)
            os.rename(name, aside, src_dir_fd=parent, dst_dir_fd=parent)
            if _fingerprint_folder(aside, parent) != change.before:
                os.rename(aside, name, src_dir_fd=parent, dst_dir_fd=parent)
                raise _NotApplied("something in it was changed meanwhile")
            self._record_tree(path, aside, parent)
            sync_folder_fd(parent)
            if not remove_tree(aside, dir_fd=parent):
                raise _NotApplied(f"it was moved to {aside}, which could not be removed")

    def _delete_empty_folder(self, path: str) -> None:
        folder, name = os.path.split(path)
        with self._confined.resolve(folder, for_writing=True) as resolved:
            if resolved.path == folder and resolved.is_folder and _exists(name, resolved.folder_fd):
                try:
                    status = os.stat(name, dir_fd=resolved.folder_fd, follow_symlinks=False)
                    os.rmdir(name, dir_fd=resolved.folder_fd)
                    self._record(path, EntryLocation(resolved.folder_fd, name, status), None)
                except OSError:
                    raise _NotApplied("it is not empty") from None


def _is_applied(change: ShownChange, status: os.stat_result, data: bytes) -> bool:
    is_same = hashlib.sha256(data).hexdigest() == change.sha256
    return is_same and (not change.mode or int(change.mode, 8) == stat.S_IMODE(status.st_mode) & 0o777)


def _exists(name: str, folder_fd: int) -> bool:
    try:
        os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _fingerprint_folder(name: str, parent: int) -> str:
    folder = os.open(name, _FOLDER_FLAGS, dir_fd=parent)
    try:
        return FolderFingerprint(folder, FOLDER_ENTRIES_MAX).fingerprint
    except ValueError:
        return ""
    finally:
        os.close(folder)
