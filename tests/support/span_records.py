"""Records of turns with times, for the tests of traces."""

from __future__ import annotations

from mainstay.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    Folded,
    Guarded,
    Judged,
    MessageAdded,
    Received,
    Reserved,
    Score,
    Steered,
    StepCheckpointed,
    StepRestarted,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    TurnStarted,
)
from mainstay.core.journal import Record
from mainstay.core.messages import Finish, FinishReason, Text, ToolCall, ToolResult, Usage
from mainstay.core.outcome import Answered
from mainstay.core.ports import SessionInfo

BEGUN = 1_790_000_000_000
Told = tuple[int, Event]  # so many ms after the beginning


def records(*told: Told, after: int = 0) -> list[Record]:
    return [Record(after + n, BEGUN + at, event) for n, (at, event) in enumerate(told, 1)]


def standing(key: str = "s", **given: object) -> SessionInfo:
    return SessionInfo(key=key, created=BEGUN, **given)  # type: ignore[arg-type]


def started(at: int = 0, turn: int = 1, model: str = "openai/gpt-9") -> list[Told]:
    return [(at, Received((Text("what is 2 + 3?"),))), (at, TurnStarted((1,), turn=turn, model=model))]


def calls(at: int, *named: tuple[str, str], step: int = 1) -> Told:
    parts = [ToolCall(id, name, '{"a": 2}') for id, name in named]
    said = (*parts, Finish(FinishReason.TOOL_CALLS))
    return at, MessageAdded("assistant", said, usage=Usage(100, 20, 40), cost=0.002, turn=1, step=step)


def finished(at: int, id: str, name: str, *, error: bool = False) -> Told:
    return at, ToolFinished(ToolResult(id, name, "5", is_error=error), turn=1, step=1)


def answer(at: int, step: int = 2, text: str = "It is 5.") -> Told:
    said = (Text(text), Finish(FinishReason.END))
    return at, MessageAdded("assistant", said, usage=Usage(130, 5), cost=0.001, turn=1, step=step)


def ended(at: int) -> Told:
    return at, TurnEnded(Answered(), turn=1)


def tool_turn() -> list[Record]:
    """A turn of two steps with one call that is not pure."""
    one = ("call_1_1_0", "write")
    start = (410, ToolStarted("call_1_1_0", turn=1, step=1))
    return records(*started(), calls(400, one), start, finished(700, *one), answer(1500), ended(1510))


def everything() -> list[Record]:
    """A turn in which all happens that a trace can tell of."""
    judged = (
        Score("kind", 0.4, "curt", usage=Usage(50, 5), cost=0.0005, seconds=0.2),
        Score("true", error="no answer"),
    )
    better = (Score("kind", 0.9, usage=Usage(50, 5), cost=0.0005, seconds=0.1),)
    asked = ApprovalAsked("a1", "call_1_1_1", "bash", '{"command": "ls"}', turn=1, step=1)
    three = (("call_1_1_0", "memory_search"), ("call_1_1_1", "bash"), ("call_1_1_2", "spawn"))
    return records(
        *started(),
        (5, Guarded("input", "flagged", ("injection",), turn=1)),
        (30, Reserved("1.1", "gpt-9", 100, 500, 4_000_000, turn=1, step=1)),
        (200, StepCheckpointed("It", turn=1, step=1)),
        (210, StepRestarted("the stream broke off", turn=1, step=1)),
        calls(400, *three),
        finished(450, *three[0]),
        (460, asked),
        (5_000, ApprovalAnswered("a1", "approved", by="ann")),
        (5_010, ToolStarted("call_1_1_1", turn=1, step=1)),
        (5_020, Guarded("tool", "flagged", ("secret",), "call_1_1_1", turn=1)),
        (9_000, TurnResumed(turn=1)),
        finished(9_100, *three[1], error=True),
        (9_110, ToolStarted("call_1_1_2", turn=1, step=1)),
        finished(9_900, *three[2]),
        (9_910, Steered((2,), turn=1, step=1)),
        (9_950, Folded(3, "before this", through=0, by="openai/gpt-9", usage=Usage(70, 7), cost=0.0001)),
        answer(10_500),
        (10_900, Judged(judged, 0.4, False, turn=1, step=2)),
        answer(11_500, step=3),
        (11_700, Judged(better, 0.9, True, attempt=2, turn=1, step=3)),
        (11_710, TurnEnded(Answered(0.9, True), turn=1)),
    )


def child_turn() -> list[Record]:
    """What the sub-agent of `everything` did."""
    prompt = Received((Text("look it up"),), sender="agent:s")
    return records(
        (9_120, prompt),
        (9_120, TurnStarted((1,), turn=1, model="openai/gpt-9")),
        calls(9_400, ("call_1_1_0", "read")),
        finished(9_450, "call_1_1_0", "read"),
        answer(9_800),
        (9_810, TurnEnded(Answered(), turn=1)),
    )
