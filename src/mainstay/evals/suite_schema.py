"""Schema of files with evaluation cases."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from mainstay.config.schema_judges_budgets_telemetry import JudgeEntry, Seconds, Share
from mainstay.core.json_types import JsonValue
from mainstay.core.settings import ConfigSection, Count

CASES_MAX = 1_000
TURNS_MAX = 100
REPEAT_MAX = 100
PATTERN_CHARS_MAX = 1_000
NAME_CHARS_MAX = 200

AnyValue = Annotated[JsonValue, Meta(extra={"named": "anyhow"})]  # keys in it are not part of the schema
TextOrTexts = tuple[str, ...] | str
CombineSetting = Literal["mean", "median", "min", "max", "weighted", "vote"]


class ExpectedCall(ConfigSection, frozen=True, kw_only=True):
    """An expected call of a tool that exists, with at least these arguments and a result that contains `result`."""

    tool: str
    arguments: dict[str, AnyValue] = {}
    result: str = ""


CallOrCalls = tuple[str | ExpectedCall, ...] | str


class CaseChecks(ConfigSection, frozen=True, kw_only=True):
    """Exact checks of an answer. All must hold."""

    contains: TextOrTexts = ()
    not_contains: TextOrTexts = ()
    equals: str | None = None
    matches: TextOrTexts = ()
    json: dict[str, AnyValue] | bool | None = None  # a JSON Schema; true: any JSON; false or None: not checked
    called: CallOrCalls = ()
    called_in_order: CallOrCalls = ()
    not_called: TextOrTexts = ()
    steps_max: Count | None = None
    tokens_max: Count | None = None
    cost_max: Annotated[float, Meta(ge=0)] | None = None
    seconds_max: Seconds | None = None
    outcome: Literal["answered", "exhausted", "failed", "aborted", "paused"] | None = None  # case default: answered


class ScriptStep(ConfigSection, frozen=True, kw_only=True):
    """One answer of a scripted model: a text, a tool call, or an error."""

    say: str | None = None
    call: str | None = None
    input: dict[str, AnyValue] = {}
    error: str | None = None


Script = tuple[str | ScriptStep | tuple[ScriptStep, ...], ...]


class CaseTurn(ConfigSection, frozen=True, kw_only=True):
    """One of several prompts of a case, with checks of its answer alone."""

    prompt: str
    checks: CaseChecks = CaseChecks()


class CaseJudge(JudgeEntry, frozen=True, kw_only=True):
    """A judge that one case defines."""

    name: str = ""


class EvalCase(ConfigSection, frozen=True, kw_only=True):
    """An evaluation case. One of `prompt`, `turns` and `session` is the input; the rest is expected of the answer."""

    name: str
    prompt: str = ""
    turns: tuple[str | CaseTurn, ...] = ()
    session: str = ""  # name of a recorded session
    instructions: str | None = None
    tools: tuple[str, ...] | None = None  # globs; None: the tools of the workspace
    folder: str | None = None  # copied as its working folder
    script: Script | None = None
    checks: CaseChecks = CaseChecks()
    expected: str = ""
    judges: tuple[str | CaseJudge, ...] | None = None  # None: the judges of the file
    tags: tuple[str, ...] = ()
    repeat: Count = 1
    passes: Count | None = None  # how many of the repetitions must pass; None: all
    weight: Annotated[float, Meta(gt=0)] = 1.0
    timeout_s: Seconds | None = None


class EvalSuite(ConfigSection, frozen=True, kw_only=True):
    """A file of cases. Its other settings are defaults for cases that do not set them."""

    cases: tuple[EvalCase, ...]
    instructions: str | None = None
    tools: tuple[str, ...] | None = None
    folder: str | None = None
    judges: dict[str, JudgeEntry] = {}
    combine: CombineSetting | None = None
    threshold: Share | None = None
    timeout_s: Seconds = 300.0


def to_texts(value: TextOrTexts) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def to_expected_calls(value: CallOrCalls) -> tuple[ExpectedCall, ...]:
    named = (value,) if isinstance(value, str) else value
    return tuple(ExpectedCall(tool=call) if isinstance(call, str) else call for call in named)
