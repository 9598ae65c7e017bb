"""Health check of skills: the files that cannot be used, and warnings about the others."""

from __future__ import annotations

from collections.abc import Iterator

from mainstay.core.health import CheckFinding, list_problems
from mainstay.skills.registry import SkillRegistry


def check_skills(registry: SkillRegistry) -> Iterator[CheckFinding]:
    problems = [*registry.problems(""), *registry.warnings("")]
    yield from list_problems("Skills", len(registry.skills("")), problems)
