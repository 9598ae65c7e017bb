"""How it was before: a file beside the cases, and what is worse now."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mainstay.core.errors import ConfigError
from mainstay.evals.results import Result, Run

FILE_BYTES_MAX = 16 * 1024 * 1024
TOLERANCE = 0.05
_EXACT = 1e-9  # 0.90 is not worse than 0.95 by more than 0.05, whatever floats say


class Before(msgspec.Struct, frozen=True, omit_defaults=True):
    """A case, as it was."""

    result: Literal["passed", "failed", "error"]
    score: Annotated[float, Meta(ge=0, le=1)] | None = None


class Baseline(msgspec.Struct, frozen=True):
    version: Literal[1]
    cases: dict[str, Before]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What is otherwise than it was, by name. `known` failed before too."""

    worse: dict[str, str] = {}
    better: dict[str, str] = {}
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    known: frozenset[str] = frozenset()


def read_baseline(path: Path) -> Baseline:
    """Raises ConfigError."""
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"the baseline {path} cannot be read: {error.strerror}") from None
    if len(raw) > FILE_BYTES_MAX:
        raise ConfigError(f"the baseline {path} is larger than {FILE_BYTES_MAX} bytes")
    try:
        return msgspec.json.decode(raw, type=Baseline)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no baseline: {error}; make another with --save-baseline") from None


def made_from(run: Run, before: Baseline | None) -> Baseline:
    """What to compare with from now on. `before`: what it says of cases that were not to be run stays."""
    cases = dict(before.cases) if before is not None else {}
    for one in run.results:
        if one.result != "skipped":
            cases[one.name] = Before(one.result, one.score)
    return Baseline(1, cases)


def written(baseline: Baseline) -> str:
    """A line a case, so that a change of it reads well in a review."""
    lines = [f"    {_json(name)}: {_json(one)}" for name, one in baseline.cases.items()]
    return '{\n  "version": 1,\n  "cases": {\n' + ",\n".join(lines) + "\n  }\n}\n"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def compare(run: Run, baseline: Baseline, tolerance: float, all_names: Collection[str]) -> Comparison:
    """`all_names` are those of all cases that there are, whether or not they were to be run."""
    worse: dict[str, str] = {}
    better: dict[str, str] = {}
    known: set[str] = set()
    for one in run.results:
        before = baseline.cases.get(one.name)
        if before is None or one.result == "skipped":
            continue
        if one.result != "passed" and before.result != "passed":
            known.add(one.name)
        if change := _change(one, before, tolerance):
            (worse if change[0] < 0 else better)[one.name] = change[1]
    return Comparison(
        worse=worse,
        better=better,
        missing=tuple(name for name in baseline.cases if name not in all_names),
        extra=tuple(one.name for one in run.results if one.name not in baseline.cases),
        known=frozenset(known),
    )


def _change(now: Result, before: Before, tolerance: float) -> tuple[int, str] | None:
    if (now.result == "passed") != (before.result == "passed"):
        return (1, "it passes now") if now.result == "passed" else (-1, "it passed before")
    if now.score is None or before.score is None:
        return None
    change = now.score - before.score
    if abs(change) <= tolerance + _EXACT:
        return None
    return (-1 if change < 0 else 1), f"{before.score:.2f} before, {now.score:.2f} now"


def failing(run: Run, comparison: Comparison | None, *, strict: bool) -> list[str]:
    """The cases because of which the run fails: all that failed, but for those that are known to."""
    known = comparison.known if comparison is not None and not strict else frozenset[str]()
    worse = comparison.worse if comparison is not None else {}
    return [one.name for one in run.results if (one.result != "passed" and one.name not in known) or one.name in worse]
