"""Sub-agents work in their parent's folder, and the owner decides what they may do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import chat_world, http_world

from mainstay import Agent, Config
from mainstay.config.schema import PolicySettings, ToolSettings
from mainstay.core.tools import tool
from mainstay.testing import Call, ScriptedProvider
from mainstay.testing.loopback_channel import LoopbackRig

ALL = ("read", "write", "bash", "ls", "spawn")


def spawning(spawned: dict[str, Any], *child: Any) -> ScriptedProvider:
    """A model that spawns a sub-agent, which does this, and then repeats its report."""
    steps = iter([*child, "reported"])

    def script(context: Any, options: Any) -> Any:
        last = context.messages[-1]
        if "You are a sub-agent" in context.system:
            return next(steps)
        return f"done: {last.parts[0].content}" if last.role == "tool" else Call("spawn", {"prompt": "look", **spawned})

    return ScriptedProvider(script)


def tools_of_child(provider: ScriptedProvider) -> list[str]:
    return next(asked.tools for asked in provider.asked if "You are a sub-agent" in asked.system)


@pytest.mark.parametrize("session", ["s", "a/b", "slack:C1:171.5"])
@pytest.mark.parametrize("home", [":memory:", "disk"])
async def test_miclaw_073_a_sub_agent_reads_what_its_parent_wrote(tmp_path: Path, session: str, home: str) -> None:
    """In the folder of the session's own, which is what the library, HTTP and channels use without `tools.roots`."""
    child = iter([Call("read", {"path": "note.txt"}), "reported"])
    write = Call("write", {"path": "note.txt", "content": "seven boats"})
    parent = iter([write, Call("spawn", {"prompt": "look"}), "."])
    provider = ScriptedProvider(
        lambda context, options: next(child if "You are a sub-agent" in context.system else parent)
    )
    config = Config(tools=ToolSettings(builtin=ALL))
    async with Agent(provider, home=home if home == ":memory:" else tmp_path, config=config) as agent:
        await agent.run(session, "go")
    seen = [text for asked in provider.asked for role, text in asked.messages if role == "tool"]
    assert any("seven boats" in text for text in seen), seen


def writing_then_spawning() -> Callable[[Any, Any], Any]:
    """A model that writes a note in its folder and sends a sub-agent to read it."""
    child = iter([Call("read", {"path": "note.txt"}), "reported"])
    write = Call("write", {"path": "note.txt", "content": "seven boats"})
    parent = iter([write, Call("spawn", {"prompt": "look"}), "There are seven."])
    return lambda context, options: next(child if "You are a sub-agent" in context.system else parent)


def read_by_sub_agents(provider: ScriptedProvider) -> list[str]:
    asked = [one for one in provider.asked if "You are a sub-agent" in one.system]
    return [text for one in asked for role, text in one.messages if role == "tool"]


async def test_miclaw_073_a_sub_agent_works_in_its_parents_folder_over_http(tmp_path: Path) -> None:
    config = Config(tools=ToolSettings(builtin=ALL))
    async with http_world.world(writing_then_spawning(), homes={http_world.MAIN: tmp_path}, config=config) as server:
        reply = await server.say("harbour", "count the boats", await server.key("ann"))
        assert reply.json["text"] == "There are seven."
        model = server.agents[http_world.MAIN]._model
    assert isinstance(model, ScriptedProvider)
    assert any("seven boats" in text for text in read_by_sub_agents(model))


async def test_miclaw_073_a_sub_agent_works_in_its_parents_folder_in_a_channel(tmp_path: Path) -> None:
    rig = LoopbackRig()
    world = chat_world.World(tmp_path, rig, script=writing_then_spawning())
    world.config = {"tools": ToolSettings(builtin=ALL)}
    async with chat_world.running(world):
        thread = await rig.send_message("C1", "count the boats", mention=True)
        await world.told(world.session(rig, "C1", thread))
        assert [one.text for one in await rig.posted_messages("C1")] == ["There are seven."]
        assert any("seven boats" in text for text in read_by_sub_agents(world.models["main"]))


async def test_a_session_whose_name_begins_like_another_has_its_own_folder(tmp_path: Path) -> None:
    config = Config(tools=ToolSettings(builtin=ALL))
    async with Agent(ScriptedProvider(["a", "b"]), home=tmp_path, config=config) as agent:
        folders = (await agent.runtime())._parts.session_folders
        assert folders.cwd("s/x") != folders.cwd("s")


@pytest.mark.parametrize("wanted", ["bash", "write"])
async def test_miclaw_073_sub_agents_only_read_whatever_the_model_asks_for(tmp_path: Path, wanted: str) -> None:
    provider = spawning({"tools": ["read", wanted]}, "fine")
    async with Agent(provider, home=tmp_path, config=Config(tools=ToolSettings(builtin=ALL))) as agent:
        reply = await agent.run("s", "go")
        assert f"sub-agents may not have {wanted}" in reply.text
        assert len(await agent.sessions.list()) == 1, "nothing was started"
    provider = spawning({"tools": ["read", wanted]}, "fine")
    config = Config(tools=ToolSettings(builtin=ALL, sub_agents=(wanted,)))
    async with Agent(provider, home=tmp_path, config=config) as agent:
        assert "fine" in (await agent.run("s", "go")).text
    assert tools_of_child(provider) == ["read", wanted]


async def test_miclaw_073_own_tools_that_only_read_may_be_named_and_others_not() -> None:
    @tool(effect="pure", untrusted=False, sink=False)
    async def count_boats() -> str:
        return "seven"

    @tool(untrusted=False, sink=True)
    async def sell_boats() -> str:
        return "sold"

    for name, answer in (("count_boats", "fine"), ("sell_boats", "may not have sell_boats")):
        provider = spawning({"tools": [name]}, "fine")
        config = Config(tools=ToolSettings(builtin=("spawn",)))
        async with Agent(provider, home=":memory:", tools=[count_boats, sell_boats], config=config) as agent:
            assert answer in (await agent.run("s", "go")).text


async def test_miclaw_073_a_tool_that_would_be_refused_is_not_offered() -> None:
    """A denied one, one that needs approval, which a sub-agent cannot request, and `spawn` itself at depth 1."""
    settings = ToolSettings(builtin=ALL, sub_agents=("all",))
    policy = PolicySettings(deny=("ls",), ask=("write",))
    provider = spawning({"tools": ["read", "ls", "write", "bash", "spawn"]}, "fine")
    async with Agent(provider, home=":memory:", config=Config(tools=settings, policy=policy)) as agent:
        assert "fine" in (await agent.run("s", "go")).text
    assert tools_of_child(provider) == ["read", "bash"]
