"""Health check of the host sandbox."""

from __future__ import annotations

from mainstay.core.component_options import SandboxOptions
from mainstay.core.health import CheckFinding
from mainstay.core.sandbox_manifest import SandboxCheckContext

HOST_NOTE = "commands run on this machine without a sandbox, with network access; every command needs approval"


def check_host(options: SandboxOptions, context: SandboxCheckContext) -> CheckFinding:
    return CheckFinding("Sandbox", "ok", f"host: {HOST_NOTE}")
