"""Judging answers, as ports: a judge scores one answer, a panel asks all of them and says whether it will do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from mainstay.core.accounts import Purse
from mainstay.core.events import Judged, Score
from mainstay.core.messages import Message
from mainstay.core.ports import ModelInfo, Scribe

THRESHOLD = 0.7
CORRECTIONS = 3
CORRECTIONS_MAX = 10


class Exhibit(msgspec.Struct, frozen=True, kw_only=True):
    """What judges look at: an answer, and what it answers."""

    prompt: str
    answer: str
    messages: Sequence[Message] = ()  # the turn so far, tool calls and results included
    session: str = ""
    turn: int = 0
    step: int = 0
    model: str = ""  # the session's own; empty: the agent's
    expected: str = ""  # offline: what a case says the answer should be like


class Judge(Protocol):
    """Raises nothing: one that fails says so in its score."""

    name: str
    weight: float

    async def score(self, exhibit: Exhibit, spending: Spending) -> Score: ...


class Spending(msgspec.Struct, frozen=True):
    """How a judge that asks a model pays for it: by the purse of the turn, with a record of it first."""

    purse: Purse | None = None
    scribe: Scribe | None = None
    notice: Callable[[str, float], None] | None = None
    count: Callable[[str, ModelInfo], int] | None = None  # the tokens of a text; None: nobody can say


class Panel(Protocol):
    """The judges of an agent, and how their scores become a verdict."""

    corrections: int  # tries after the first, at most
    streaming: Literal["hold", "draft"]  # what is shown of an answer before it has passed

    async def judge(self, exhibit: Exhibit, attempt: int, spending: Spending) -> Judged:
        """All judges side by side. `last` is set on the one that is returned however it was judged."""
        ...

    def correction(self, judged: Judged) -> str:
        """For the model: why this was not good enough."""
        ...
