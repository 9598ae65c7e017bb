"""Outcomes of a turn, the reply that `Agent.run` returns, and the base class of events."""

from __future__ import annotations

from typing import Any

import msgspec

from mainstay.core.messages import ToolResult, Usage


class Event(msgspec.Struct, frozen=True, omit_defaults=True, tag=True, kw_only=True, gc=False):
    """Base of all events. The journal does not store `session` and `sequence`: they are the key of the record."""

    session: str = ""
    sequence: int = 0  # in the journal; 0: not stored
    turn: int = 0
    step: int = 0


class Answered(msgspec.Struct, frozen=True, omit_defaults=True, tag=True):
    """The model gave its answer."""

    score: float | None = None  # the judges' combined score; None: it was not judged
    passed: bool = True  # False: the judges rejected it, and it was the last attempt


class Aborted(msgspec.Struct, frozen=True, tag=True):
    """A user aborted the turn."""


class Exhausted(msgspec.Struct, frozen=True, omit_defaults=True, tag=True):
    """A limit was reached; the answer says so."""

    bound: str  # the name of the limit
    budget: str = ""  # the name of the budget, if it was one
    frees_at: int = 0  # ms: when that budget is replenished; 0: never


class Paused(msgspec.Struct, frozen=True, omit_defaults=True, tag=True):
    """The turn waits for a person's approval and uses no memory meanwhile."""

    approval: str  # its id


class Failed(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """The turn could not continue: a sentence for the user, details for the operator.

    Also emitted as an event, so that a watcher interested in failures has one type to match.
    """

    sentence: str
    details: str = ""
    trace: str = ""  # trace id of the turn (core/turn_location)


Outcome = Answered | Aborted | Exhausted | Paused | Failed


class Reply(msgspec.Struct, frozen=True):
    """What `Agent.run` returns."""

    text: str
    outcome: Outcome
    usage: Usage
    cost: float  # dollars
    turn: int
    session: str = ""
    output: Any = None  # the structured answer, if `output=` was given
    results: tuple[ToolResult, ...] = ()  # of the turn's tool calls, in call order, as the model saw them
    trace: str = ""  # trace id of the turn in logs, traces and error reports
    cut: bool = False  # the answer's end is missing, because of the length limit or the provider's content filter
