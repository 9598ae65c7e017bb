"""The `/undo` command of chats: shows what a turn changed, and restores it once the person has said yes."""

from __future__ import annotations

from datetime import datetime

import msgspec

from mainstay.core.errors import InputRefused, SessionUnknown
from mainstay.core.file_changes import UndoableTurn
from mainstay.core.outcome_text import format_count
from mainstay.operations.client_protocol import OperationClient
from mainstay.operations.undo import ListUndoableTurns, PreviewUndo, UndoTurn, format_preview, format_result

USAGE = "usage: /undo shows what the last turn changed, /undo TURN another one; /undo list lists them"
__all__ = ["UndoAnswer", "format_preview", "format_result", "format_turns", "run_undo_command"]
YES, NO = {"yes", "y"}, {"no", "n"}
CANCEL = "cancel"  # what chats make of an answer that is neither
CANCELLED = "that is neither yes nor no: nothing was undone, and the text was not sent to the model"


class UndoAnswer(msgspec.Struct, frozen=True):
    """Lines to show, not sanitised; `turn` is what a following yes undoes, 0 for nothing."""

    lines: list[str]
    turn: int = 0


async def run_undo_command(client: OperationClient, session: str, argument: str, shown_turn: int = 0) -> UndoAnswer:
    """Run `/undo` with its argument; `shown_turn` is the turn that was shown last."""
    words = argument.lower().split()
    turn = next((int(word) for word in words if word.isdecimal() and 0 < len(word) < 10), 0)
    rest = [word for word in words if not word.isdecimal()]
    if len(words) - len(rest) > 1 or len(rest) > 1 or (rest and rest[0] not in (YES | NO | {"list", CANCEL})):
        return UndoAnswer([USAGE])
    try:
        if rest == ["list"]:
            return UndoAnswer(format_turns(await client.execute(ListUndoableTurns(session=session))))
        if rest == [CANCEL]:
            return UndoAnswer([CANCELLED])
        if rest and rest[0] in NO:
            return UndoAnswer(["nothing was undone"])
        if rest:
            return UndoAnswer(
                format_result(await client.execute(UndoTurn(session=session, turn=turn or shown_turn or None)))
            )
        preview = await client.execute(PreviewUndo(session=session, turn=turn or None))
    except SessionUnknown:
        return UndoAnswer(["this session has changed no files"])
    except InputRefused as error:
        return UndoAnswer([str(error)])
    if not preview.can_restore:
        return UndoAnswer([*format_preview(preview), "nothing of it can be restored"])
    return UndoAnswer([*format_preview(preview), "restore what was there before this turn? yes or no"], preview.turn)


def format_turns(turns: list[UndoableTurn]) -> list[str]:
    if not turns:
        return ["no turn of this session changed files that could be restored"]
    return [
        f"turn {one.turn}, {datetime.fromtimestamp(one.at / 1000):%Y-%m-%d %H:%M}, {format_count(one.paths, 'path')}"
        + (", undone; these paths could not be restored" if one.is_undone else "")
        for one in turns
    ]
