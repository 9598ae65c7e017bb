"""What undoing a turn would do: the changes of each path joined, checked against the disk, and shown as a diff."""

from __future__ import annotations

import difflib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from mainstay.core.file_changes import EntryLocation, EntryState, UndoableTurn, UndoFile, UndoPreview
from mainstay.core.tool_ports import FileOriginLabel
from mainstay.io.confined_files import ConfinedFiles
from mainstay.io.path_resolver import PathRefused, ResolvedPath
from mainstay.io.undo_store import HASHED_BYTES_MAX, PathChange, UndoStore, describe_location, is_same_entry

FILES_SHOWN_MAX = 200
DIFF_LINES_MAX = 400  # of all files together
DIFF_CHARS_MAX = 40_000
DIFFED_BYTES_MAX = 256 * 1024  # a larger file is named only
DIFFED_LINES_MAX = 5_000
_LINE_CHARS_MAX = 500
# Objects that git wrote stay: a commit made since may use them, and git removes the others itself.
_GIT_OBJECT = re.compile(r".*/\.git/(?:modules/.+/)?objects/", re.DOTALL)
_CHANGED_SINCE = "It was changed since."


class PlannedPath(msgspec.Struct, frozen=True):
    """A path that a turn changed: what was there before the turn, and what the turn left."""

    path: str
    before: EntryState
    after: EntryState
    label: FileOriginLabel | None
    is_label_valid: bool
    refusal: str = ""  # known from the log alone

    @property
    def depth(self) -> int:
        return self.path.count("/")


def plan_turn(changes: Iterable[PathChange]) -> list[PlannedPath]:
    """Join the changes of each path to one."""
    planned: dict[str, PlannedPath] = {}
    for change in changes:
        first = planned.get(change.path)
        if first is None:
            planned[change.path] = PlannedPath(
                change.path,
                change.before,
                change.after,
                change.label,
                change.is_label_valid,
                _explain_unkept(change.before),
            )
            continue
        refusal = first.refusal
        if not is_same_entry(first.after, change.before):
            refusal = refusal or "It was changed by another program between two changes of this turn."
        planned[change.path] = msgspec.structs.replace(first, after=change.after, refusal=refusal)
    return [
        plan
        for plan in planned.values()
        if not _is_unchanged(plan) and not (plan.before.kind == "missing" and _GIT_OBJECT.match(plan.path))
    ]


def list_turns(store: UndoStore, session: str) -> list[UndoableTurn]:
    """Return the turns that changed files, the newest first. Blocks."""
    turns = (
        UndoableTurn(
            turn=turn,
            at=store.changed_at_ms(session, turn),
            paths=len(plan_turn(store.read_changes(session, turn))),
            kept_bytes=store.count_kept_bytes(session, turn),
            is_undone=store.is_undone(session, turn),
        )
        for turn in store.list_turn_numbers(session)
    )
    return [turn for turn in turns if turn.paths]


def _explain_unkept(before: EntryState) -> str:
    if before.kind == "file" and before.size and not before.blob:
        return f"Its previous content ({format_size(before.size)}) was not kept."
    return "It was neither a file, a link nor a folder." if before.kind == "other" else ""


def _is_unchanged(plan: PlannedPath) -> bool:
    if plan.before.kind == "missing" or plan.after.kind == "missing":
        return plan.before.kind == plan.after.kind
    return is_same_entry(plan.before, plan.after) and plan.before.mode == plan.after.mode


def format_size(size: int) -> str:
    if size < 10_000:
        return "1 byte" if size == 1 else f"{size} bytes"
    return f"{size / 1000:,.0f} kB" if size < 10_000_000 else f"{size / 1_000_000:,.0f} MB"


# --- the disk ------------------------------------------------------------------------------------


def locate(confined: ConfinedFiles, path: str) -> ResolvedPath:
    """Resolve a path that was recorded, without following links. Raises PathRefused if it leads elsewhere now."""
    resolved = confined.resolve(path, follow_symlinks=False, for_writing=True)
    if resolved.path != path:
        os.close(resolved.folder_fd)
        raise PathRefused("A folder above it is a link now.")
    return resolved


def to_location(resolved: ResolvedPath) -> EntryLocation | None:
    return EntryLocation(resolved.folder_fd, resolved.name, resolved.stat) if resolved.stat is not None else None


def check_current(plan: PlannedPath, entry: EntryLocation | None) -> bool:
    """Return whether the path has to be restored; False: it is as it was before. Raises PathRefused if it was changed
    since the turn."""
    limit = HASHED_BYTES_MAX
    if entry is not None and entry.status.st_size in (plan.before.size, plan.after.size) and plan.after.sha256:
        limit = entry.status.st_size
    try:
        current = describe_location(entry, limit)
    except OSError as error:
        raise PathRefused(f"It cannot be read: {error.strerror}.") from None
    has_mode = entry is None or stat.S_ISLNK(entry.status.st_mode) or current.mode == plan.before.mode
    if is_same_entry(current, plan.before) and has_mode:
        return False
    if plan.refusal:
        raise PathRefused(plan.refusal)
    if not is_same_entry(current, plan.after):
        raise PathRefused("It was removed since." if current.kind == "missing" else _CHANGED_SINCE)
    return True


# --- the preview ---------------------------------------------------------------------------------


class _DiffBudget:
    """What may still be shown."""

    def __init__(self) -> None:
        self.lines = DIFF_LINES_MAX
        self.chars = DIFF_CHARS_MAX

    def take(self, lines: Iterator[str]) -> tuple[str, bool]:
        """Return as many of the lines as fit, and whether all did."""
        taken: list[str] = []
        for line in lines:
            text = line if len(line) <= _LINE_CHARS_MAX else f"{line[:_LINE_CHARS_MAX]}…"
            if self.lines <= 0 or len(text) > self.chars:
                return "\n".join(taken), False
            self.lines -= 1
            self.chars -= len(text)
            taken.append(text)
        return "\n".join(taken), True


def build_preview(store: UndoStore, confined: ConfinedFiles, session: str, turn: int) -> UndoPreview:
    """Check every path of a turn, and build the diffs. Blocks."""
    plans = sorted(plan_turn(store.read_changes(session, turn)), key=lambda plan: ("/.git/" in plan.path, plan.path))
    budget, files = _DiffBudget(), []
    can_restore = False
    for plan in plans:
        file = _preview_path(plan, confined, store.read_blob(session, turn, plan.before), budget)
        can_restore = can_restore or not file.refusal
        files.append(file)
    return UndoPreview(
        turn=turn,
        at=store.changed_at_ms(session, turn),
        files=files[:FILES_SHOWN_MAX],
        files_not_shown=max(len(files) - FILES_SHOWN_MAX, 0),
        paths_not_recorded=store.count_omitted(session, turn),
        can_restore=can_restore,
    )


def _preview_path(plan: PlannedPath, confined: ConfinedFiles, kept: bytes | None, budget: _DiffBudget) -> UndoFile:
    before, after = plan.before, plan.after
    refusal, current = "", None
    try:
        with locate(confined, plan.path) as resolved:
            check_current(plan, to_location(resolved))
        if before.kind == "file" and before.blob and kept is None:
            raise PathRefused("Its kept content is damaged.")
        if after.kind == "file":
            current = _read_current(confined, plan.path)
    except PathRefused as error:
        refusal = str(error)
    display_path = confined.display_path(plan.path)
    file = UndoFile(
        path=display_path,
        change="created" if before.kind == "missing" else "removed" if after.kind == "missing" else "changed",
        old_bytes=before.size,
        new_bytes=after.size,
        refusal=refusal,
        note=_describe_kinds(before, after),
    )
    if refusal or {before.kind, after.kind} - {"file", "missing"} or "/.git/" in plan.path:
        return file
    old, new = _decode(before, kept), _decode(after, current)
    if old is None or new is None:
        return msgspec.structs.replace(file, note=f"{file.note}, not shown as text")
    if old == new:
        return file
    names = (
        "/dev/null" if before.kind == "missing" else f"a/{display_path}",
        "/dev/null" if after.kind == "missing" else f"b/{display_path}",
    )
    diff, is_whole = budget.take(difflib.unified_diff(old, new, *names, lineterm=""))
    note = file.note if is_whole else f"{file.note}, shown in part"
    return msgspec.structs.replace(file, diff=diff, note=note)


def _read_current(confined: ConfinedFiles, path: str) -> bytes | None:
    try:
        return confined.read_bytes(path, DIFFED_BYTES_MAX)[0]
    except PathRefused:  # too large to show
        return None


def _decode(state: EntryState, data: bytes | None) -> Sequence[str] | None:
    """Return the lines of a text; None if it is binary or too large to compare."""
    if state.kind == "missing" or not state.size:
        return []
    if data is None or len(data) > DIFFED_BYTES_MAX or b"\x00" in data:
        return None
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        return None
    return lines if len(lines) <= DIFFED_LINES_MAX else None


def _describe_kinds(before: EntryState, after: EntryState) -> str:
    """Return what was there and what is there now: "12 bytes → 40 bytes"."""
    old, new = _describe_state(before), _describe_state(after)
    if before.kind == "missing" or after.kind == "missing":
        return old or new
    if old == new and before.mode != after.mode and after.mode:
        return f"{old}, permissions {before.mode:o} → {after.mode:o}"
    return old if old == new else f"{old} → {new}"


def _describe_state(state: EntryState) -> str:
    match state.kind:
        case "file":
            return format_size(state.size)
        case "link":
            return f"link to {state.target}"
        case "missing":
            return ""
    return state.kind if state.kind == "folder" else "special file"
