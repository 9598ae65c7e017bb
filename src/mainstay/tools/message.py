"""The `message` tool: sends a message to a room of a channel, or to another agent's session."""

from __future__ import annotations

import re

from mainstay.core.memory_tiers import format_origin
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.tool_ports import CallDestinations, Outbox, OutgoingMessage
from mainstay.io.path_resolver import shorten_for_message
from mainstay.tools.base import BuiltInTool, ToolArguments, ToolRefused
from mainstay.tools.dependencies import ToolDependencies

TEXT_CHARS_MAX = 16_000
TO_CHARS_MAX = 500
AGENT_PREFIX = "agent:"
_ROOM_ADDRESS = re.compile(r"[^\s:]+:[^\s:]+(:[^\s]+)?")


class _MessageArguments(ToolArguments, frozen=True):
    text: str
    to: str | None = None
    agent: str | None = None


class MessageTool(BuiltInTool):
    name = "message"
    description = "Send a message to a room (to: channel:room) or to another agent's session (agent)."
    arguments = _MessageArguments
    effect: Effect = "idempotent"
    sink: bool | tuple[str, ...] = ("to", "agent")
    capabilities: tuple[str, ...] = ("send",)

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def needs(self, arguments: _MessageArguments) -> tuple[str, ...]:
        """Return the capability that this call needs."""
        return (f"send.{arguments.to.partition(':')[0]}" if arguments.to else "send.agent",)

    def reach(self, arguments: _MessageArguments, context: ToolContext) -> CallDestinations:
        to = (arguments.to or arguments.agent or "").removeprefix(AGENT_PREFIX)
        return CallDestinations(
            sink=True,
            leaves_workspace=True,
            destinations=(to,) if to else (),
            description=f"sends a message to {shorten_for_message(to)}",
        )

    async def run(self, arguments: _MessageArguments, context: ToolContext) -> str:
        to = _parse_address(arguments)
        if not arguments.text.strip():
            raise ToolRefused("The text is empty. Nothing was sent.")
        if len(arguments.text) > TEXT_CHARS_MAX:
            raise ToolRefused(f"A message has at most {TEXT_CHARS_MAX} characters. Nothing was sent.")
        if to == f"{AGENT_PREFIX}{context.session}":
            raise ToolRefused("That is this session: answer instead. Nothing was sent.")
        receipt = await self._outbox.send(
            OutgoingMessage(
                to=to,
                text=arguments.text,
                session=context.session,
                key=context.key,
                origin=format_origin("conversation", untrusted=context.tainted, private=context.has_private_content),
            )
        )
        return f"Sent to {shorten_for_message(arguments.to or arguments.agent or '')} ({receipt})."


def _parse_address(arguments: _MessageArguments) -> str:
    """Return the address in the form of the outbox."""
    if bool(arguments.to) == bool(arguments.agent):
        raise ToolRefused("Give either to or agent. Nothing was sent.")
    to = arguments.to or f"{AGENT_PREFIX}{arguments.agent}"
    if len(to) > TO_CHARS_MAX or any(char < " " for char in to):
        raise ToolRefused("This is not the name of a room or an agent. Nothing was sent.")
    if not to.startswith(AGENT_PREFIX) and not _ROOM_ADDRESS.fullmatch(to):
        raise ToolRefused("to must be channel:room or channel:room:thread. Nothing was sent.")
    return to


def create_message_tool(outbox: Outbox) -> Tool:
    return MessageTool(outbox)


def build(dependencies: ToolDependencies) -> Tool:
    assert dependencies.outbox is not None
    return create_message_tool(dependencies.outbox)
