"""`message`: something said to somebody who is not in this conversation: a room of a channel, or another agent."""

from __future__ import annotations

import re

from mainstay.core.outside import Outbox, Outgoing, Reach
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.recall import origin_of
from mainstay.io.beneath import brief
from mainstay.tools.common import Arguments, BuiltIn, ToolRefused

TEXT_CHARS_MAX = 16_000
TO_CHARS_MAX = 500
AGENT = "agent:"
_ROOM = re.compile(r"[^\s:]+:[^\s:]+(:[^\s]+)?")


class _Message(Arguments, frozen=True):
    text: str
    to: str | None = None
    agent: str | None = None


class Message(BuiltIn):
    name = "message"
    description = "Send a message to a room (to: channel:room) or to another agent's session (agent)."
    arguments = _Message
    effect: Effect = "idempotent"
    sink: bool | tuple[str, ...] = ("to", "agent")
    capabilities: tuple[str, ...] = ("send",)

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def needs(self, arguments: _Message) -> tuple[str, ...]:
        """The capability of this very call."""
        return (f"send.{arguments.to.partition(':')[0]}" if arguments.to else "send.agent",)

    def reach(self, arguments: _Message, context: ToolContext) -> Reach:
        to = (arguments.to or arguments.agent or "").removeprefix(AGENT)
        return Reach(sink=True, outward=True, destinations=(to,) if to else (), what=f"sends a message to {brief(to)}")

    async def run(self, arguments: _Message, context: ToolContext) -> str:
        to = _address(arguments)
        if not arguments.text.strip():
            raise ToolRefused("There is nothing to say. Nothing was sent.")
        if len(arguments.text) > TEXT_CHARS_MAX:
            raise ToolRefused(f"A message has at most {TEXT_CHARS_MAX} characters. Nothing was sent.")
        if to == f"{AGENT}{context.session}":
            raise ToolRefused("That is this very conversation: just answer. Nothing was sent.")
        receipt = await self._outbox.send(
            Outgoing(
                to=to,
                text=arguments.text,
                session=context.session,
                key=context.key,
                origin=origin_of("conversation", untrusted=context.tainted, private=context.secret),
            )
        )
        return f"Sent to {brief(arguments.to or arguments.agent or '')} ({receipt})."


def _address(arguments: _Message) -> str:
    """As the outbox knows it."""
    if bool(arguments.to) == bool(arguments.agent):
        raise ToolRefused("Give either to or agent. Nothing was sent.")
    to = arguments.to or f"{AGENT}{arguments.agent}"
    if len(to) > TO_CHARS_MAX or any(char < " " for char in to):
        raise ToolRefused("This is no name of a room or an agent. Nothing was sent.")
    if not to.startswith(AGENT) and not _ROOM.fullmatch(to):
        raise ToolRefused("to is channel:room, or channel:room:thread. Nothing was sent.")
    return to


def message_tool(outbox: Outbox) -> Tool:
    return Message(outbox)
