"""Ports for judges: a judge scores an answer, a panel runs all judges and decides whether the answer passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from mainstay.core.budget_ports import TurnBudget
from mainstay.core.events import Judged, Score
from mainstay.core.messages import Message
from mainstay.core.ports import EventRecorder, ModelInfo

SCORE_THRESHOLD = 0.7
CORRECTIONS_DEFAULT = 3
CORRECTIONS_MAX = 10


class JudgeInput(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge evaluates: a prompt and its answer, with their context."""

    prompt: str
    answer: str
    messages: Sequence[Message] = ()  # the turn so far, with tool calls and results
    session: str = ""
    turn: int = 0
    step: int = 0
    model: str = ""  # the session's own; empty: the agent's
    expected: str = ""  # in offline evaluation: the answer that the case expects


class AnswerJudge(Protocol):
    """Scores one answer between 0 and 1. Never raises: a failure is reported in the score's `error`."""

    name: str
    weight: float

    async def score(self, judge_input: JudgeInput, budget: JudgeBudget) -> Score: ...


class JudgeBudget(msgspec.Struct, frozen=True):
    """Budget of a judge that calls a model: its cost is reserved from the turn's budget and recorded first."""

    turn_budget: TurnBudget | None = None  # None: nothing is limited
    recorder: EventRecorder | None = None  # None: nothing is recorded
    on_wait: Callable[[str, float], None] | None = None  # called when it has to wait: a sentence, seconds
    count_tokens: Callable[[str, ModelInfo], int] | None = None  # counts the tokens of a text; None: they are estimated


class JudgePanel(Protocol):
    """The judges of an agent, and the rule that combines their scores into a verdict."""

    corrections_max: int  # maximal attempts after the first
    streaming: Literal["hold", "draft"]  # how an answer is streamed before it has passed: not at all, or as a draft

    async def judge(self, judge_input: JudgeInput, attempt: int, budget: JudgeBudget) -> Judged:
        """Run all judges concurrently and combine their scores. `attempt` counts the turn's answers from 1."""
        ...

    def correction_message(self, judged: Judged) -> str:
        """Return the message that tells the model why its answer did not pass."""
        ...
