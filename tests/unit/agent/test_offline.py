"""Sessions and memory of a home that no process owns: read and changed, while no turn runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mainstay import Agent
from mainstay.agent.offline_agent import open_offline_agent
from mainstay.config.schema import Config
from mainstay.core.errors import HomeTaken, InputRefused, SessionArchived, SessionUnknown
from mainstay.core.events import MessageAdded, SessionChanged
from mainstay.testing import ScriptedProvider, Stall

HISTORY: list[dict[str, Any]] = [{"role": "user", "content": "warm?"}, {"role": "assistant", "content": "yes"}]


async def test_a_conversation_is_imported_and_goes_on_when_an_agent_is_opened(tmp_path: Path) -> None:
    async with open_offline_agent(tmp_path, Config()) as offline:
        await offline.import_history("s", HISTORY, metadata={"from": "elsewhere"})
        standing = await offline.sessions.get("s")
        assert (standing.messages, standing.turns, standing.metadata) == (2, 0, {"from": "elsewhere"})
    provider = ScriptedProvider(["so it is"])
    async with Agent(provider, home=tmp_path) as agent:
        await agent.run("s", "sure?")
    assert [text for _, text in provider.asked[0].messages] == ["warm?", "yes", "sure?"]


async def test_nothing_is_imported_into_an_archived_session_and_a_deleted_one_begins_again(tmp_path: Path) -> None:
    async with open_offline_agent(tmp_path, Config()) as offline:
        await offline.import_history("s", HISTORY)
        await offline.sessions.archive("s")
        with pytest.raises(SessionArchived):
            await offline.import_history("s", HISTORY)
        await offline.sessions.delete("s")
        with pytest.raises(SessionUnknown):
            await offline.sessions.get("s")
        await offline.import_history("s", HISTORY)
        standing = await offline.sessions.get("s")
        assert standing.status == "active"
        said = [one.event for one in await offline.sessions.records("s") if isinstance(one.event, MessageAdded)]
        assert len([one for one in said if one.parts]) == 2, "what was deleted is not said again"


async def test_a_session_is_loaded_and_changed_without_its_model(tmp_path: Path) -> None:
    async with Agent(ScriptedProvider(["hello"]), home=tmp_path) as agent:
        await agent.run("s", "hi")
        await agent.sessions.set_model("s", "a-provider-that-is-gone/model")
    async with open_offline_agent(tmp_path, Config(model="another-that-was-never-there/model")) as offline:
        await offline.sessions.archive("s")
        await offline.sessions.activate("s")
        await offline.import_history("s", HISTORY)
        await offline.import_history("new", HISTORY)
        assert {one.key: one.messages for one in await offline.sessions.list()} == {"s": 4, "new": 2}
        assert (await offline.sessions.replay("s")).is_identical


async def test_an_unfinished_turn_stays_unfinished_after_any_change(tmp_path: Path) -> None:
    stall = Stall("never said")
    async with Agent(ScriptedProvider([stall]), home=tmp_path) as agent:
        asking = asyncio.ensure_future(agent.run("s", "take your time"))
        await stall.reached.wait()
    await asyncio.gather(asking, return_exceptions=True)
    async with open_offline_agent(tmp_path, Config()) as offline:
        before = [one.seq for one in await offline.sessions.records("s")]
        await offline.sessions.rename("s", "slow")
        await offline.sessions.activate("s")
        added = [one.event for one in await offline.sessions.records("s", after=before[-1])]
        assert [type(one) for one in added] == [SessionChanged, SessionChanged], "no turn was resumed or ended"
        with pytest.raises(InputRefused, match="in the middle of a turn"):
            await offline.import_history("s", HISTORY)
        assert (await offline.sessions.get("s")).unfinished
    async with Agent(ScriptedProvider(["said after all"]), home=tmp_path) as agent:
        await agent.settled()
        standing = await agent.sessions.get("s")
        assert (standing.title, standing.turns, standing.unfinished) == ("slow", 1, False)


async def test_no_turn_runs_and_the_home_is_owned_meanwhile(tmp_path: Path) -> None:
    async with open_offline_agent(tmp_path, Config()) as offline:
        with pytest.raises(InputRefused, match="no turn can run"):
            await offline.run("s", "hi")
        with pytest.raises(InputRefused, match="no turn can run"):
            await anext(aiter(offline.stream("s", "hi")))
        assert await offline.sessions.list() == []
        with pytest.raises(HomeTaken):
            async with open_offline_agent(tmp_path, Config()):
                pass
