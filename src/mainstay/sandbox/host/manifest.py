"""Manifest of the host sandbox."""

from __future__ import annotations

from mainstay.core.component_options import SandboxOptions
from mainstay.core.sandbox_manifest import SandboxComponent

COMPONENT = SandboxComponent(
    kind="sandbox",
    name="host",
    summary="No isolation: commands run with your permissions, within limits; all but reading needs approval.",
    settings=SandboxOptions,
    factory="mainstay.sandbox.host.sandbox:build_sandbox",
    check="mainstay.sandbox.host.health:check_host",
    is_automatic=True,
)
