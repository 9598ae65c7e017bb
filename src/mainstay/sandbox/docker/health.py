"""Health check of the docker sandbox."""

from __future__ import annotations

from mainstay.core.health import CheckFinding
from mainstay.core.sandbox_manifest import SandboxCheckContext
from mainstay.sandbox.docker.manifest import DockerOptions
from mainstay.sandbox.docker.sandbox import build_sandbox
from mainstay.sandbox.limits import SandboxLimits, SandboxUnusable


def check_docker(options: DockerOptions, context: SandboxCheckContext) -> CheckFinding:
    """Ask docker about the container."""
    if not options.container:
        fix = "mainstay config set sandbox.container NAME"
        return CheckFinding("Sandbox", "FAIL", "docker: sandbox.container is not set, so no command can run", fix)
    try:
        confined = build_sandbox(options, SandboxLimits()).is_confined
    except SandboxUnusable as error:
        return CheckFinding("Sandbox", "FAIL", f"docker: {error}", "start it, or set sandbox.kind to auto")
    message = f"docker: commands run in the container {options.container}"
    if confined:
        return CheckFinding("Sandbox", "ok", f"{message}, without network access")
    return CheckFinding("Sandbox", "ok", f"{message}, with network access; every command needs approval")
