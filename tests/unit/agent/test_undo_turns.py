"""Undoing the turns of a real agent: sub-agents, approvals, the chat command, and a home without a server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mainstay import Agent, Answered, Config, Paused
from mainstay.agent.offline_agent import open_offline_agent
from mainstay.agent.undo_dialog import CANCELLED, USAGE, run_undo_command
from mainstay.cli.chat.chat_session import ChatSession
from mainstay.cli.chat.slash_commands import run_slash_command
from mainstay.config.schema import ToolSettings
from mainstay.core.errors import InputRefused
from mainstay.core.ports import Context, Options
from mainstay.sandbox.bubblewrap.sandbox import can_overlay
from mainstay.testing import Call, ScriptedProvider

OVERLAY = pytest.mark.skipif(not can_overlay("/var/tmp"), reason="the kernel has no overlay for us")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("old\n")
    return folder


def build_config(work: Path) -> Config:
    return Config(tools=ToolSettings(builtin=("all",), sub_agents=("write",), roots=(str(work),), memory="off"))


def open_agent(work: Path, *script: Any, answer: Callable[[Context, Options], Any] | None = None) -> Agent:
    return Agent(ScriptedProvider(answer or list(script)), home=work.parent / "home", config=build_config(work))


def bash(command: str) -> list[Call]:
    return [Call("bash", {"command": command})]


def write(path: str, content: str) -> list[Call]:
    return [Call("write", {"path": path, "content": content})]


@OVERLAY
async def test_a_destructive_command_of_a_clean_session_runs_unasked_and_is_undone(work: Path) -> None:
    async with open_agent(work, bash("rm -rf ./*"), "done", write("b", "new"), "written") as agent:
        assert isinstance((await agent.run("s", "clean up")).outcome, Answered)
        assert list(work.iterdir()) == []
        await agent.run("s", "write b")
        assert [turn.turn for turn in await agent.sessions.undoable_turns("s")] == [2, 1]
        assert (await agent.sessions.undo("s")).restored == ["b"]
        assert (await agent.sessions.undo("s")).restored == ["a.txt"]
        assert (work / "a.txt").read_text() == "old\n"


@OVERLAY
async def test_a_command_that_was_approved_is_undone_too(work: Path) -> None:
    script = (bash("cat a.txt"), bash("rm a.txt"), "done")
    async with open_agent(work, *script) as agent:
        assert isinstance((await agent.run("s", "go")).outcome, Paused)
        [pending] = await agent.approvals.list()
        await agent.approvals.approve(pending.asked.id)
        assert not (work / "a.txt").exists()
        await agent.sessions.undo("s")
        assert (work / "a.txt").read_text() == "old\n"


async def test_the_model_learns_with_the_next_prompt_that_files_were_restored(work: Path) -> None:
    provider = ScriptedProvider([write("a.txt", "new\n"), "done", "I see"])
    async with Agent(provider, home=work.parent / "home", config=build_config(work)) as agent:
        await agent.run("s", "go")
        await agent.sessions.undo("s")
        await agent.run("s", "what now?")
    text = str(provider.asked[-1].messages[-1])
    assert "[The user undid the file changes of turn 1: 1 path restored.]" in text
    assert "what now?" in text


async def test_what_a_sub_agent_changes_belongs_to_the_turn_of_its_parent(work: Path) -> None:
    def answer(context: Context, options: Options) -> Any:
        last = context.messages[-1]
        if last.role == "tool":
            return "done"
        return {"go": [Call("spawn", {"prompt": "child", "tools": ["write"]})], "child": write("a.txt", "x")}[last.text]

    async with open_agent(work, answer=answer) as agent:
        await agent.run("s", "go")
        assert (work / "a.txt").read_text() == "x"
        assert [turn.turn for turn in await agent.sessions.undoable_turns("s")] == [1]
        await agent.sessions.undo("s")
        assert (work / "a.txt").read_text() == "old\n"


@OVERLAY
async def test_nothing_is_undone_while_a_turn_has_not_ended(work: Path) -> None:
    async with open_agent(work, write("b", "new"), bash("cat a.txt"), bash("rm a.txt"), "done") as agent:
        assert isinstance((await agent.run("s", "go")).outcome, Paused)
        with pytest.raises(InputRefused, match="has not ended"):
            await agent.sessions.undo("s")
        assert (work / "b").exists()


async def test_kept_contents_go_with_the_session(work: Path) -> None:
    async with open_agent(work, write("a.txt", "new"), "done") as agent:
        await agent.run("s", "go")
        kept = list((work.parent / "home").rglob(".undo/s/1/log"))
        assert len(kept) == 1
        await agent.sessions.delete("s")
        assert not kept[0].parent.parent.exists()


async def test_without_a_server_the_files_of_the_home_are_enough(work: Path) -> None:
    async with open_agent(work, write("a.txt", "new"), "done") as agent:
        await agent.run("s", "go")
    async with open_offline_agent(work.parent / "home", build_config(work)) as client:
        assert (await client.sessions.preview_undo("s")).files[0].path == "a.txt"
        assert (await client.sessions.undo("s")).restored == ["a.txt"]
        assert (work / "a.txt").read_text() == "old\n"
        with pytest.raises(InputRefused, match="no turn"):
            await client.sessions.undo("s")
        await client.sessions.delete("s")


async def test_the_chat_command_shows_asks_and_restores(work: Path) -> None:
    async with open_agent(work, write("a.txt", "new\n"), "done") as agent:
        shown = await run_undo_command(agent, "s", "")
        assert shown.lines == ["this session has changed no files"]
        await agent.run("s", "go")
        shown = await run_undo_command(agent, "s", "")
        assert (shown.lines, shown.turn) == (
            [
                *("turn 1 changed 1 path:", "  changed  a.txt (4 bytes)", "--- a/a.txt", "+++ b/a.txt", "@@ -1 +1 @@"),
                *("-old", "+new", "restore what was there before this turn? yes or no"),
            ],
            1,
        )
        assert (await run_undo_command(agent, "s", "1 no", 1)).lines == ["nothing was undone"]
        assert (work / "a.txt").read_text() == "new\n"
        assert (await run_undo_command(agent, "s", "list")).lines[0].endswith("1 path")
        assert (await run_undo_command(agent, "s", "now")).lines == [USAGE]
        assert (await run_undo_command(agent, "s", "9")).lines[0].startswith("turn 9 changed no files")
        assert (await run_undo_command(agent, "s", "yes", 1)).lines == ["undid turn 1: 1 path restored"]
        assert (work / "a.txt").read_text() == "old\n"
        assert (await run_undo_command(agent, "s", "list")).lines[0].startswith("no turn")
        assert (await run_undo_command(agent, "s", "1")).lines == ["turn 1 is undone already"]


def test_an_answer_to_undo_that_is_neither_yes_nor_no_cancels_it() -> None:
    chat: Any = StubChat.__new__(StubChat)
    chat.pending_approval = None
    for text, meant in (("yes", "/undo 3 yes"), ("n", "/undo 3 n"), ("yess", "/undo 3 cancel"), ("/status", "/status")):
        chat.shown_undo_turn = 3
        assert ChatSession.expand_answer(chat, text) == meant
        assert ChatSession.expand_answer(chat, text) == text, "only the next text is the answer"


async def test_a_cancelled_undo_says_so_and_changes_nothing(work: Path) -> None:
    async with open_agent(work, write("a.txt", "new\n"), "done") as agent:
        await agent.run("s", "go")
        assert (await run_undo_command(agent, "s", "1 cancel", 1)).lines == [CANCELLED]
        assert (work / "a.txt").read_text() == "new\n"


class StubChat:
    """What the slash command needs of a chat."""

    is_busy = False
    session = "s"
    shown_undo_turn = 0

    def __init__(self, agent: Agent) -> None:
        self.agent = agent


async def test_names_of_files_cannot_control_the_terminal(work: Path) -> None:
    async with open_agent(work, write("a.txt", "\x1b[2Jnew"), "done") as agent:
        await agent.run("s", "go")
        chat: Any = StubChat(agent)
        result = await run_slash_command(chat, "/undo")
        assert chat.shown_undo_turn == 1
        assert "\x1b" not in "".join(map(str, result.lines))
