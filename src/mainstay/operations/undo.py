"""Operations that undo the file changes of a turn: list the turns, show what one changed, restore what was there.

They are for the owner at this machine: no network client and no model can run them.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from mainstay.core.errors import InputRefused
from mainstay.core.file_changes import UndoableTurn, UndoFile, UndoPreview, UndoResult
from mainstay.core.memory_tiers import RUNTIME
from mainstay.core.messages import Text
from mainstay.core.outcome_text import format_count
from mainstay.operations.caller import Caller
from mainstay.operations.input_submission import store_unaddressed
from mainstay.operations.operation import LOCAL, SEQUENCE_MAX, Operation, SessionName
from mainstay.operations.operation_entry import OperationEntry
from mainstay.operations.runtime_protocols import Runtime, UndoService

TurnNumber = Annotated[int, Meta(ge=1, le=SEQUENCE_MAX)]


class ListUndoableTurns(Operation[list[UndoableTurn]], frozen=True, kw_only=True):
    """List the turns of a session whose file changes can be undone, the newest first."""

    session: SessionName


class PreviewUndo(Operation[UndoPreview], frozen=True, kw_only=True):
    """Show what a turn changed in files, and what undoing it would restore."""

    session: SessionName
    turn: TurnNumber | None = None  # None: the newest that was not undone


class UndoTurn(Operation[UndoResult], frozen=True, kw_only=True):
    """Undo the file changes of a turn. Files that were changed since stay as they are."""

    session: SessionName
    turn: TurnNumber | None = None  # None: the newest that was not undone


async def list_undoable_turns(caller: Caller, request: ListUndoableTurns) -> list[UndoableTurn]:
    key, _ = await caller.find_session(request.session)
    return await (await _open_undo(await caller.runtime())).list_turns(key)


async def preview_undo(caller: Caller, request: PreviewUndo) -> UndoPreview:
    key, _ = await caller.find_session(request.session)
    return await (await _open_undo(await caller.runtime())).preview(key, request.turn)


async def undo_turn(caller: Caller, request: UndoTurn) -> UndoResult:
    key, _ = await caller.find_session(request.session)
    runtime = await caller.runtime()
    undo = await _open_undo(runtime)
    if (await runtime.lanes.get(key).load_session()).open_turn is not None:
        raise InputRefused("a turn of this session has not ended; stop it, then undo")
    result = await undo.restore(key, request.turn)
    await runtime.record_audit("files.undone", f"{key} turn {result.turn}")
    if result.restored:
        await _tell_model(runtime, key, result)
    return result


async def _open_undo(runtime: Runtime) -> UndoService:
    undo = await runtime.open_undo()
    if undo is None:
        raise InputRefused("this agent keeps no previous contents of files")
    return undo


async def _tell_model(runtime: Runtime, key: str, result: UndoResult) -> None:
    """Tell the model with the next prompt that files are not as it left them. Without their names, which anyone may
    have chosen."""
    restored, refused = len(result.restored), len(result.refused)
    kept = f" {format_count(refused, 'path')} could not be restored." if refused else ""
    note = f"[The user undid the file changes of turn {result.turn}: {format_count(restored, 'path')} restored.{kept}]"
    id = f"undo-{result.turn}-{runtime.services.clock.now_ms()}"
    await store_unaddressed(runtime, key, (Text(note, origin=RUNTIME),), id=id)


# --- text ----------------------------------------------------------------------------------------


def format_preview(preview: UndoPreview) -> list[str]:
    """Return the lines that show a preview: the paths, then the diffs. Not sanitised for a terminal."""
    of_git = [file for file in preview.files if _is_git_internal(file)]
    shown = [file for file in preview.files if not _is_git_internal(file)]
    lines = [f"turn {preview.turn} changed {format_count(len(preview.files) + preview.files_not_shown, 'path')}:"]
    lines += [_format_file(file) for file in shown]
    if of_git:
        refusal = next((f"; {file.path}: {file.refusal}" for file in of_git if file.refusal), "")
        lines.append(f"  and {format_count(len(of_git), 'file')} of git in .git{refusal}")
    if preview.files_not_shown:
        lines.append(f"  and {preview.files_not_shown:,} more")
    if preview.paths_not_recorded:
        lines.append(f"  {format_count(preview.paths_not_recorded, 'more path')} beyond the limit stay as they are")
    for file in shown:
        lines += file.diff.splitlines()
    return lines


def format_result(result: UndoResult) -> list[str]:
    """Return the lines that show what was restored and what was not. Not sanitised for a terminal."""
    lines = [f"undid turn {result.turn}: {format_count(len(result.restored), 'path')} restored"]
    lines += [f"  not restored: {one.path}: {one.reason}" for one in result.refused]
    if result.paths_not_recorded:
        lines.append(f"  not restored: {format_count(result.paths_not_recorded, 'path')} beyond the limit")
    return lines


def _is_git_internal(file: UndoFile) -> bool:
    return ".git" in file.path.split("/")[:-1]


def _format_file(file: UndoFile) -> str:
    refusal = f"; cannot be restored: {file.refusal}" if file.refusal else ""
    note = f" ({file.note})" if file.note else ""
    return f"  {file.change:8} {file.path}{note}{refusal}"


ENTRIES = (
    OperationEntry(request=ListUndoableTurns, run=list_undoable_turns, access="admin", interfaces=LOCAL),
    OperationEntry(request=PreviewUndo, run=preview_undo, access="admin", interfaces=LOCAL),
    OperationEntry(request=UndoTurn, run=undo_turn, access="admin", interfaces=LOCAL),
)
