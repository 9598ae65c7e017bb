"""`agent.sessions`: list, fork, archive, delete, export, replay and compact sessions."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainstay.context.compiler import ContextView
from mainstay.core.errors import SessionUnknown
from mainstay.core.events import Event, TurnEnded
from mainstay.core.file_changes import UndoableTurn, UndoPreview, UndoResult
from mainstay.core.journal import Record, ReplayResult
from mainstay.core.ports import SessionInfo
from mainstay.operations import sessions as operations
from mainstay.operations.client_protocol import OperationClient
from mainstay.operations.event_feed import PAGE_RECORDS
from mainstay.operations.turns import ReadEvents

if TYPE_CHECKING:
    from mainstay.operations.traces import TurnTrace


class Sessions:
    """The sessions of a workspace. A session's key is its name in `run`, unless `lanes.key` is configured."""

    def __init__(self, client: OperationClient) -> None:
        self._execute = client.execute

    async def list(self, *, limit: int = 100, offset: int = 0) -> builtins.list[SessionInfo]:
        """Return sessions, newest first."""
        return await self._execute(operations.ListSessions(limit=limit, offset=offset))

    async def get(self, key: str) -> SessionInfo:
        """Return the state of a session. Raises SessionUnknown."""
        return await self._execute(operations.GetSession(session=key))

    async def records(self, key: str, *, after: int = 0, limit: int = PAGE_RECORDS) -> Sequence[Record]:
        """Return a page of the journal, for example to catch up after a lost stream. Empty for a session that does not
        exist."""
        records: list[Record] = []
        try:
            while len(records) < limit:
                size = min(limit - len(records), PAGE_RECORDS)
                page = await self._execute(ReadEvents(session=key, after=after, limit=size))
                records += [Record(event.sequence, event.at, event.event) for event in page.events]
                if page.next is None:
                    break
                after = page.next
        except SessionUnknown:
            return []
        return records

    async def turn(self, key: str, number: int, *, after: int = 0) -> AsyncIterator[Event]:
        """Yield the durable events of one turn, as its watchers got them: a rejected answer without its text. `after`:
        start after this record."""
        from mainstay.lane.draft_filter import DraftFilter

        draft_filter = DraftFilter()
        while page := await self.records(key, after=after):
            for record in page:
                event = msgspec.structs.replace(record.event, session=key, sequence=record.seq)
                for released in draft_filter.push_event(event):
                    if released.turn == number:
                        yield released
                if isinstance(record.event, TurnEnded) and record.event.turn == number:
                    return
            after = page[-1].seq

    async def archive(self, key: str) -> None:
        """Refuse prompts from now on. Its data stays; background commands are stopped."""
        await self._execute(operations.ArchiveSession(session=key))

    async def pause(self, key: str) -> None:
        """Queue prompts until the session is activated again."""
        await self._execute(operations.PauseSession(session=key))

    async def activate(self, key: str) -> None:
        """Accept prompts again."""
        await self._execute(operations.ActivateSession(session=key))

    async def release(self, key: str, *, fail: bool = False) -> None:
        """Run a turn again that was set aside because processes ended while they ran it; with `fail`, end it."""
        await self._execute(operations.ReleaseSession(session=key, fail=fail))

    async def rename(self, key: str, title: str) -> None:
        """Set the session's title."""
        await self._execute(operations.RenameSession(session=key, title=title))

    async def delete(self, key: str) -> None:
        """Delete the contents of a session and of its sub-agents. The running turn is aborted first; the journal keeps
        its sequence numbers. Raises AuditUnavailable if the audit log cannot be brought up to date: then nothing is
        deleted."""
        await self._execute(operations.DeleteSession(session=key))

    async def fork(self, key: str, target: str, *, upto: int | None = None) -> SessionInfo:
        """Create a session with a copy of the history, whole or up to a record."""
        return await self._execute(operations.ForkSession(session=key, to=target, upto=upto))

    async def export(self, key: str, folder: str | Path) -> builtins.list[Path]:
        """Write `log.jsonl` (all that was said) and `context.jsonl` (what the model sees, after compaction
        the summary and what follows)."""
        return await self._execute(operations.ExportSession(session=key, folder=str(folder)))

    async def replay(self, key: str) -> ReplayResult:
        """Run the session again from its recorded answers, with no model, and compare."""
        return await self._execute(operations.ReplaySession(session=key))

    async def trace(self, key: str, turn: int | None = None) -> TurnTrace:
        """Return the trace of a turn, or of the last one: model calls, tool calls and waiting times."""
        from mainstay.operations.traces import GetTrace

        return await self._execute(GetTrace(session=key, turn=turn))

    async def context(self, key: str) -> ContextView:
        """Return what the model sees of the session, section by section, with token counts."""
        return await self._execute(operations.ShowContext(session=key))

    async def compact(self, key: str, focus: str = "") -> str | None:
        """Fold everything but the newest turn into the summary now; `focus` is what the summary should keep above all.
        Returns the new summary, or None if there was nothing to fold."""
        return (await self._execute(operations.CompactSession(session=key, focus=focus))).summary

    async def undoable_turns(self, key: str) -> builtins.list[UndoableTurn]:
        """Return the turns whose file changes can be undone, the newest first."""
        from mainstay.operations import undo

        return await self._execute(undo.ListUndoableTurns(session=key))

    async def preview_undo(self, key: str, turn: int | None = None) -> UndoPreview:
        """Return what a turn changed in files, and what undoing it would restore; None: the newest not undone yet."""
        from mainstay.operations import undo

        return await self._execute(undo.PreviewUndo(session=key, turn=turn))

    async def undo(self, key: str, turn: int | None = None) -> UndoResult:
        """Undo the file changes of a turn, or of the newest that was not undone yet. Files that were changed since stay
        as they are."""
        from mainstay.operations import undo

        return await self._execute(undo.UndoTurn(session=key, turn=turn))

    async def work_in(self, key: str, folder: str | Path) -> str:
        """Set the folder of the session's files and commands, from its next turn on; returns the folder in force."""
        return await self._execute(operations.SetWorkingFolder(session=key, folder=str(folder)))

    async def metadata(self, key: str) -> dict[str, str]:
        """Return the values that an application keeps with the session; the model does not see them."""
        from mainstay.operations import session_settings

        return (await self._execute(session_settings.GetMetadata(session=key))).fields

    async def set_metadata(self, key: str, fields: Mapping[str, str]) -> dict[str, str]:
        """Add or change fields of the metadata, and return all; an empty text removes one. Values are text: store
        others as JSON."""
        from mainstay.operations import session_settings

        request = session_settings.SetMetadata(session=key, fields=dict(fields))
        return (await self._execute(request)).fields

    async def clear_metadata(self, key: str) -> None:
        """Remove all metadata of the session."""
        from mainstay.operations import session_settings

        await self._execute(session_settings.ClearMetadata(session=key))

    async def set_budget(
        self, key: str, *, money: float | None = None, tokens: int | None = None, tool_calls: int | None = None
    ) -> SessionInfo:
        """Set what the session may spend in all (dollars, tokens, tool calls), from its next turn on. What is not named
        has the configured limit; a call without arguments removes the session's own budget."""
        from mainstay.operations import session_settings

        return await self._execute(
            session_settings.SetSessionBudget(session=key, money=money, tokens=tokens, tool_calls=tool_calls)
        )

    async def set_model(self, key: str, model: str) -> None:
        """Set the session's model from its next turn on; "" resets it to the agent's."""
        await self._execute(operations.SetModel(session=key, model=model))
