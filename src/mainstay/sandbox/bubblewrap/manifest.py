"""Manifest of the bubblewrap sandbox."""

from __future__ import annotations

from mainstay.core.component_options import SandboxOptions
from mainstay.core.sandbox_manifest import SandboxComponent

COMPONENT = SandboxComponent(
    kind="sandbox",
    name="bubblewrap",
    summary="Linux namespaces: commands see the system read-only, their folders, and nothing else of the machine.",
    settings=SandboxOptions,
    factory="mainstay.sandbox.bubblewrap.sandbox:build_sandbox",
    check="mainstay.sandbox.bubblewrap.health:check_bubblewrap",
    problem="mainstay.sandbox.bubblewrap.sandbox:bubblewrap_problem",
    is_automatic=True,
)
