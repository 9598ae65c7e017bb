"""Thousands of random histories through the real lane: every request fits by the server's own count, and is sound."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest
from support.counted_model import CountedModel, prose
from support.kernel_world import World

from mainstay.context.token_budget import ContextSizeSettings
from mainstay.core.errors import Overloaded, SummaryUnusable
from mainstay.core.limits import Limits
from mainstay.core.outcome import Answered, Exhausted, Failed
from mainstay.core.ports import SummaryRequest, SummaryResult
from mainstay.core.tools import FunctionTool
from mainstay.testing import MemoryStore, VirtualClock, virtual_run

ALL = os.environ.get("MAINSTAY_TEST_ALL") == "1"
SHARES = 40 if ALL else 10
HISTORIES = 250 if ALL else 15  # a share


class Summariser:
    """Works, fails, answers rubbish, or takes for ever, as the dice say."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    async def summarise(self, passage: SummaryRequest, model: str) -> SummaryResult:
        match self._chance.randrange(6):
            case 0:
                raise Overloaded("busy")
            case 1:
                raise SummaryUnusable("rubbish came back")
            case 2:
                return SummaryResult(prose(self._chance, passage.tokens_max * 12))
            case _:
                return SummaryResult(prose(self._chance, min(passage.tokens_max, 400)), model="summariser")


def some_tools(chance: random.Random, sizes: list[int]) -> list[FunctionTool]:
    def make(number: int, about: str) -> FunctionTool:
        async def run(what: str = "", size: int = 0) -> str:
            return prose(chance, min(size, sizes[-1]))

        return FunctionTool(run, name=f"tool_{number}", description=about, effect="pure", untrusted=False, sink=False)

    return [
        make(number, prose(chance, chance.choice([20, 80, 400]))) for number in range(chance.choice([1, 3, 12, 45]))
    ]


def check_request(body: dict[str, Any], newest: str) -> None:
    """No call without its result, none without its call, in order; the person's newest words are there."""
    open_calls: list[str] = []
    seen: set[str] = set()
    for message in body["messages"]:
        if message["role"] == "tool":
            assert open_calls, "a result without its call"
            assert message["tool_call_id"] == open_calls.pop(0), "results out of order"
        else:
            assert open_calls == [], "a call without its result"
        for call in message.get("tool_calls", []):
            assert call["id"] not in seen
            seen.add(call["id"])
            open_calls.append(call["id"])
            json.loads(call["function"]["arguments"])
    assert open_calls == []
    said = [m["content"] for m in body["messages"] if m["role"] == "user" and isinstance(m["content"], str)]
    assert any(newest in text for text in said), "the newest words of the person are missing"


async def one_history(seed: int) -> dict[str, int]:
    chance = random.Random(seed)
    window = chance.choice([4096, 4096, 8192, 16_384, 65_536])
    sizes = [chance.choice([200, 2_000, 20_000, 60_000, 200_000])]
    tools = some_tools(chance, sizes)
    now = {"left": 0, "newest": ""}

    def say(body: dict[str, Any]) -> str | list[tuple[str, str]]:
        check_request(body, now["newest"])
        if now["left"] <= 0 or not body.get("tools") or body.get("tool_choice") == "none":
            return prose(chance, chance.choice([10, 100, 1_000, 4_000])) or "ok"
        now["left"] -= 1
        name = chance.choice(tools).name
        size = chance.choice([10, 500, sizes[0]])
        what = prose(chance, chance.choice([5, 5, 100, 5_000]))
        arguments = json.dumps({"what": what, "size": size})
        inline = any(one["function"]["name"] == name for one in body["tools"])
        if not inline:
            arguments = json.dumps({"name": name, "arguments": json.loads(arguments)})
        return [(name if inline else "call_tool", arguments)] * chance.choice([1, 1, 2])

    weighs = chance.choice([1.0, 1.0, 1.1, 1.5])
    model = CountedModel(say, window=window, weighs=weighs, tells=chance.random() < 0.5)
    rules = ContextSizeSettings(
        active_window=chance.choice([None, None, None, 6, 20]), batch_size=chance.choice([4, 50])
    )
    more = {"context_rules": rules, "summariser": chance.choice([Summariser(chance), None])}
    instructions = prose(chance, chance.choice([0, 200, 1500]))
    world = World(
        model, tools, store=MemoryStore(), clock=VirtualClock(), instructions=instructions, more=more, limits=Limits()
    )
    async with world:
        for turn in range(chance.randrange(3, 16)):
            now["left"] = chance.choice([0, 0, 1, 3, 30])
            now["newest"] = f"turn {turn}: {chance.randrange(10**9)}"
            reply = await world.ask(now["newest"] + " " + prose(chance, chance.choice([0, 50, 800, 3_000])))
            assert isinstance(reply.outcome, Answered | Exhausted), (seed, turn, reply.outcome)
            if chance.random() < 0.1:  # as after a restart: the same bytes come out of the journal
                await world.lanes.wait_until_settled()
                pen = world.lanes.get("s")._writer
                await pen.flush()
                before = pen.session
                world.lanes.drop("s")
                after = await world.lanes.get("s").load_session()
                assert [(m.role, m.parts, m.turn) for m in after.messages] == [
                    (m.role, m.parts, m.turn) for m in before.messages
                ], seed
        await world.lanes.wait_until_settled()
        await world.check_replay()
    allowed = [tokens <= model.limit for tokens in model.counts]
    return {"requests": len(allowed), "over": allowed.count(False), "refused": model.refused, "weighs": weighs > 1.0}


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_every_request_fits_and_is_valid_for_any_history(share: int) -> None:
    requests = over = 0
    for number in range(HISTORIES):
        seed = share * 100_000 + number
        seen = virtual_run(one_history(seed))
        requests += seen["requests"]
        if not seen["weighs"]:  # a vocabulary that is ours: never above the budget, and never refused
            assert (seen["over"], seen["refused"]) == (0, 0), seed
        over += seen["over"]
    assert requests > HISTORIES * 5


def test_a_request_that_cannot_be_made_to_fit_fails_in_one_sentence() -> None:
    async def main() -> None:
        model = CountedModel(lambda body: "never", window=4096)
        async with World(model, instructions="word " * 5_000) as world:
            reply = await world.ask("hi")
            assert isinstance(reply.outcome, Failed)
            assert "does not fit the model's window of 4096 tokens" in reply.text
            assert model.bodies == []

    virtual_run(main())
