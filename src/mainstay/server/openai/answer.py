"""What a turn says, as this API can tell it: text that only grows, and how it ended."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Literal, cast

import msgspec

from mainstay.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    Lagged,
    MessageAdded,
    StepRestarted,
    TextDelta,
    ToolFinished,
    TurnEnded,
)
from mainstay.core.messages import AnyPart, Finish, FinishReason, Text, Usage, text_of
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Outcome
from mainstay.server.openai.ids import shown_call
from mainstay.server.openai.wishes import CallSaid, Said

GAP = "\n\n"  # between what is said before a tool of the agent runs, and after it
# text that was sent cannot be taken back here: whoever reads it is told where to read on
RESTARTED = "\n\n[the answer broke off here and begins again]"
OTHERWISE = "\n\n[the answer as it is kept]\n\n"

Ending = Literal["stop", "length", "content_filter", "tool_calls"]


def closing(events: AsyncIterator[Event]) -> aclosing[AsyncGenerator[Event, None]]:
    """Whoever stops listening is known to have stopped at once."""
    return aclosing(cast(AsyncGenerator[Event, None], events))


class Answer:
    """Takes the events of one turn; of one that goes on with the result of a client's `call`, those after that.

    `partial`: also what is not on record yet; `late`: a step may be under way whose beginning was not heard."""

    def __init__(self, session: str, call: str = "", *, partial: bool = True, late: bool = False) -> None:
        self._session = session
        self.usage = Usage()
        self.turn = 0  # which it is, once it has begun
        self.spoke = False  # a model has, that is: what a refusal says is not its word
        self.asked: ApprovalAsked | None = None
        self.outcome: Outcome | None = None
        self._call = call
        self._asked_before = ""
        self._hears = partial and not late  # the current step has been heard from its beginning
        self._heard: list[str] = []  # of the current step
        self._said: list[str] = []
        self._step = 0  # the last one that is on record
        self._partial = partial
        self._reason = FinishReason.END

    @property
    def text(self) -> str:
        """All that was said."""
        return "".join(self._said)

    @property
    def said(self) -> Said:
        """As the client will tell it."""
        calls = (CallSaid(call.call_id),) if (call := self.call) is not None else ()
        return Said(role="assistant", parts=(Text(self.text),), calls=calls)

    @property
    def over(self) -> bool:
        """There is no more to come in this response."""
        return self.outcome is not None or (self.asked is not None and self.asked.client)

    @property
    def call(self) -> ApprovalAsked | None:
        """What the client is to run, by the id that it knows."""
        if self.asked is None or not self.asked.client:
            return None
        return msgspec.structs.replace(self.asked, call_id=shown_call(self._session, self.asked.call_id))

    @property
    def ending(self) -> Ending:
        if self.asked is not None and self.asked.client:
            return "tool_calls"
        if isinstance(self.outcome, Exhausted) or self._reason is FinishReason.LENGTH:
            return "length"
        return "content_filter" if self._reason is FinishReason.FILTERED else "stop"

    @property
    def failure(self) -> Failed | None:
        return self.outcome if isinstance(self.outcome, Failed) else None

    @property
    def verdict(self) -> dict[str, Any]:
        """What judges gave it, beside all that these clients know; empty: nobody judged it."""
        if not isinstance(self.outcome, Answered) or self.outcome.score is None:
            return {}
        return {"mainstay": {"score": self.outcome.score, "passed": self.outcome.passed}}

    @property
    def stopped(self) -> bool:
        return isinstance(self.outcome, Aborted)

    def go_on(self, call: str) -> None:
        """The result of this was there already: the client has nothing to do."""
        self._call, self._asked_before, self.asked = call, "", None

    def take(self, event: Event) -> str:
        """What is to be said now."""
        self.turn = event.turn or self.turn
        if self._call:
            self._wait_for_result(event)
            return ""
        said = self._new(event)
        if said:
            self._said.append(said)
        return said

    def end(self) -> str:
        """What is left to say when nothing more is heard: that something waits for a person."""
        if self.outcome is not None or self.asked is None or self.asked.client:
            return ""
        said = (GAP if self._said else "") + waits(self.asked)
        self._said.append(said)
        return said

    def _new(self, event: Event) -> str:
        match event:
            case TextDelta(text=text, step=step):
                if not self._hears or step <= self._step:  # the last: it was still on its way when its step was over
                    return ""
                text = kept(text)
                self.spoke = True
                self._heard.append(text)
                return GAP + text if len(self._heard) == 1 and self._said else text
            case MessageAdded(role="assistant", parts=parts, usage=usage, step=step):
                self.usage += usage or Usage()
                self.spoke = self.spoke or usage is not None
                self.asked = None
                self._step = max(step, self._step)
                self._reason = next((part.reason for part in parts if isinstance(part, Finish)), FinishReason.END)
                return self._rest(parts)
            case StepRestarted():
                heard, self._heard = self._heard, []
                return RESTARTED if heard else ""
            case Lagged():
                self._hears = False  # until this step is on record
            case ToolFinished(usage=usage):
                self.usage += usage or Usage()
                self.asked = None
            case ApprovalAsked():
                self.asked = event
            case ApprovalAnswered():
                self.asked = None
            case TurnEnded(outcome=outcome):
                self.outcome, self.asked = outcome, None
        return ""

    def _rest(self, parts: tuple[AnyPart, ...]) -> str:
        """Of a message that is on record, what was not heard of it before."""
        text, heard = kept(text_of(parts)), "".join(self._heard)
        self._heard, self._hears = [], self._partial
        if text.startswith(heard):
            rest = text.removeprefix(heard)
            return (GAP if rest and self._said and not heard else "") + rest
        return OTHERWISE + text if text else ""

    def _wait_for_result(self, event: Event) -> None:
        match event:
            case ApprovalAsked(call_id=self._call, id=id):
                self._asked_before = id
            case ApprovalAnswered(id=id) if id == self._asked_before:
                self._call = ""
            case ToolFinished(result=result) if result.call_id == self._call:
                self._call = ""
            case MessageAdded(step=step):
                self._step = max(step, self._step)
            case TurnEnded(outcome=outcome):  # it was stopped instead
                self.outcome = outcome


def kept(text: str) -> str:
    """As the journal has it: a model may break off in the midst of a character."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def waits(asked: ApprovalAsked) -> str:
    """For the person: this API has no place for the question itself."""
    why = f" {asked.why}" if asked.why else ""
    return (
        f"[This waits for approval: {asked.name} {asked.input}.{why} "
        f"Approve it with `mainstay approvals approve {asked.id}` or POST /api/approvals/{asked.id}/approve, "
        "or deny it likewise; whatever is said here instead is a no.]"
    )
