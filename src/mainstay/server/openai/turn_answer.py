"""Collects the events of a turn into one OpenAI answer: text that only grows, usage and finish reason."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Literal, cast

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
from mainstay.core.messages import AnyPart, Finish, FinishReason, Text, Usage, parts_text
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Outcome
from mainstay.server.openai.common_request import ClientMessage, ClientToolCall
from mainstay.server.openai.ids import to_client_call_id

TEXT_SEPARATOR = "\n\n"  # between the texts before and after a tool call of the agent
# streamed text cannot be taken back in this API, so a note says where the answer starts again
RESTART_NOTE = "\n\n[the answer was interrupted here and starts again]"
FINAL_ANSWER_NOTE = "\n\n[the final answer]\n\n"

OpenAIFinishReason = Literal["stop", "length", "content_filter", "tool_calls"]


def closing_events(events: AsyncIterator[Event]) -> aclosing[AsyncGenerator[Event, None]]:
    """Close a stream of events when the block ends, not when it is garbage-collected."""
    return aclosing(cast(AsyncGenerator[Event, None], events))


class OpenAIAnswer:
    """The answer of one turn, built from its events. `call_id` is that of a client's tool call whose result continued
    the turn: only events after that result count.

    `partial`: include text deltas, not only journaled messages. `is_late`: a step may be running whose first deltas
    were missed."""

    def __init__(self, session: str, call_id: str = "", *, partial: bool = True, is_late: bool = False) -> None:
        self._session = session
        self.usage = Usage()
        self.turn = 0  # its number; 0 until it has started
        self.has_model_text = False  # a model has written text; the text of a refused turn is not a model's
        self.approval: ApprovalAsked | None = None
        self.outcome: Outcome | None = None
        self._awaited_call_id = call_id
        self._awaited_approval_id = ""
        self._has_all_deltas = partial and not is_late  # all deltas of the current step were received
        self._step_deltas: list[str] = []  # deltas of the current step
        self._texts: list[str] = []
        self._step = 0  # the last one in the journal
        self._partial = partial
        self._finish_reason = FinishReason.END

    @property
    def text(self) -> str:
        """The whole text so far."""
        return "".join(self._texts)

    @property
    def message(self) -> ClientMessage:
        """The message as the client will send it back in its history."""
        calls = (ClientToolCall(call.call_id),) if (call := self.client_call) is not None else ()
        return ClientMessage(role="assistant", parts=(Text(self.text),), calls=calls)

    @property
    def is_complete(self) -> bool:
        """True when the response is complete: the turn ended, or the client has to run a tool."""
        return self.outcome is not None or (self.approval is not None and self.approval.client)

    @property
    def client_call(self) -> ApprovalAsked | None:
        """The tool call that the client has to run, with the id that the client sees."""
        if self.approval is None or not self.approval.client:
            return None
        return msgspec.structs.replace(self.approval, call_id=to_client_call_id(self._session, self.approval.call_id))

    @property
    def finish_reason(self) -> OpenAIFinishReason:
        if self.approval is not None and self.approval.client:
            return "tool_calls"
        if isinstance(self.outcome, Exhausted) or self._finish_reason is FinishReason.LENGTH:
            return "length"
        return "content_filter" if self._finish_reason is FinishReason.FILTERED else "stop"

    @property
    def failure(self) -> Failed | None:
        return self.outcome if isinstance(self.outcome, Failed) else None

    @property
    def score_fields(self) -> dict[str, object]:
        """The judges' score, as an extra field of the response; empty if the answer was not judged."""
        if not isinstance(self.outcome, Answered) or self.outcome.score is None:
            return {}
        return {"mainstay": {"score": self.outcome.score, "passed": self.outcome.passed}}

    @property
    def is_aborted(self) -> bool:
        return isinstance(self.outcome, Aborted)

    def continue_after(self, call_id: str) -> None:
        """Continue after a tool call whose result the client had sent in advance."""
        self._awaited_call_id, self._awaited_approval_id, self.approval = call_id, "", None

    def handle_event(self, event: Event) -> str:
        """Process an event and return the text to send for it."""
        self.turn = event.turn or self.turn
        if self._awaited_call_id:
            self._wait_for_result(event)
            return ""
        text = self._new_text(event)
        if text:
            self._texts.append(text)
        return text

    def finish(self) -> str:
        """Return the text to send after the last event: that the turn waits for an approval, if it does."""
        if self.outcome is not None or self.approval is None or self.approval.client:
            return ""
        text = (TEXT_SEPARATOR if self._texts else "") + describe_pending_approval(self.approval)
        self._texts.append(text)
        return text

    def _new_text(self, event: Event) -> str:
        match event:
            case TextDelta(text=text, step=step):
                if not self._has_all_deltas or step <= self._step:  # a late delta of a finished step
                    return ""
                text = replace_surrogates(text)
                self.has_model_text = True
                self._step_deltas.append(text)
                return TEXT_SEPARATOR + text if len(self._step_deltas) == 1 and self._texts else text
            case MessageAdded(role="assistant", parts=parts, usage=usage, step=step):
                self.usage += usage or Usage()
                self.has_model_text = self.has_model_text or usage is not None
                self.approval = None
                self._step = max(step, self._step)
                self._finish_reason = next(
                    (part.reason for part in parts if isinstance(part, Finish)), FinishReason.END
                )
                return self._missing_text(parts)
            case StepRestarted():
                deltas, self._step_deltas = self._step_deltas, []
                return RESTART_NOTE if deltas else ""
            case Lagged():
                self._has_all_deltas = False  # until this step is in the journal
            case ToolFinished(usage=usage):
                self.usage += usage or Usage()
                self.approval = None
            case ApprovalAsked():
                self.approval = event
            case ApprovalAnswered():
                self.approval = None
            case TurnEnded(outcome=outcome):
                self.outcome, self.approval = outcome, None
        return ""

    def _missing_text(self, parts: tuple[AnyPart, ...]) -> str:
        """Return the part of a journaled message that was not received as deltas."""
        text, streamed = replace_surrogates(parts_text(parts)), "".join(self._step_deltas)
        self._step_deltas, self._has_all_deltas = [], self._partial
        if text.startswith(streamed):
            rest = text.removeprefix(streamed)
            return (TEXT_SEPARATOR if rest and self._texts and not streamed else "") + rest
        return FINAL_ANSWER_NOTE + text if text else ""

    def _wait_for_result(self, event: Event) -> None:
        match event:
            case ApprovalAsked(call_id=self._awaited_call_id, id=id):
                self._awaited_approval_id = id
            case ApprovalAnswered(id=id) if id == self._awaited_approval_id:
                self._awaited_call_id = ""
            case ToolFinished(result=result) if result.call_id == self._awaited_call_id:
                self._awaited_call_id = ""
            case MessageAdded(step=step):
                self._step = max(step, self._step)
            case TurnEnded(outcome=outcome):  # it was aborted instead
                self.outcome = outcome


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates as the journal does: a model may stop in the middle of a character."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def describe_pending_approval(approval: ApprovalAsked) -> str:
    """Describe a pending approval as text for the user: this API has no field for it."""
    why = f" {approval.why}" if approval.why else ""
    return (
        f"[This waits for approval: {approval.name} {approval.input}.{why} "
        f"Approve it with `mainstay approval approve {approval.id}` or POST /api/approvals/{approval.id}/approve, "
        "or deny it the same way; any other message here denies it.]"
    )
