"""Health checks and their findings (`mainstay doctor`, `/readyz`). A check lives beside what it checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import msgspec

from mainstay.core.outcome_text import format_count

PROBLEMS_MAX = 5  # of one kind; a command lists all
Verdict = Literal["ok", "warn", "FAIL"]


class CheckFinding(msgspec.Struct, frozen=True, rename={"message": "says", "is_fixed": "mended"}):
    """Result of one check. `fix` says what to do; with `is_fixed` it was done."""

    check: str
    verdict: Verdict
    message: str
    fix: str = ""
    is_fixed: bool = False


class HealthCheck(Protocol):
    """A check of something that a process uses. `/readyz` fails while a finding is FAIL, and `doctor` reports it."""

    @property
    def subject(self) -> str:
        """What is checked, as `/readyz` names it: `disk`, `workspace default`."""
        ...

    async def run(self) -> Sequence[CheckFinding]:
        """Return the findings. It is called often, so it must be cheap."""
        ...


@runtime_checkable
class HealthChecked(Protocol):
    """A part of a process that has health checks."""

    def health_checks(self) -> Sequence[HealthCheck]: ...


def collect_health_checks(parts: Iterable[object]) -> list[HealthCheck]:
    """Return the checks of those parts that have some."""
    return [check for part in parts if isinstance(part, HealthChecked) for check in part.health_checks()]


def list_problems(check: str, count: int, problems: Sequence[str]) -> Iterator[CheckFinding]:
    """Yield the findings about a kind of files (`Skills`): how many can be used, then the first problems."""
    kind = check.lower()[:-1]
    if count:
        yield CheckFinding(check, "ok", format_count(count, kind))
    for problem in problems[:PROBLEMS_MAX]:
        yield CheckFinding(check, "warn", problem, "" if "`" in problem else f"mainstay {kind} list")
    if len(problems) > PROBLEMS_MAX:
        yield CheckFinding(check, "warn", f"and {len(problems) - PROBLEMS_MAX} more", f"mainstay {kind} list")


class CheckContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the check of a component may know beside the component's settings."""

    home: Path  # folder with the configuration
    data: Path  # folder with the databases; mostly the home
    workspace: str
    timeout_s: float = 10.0  # for the whole check
    is_offline: bool = False  # True: no network access
    has_vectors: bool = True  # whether semantic search is configured
    home_database: Path | None = None  # the home's own database, which knows how far it has read each journal
