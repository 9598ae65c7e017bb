"""Who answered is known, and paid at its own price."""

from __future__ import annotations

from mainstay import Agent
from mainstay.core.errors import Unreachable
from mainstay.core.events import MessageAdded
from mainstay.core.limits import Limits
from mainstay.core.messages import Usage
from mainstay.core.ports import ModelInfo
from mainstay.meter.resilient import Resilient
from mainstay.testing import CountingIds, Raise, Say, ScriptedProvider, VirtualClock, virtual_run

DEAR = ModelInfo(name="dear", price_prompt=100.0, price_completion=100.0)
CHEAP = ModelInfo(name="cheap", price_prompt=1.0, price_completion=2.0)


def test_a_model_that_stood_in_is_named_and_its_price_is_paid() -> None:
    async def main() -> None:
        first = ScriptedProvider([Raise(Unreachable("gone")), "I am back"], info=DEAR)
        second = ScriptedProvider([Say("standing in", usage=Usage(1_000_000, 1_000_000))], info=CHEAP)
        both = Resilient([first, second], clock=VirtualClock(), ids=CountingIds(), limits=Limits())
        async with Agent(both, home=":memory:") as agent:
            reply = await agent.run("s", "hi")
            assert (reply.text, reply.cost) == ("standing in", 3.0)
            records = await agent.sessions.records("s")
            said = [record.event for record in records if isinstance(record.event, MessageAdded)]
            assert said[0].model == "cheap"
            assert (await agent.run("s", "hi")).text == "I am back"
            assert (await agent.sessions.replay("s")).identical

    virtual_run(main())
