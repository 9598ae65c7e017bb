"""`spawn`: an errand for a sub-agent, whose report is the result."""

from __future__ import annotations

from mainstay.core.outside import Errand, Spawner
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.tools.common import Arguments, BuiltIn, ToolRefused

PROMPT_CHARS_MAX = 64_000
TOOLS_MAX = 64


class _Spawn(Arguments, frozen=True):
    prompt: str
    tools: list[str] | None = None


class Spawn(BuiltIn):
    name = "spawn"
    description = (
        "Give a task to a sub-agent and get its report. It knows only the prompt. tools: default those that only read."
    )
    arguments = _Spawn
    effect: Effect = "idempotent"  # the same call finds the same child
    timeout_s: float | None = 3600.0
    capabilities: tuple[str, ...] = ("spawn",)
    parallel = True  # beside other calls that may be

    def __init__(self, spawner: Spawner) -> None:
        self._spawner = spawner

    async def run(self, arguments: _Spawn, context: ToolContext) -> str:
        if not arguments.prompt.strip():
            raise ToolRefused("There is no prompt. Nothing was started.")
        if len(arguments.prompt) > PROMPT_CHARS_MAX or len(arguments.tools or ()) > TOOLS_MAX:
            raise ToolRefused(
                f"An errand has at most {PROMPT_CHARS_MAX} characters and {TOOLS_MAX} tools. Nothing was started."
            )
        report = await self._spawner.run(
            Errand(
                prompt=arguments.prompt,
                tools=tuple(dict.fromkeys(arguments.tools)) if arguments.tools is not None else None,
                session=context.session,
                call_id=context.call_id,
                tainted=context.tainted,
                private=context.secret,
            )
        )
        context.usage, context.cost, context.calls = report.usage, report.cost, report.calls
        context.untrusted = context.untrusted or report.untrusted
        context.private = context.private or report.private
        if not report.ok:
            raise ToolRefused(report.text)
        return report.text


def spawn_tool(spawner: Spawner) -> Tool:
    return Spawn(spawner)
