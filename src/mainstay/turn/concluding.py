"""The end of a turn: its answer is judged, where there are judges, and either stands or is tried again.

Nothing is remembered here. How often it was tried is read from the journal, and so is whether an answer waits for its
verdict: one that was on disk when its process died is judged by the next, not asked for again.
"""

from __future__ import annotations

import asyncio

import msgspec

from mainstay.context.tokens import counted
from mainstay.core.events import Judged, MessageAdded, Score
from mainstay.core.judging import Exhibit, Panel, Spending
from mainstay.core.messages import AnyPart, Finish, FinishReason, Text, text_of
from mainstay.core.open_turn import OpenTurn
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Outcome
from mainstay.core.recall import RUNTIME
from mainstay.core.session import Session
from mainstay.turn.ask import Asking, Provisional
from mainstay.turn.means import Means, Trust

FILTERED = "The model's answer was withheld by its provider's content filter; ask in other words, or another model."
_CUT = (FinishReason.ABORTED, FinishReason.STEERED)


class Ending:
    """How a turn may end, each time that the model has said something and calls no tool."""

    def __init__(self, asking: Asking, session: Session, means: Means) -> None:
        self._asking, self._session, self._means = asking, session, means
        self._complaints = 0

    async def come(self, spent: str | None) -> Outcome | None:
        """None: the model is to be asked again; it was told what is wrong, or somebody has said something meanwhile.

        What was said because a bound was reached is not judged: there is nothing left to try again with.
        """
        turn, means = self._session.open, self._means
        assert turn is not None
        parts = self._session.messages[-1].parts
        if was_withheld(parts):
            return Failed(FILTERED, turn=turn.turn, step=turn.step)
        complaint = means.review(text_of(parts)) if means.review is not None else None
        if complaint is None:
            return Exhausted(spent) if spent is not None else await _conclude(self._asking, self._session, means)
        self._complaints += 1
        if self._complaints >= means.limits.output_attempts_max:
            return Failed(f"no answer of the wanted shape came: {complaint}", turn=turn.turn, step=turn.step)
        self._asking.scribe.note(_notice(turn, complaint), soon=True)
        return None


async def _conclude(asking: Asking, session: Session, means: Means) -> Outcome | None:
    turn, panel, control = session.open, means.panel, asking.control
    assert turn is not None
    if panel is None:
        return Answered()
    if control.aborted:
        return Aborted()
    judged = await _verdict(asking, session, means, panel)
    if judged is None:
        return Aborted() if control.aborted else None
    last = judged.last or turn.step >= means.limits.steps_max
    asking.scribe.note(msgspec.structs.replace(judged, last=last, held=turn.provisional == "held"))
    if not judged.passed and not last:
        asking.scribe.note(_notice(turn, panel.correction(judged)), soon=True)
        return None
    if asking.control.aborted:  # at the very moment of the verdict
        return Aborted()
    return Answered(judged.score, judged.passed) if not control.steers else None


def provisional_of(turn: OpenTurn, means: Means) -> Provisional:
    """What an answer that is asked for now would be. The last that can be asked for stands whatever judges say."""
    panel = means.panel
    if panel is None or _attempt(turn) > panel.corrections or turn.step + 1 >= means.limits.steps_max:
        return ""
    return "held" if panel.streaming == "hold" else "shown"


def waits_for_verdict(session: Session) -> bool:
    """The last thing that happened in the turn is a whole answer."""
    turn, last = session.open, session.messages[-1] if session.messages else None
    if turn is None or last is None or last.role != "assistant" or last.turn != turn.turn or turn.step_calls:
        return False
    return _reason(last.parts) not in _CUT and (turn.judged is None or turn.judged.step < turn.step)


def was_withheld(parts: tuple[AnyPart, ...]) -> bool:
    return _reason(parts) is FinishReason.FILTERED and not text_of(parts).strip()


def _notice(turn: OpenTurn, correction: str) -> MessageAdded:
    """It may quote what it is about, and is shown to whoever was shown that."""
    said, held = Text(correction, origin=RUNTIME), turn.provisional == "held"
    return MessageAdded("system", (said,), provisional="held" if held else "", turn=turn.turn, step=turn.step)


def _reason(parts: tuple[AnyPart, ...]) -> FinishReason:
    return next((part.reason for part in reversed(parts) if isinstance(part, Finish)), FinishReason.END)


def _attempt(turn: OpenTurn) -> int:
    return turn.judged.attempt + 1 if turn.judged is not None else 1


async def _verdict(asking: Asking, session: Session, means: Means, panel: Panel) -> Judged | None:
    """None: somebody stopped the turn or steered it, which ends the thinking of judges at once."""
    turn, control = session.open, asking.control
    assert turn is not None
    spending = Spending(means.purse, asking.scribe, asking.notice, counted)
    timeout_s = means.limits.model_timeout_s
    control.busy("waiting for the judges", timeout_s)
    try:
        async with asyncio.timeout(timeout_s) as scope:
            control.begin_generation(scope)
            judged = await panel.judge(_exhibit(session, turn), _attempt(turn), spending)
    except TimeoutError:
        if control.aborted or control.cut:
            return None
        late = Score("judges", error=f"no verdict came within {timeout_s:g} s")
        judged = Judged((late,), 0.0, False, _attempt(turn), last=True, turn=turn.turn, step=turn.step)
    finally:
        control.end_generation()
    return msgspec.structs.replace(judged, scores=tuple(_clean(one, means.trust) for one in judged.scores))


def _exhibit(session: Session, turn: OpenTurn) -> Exhibit:
    said = [message for message in session.messages if message.turn == turn.turn]
    return Exhibit(
        prompt="\n".join(message.text for message in said if message.role == "user"),
        answer=said[-1].text,
        messages=tuple(said),
        session=session.key,
        turn=turn.turn,
        step=turn.step,
        model=session.model,
    )


def _clean(score: Score, trust: Trust) -> Score:
    """A reason, or what an error says, may quote what a judge was given; a key must not end up in a journal by way of
    one."""
    if trust.guards is None or not (score.reason or score.error):
        return score
    reason, error = (trust.guards.redactor.whole(text)[0] for text in (score.reason, score.error))
    return msgspec.structs.replace(score, reason=reason, error=error)
