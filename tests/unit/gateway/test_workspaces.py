"""Several workspaces in one process: each opened when it is needed, each with settings of its own, none in another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mainstay import Agent
from mainstay.agent.agent_options import GatewayServices
from mainstay.config.loader import load_config
from mainstay.config.schema import Config
from mainstay.core.errors import AgentClosed, HomeTaken, WorkspaceUnknown
from mainstay.core.messages import Text
from mainstay.gateway.workspace_registry import WorkspaceRegistry
from mainstay.lane.replies import PendingReply
from mainstay.operations.input_submission import accept_prompt
from mainstay.testing import ScriptedProvider, Stall

YAML = """
instructions: You are terse.
workspaces:
  team: {instructions: You are kind.}
"""


class WorkspacesRig:
    """Agents with scripted models, and what each workspace's model was asked."""

    def __init__(self, home: Path, yaml: str = YAML) -> None:
        self.home = home
        self.models: dict[str, list[ScriptedProvider]] = {}
        self.script: Any = ["hello"] * 50
        self.opened: list[str] = []
        self.agents: list[Agent] = []
        (home / "mainstay.yaml").write_text(yaml)
        self.workspaces = WorkspaceRegistry(home, self.load(), self.make, lambda one: self.opened.append(one.name))

    def load(self) -> Any:
        return load_config(self.home, env={})

    def make(self, config: Config) -> Agent:
        provider = ScriptedProvider(self.script)
        self.models.setdefault(config.workspace, []).append(provider)
        agent = Agent(provider, home=self.home, config=config)
        agent.join_gateway(GatewayServices())
        self.agents.append(agent)
        return agent

    async def __aenter__(self) -> WorkspacesRig:
        self.workspaces.acquire_home()
        await self.workspaces.open_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.workspaces.close()


async def say(rig: WorkspacesRig, workspace: str, text: str, session: str = "s", id: str = "") -> PendingReply:
    opened = await rig.workspaces.get_workspace(workspace)
    return await accept_prompt(await opened.runtime(), session, [Text(text)], id=id)


async def ask(rig: WorkspacesRig, workspace: str, text: str, session: str = "s") -> str:
    return (await (await say(rig, workspace, text, session)).reply).text


async def test_each_workspace_has_its_own_settings_and_its_own_file(tmp_path: Path) -> None:
    async with WorkspacesRig(tmp_path) as rig:
        await ask(rig, "default", "the code is 4711")
        await ask(rig, "team", "what is the code?")
        assert rig.models["default"][0].asked[0].system.startswith("You are terse.")
        assert rig.models["team"][0].asked[0].system.startswith("You are kind.")
        assert "4711" not in str(rig.models["team"][0].asked)
        team = await rig.workspaces.get_agent("team")
        assert not [hit for hit in await team.memory.search("code 4711") if "4711" in hit.text]
        assert sorted(path.parent.name for path in tmp_path.glob("workspaces/*/workspace.db")) == ["default", "team"]


async def test_a_workspace_that_is_nowhere_is_unknown_and_is_not_made(tmp_path: Path) -> None:
    async with WorkspacesRig(tmp_path) as rig:
        with pytest.raises(WorkspaceUnknown, match="there is no workspace 'secret'"):
            await rig.workspaces.get_workspace("secret")
        assert not (tmp_path / "workspaces" / "secret").exists()
        await rig.workspaces.get_agent("secret")  # the owner may make one by naming it
        assert (await rig.workspaces.get_workspace("secret")).name == "secret"


async def test_one_process_owns_the_home_with_all_of_them(tmp_path: Path) -> None:
    async with WorkspacesRig(tmp_path):
        with pytest.raises(HomeTaken):
            WorkspaceRegistry(tmp_path, load_config(tmp_path, env={}), lambda config: Agent()).acquire_home()
    async with Agent(ScriptedProvider(["hi"]), home=tmp_path) as agent:
        assert (await agent.run("s", "hello")).text == "hi"


async def test_a_workspace_that_cannot_be_opened_keeps_out_no_other(tmp_path: Path) -> None:
    async with WorkspacesRig(tmp_path) as rig:
        await ask(rig, "team", "hi")
    (tmp_path / "workspaces" / "team" / "workspace.db").write_bytes(b"no database at all" * 100)
    async with WorkspacesRig(tmp_path) as rig:
        assert await ask(rig, "default", "hi") == "hello"
        assert "team" in rig.workspaces.problems


async def start_opening(rig: WorkspacesRig, workspace: str) -> asyncio.Task[Any]:
    """Return a task that has begun to open the workspace, and has not ended."""
    count = len(rig.agents)
    opening = asyncio.create_task(rig.workspaces.get_workspace(workspace, create=True))
    while len(rig.agents) == count:
        await asyncio.sleep(0)
    assert not opening.done()
    return opening


async def test_a_caller_that_leaves_while_a_workspace_opens_leaves_no_second_agent_of_it(tmp_path: Path) -> None:
    async with WorkspacesRig(tmp_path) as rig:
        opening = await start_opening(rig, "new")
        opening.cancel()
        await rig.workspaces.get_workspace("new", create=True)
        assert await ask(rig, "new", "hi") == "hello"
        await asyncio.gather(opening, return_exceptions=True)
        _, _, left, used = rig.agents
        assert used is await rig.workspaces.get_agent("new")
        with pytest.raises(AgentClosed):
            await left.runtime()
        assert {task.get_name() for task in asyncio.all_tasks() if "_open_once" in repr(task)} == set()


async def test_a_workspace_that_opens_while_the_others_are_closed_is_closed_too(tmp_path: Path) -> None:
    async with WorkspacesRig(tmp_path) as rig:
        opening = await start_opening(rig, "new")
    with pytest.raises(AgentClosed):
        await opening
    with pytest.raises(AgentClosed):
        await rig.agents[-1].runtime()


async def test_f47_a_reload_changes_what_changed_and_lets_a_running_turn_end_first(tmp_path: Path) -> None:
    async with WorkspacesRig(tmp_path) as rig:
        stall = Stall(then="at last")
        rig.models["team"][0]._script = [stall]
        ticket = await say(rig, "team", "slowly")
        await stall.reached.wait()
        (tmp_path / "mainstay.yaml").write_text(YAML.replace("kind", "merry"))
        reloading = asyncio.ensure_future(rig.workspaces.reload(rig.load(), 20))
        await asyncio.sleep(0)
        later = asyncio.ensure_future(ask(rig, "team", "hi", "other"))
        assert await ask(rig, "default", "hi") == "hello"  # no other caller waits
        assert not later.done()
        stall.release()
        assert await reloading == ["team"]
        assert (await ticket.reply).text == "at last"
        assert await later == "hello"
        assert rig.models["team"][1].asked[0].system.startswith("You are merry.")
        assert len(rig.models["default"]) == 1
        assert rig.opened == ["default", "team", "team"]


async def test_f47_a_turn_that_outlasts_the_reload_is_resumed_by_the_new_agent(tmp_path: Path) -> None:
    async with WorkspacesRig(tmp_path) as rig:
        stall = Stall(then="never")
        rig.models["team"][0]._script = [stall]
        await say(rig, "team", "slowly", id="m1")
        await stall.reached.wait()
        (tmp_path / "mainstay.yaml").write_text(YAML.replace("kind", "merry"))
        await rig.workspaces.reload(rig.load(), 0.05)
        ticket = await say(rig, "team", "slowly", id="m1")
        assert (await ticket.reply).text == "hello"


async def test_f47_settings_that_cannot_be_used_leave_the_workspace_as_it_was(tmp_path: Path) -> None:
    async with WorkspacesRig(tmp_path) as rig:
        broken = YAML.replace("{instructions: You are kind.}", "{tools: {roots: [/nowhere/at/all], builtin: [read]}}")
        (tmp_path / "mainstay.yaml").write_text(broken)
        assert await rig.workspaces.reload(rig.load(), 5) == []
        assert await ask(rig, "team", "hi") == "hello"
        assert rig.models["team"][-1].asked[-1].system.startswith("You are kind.")
