"""Manifests of sandboxes, and what their health checks may know."""

from __future__ import annotations

from mainstay.core.components import Component
from mainstay.core.health import CheckContext


class SandboxComponent(Component, frozen=True, kw_only=True):
    """The manifest of a sandbox. Its factory is `build(options, limits) -> Sandbox`, its check `check(options, context)
    -> CheckFinding`; the check may block."""

    problem: str = ""  # `module:function` that returns why it does not work on this machine, or None
    is_automatic: bool = False  # `sandbox.kind: auto` uses it if it works and none before it in the index does

    def find_problem(self) -> str | None:
        """Return why it does not work on this machine, in one sentence; None: it does, or cannot be known."""
        problem: str | None = self._load(self.problem)() if self.problem else None
        return problem


class SandboxCheckContext(CheckContext, frozen=True, kw_only=True):
    """What the check of a sandbox may know."""

    network: bool = False  # commands have network access, where the sandbox can deny it
