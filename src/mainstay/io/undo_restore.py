"""Undoes the file changes of a turn: contents, permissions, links, removed and created files and folders.

Each path is restored as a whole or not at all, and a path that is not restored is reported with a sentence. Undoing
again after a crash continues: a path that is as it was before the turn is left alone.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence

import msgspec

from mainstay.core.errors import InputRefused
from mainstay.core.file_changes import RefusedPath, UndoableTurn, UndoPreview, UndoResult
from mainstay.core.file_fingerprints import compute_fingerprint
from mainstay.core.memory_tiers import is_private, is_untrusted
from mainstay.core.tool_ports import FileLabelStore, FileOriginLabel, SessionFolders
from mainstay.core.worker_threads import run_in_thread
from mainstay.io.atomic_write import create_missing_folders, stage_file, sync_folder_fd, unlink_if_exists
from mainstay.io.confined_files import ConfinedFiles
from mainstay.io.path_resolver import PathRefused, ResolvedPath
from mainstay.io.undo_plan import PlannedPath, build_preview, check_current, list_turns, locate, plan_turn, to_location
from mainstay.io.undo_store import HASHED_BYTES_MAX, UndoStore, is_same_entry

_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)


class WorkspaceUndo:
    """Lists, shows and undoes the turns of a workspace's sessions that changed files."""

    def __init__(
        self, store: UndoStore, folders_of: Callable[[str], SessionFolders], labels: FileLabelStore | None
    ) -> None:
        self.store = store
        self._folders_of = folders_of
        self._labels = labels

    async def list_turns(self, session: str) -> list[UndoableTurn]:
        return await run_in_thread(lambda: list_turns(self.store, session))

    async def preview(self, session: str, turn: int | None) -> UndoPreview:
        """Return what undoing a turn would do; None: the newest that was not undone. Raises InputRefused."""
        return await run_in_thread(
            lambda: build_preview(
                self.store, ConfinedFiles(self._folders_of(session)), session, self._choose_turn(session, turn)
            )
        )

    async def restore(self, session: str, turn: int | None) -> UndoResult:
        """Undo a turn; None: the newest that was not undone. Raises InputRefused if there is none."""
        chosen = await run_in_thread(lambda: self._choose_turn(session, turn))
        plans = await run_in_thread(lambda: plan_turn(self.store.read_changes(session, chosen)))
        await self._save_labels([plan for plan in plans if _is_strict(plan.label)], {})
        restorer = TurnRestorer(self.store, ConfinedFiles(self._folders_of(session)), session, chosen)
        result = await run_in_thread(lambda: restorer.restore(plans))
        await self._save_labels([plan for plan in plans if plan.path in restorer.fingerprints], restorer.fingerprints)
        return result

    def _choose_turn(self, session: str, turn: int | None) -> int:
        for one in list_turns(self.store, session):
            if one.turn == turn or (turn is None and not one.is_undone):
                return one.turn
        if turn is None:
            raise InputRefused("no turn of this session changed files that could be restored")
        if self.store.is_undone(session, turn):
            raise InputRefused(f"turn {turn} is undone already")
        raise InputRefused(f"turn {turn} changed no files, or what it changed is no longer kept")

    async def _save_labels(self, plans: Sequence[PlannedPath], fingerprints: dict[str, str]) -> None:
        """Restore the labels of restored contents; a stricter one before the content is there."""
        if self._labels is None:
            return
        labels = [
            _label_restored(plan, plan.label, fingerprints.get(plan.path, ""))
            for plan in plans
            if plan.label is not None
        ]
        if labels:
            await self._labels.save(labels)
        if removed := [plan.path for plan in plans if plan.label is None and self._labels.get(plan.path) is not None]:
            await self._labels.remove(removed)


def _is_strict(label: FileOriginLabel | None) -> bool:
    return label is not None and (is_untrusted(label.origin) or is_private(label.origin))


def _label_restored(plan: PlannedPath, label: FileOriginLabel, fingerprint: str) -> FileOriginLabel:
    """Return the label for the restored file: that of the same content, if it was valid for it."""
    if plan.is_label_valid and label.fingerprint and fingerprint:
        return msgspec.structs.replace(label, fingerprint=fingerprint)
    return label


class TurnRestorer:
    """Restores the paths of one turn, and keeps what could not be restored."""

    def __init__(self, store: UndoStore, confined: ConfinedFiles, session: str, turn: int) -> None:
        self._store = store
        self._confined = confined
        self._session = session
        self._turn = turn
        self._folder_modes: list[tuple[str, int]] = []  # set last: a folder may be closed for writing
        self.fingerprints: dict[str, str] = {}  # of the restored paths; "": there is no file now

    def restore(self, plans: Sequence[PlannedPath]) -> UndoResult:
        """Restore what can be restored. Blocks. Created paths go first, the innermost before its folder; then folders
        and files come back, the outermost first."""
        created = [plan for plan in plans if plan.before.kind == "missing"]
        others = [plan for plan in plans if plan.before.kind != "missing"]
        refused: dict[str, str] = {}
        for plan in (
            *sorted(created, key=lambda plan: (-plan.depth, plan.path)),
            *sorted(others, key=lambda plan: (plan.depth, plan.path)),
        ):
            try:
                self._restore_path(plan)
            except PathRefused as error:
                refused[plan.path] = str(error)
            except OSError as error:
                refused[plan.path] = f"It cannot be restored: {error.strerror}."
        for path, mode in reversed(self._folder_modes):
            try:
                with self._open_parent(path) as parent:
                    _set_mode(parent.folder_fd, os.path.basename(path), mode)
            except (OSError, PathRefused):
                refused[path] = f"Its permissions could not be set to {mode:o}."
        not_recorded = self._store.count_omitted(self._session, self._turn)
        self._store.mark_undone(self._session, self._turn, set(refused))
        return UndoResult(
            turn=self._turn,
            restored=[self._confined.display_path(path) for path in sorted(set(self.fingerprints) - set(refused))],
            refused=[
                RefusedPath(self._confined.display_path(path), reason) for path, reason in sorted(refused.items())
            ],
            paths_not_recorded=not_recorded,
        )

    def _restore_path(self, plan: PlannedPath) -> None:
        with locate(self._confined, plan.path) as resolved:
            if not check_current(plan, to_location(resolved)):
                return
            if not resolved.is_folder:
                self._restore_entry(plan, resolved)
                return
        if plan.before.kind == "folder":
            self._folder_modes.append((plan.path, plan.before.mode))
            self.fingerprints[plan.path] = ""
            return
        self._remove_folder(plan.path)
        if plan.before.kind != "missing":
            with locate(self._confined, plan.path) as resolved:
                self._restore_entry(plan, resolved)

    def _open_parent(self, path: str) -> ResolvedPath:
        """Open the folder that contains a path."""
        return locate(self._confined, os.path.dirname(path))

    def _remove_folder(self, path: str) -> None:
        with self._open_parent(path) as parent:
            try:
                os.rmdir(os.path.basename(path), dir_fd=parent.folder_fd)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    raise PathRefused("The folder is not empty.") from None
                raise
            sync_folder_fd(parent.folder_fd)
        self.fingerprints[path] = ""

    def _restore_entry(self, plan: PlannedPath, resolved: ResolvedPath) -> None:
        """Restore what was at a path where now is a file, a link or nothing."""
        before, name, status = plan.before, resolved.name, resolved.stat
        with create_missing_folders(resolved) as folder_fd:
            match before.kind:
                case "missing":
                    _check_unchanged(folder_fd, name, status)
                    os.unlink(name, dir_fd=folder_fd)
                case "folder":
                    _check_unchanged(folder_fd, name, status)
                    unlink_if_exists(name, folder_fd)
                    os.mkdir(name, 0o700, dir_fd=folder_fd)
                    self._folder_modes.append((plan.path, before.mode))
                case "link":
                    draft = f".{os.urandom(8).hex()}.mainstay"
                    os.symlink(before.target, draft, dir_fd=folder_fd)
                    _replace(folder_fd, draft, name, status)
                case _ if status is not None and stat.S_ISREG(status.st_mode) and is_same_entry(before, plan.after):
                    _set_mode(folder_fd, name, before.mode)
                case _:
                    _replace(folder_fd, self._stage(plan, folder_fd), name, status)
            sync_folder_fd(folder_fd)
            self.fingerprints[plan.path] = ""
            if before.kind == "file":
                self.fingerprints[plan.path] = compute_fingerprint(
                    os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
                )

    def _stage(self, plan: PlannedPath, folder_fd: int) -> str:
        """Write the previous content to a new file; return its name."""
        before = plan.before
        data = self._store.read_blob(self._session, self._turn, before) if before.size else b""
        if data is None:
            raise PathRefused("Its kept content is damaged.")
        draft = stage_file(folder_fd, data, None, before.mode)
        if before.size > HASHED_BYTES_MAX:  # it is recognised by its time of change when an earlier turn is undone
            os.utime(draft, ns=(before.mtime_ns, before.mtime_ns), dir_fd=folder_fd)
        return draft


def _check_unchanged(folder_fd: int, name: str, expected: os.stat_result | None) -> None:
    try:
        current = compute_fingerprint(os.stat(name, dir_fd=folder_fd, follow_symlinks=False))
    except FileNotFoundError:
        current = ""
    if current != ("" if expected is None else compute_fingerprint(expected)):
        raise PathRefused("It was changed while it was being restored.")


def _replace(folder_fd: int, draft: str, name: str, expected: os.stat_result | None) -> None:
    try:
        _check_unchanged(folder_fd, name, expected)
        os.rename(draft, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    except (OSError, PathRefused):
        unlink_if_exists(draft, folder_fd)
        raise


def _set_mode(folder_fd: int, name: str, mode: int) -> None:
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, mode & 0o777, dir_fd=folder_fd, follow_symlinks=False)
        return
    entry = os.open(name, _O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder_fd)
    try:
        if stat.S_ISLNK(os.fstat(entry).st_mode):
            raise PathRefused("It was changed while it was being restored.")
        os.chmod(f"/proc/self/fd/{entry}", mode & 0o777)
    finally:
        os.close(entry)
