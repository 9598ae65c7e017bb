"""How a turn ends, and what every event has in common."""

from __future__ import annotations

from typing import Any

import msgspec

from mainstay.core.messages import ToolResult, Usage


class Event(msgspec.Struct, frozen=True, omit_defaults=True, tag=True, kw_only=True, gc=False):
    """Anything that happened, and where. In the journal, session and sequence go without saying."""

    session: str = ""
    sequence: int = 0
    turn: int = 0
    step: int = 0


class Answered(msgspec.Struct, frozen=True, omit_defaults=True, tag=True):
    """The model said all it had to say. Where judges looked at it: what they gave it, and whether that was enough."""

    score: float | None = None
    passed: bool = True


class Aborted(msgspec.Struct, frozen=True, tag=True):
    """Somebody stopped it."""


class Exhausted(msgspec.Struct, frozen=True, omit_defaults=True, tag=True):
    """A bound was hit; the answer says so. Of a budget: its name, and when (ms) there is something in it again."""

    bound: str
    budget: str = ""
    frees_at: int = 0  # 0: not by itself


class Paused(msgspec.Struct, frozen=True, omit_defaults=True, tag=True):
    """It waits for a person's approval and holds no memory meanwhile."""

    approval: str


class Failed(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """It could not go on: a sentence for the person, details for the operator.

    Also emitted by itself, so that a watcher who only cares for trouble has one thing to match.
    """

    sentence: str
    details: str = ""
    trace: str = ""  # of its turn (core/tracing)


Outcome = Answered | Aborted | Exhausted | Paused | Failed


class Reply(msgspec.Struct, frozen=True):
    """What `Agent.run` returns."""

    text: str
    outcome: Outcome
    usage: Usage
    cost: float
    turn: int
    session: str = ""
    output: Any = None  # the structured answer, where one was asked for
    results: tuple[ToolResult, ...] = ()  # of the turn's tool calls, in their order, as the model saw them
    trace: str = ""  # what the turn is found under in logs, traces and the list of errors
    cut: bool = False  # the answer's end is missing: it had the length that it may have, or a filter stopped it
