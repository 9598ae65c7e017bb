"""The `spawn` tool: gives a task to a sub-agent and returns its report."""

from __future__ import annotations

from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.tool_ports import Spawner, SubAgentTask
from mainstay.tools.base import BuiltInTool, ToolArguments, ToolRefused
from mainstay.tools.dependencies import ToolDependencies

PROMPT_CHARS_MAX = 64_000
TOOLS_MAX = 64


class _SpawnArguments(ToolArguments, frozen=True):
    prompt: str
    tools: list[str] | None = None


class SpawnTool(BuiltInTool):
    name = "spawn"
    description = (
        "Give a task to a sub-agent and get its report. It knows only the prompt. tools: default those that only "
        "read, and others only if the owner allows them."
    )
    arguments = _SpawnArguments
    effect: Effect = "idempotent"  # a repeated call finds the same child session
    timeout_s: float | None = 3600.0
    capabilities: tuple[str, ...] = ("spawn",)
    parallel = True  # may run beside other parallel calls

    def __init__(self, spawner: Spawner) -> None:
        self._spawner = spawner

    async def run(self, arguments: _SpawnArguments, context: ToolContext) -> str:
        if not arguments.prompt.strip():
            raise ToolRefused("There is no prompt. Nothing was started.")
        if len(arguments.prompt) > PROMPT_CHARS_MAX or len(arguments.tools or ()) > TOOLS_MAX:
            raise ToolRefused(
                f"A sub-agent has a prompt of at most {PROMPT_CHARS_MAX} characters and {TOOLS_MAX} tools. "
                "Nothing was started."
            )
        report = await self._spawner.run(
            SubAgentTask(
                prompt=arguments.prompt,
                tools=tuple(dict.fromkeys(arguments.tools)) if arguments.tools is not None else None,
                session=context.session,
                call_id=context.call_id,
                tainted=context.tainted,
                private=context.has_private_content,
            )
        )
        context.usage, context.cost, context.sub_agent_calls = report.usage, report.cost, report.calls
        context.untrusted = context.untrusted or report.untrusted
        context.private = context.private or report.private
        if not report.ok:
            raise ToolRefused(report.text)
        return report.text


def create_spawn_tool(spawner: Spawner) -> Tool:
    return SpawnTool(spawner)


def build(dependencies: ToolDependencies) -> Tool:
    assert dependencies.spawner is not None
    return create_spawn_tool(dependencies.spawner)
