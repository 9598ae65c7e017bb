"""The host itself: no walls, but bounds, a short environment, and an end for everything that was started."""

from __future__ import annotations

from mainstay.sandbox.limits import MB, SandboxRules, environment, resource_limits
from mainstay.sandbox.running import Runner, Start
from mainstay.sandbox.tree import Bounds, Launch, kept, shell


class HostSandbox(Runner):
    """A command can do whatever the owner can."""

    name = "host"

    def _launch(self, start: Start, control: int) -> Launch:
        rules = self._rules(start.command)
        limits = resource_limits(rules, start.timeout_s, own_users=False)
        bounds = Bounds(control=control, limits=limits, watched=watched(rules, start.cwd))
        words, code = kept(bounds, [*shell(), start.command.script])
        return Launch(words=words, env=environment(self.rules, start.command), cwd=start.cwd, files=(code,))


def watched(rules: SandboxRules, cwd: str) -> tuple[int, int, int, str]:
    """What a keeper keeps an eye on."""
    return rules.processes, rules.memory_mb * MB, rules.disk_free_mb * MB, cwd
