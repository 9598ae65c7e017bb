"""Health check of the pattern library: the files that cannot be used."""

from __future__ import annotations

from collections.abc import Iterator

from mainstay.core.health import CheckFinding, list_problems
from mainstay.patterns.library import PatternLibrary


def check_patterns(library: PatternLibrary) -> Iterator[CheckFinding]:
    snapshot = library.load()
    yield from list_problems("Patterns", len(snapshot.patterns), [str(problem) for problem in snapshot.problems])
