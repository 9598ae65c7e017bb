"""Sub-agents: child sessions that run to their end for the call that sent them."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

from mainstay.core.envelope import Envelope, check_session_name
from mainstay.core.errors import InputRefused
from mainstay.core.events import Spawned
from mainstay.core.messages import Text
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Reply
from mainstay.core.outside import Errand, Report
from mainstay.core.recall import origin_of
from mainstay.core.session import Session
from mainstay.lane.lane import Lane
from mainstay.lane.lanes import Lanes
from mainstay.lane.services import Services

ONLY_READ = ("read", "grep", "glob", "ls", "memory_search", "memory_get")
ONCE = "errand"  # the id of a child's one prompt: whoever asks again after a crash finds the same child


class Children:
    """A `Spawner` on the lanes of the agent."""

    def __init__(self, lanes: Lanes, services: Services) -> None:
        self._lanes = lanes
        self._services = services
        self._beside: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # while somebody runs there

    async def run(self, errand: Errand) -> Report:
        """Raises InputRefused if it cannot be done at all."""
        parent = await self._lanes.get(errand.session).view()
        spawned = self._spawned(parent, errand)
        key = check_session_name(f"{errand.session}/{errand.call_id}", self._services.limits)
        most = self._services.limits.spawn_beside_max
        async with self._beside.setdefault(errand.session, asyncio.Semaphore(most)):
            return await self._report(self._lanes.get(key), spawned, errand)

    def _spawned(self, parent: Session, errand: Errand) -> Spawned:
        """Never more than its parent has."""
        depth = parent.errand.depth + 1 if parent.errand is not None else 1
        if depth > self._services.limits.spawn_depth_max:
            raise InputRefused("a sub-agent cannot send sub-agents of its own here; do it yourself, or report back")
        offered = {tool.name for tool in self._services.tools.offered}
        has = offered if parent.errand is None else offered & set(parent.errand.tools)
        wanted = ONLY_READ if errand.tools is None else errand.tools
        if errand.tools is not None and (missing := [name for name in wanted if name not in has]):
            raise InputRefused(f"a sub-agent cannot have what you do not have: {', '.join(missing)}")
        tools = tuple(name for name in wanted if name in has)
        return Spawned(
            errand.session,
            errand.call_id,
            tools,
            depth,
            untrusted=errand.tainted,
            private=errand.private,
            person=parent.person,
        )

    async def _report(self, lane: Lane, spawned: Spawned, errand: Errand) -> Report:
        if not (await lane.view()).head:
            await lane.change(spawned)
        origin = origin_of("parent", untrusted=errand.tainted, private=errand.private) or f"agent:{errand.session}"
        prompt = Text(errand.prompt, origin=origin)
        ticket = await lane.accept(
            Envelope(parts=(prompt,), thread=lane.key, sender=f"agent:{errand.session}", id=ONCE)
        )
        reply: Reply | None = None
        try:
            reply = await asyncio.shield(ticket.reply)
        except asyncio.CancelledError:
            if self._lanes.closed:  # both go on later
                raise
            await lane.abort()  # the parent's turn was stopped, or has no more time; what was spent is still told
        await (await lane.contexts()).folding.close()  # nobody will need it
        return _report(reply, await lane.view())


def _report(reply: Reply | None, child: Session) -> Report:
    """With all that it has spent, however it ended."""
    outcome = reply.outcome if reply is not None else Aborted()
    said = reply.text if reply is not None else ""
    match outcome:
        case Answered():
            text, ok = said, True
        case Exhausted(bound=bound):
            text, ok = f"{said}\n[The sub-agent reached its limit: {bound}.]", True
        case Failed(sentence=sentence):
            text, ok = f"The sub-agent failed: {sentence}", False
        case Aborted():
            text, ok = "The sub-agent was stopped before it could report.", False
        case other:
            text, ok = f"The sub-agent ended without a report ({type(other).__name__}).", False
    return Report(
        text=text or "The sub-agent said nothing.",
        ok=ok,
        usage=child.usage,
        cost=child.cost,
        calls=child.calls,
        untrusted=child.untrusted,
        private=child.private,
    )
