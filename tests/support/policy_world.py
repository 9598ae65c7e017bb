"""Tools and circumstances that the tests of policy share."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from mainstay.core.ports import Effect, ToolContext
from mainstay.trust.policy import Policy, PolicyContext, PolicyVerdict, SandboxGuarantees
from mainstay.trust.rules import PolicyRules

BOXED = SandboxGuarantees(confined=True, network=False, protects_deletions=True)
ONLINE = SandboxGuarantees(confined=True, network=True, protects_deletions=True)
DOCKED = SandboxGuarantees(confined=True, network=False, protects_deletions=False)
HOST = SandboxGuarantees(confined=False, network=False, protects_deletions=False)


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
        self.runs_in_sandbox = "exec" in capabilities
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
    circumstances: PolicyContext | None = None,
    confinement: SandboxGuarantees = BOXED,
    grants: Sequence[str] = (),
) -> PolicyVerdict:
    policy = Policy(rules or PolicyRules(), grants=grants, confinement=confinement)
    return policy.decide(tool, arguments, context(), circumstances or PolicyContext(cwd="/w"))


def context() -> ToolContext:
    """Needs a running loop."""
    return ToolContext("s", 1, 1, "c", lambda event: None)


def tainted(*spoken: str, cwd: str = "/w") -> PolicyContext:
    return PolicyContext(tainted=True, read_user_texts=lambda: spoken, cwd=cwd)
