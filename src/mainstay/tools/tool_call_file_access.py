"""File access of one tool call: origins of content, taint, reach, and changes of several files, all or none."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from mainstay.core.file_fingerprints import compute_fingerprint
from mainstay.core.memory_tiers import UNTRUSTED, combine_origins, format_origin, is_private, is_untrusted
from mainstay.core.ports import ToolContext
from mainstay.core.tool_ports import CallDestinations, FileLabelStore, FileOriginLabel, Sandbox
from mainstay.core.worker_threads import run_in_thread
from mainstay.io.confined_files import ConfinedFiles, WrittenFile
from mainstay.io.globs import compile_path_glob
from mainstay.io.path_resolver import PathMissing, PathRefused, casefold_path, is_inside, shorten_for_message
from mainstay.tools.base import SessionFileAccess, ToolRefused

if TYPE_CHECKING:  # only calls that change files need the module
    from mainstay.io.undo_store import TurnChangeRecorder

T = TypeVar("T")

UNKNOWN_FILE_ORIGIN = f"{UNTRUSTED}:file"  # origin of a file without a label: its author is unknown
FOLDER_FINGERPRINT = "folder"  # the fingerprint in the label of a folder; never equal to that of a file
FILE_BYTES_MAX = 10 * 1024 * 1024  # of a file that is changed in memory
SINK_VERDICTS_MAX = 1_000
FOLDER_FILES_MAX = 10_000  # files of one folder that are checked
CHECKED_FILES_MAX = 200_000  # files of all writable folders that are checked
CLOCK_TOLERANCE_NS = 50_000_000  # timestamps of a disk may be slightly behind the clock
REFUSALS = (PathRefused, ToolRefused)

_SECRET_GLOBS = (
    *(".env", ".env.*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.gpg"),
    *(
        "id_rsa*",
        "id_dsa*",
        "id_ecdsa*",
        "id_ed25519*",
        "credentials",
        "credentials.*",
        "*credentials*.json",
        ".netrc",
        "_netrc",
        ".npmrc",
        ".pypirc",
        ".pgpass",
    ),
    *(".htpasswd", ".git-credentials", "secrets.*", "*.secret", "*.secrets", ".dockercfg", "kubeconfig", "*.tfvars"),
    *("*.tfstate", ".vault-token", "shadow", "*.asc", ".my.cnf", "service-account*.json", "token.json", ".boto"),
)
_HARMLESS_GLOBS = (
    "*.pub",
    "*.example",
    "*.sample",
    "*.template",
    "*.dist",
    "*.md",
    "*.py",
    "*.ts",
    "*.js",
    "*.go",
    "*.rs",
)


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """A file to write, or to remove if `data` is None. `base_origin` is the origin of the content that stays, and
    `creator_session` the session that created the file, if it is not the one that writes it now."""

    path: str
    data: bytes | None
    expected_fingerprint: str | None = None
    mode: int | None = None
    base_origin: str = ""
    creator_session: str | None = None


class ToolCallFiles:
    """The files of one tool call."""

    def __init__(self, file_access: SessionFileAccess, context: ToolContext) -> None:
        self.file_access = file_access
        self.context = context
        self.confined = ConfinedFiles(file_access.folders_of(context.session))
        self.unkept_note = ""  # a line about previous contents that `apply_changes` could not keep

    # --- origin and taint ------------------------------------------------------------------------

    def get_origin(self, path: str, fingerprint: str) -> str:
        """Return the origin of the current content of a file; `path` is real."""
        label = self.file_access.labels.get(path)
        recorded = label.origin if label is not None else ""
        if any(is_inside(path, folder) for folder in self.confined.folders.untrusted_folders):
            return combine_origins((recorded, UNKNOWN_FILE_ORIGIN))
        if recorded or (label is not None and label.fingerprint in ("", fingerprint)):
            return recorded
        return "" if self.is_trusted(path) else UNKNOWN_FILE_ORIGIN

    def taint_by_content(self, path: str, fingerprint: str) -> str:
        """Taint the context by the content of a file that is about to enter it; return the origin of the content."""
        origin = self.get_origin(path, fingerprint)
        if is_untrusted(origin):
            self.context.untrusted = True
        if is_private(origin) or looks_secret(path):
            self.context.private = True
        return origin

    def taint_by_names(self, paths: Iterable[str]) -> None:
        """Taint the context by file names that are about to enter it: the author of a file chose its name."""
        for path in paths:
            label = self.file_access.labels.get(path)
            if label is None or is_untrusted(label.origin):
                if label is None and self.is_trusted(path):
                    continue
                self.context.untrusted = True
                return

    def is_trusted(self, path: str) -> bool:
        folders = self.confined.folders
        if any(is_inside(path, folder) for folder in folders.trusted_folders):
            return True
        roots = [root for root in (*folders.writable, *folders.readable) if is_inside(path, root)]
        if not roots or not folders.trusted_globs:
            return False
        below = path[len(max(roots, key=len).rstrip("/")) + 1 :]
        return any(compile_path_glob(f"/{pattern.lstrip('/')}")(below) for pattern in folders.trusted_globs)

    def iter_trusted_changes(self, since_ns: int) -> Iterator[str]:
        """Yield the trusted files that were changed since then (Unix time in ns)."""
        checked = 0
        for folder, _, names in (level for root in self.confined.folders.writable for level in os.walk(root)):
            for path in (f"{folder}/{name}" for name in names):
                checked += 1
                if checked > CHECKED_FILES_MAX:
                    return
                try:
                    if self.is_trusted(path) and os.lstat(path).st_ctime_ns >= since_ns - CLOCK_TOLERANCE_NS:
                        yield path
                except OSError:  # removed meanwhile
                    continue

    # --- reach -----------------------------------------------------------------------------------

    def compute_reach(self, changes: Sequence[FileChange]) -> CallDestinations:
        effects: list[str] = []
        for change in changes:
            try:
                with self.confined.resolve(change.path, follow_symlinks=change.data is not None) as resolved:
                    path, exists = resolved.path, resolved.stat is not None
            except PathRefused:  # the run will refuse it too
                continue
            display_path = self.confined.display_path(path)
            if change.data is not None and (reason := self._explain_lasting_effect(path)):
                effects.append(f"writes {display_path}, {reason}")
            if (
                change.data is None
                and exists
                and not was_created_by(self.file_access.labels, self.context.session, path)
            ):
                effects.append(f"removes {display_path}, which this session did not create")
        return CallDestinations(sink=bool(effects), description="; ".join(dict.fromkeys(effects)))

    def judge_reach(self, changes: Sequence[FileChange]) -> CallDestinations:
        """Return the reach for the policy, and remember whether it is a sink: `apply_changes` checks that again."""
        reach = self.compute_reach(changes)
        judged = self.file_access.sink_verdicts
        judged[self.context.key] = reach.sink
        while len(judged) > SINK_VERDICTS_MAX:
            del judged[next(iter(judged))]
        return reach

    def _explain_lasting_effect(self, path: str) -> str:
        """Return why writing there affects more than this conversation; "" if it does not."""
        from mainstay.core.obeyed_files import find_obeyed_topic  # loaded with the first change

        folders, text = self.confined.folders, casefold_path(path)
        if any(is_inside(text, casefold_path(note.rstrip("/"))) for note in folders.obeyed_paths):
            return "which is part of later contexts"
        roots = (folders.cwd, *folders.writable)
        root = max((root for root in roots if is_inside(path, root)), key=len, default="")
        if find_obeyed_topic(path[len(root.rstrip("/")) + 1 :]) is not None and not is_inside(path, folders.scratch):
            return "which other programs obey"
        components = text.split("/")
        if ".git" in components:
            return "which controls what git does"
        if any(is_inside(text, f"{casefold_path(root.rstrip('/'))}/skills") for root in roots):
            return "which is part of later contexts"
        return ""

    # --- changing --------------------------------------------------------------------------------

    async def apply_changes(self, changes: Sequence[FileChange]) -> list[WrittenFile | None]:
        """Apply all changes or none. Stricter labels are stored before the files are written: a crash in between must
        not leave a file that passes for trusted. Raises PathRefused or ToolRefused."""
        recorder = await open_recorder(self.file_access, self.context)
        if recorder is not None:
            self.confined.before_change = recorder.record
        reals = await self.run_blocking(lambda: [self._resolve_target(change) for change in changes])
        if not self.file_access.sink_verdicts.pop(self.context.key, True) and self.compute_reach(changes).sink:
            raise ToolRefused(
                "A path no longer resolves to the file for which this call was allowed. Nothing was changed."
            )
        ours = format_origin("conversation", untrusted=self.context.tainted, private=self.context.has_private_content)
        labels, before = self.file_access.labels, {real: self.file_access.labels.get(real) for real in reals}
        origins = [combine_origins((ours, change.base_origin)) for change in changes]
        if recorder is not None:
            recorder.remember_labels(reals)
        if strict := [
            FileOriginLabel(real, origin, old.session if (old := before[real]) else "")
            for real, origin, change in zip(reals, origins, changes, strict=True)
            if change.data is not None and origin
        ]:
            await labels.save(strict)
        try:
            written = await self.run_blocking(lambda: self._apply_all(changes, reals))
        except REFUSALS:
            if strict:  # nothing was changed: restore the labels
                await labels.remove([label.path for label in strict if before[label.path] is None])
                await labels.save([old for label in strict if (old := before[label.path]) is not None])
            raise
        await self._label_changes(changes, origins, written, before)
        self.unkept_note = format_unkept_note(recorder)
        return written

    def _resolve_target(self, change: FileChange) -> str:
        with self.confined.resolve(change.path, follow_symlinks=change.data is not None, for_writing=True) as resolved:
            return resolved.path

    async def _label_changes(
        self,
        changes: Sequence[FileChange],
        origins: Sequence[str],
        written: Sequence[WrittenFile | None],
        before: dict[str, FileOriginLabel | None],
    ) -> None:
        session = self.context.session
        new_labels: list[FileOriginLabel] = []
        for change, origin, result in zip(changes, origins, written, strict=True):
            if result is None:
                continue
            old = before[result.path]
            creator = session if result.created else old.session if old is not None else ""
            new_labels.append(
                FileOriginLabel(
                    result.path,
                    origin,
                    creator if change.creator_session is None else change.creator_session,
                    result.fingerprint,
                )
            )
            new_labels += [
                FileOriginLabel(folder, origin, session, FOLDER_FINGERPRINT) for folder in result.created_folders
            ]
        if new_labels:
            await self.file_access.labels.save(new_labels)
        existing = {result.path for result in written if result is not None}
        if removed := [path for path, old in before.items() if path not in existing and old is not None]:
            await self.file_access.labels.remove(removed)

    def _apply_all(self, changes: Sequence[FileChange], real_paths: Sequence[str]) -> list[WrittenFile | None]:
        done: list[WrittenFile | None] = []
        undo: list[FileChange] = []
        try:
            for change, real in zip(changes, real_paths, strict=True):
                if len(changes) > 1:
                    undo.append(self._backup(change))
                done.append(self._apply_one(change, real))
        except REFUSALS as error:
            not_restored = [
                self.confined.display_path(real_paths[at])
                for at in reversed(range(len(done)))
                if not self._undo(undo[at])
            ]
            if not_restored:
                raise ToolRefused(f"{error} These could not be restored: {', '.join(not_restored)}.") from None
            raise
        return done

    def _apply_one(self, change: FileChange, real_path: str) -> WrittenFile | None:
        confined, context = self.confined, self.context
        if change.data is None:
            if context.cancelled:
                raise PathRefused("Cancelled: nothing was changed.")
            confined.remove_file(change.path, expected_fingerprint=change.expected_fingerprint, expected_path=real_path)
            return None
        return confined.write_file(
            change.path,
            change.data,
            expected_fingerprint=change.expected_fingerprint,
            mode=change.mode,
            expected_path=real_path,
            is_cancelled=lambda: context.cancelled,
        )

    def _backup(self, change: FileChange) -> FileChange:
        try:
            data, opened = self.confined.read_bytes(change.path, FILE_BYTES_MAX)
        except PathMissing:
            return FileChange(path=change.path, data=None)
        return FileChange(path=change.path, data=data, mode=opened.stat.st_mode & 0o777)

    def _undo(self, change: FileChange) -> bool:
        try:
            if change.data is None:
                self.confined.remove_file(change.path)
            else:
                self.confined.write_file(change.path, change.data, mode=change.mode)
        except PathRefused:
            return False
        return True

    # --- threads ---------------------------------------------------------------------------------

    async def run_blocking(self, function: Callable[[], T]) -> T:
        """Run blocking work in a thread. On cancellation, wait until the thread is done, so that no file changes
        afterwards: it checks `cancelled` before it renames a file into place."""
        running: asyncio.Future[T] = run_in_thread(function)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            self.context.cancel()
            await asyncio.wait((running,))
            if not running.cancelled():
                running.exception()
            raise


async def open_command_recorder(
    file_access: SessionFileAccess,
    context: ToolContext,
    sandbox: Sandbox,
    script: str,
    *,
    writes_directly: bool = False,
) -> TurnChangeRecorder | None:
    """Return what keeps the previous contents of the files that a command changes; None for a command that changes
    none, and without a sandbox that can tell. With `writes_directly` only a command of which the analysis says what it
    changes gets an overlay for that: other programs may wait for what a background command writes while it runs."""
    if file_access.undo_store is None or not sandbox.can_protect_deletions:
        return None
    from mainstay.trust.shell.analysis import analyse_script  # loaded with the first command
    from mainstay.trust.shell.reading import reads_only

    analysis = analyse_script(script)
    changes = analysis.removals or analysis.written_paths
    if not changes and (writes_directly or reads_only(analysis)):
        return None
    return await open_recorder(file_access, context)


async def open_recorder(file_access: SessionFileAccess, context: ToolContext) -> TurnChangeRecorder | None:
    """Return what keeps the previous contents of the files that a call changes; None: they are not kept. What a
    sub-agent changes belongs to the turn of the session that it works for."""
    if file_access.undo_store is None:
        return None
    session, turn = context.session, context.turn
    if "/" in session and file_access.find_turn_owner is not None:
        session, turn = await file_access.find_turn_owner(session, turn)
    folders = file_access.folders_of(context.session)
    ignored = (folders.scratch,) if folders.scratch and folders.scratch != folders.cwd else ()
    return file_access.undo_store.recorder(session, turn, file_access.labels.get, ignored)


def format_unkept_note(recorder: TurnChangeRecorder | None) -> str:
    """Return a line about previous contents that were too large to keep, or could not be written; "" for none."""
    if recorder is None or not recorder.not_kept_count:
        return ""
    named = ", ".join(f"{shorten_for_message(path)} ({size} bytes)" for path, size in recorder.not_kept)
    more = f" and {more} more" if (more := recorder.not_kept_count - len(recorder.not_kept)) else ""
    return f"[/undo cannot restore these, because their previous content was not kept: {named}{more}]"


def build_on_written(
    file_access: SessionFileAccess, context: ToolContext, recorder: TurnChangeRecorder | None = None
) -> Callable[[Sequence[str]], None]:
    """Return a callback that labels files as untrusted before the writes of a command with deletion protection are
    moved into place: it may have copied anything it read. Files that are not trusted anyway need no label. The callback
    blocks its thread."""
    call_files, loop = ToolCallFiles(file_access, context), asyncio.get_running_loop()
    origin = format_origin("conversation", untrusted=True, private=context.has_private_content)

    def announce(paths: Sequence[str]) -> None:
        if recorder is not None:
            recorder.remember_labels(paths)
        # In a clean session they keep their labels, as on any change by a program.
        if not (context.tainted or context.protect_deletions):
            return
        known = [(path, file_access.labels.get(path)) for path in paths]
        doubtful = [
            FileOriginLabel(path, origin, old.session if old is not None else "")
            for path, old in known
            if (not is_untrusted(old.origin) if old is not None else call_files.is_trusted(path))
        ]
        if doubtful:
            asyncio.run_coroutine_threadsafe(_store_labels(file_access.labels, doubtful), loop).result()

    return announce


async def distrust_changed_files(file_access: SessionFileAccess, context: ToolContext, since_ns: int) -> None:
    """Label trusted files as untrusted that a command without deletion protection may have changed while tainted."""
    call_files = ToolCallFiles(file_access, context)
    folders = call_files.confined.folders
    if context.tainted and (folders.trusted_globs or folders.trusted_folders):
        origin = format_origin("conversation", untrusted=True, private=context.has_private_content)
        paths = await call_files.run_blocking(lambda: list(call_files.iter_trusted_changes(since_ns)))
        await file_access.labels.save([FileOriginLabel(path, origin) for path in paths])


async def _store_labels(labels: FileLabelStore, new_labels: Sequence[FileOriginLabel]) -> None:
    await labels.save(new_labels)


def was_created_by(labels: FileLabelStore, session: str, path: str) -> bool:
    """Return whether this session created the file, unreplaced since, or the folder and all files in it."""
    label = labels.get(path)
    is_own = label is not None and label.session == session
    try:
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode):
            return label is not None and is_own and label.fingerprint in ("", compute_fingerprint(status))
        files = 0
        for folder, folders, names in os.walk(path):
            links = [name for name in folders if os.path.islink(f"{folder}/{name}")]
            for name in (*names, *links):
                files += 1
                if files > FOLDER_FILES_MAX or not was_created_by(labels, session, f"{folder}/{name}"):
                    return False
    except OSError:  # removed, or not readable
        return is_own
    return is_own or files > 0


def build_removal_check(file_access: SessionFileAccess, context: ToolContext) -> Callable[[str], bool]:
    """Return a check of real paths: a command may remove what its session created or the user named."""
    labels, session, removable = file_access.labels, context.session, find_deletable_paths(file_access, context)
    return lambda path: any(is_inside(path, named) for named in removable) or was_created_by(labels, session, path)


def find_deletable_paths(file_access: SessionFileAccess, context: ToolContext) -> tuple[str, ...]:
    """Return the real paths that the user asked a command to remove or move."""
    cwd = file_access.folders_of(context.session).cwd
    return tuple(resolve_parent(os.path.join(cwd, name)) for name in context.deletable_paths)


def resolve_parent(path: str) -> str:
    """Return the real path of a name without following a final symlink: a removal would remove the link itself."""
    path = path.rstrip("/") or "/"
    folder, name = os.path.split(path)
    return os.path.realpath(path) if name in ("", ".", "..") else os.path.join(os.path.realpath(folder), name)


def looks_secret(path: str) -> bool:
    """Return whether the file name is typical of secrets (keys, credentials)."""
    name = path.rsplit("/", 1)[-1].lower()
    return any(compile_path_glob(pattern)(name) for pattern in _SECRET_GLOBS) and not any(
        compile_path_glob(pattern)(name) for pattern in _HARMLESS_GLOBS
    )
