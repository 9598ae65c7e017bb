"""What a file of cases may say."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from mainstay.config.schema_base import Count, Section
from mainstay.config.schema_observability import JudgeEntry, Seconds, Share

CASES_MAX = 1_000
TURNS_MAX = 100
REPEAT_MAX = 100
PATTERN_CHARS_MAX = 1_000
NAME_CHARS_MAX = 200

Anything = Annotated[Any, Meta(extra={"named": "anyhow"})]  # names in it are somebody else's
Texts = tuple[str, ...] | str
Combine = Literal["mean", "median", "min", "max", "weighted", "vote"]


class CallEntry(Section, frozen=True, kw_only=True):
    """A call that is expected: of this tool, with at least these arguments."""

    tool: str
    arguments: dict[str, Anything] = {}


Calls = tuple[str | CallEntry, ...] | str


class Checks(Section, frozen=True, kw_only=True):
    """What can be said exactly. All of it must hold."""

    contains: Texts = ()
    not_contains: Texts = ()
    equals: str | None = None
    matches: Texts = ()
    json: dict[str, Anything] | bool | None = None  # a JSON Schema; true: any JSON
    called: Calls = ()
    called_in_order: Calls = ()
    not_called: Texts = ()
    steps_max: Count | None = None
    tokens_max: Count | None = None
    cost_max: Annotated[float, Meta(ge=0)] | None = None
    seconds_max: Seconds | None = None
    outcome: Literal["answered", "exhausted", "failed", "aborted", "paused"] | None = None  # of a case: answered


class StepEntry(Section, frozen=True, kw_only=True):
    """One answer of a scripted model: words, a call, or an error."""

    say: str | None = None
    call: str | None = None
    input: dict[str, Anything] = {}
    error: str | None = None


Script = tuple[str | StepEntry | tuple[StepEntry, ...], ...]


class TurnEntry(Section, frozen=True, kw_only=True):
    """One of several prompts of a case, with what is expected of its answer alone."""

    prompt: str
    checks: Checks = Checks()


class OwnJudge(JudgeEntry, frozen=True, kw_only=True):
    """A judge of one case."""

    name: str = ""


class Case(Section, frozen=True, kw_only=True):
    """`prompt`, `turns` or `session` is what happens; the rest is what is expected of it."""

    name: str
    prompt: str = ""
    turns: tuple[str | TurnEntry, ...] = ()
    session: str = ""  # a recorded one
    instructions: str | None = None
    tools: tuple[str, ...] | None = None  # globs; None: what the workspace has
    folder: str | None = None  # copied for it to work in
    script: Script | None = None
    checks: Checks = Checks()
    expected: str = ""
    judges: tuple[str | OwnJudge, ...] | None = None  # None: those of the file
    tags: tuple[str, ...] = ()
    repeat: Count = 1
    passes: Count | None = None  # how many of the repetitions must pass; None: all
    weight: Annotated[float, Meta(gt=0)] = 1.0
    timeout_s: Seconds | None = None


class Suite(Section, frozen=True, kw_only=True):
    """A file of cases. What it says beside them is for each case that does not say otherwise."""

    cases: tuple[Case, ...]
    instructions: str | None = None
    tools: tuple[str, ...] | None = None
    folder: str | None = None
    judges: dict[str, JudgeEntry] = {}
    combine: Combine | None = None
    threshold: Share | None = None
    timeout_s: Seconds = 300.0


def texts(given: Texts) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else given


def calls(given: Calls) -> tuple[CallEntry, ...]:
    named = (given,) if isinstance(given, str) else given
    return tuple(CallEntry(tool=one) if isinstance(one, str) else one for one in named)
