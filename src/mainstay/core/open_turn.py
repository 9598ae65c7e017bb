"""State of an unfinished turn as derived from the journal, and of queued inputs."""

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
    TurnResumed,
)
from mainstay.core.journal_wording import CURRENT, WORDINGS
from mainstay.core.memory_tiers import CONTEXT_ORIGIN, RUNTIME, UNTRUSTED
from mainstay.core.messages import Message, Text, ToolCall, ToolResult, Usage
from mainstay.core.provisional_answers import answer_stands

SKILL_HEADING = "# Skill: "  # beginning of a skill in the context; its header, up to the first blank line, is ours
SKILL_NOTE_ORIGIN = f"{CONTEXT_ORIGIN}:skill:"
SKILL_TOOLS = ("skill", "call_tool")
SKILL_HEADER_CHARS_MAX = 8_000


_DECIDING_EVENTS = (MessageAdded, Judged, Steered, TurnEnded, Forked)


class QueuedInput(msgspec.Struct, frozen=True, gc=False):
    """An accepted input that is not part of a turn yet."""

    seq: int
    at: int
    event: Received


class OpenTurn:
    """A turn between its start and its end, updated by `Session.apply`."""

    __slots__ = (
        "_last_answer",
        "_rejected_step",
        "approval_answers",
        "approvals_asked",
        "calls",
        "calls_run",
        "cost",
        "crashed_in_call",
        "crashes",
        "has_streamed",
        "inputs",
        "is_direct",
        "is_set_aside",
        "last_answered_seq",
        "last_verdict",
        "model",
        "provisional",
        "rejected_seqs",
        "released_calls",
        "restarts",
        "results",
        "sender",
        "skill_headers",
        "started_calls",
        "step",
        "step_calls",
        "turn",
        "usage",
        "wording",
    )

    def __init__(self, turn: int, inputs: tuple[int, ...], model: str, wording: str = "") -> None:
        self.model = model
        self.wording = WORDINGS.get(wording, CURRENT)  # a later release's version: the current one
        self.turn = turn
        self.inputs = inputs  # those that began it and those added by steering
        self.sender = ""  # of the last input
        self.is_direct = False  # the sender alone reads the answer
        self.step = 0  # model messages so far
        self.calls = 0  # tool calls that have a result
        self.calls_run = 0  # tool calls that ran, with those of sub-agents
        self.usage = Usage()
        self.cost = 0.0  # dollars
        self.has_streamed = False  # part of the current step was streamed and saved before
        self.restarts = 0  # of the current step
        self.crashes = 0  # processes that ended while they ran this turn, since its last progress
        self.crashed_in_call = False  # the last of them ended during a tool call
        self.is_set_aside = False  # it is not resumed until it is released
        self.step_calls: tuple[ToolCall, ...] = ()  # of the last model message
        self.results: dict[str, ToolResult] = {}  # of those, by call id
        self.started_calls: set[str] = set()  # ids of those that began to run
        self.approvals_asked: dict[str, ApprovalAsked] = {}  # by call id
        self.released_calls: set[str] = set()  # ids of those whose held changes began to be applied
        self.last_answered_seq = 0  # sequence of the last ApprovalAnswered or release
        self.approval_answers: dict[str, ApprovalAnswered] = {}  # by approval id
        self.last_verdict: Judged | None = None  # the last verdict
        self.provisional = ""  # of its last message
        self.rejected_seqs: set[int] = set()  # sequences of rejected answers, and of the corrections that followed them
        self._last_answer: tuple[int, MessageAdded] | None = None  # its last message, if that may be the answer
        self._rejected_step = 0  # step of the last rejected answer
        self.skill_headers: list[str] = []  # headers of the skills that are in its context

    def note_skills(self, message: Message) -> None:
        """Remember the headers of skills in a message, because the message may be reduced to a stub later."""
        for part in message.parts:
            match part:
                case Text(text=text, origin=origin) if origin.removeprefix(f"{UNTRUSTED}:").startswith(
                    SKILL_NOTE_ORIGIN
                ):
                    skill_text = text
                case ToolResult(name=name, content=content, is_error=False) if name in SKILL_TOOLS:
                    skill_text = content
                case _:
                    continue
            if skill_text.startswith(SKILL_HEADING):
                self.skill_headers.append(skill_text[:SKILL_HEADER_CHARS_MAX].partition("\n\n")[0])

    def observe(self, seq: int, event: Event) -> None:
        """Update which answers are rejected. Called with every event of the turn.

        An answer that was shown to users is rejected only by judges; one that was held also if the turn went on
        without a verdict.
        """
        if not isinstance(event, _DECIDING_EVENTS):
            return
        if self._last_answer is not None:
            at, answer = self._last_answer
            if answer_stands(answer, event) is False and (answer.provisional == "held" or isinstance(event, Judged)):
                self.rejected_seqs.add(at)
                self._rejected_step = answer.step
            self._last_answer = None
        if not isinstance(event, MessageAdded):
            return
        if event.role == "assistant":
            calls = any(isinstance(part, ToolCall) for part in event.parts)
            self._last_answer = None if calls else (seq, event)
        elif event.role == "system" and event.step == self._rejected_step and _is_runtime_message(event):
            self.rejected_seqs.add(seq)

    def note_resumption(self, seq: int, event: TurnResumed) -> None:
        if event.released:
            self.crashes, self.is_set_aside, self.last_answered_seq = 0, False, seq
        elif event.after_crash:
            self.crashes += 1
            self.crashed_in_call = any(call.id in self.started_calls for call in self.open_calls)

    def note_progress(self, *, of_call: bool = False) -> None:
        """Forget the crashes: this turn gets further. After a crash in a tool call only a call that has run to its end
        is progress, because the model may call the tool that ended the process again and again."""
        if of_call or not self.crashed_in_call:
            self.crashes, self.crashed_in_call = 0, False

    @property
    def pending_approval(self) -> ApprovalAsked | None:
        """Return the approval that the turn waits for, or None."""
        for approval in self.approvals_asked.values():
            if approval.id not in self.approval_answers and approval.call_id not in self.results:
                return approval
        return None

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        return tuple(call for call in self.step_calls if call.id not in self.results)

    def results_for_fork(self) -> tuple[ToolResult, ...]:
        """Return the results of the last step's calls for a fork; calls without one get an "outcome unknown" result."""
        text = self.wording.forked_call
        unknown = {call.id: ToolResult(call.id, call.name, text, is_error=True) for call in self.open_calls}
        results = {**self.results, **unknown}
        return tuple(results[call.id] for call in self.step_calls)


def _is_runtime_message(message: MessageAdded) -> bool:
    return bool(message.parts) and message.parts[0].origin == RUNTIME
