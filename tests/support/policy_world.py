"""Tools and circumstances that the tests of policy share."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from mainstay.core.ports import Effect, ToolContext
from mainstay.trust.policy import Circumstances, Confinement, Policy, Verdict
from mainstay.trust.rules import PolicyRules

BOXED = Confinement(confined=True, network=False, guards=True)
ONLINE = Confinement(confined=True, network=True, guards=True)
DOCKED = Confinement(confined=True, network=False, guards=False)
HOST = Confinement(confined=False, network=False, guards=False)


class Plain:
    """A tool that is only ever judged."""

    description = ""
    timeout_s: float | None = None
    untrusted = False

    def __init__(
        self,
        name: str,
        *capabilities: str,
        sink: bool | tuple[str, ...] = False,
        effect: Effect = "unsafe",
        origin: str = "",
    ) -> None:
        self.name = name
        self.capabilities = capabilities
        self.sink = sink
        self.effect: Effect = effect
        self.origin = origin
        self.schema: dict[str, Any] = {"properties": {"command": {}} if "exec" in capabilities else {}}

    def parse(self, input: str) -> Any:
        return {}

    def run(self, arguments: Any, context: ToolContext) -> Awaitable[str]:
        raise NotImplementedError

    def reconcile(self, arguments: Any, context: ToolContext) -> Awaitable[str | None]:
        raise NotImplementedError


BASH = Plain("bash", "exec")
READ = Plain("read", "fs.read", effect="pure")
WRITE = Plain("write", "fs.write")
FETCH = Plain("fetch", "net", sink=("url",), effect="pure")
MESSAGE = Plain("message", "send", sink=("to",))
REMEMBER = Plain("remember", "memory.write", sink=True)
PLUGIN = Plain("web__search", "net", origin="untrusted:plugin")


async def judged(
    tool: Plain,
    arguments: Any,
    rules: PolicyRules | None = None,
    circumstances: Circumstances | None = None,
    confinement: Confinement = BOXED,
    grants: Sequence[str] = (),
) -> Verdict:
    policy = Policy(rules or PolicyRules(), grants=grants, confinement=confinement)
    return policy.judge(tool, arguments, context(), circumstances or Circumstances(cwd="/w"))


def context() -> ToolContext:
    """Needs a running loop."""
    return ToolContext("s", 1, 1, "c", lambda event: None)


def tainted(*spoken: str, cwd: str = "/w") -> Circumstances:
    return Circumstances(tainted=True, spoken=lambda: spoken, cwd=cwd)
