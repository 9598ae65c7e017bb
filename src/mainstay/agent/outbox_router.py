"""Outbox of an agent: messages to other agents of the workspace, and to people on channels."""

from __future__ import annotations

from mainstay.core.errors import InputRefused, SessionUnknown
from mainstay.core.input_envelope import InputEnvelope, agent_sender, count_hops
from mainstay.core.messages import Text
from mainstay.core.ports import Store
from mainstay.core.tool_ports import Outbox, OutgoingMessage
from mainstay.lane.registry import LaneRegistry

AGENT_PREFIX = "agent:"


class OutboxRouter:
    """The Outbox port: `agent:NAME` goes to another agent's lane, everything else to `channels` (None: refused)."""

    def __init__(self, channels: Outbox | None = None) -> None:
        self._channels = channels
        self._connection: tuple[LaneRegistry, Store] | None = None
        self._hops_max = 0

    def connect(self, lanes: LaneRegistry, store: Store, hops_max: int) -> None:
        """Connect the outbox to the lanes, which are created after the tools that use it."""
        self._connection = lanes, store
        self._hops_max = hops_max

    async def send(self, message: OutgoingMessage) -> str:
        """Send a message and return its id. Raises InputRefused or SessionUnknown: then nothing was sent."""
        if message.to.startswith(AGENT_PREFIX):
            return await self._send_to_agent(message, message.to.removeprefix(AGENT_PREFIX))
        if self._channels is None:
            raise InputRefused("no channel is connected; only agents of this workspace can be reached, as agent:NAME")
        return await self._channels.send(message)

    async def _send_to_agent(self, message: OutgoingMessage, session: str) -> str:
        """Queue the message in the other session's lane, like any prompt."""
        assert self._connection is not None, "connected when the lanes are created"
        lanes, store = self._connection
        recipient = await store.get_session(session)
        if recipient is None or recipient.status == "deleted" or session == message.session:
            raise SessionUnknown(f"there is no other agent {session[:80]!r} in this workspace")
        text = Text(message.text, origin=message.origin or f"agent:{message.session}")
        sending = await lanes.get(message.session).load_session()
        hops = 1 + (count_hops(sending.open_turn.sender) if sending.open_turn is not None else 0)
        if hops > self._hops_max:
            raise InputRefused(
                f"agents have passed this on {self._hops_max} times without a person; answer, and leave it at that"
            )
        sender = agent_sender(message.session, sending.person, hops)
        envelope = InputEnvelope(parts=(text,), thread=session, sender=sender, id=message.key)
        pending = await lanes.get(session).accept(envelope)
        return f"{session}#{pending.seq}"
