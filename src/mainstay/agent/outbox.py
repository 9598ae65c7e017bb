"""What agents say to others: to another agent of the workspace at once, to channels where there are any."""

from __future__ import annotations

from mainstay.core.envelope import Envelope, hops_of, on_behalf
from mainstay.core.errors import InputRefused, SessionUnknown
from mainstay.core.messages import Text
from mainstay.core.outside import Outbox, Outgoing
from mainstay.core.ports import Store
from mainstay.lane.lanes import Lanes

AGENT = "agent:"


class LocalOutbox:
    """`channels` takes what goes to people; without it, there is nobody to tell."""

    def __init__(self, channels: Outbox | None = None) -> None:
        self._channels = channels
        self._workspace: tuple[Lanes, Store] | None = None
        self._hops_max = 0

    def wire(self, lanes: Lanes, store: Store, hops_max: int) -> None:
        """Tools are made before the lanes that they write to."""
        self._workspace = lanes, store
        self._hops_max = hops_max

    async def send(self, message: Outgoing) -> str:
        """Raises InputRefused or SessionUnknown: then nothing was sent."""
        if message.to.startswith(AGENT):
            return await self._to_agent(message, message.to.removeprefix(AGENT))
        if self._channels is None:
            raise InputRefused("no channel is connected; only agents of this workspace can be reached, as agent:NAME")
        return await self._channels.send(message)

    async def _to_agent(self, message: Outgoing, session: str) -> str:
        """Into the mailbox of its lane, where it waits its turn like any prompt."""
        assert self._workspace is not None, "wired when the lanes are there"
        lanes, store = self._workspace
        standing = await store.get(session)
        if standing is None or standing.status == "deleted" or session == message.session:
            raise SessionUnknown(f"there is no other agent {session[:80]!r} in this workspace")
        text = Text(message.text, origin=message.origin or f"agent:{message.session}")
        from_whom = await lanes.get(message.session).view()
        hops = 1 + (hops_of(from_whom.open.sender) if from_whom.open is not None else 0)
        if hops > self._hops_max:
            raise InputRefused(
                f"agents have passed this on {self._hops_max} times without a person; answer, and leave it at that"
            )
        sender = on_behalf(message.session, from_whom.person, hops)
        envelope = Envelope(parts=(text,), thread=session, sender=sender, id=message.key)
        ticket = await lanes.get(session).accept(envelope)
        return f"{session}#{ticket.seq}"
