"""Host sandbox: no isolation, but resource limits, a minimal environment, and an end for every process it starts."""

from __future__ import annotations

from mainstay.core.component_options import SandboxOptions
from mainstay.sandbox.base import BaseSandbox, PreparedCommand
from mainstay.sandbox.limits import SandboxLimits, build_environment, resource_limits, watched_limits
from mainstay.sandbox.process_tree import LaunchSpec, SupervisorLimits, build_supervised_argv, find_shell


class HostSandbox(BaseSandbox):
    """Runs commands with the owner's rights."""

    name = "host"

    def _build_launch(self, prepared: PreparedCommand, control: int) -> LaunchSpec:
        limits = self._limits_for(prepared.command)
        rlimits = resource_limits(limits, prepared.timeout_s, own_namespace=False)
        bounds = SupervisorLimits(control=control, limits=rlimits, watched=watched_limits(limits, prepared.cwd))
        argv, code = build_supervised_argv(bounds, [*find_shell(), prepared.command.script])
        return LaunchSpec(
            argv=argv, env=build_environment(self.limits, prepared.command), cwd=prepared.cwd, inherited_files=(code,)
        )


def build_sandbox(options: SandboxOptions, limits: SandboxLimits) -> HostSandbox:
    return HostSandbox(limits)
