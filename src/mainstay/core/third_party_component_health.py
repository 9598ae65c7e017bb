"""Health check of the components that other distributions offer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from mainstay.core.components import ComponentKind, list_other_components
from mainstay.core.health import CheckFinding


def check_components() -> Iterator[CheckFinding]:
    """Report which components come with other distributions, and those of them that cannot be used."""
    for kind in get_args(ComponentKind):
        problems: list[str] = []
        for component in list_other_components(kind, problems.append):
            message = f"the {kind} {component.name!r} comes with {component.distribution}: {component.summary}"
            yield CheckFinding("Components", "ok", message)
        for problem in problems:
            yield CheckFinding("Components", "warn", problem, "upgrade or uninstall that distribution")
