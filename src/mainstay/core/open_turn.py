"""A turn between its start and its end, as the journal tells it, and inputs that wait for one."""

from __future__ import annotations

import msgspec

from mainstay.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    Forked,
    Judged,
    MessageAdded,
    Received,
    Steered,
    TurnEnded,
)
from mainstay.core.messages import Message, Text, ToolCall, ToolResult, Usage
from mainstay.core.recall import NOTE, RUNTIME, UNTRUSTED
from mainstay.core.withheld import decides

SKILL_HEAD = "# Skill: "  # how a skill that is shown begins; what stands before its first blank line is ours
SKILL_NOTE = f"{NOTE}:skill:"
SKILL_TOOLS = ("skill", "call_tool")
HEAD_CHARS_MAX = 8_000
LEFT_BEHIND = "Outcome unknown: this conversation was copied from another before the call had a result."


_DECIDING = (MessageAdded, Judged, Steered, TurnEnded, Forked)


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """An input that is durable and has not become part of a turn yet."""

    seq: int
    at: int
    event: Received


class OpenTurn:
    """A turn between its start and its end."""

    __slots__ = (
        "_answer",
        "_corrected",
        "answered",
        "answers",
        "asked",
        "calls",
        "cost",
        "failed",
        "followed",
        "inputs",
        "judged",
        "model",
        "partial",
        "provisional",
        "ran",
        "restarts",
        "results",
        "resumes",
        "sender",
        "started",
        "step",
        "step_calls",
        "turn",
        "usage",
    )

    def __init__(self, turn: int, inputs: tuple[int, ...], model: str) -> None:
        self.model = model
        self.turn = turn
        self.inputs = inputs  # what began it, and what was put into it since
        self.sender = ""  # whoever spoke last in it
        self.step = 0  # model messages so far
        self.calls = 0  # tool calls answered so far
        self.ran = 0  # and of those, with what sub-agents called, the ones that ran
        self.usage = Usage()
        self.cost = 0.0
        self.partial = False  # the step that is next has streamed something already
        self.restarts = 0  # re-asks of the step that is next
        self.resumes = 0  # without progress
        self.step_calls: tuple[ToolCall, ...] = ()  # of the last model message
        self.results: dict[str, ToolResult] = {}
        self.started: set[str] = set()
        self.asked: dict[str, ApprovalAsked] = {}  # by the call that they are about
        self.answered = 0  # where the last answer stands
        self.answers: dict[str, ApprovalAnswered] = {}  # by the approval
        self.judged: Judged | None = None  # its last answer that was
        self.provisional = ""  # of its last message
        self.failed: set[int] = set()  # its answers that did not stand, and what the model was told about them
        self._answer: tuple[int, MessageAdded] | None = None  # its last message, if that may be its answer
        self._corrected = 0  # the step of the last that did not stand
        self.followed: list[str] = []  # skills that it was shown, by what stood before their bodies

    def follow(self, message: Message) -> None:
        """Kept with the turn: however little of the message is shown later, what was followed was."""
        for part in message.parts:
            match part:
                case Text(text=text, origin=origin) if origin.removeprefix(f"{UNTRUSTED}:").startswith(SKILL_NOTE):
                    shown = text
                case ToolResult(name=name, content=content, is_error=False) if name in SKILL_TOOLS:
                    shown = content
                case _:
                    continue
            if shown.startswith(SKILL_HEAD):
                self.followed.append(shown[:HEAD_CHARS_MAX].partition("\n\n")[0])

    def hear(self, seq: int, event: Event) -> None:
        """Of all that happens in it: which of its answers do not stand. What people were shown stays, as they know it,
        unless judges have said no; what was held goes, as nobody does."""
        if not isinstance(event, _DECIDING):
            return
        if self._answer is not None:
            at, answer = self._answer
            if decides(answer, event) is False and (answer.provisional == "held" or isinstance(event, Judged)):
                self.failed.add(at)
                self._corrected = answer.step
            self._answer = None
        if not isinstance(event, MessageAdded):
            return
        if event.role == "assistant":
            calls = any(isinstance(part, ToolCall) for part in event.parts)
            self._answer = None if calls else (seq, event)
        elif event.role == "system" and event.step == self._corrected and _is_ours(event):
            self.failed.add(seq)

    @property
    def pending(self) -> ApprovalAsked | None:
        """What somebody has to say yes or no to before the turn goes on."""
        for asked in self.asked.values():
            if asked.id not in self.answers and asked.call_id not in self.results:
                return asked
        return None

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        return tuple(call for call in self.step_calls if call.id not in self.results)

    def left_behind(self) -> tuple[ToolResult, ...]:
        """The results of its last calls in a copy of the session: those that had none yet never get theirs there."""
        left = {call.id: ToolResult(call.id, call.name, LEFT_BEHIND, is_error=True) for call in self.open_calls}
        results = {**self.results, **left}
        return tuple(results[call.id] for call in self.step_calls)


def _is_ours(said: MessageAdded) -> bool:
    return bool(said.parts) and said.parts[0].origin == RUNTIME
