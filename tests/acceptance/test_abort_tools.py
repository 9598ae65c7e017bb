"""Abort during each built-in tool, at each stage: no process is left, no half-written file, exactly one result."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from mainstay import Agent, Config
from mainstay.config.schema import PolicySettings, ToolSettings
from mainstay.core.builtin_tool_table import list_tool_names
from mainstay.core.events import ToolFinished, ToolProgress, ToolStarted
from mainstay.core.messages import ToolCall
from mainstay.core.outcome import Aborted, Answered
from mainstay.core.ports import Context, Options
from mainstay.testing import Call, ScriptedProvider

OLD = "old\n" * 2_000
NEW = "new\n" * 2_000
ADDED = "".join(f"+{line}\n" for line in NEW.split())
PATCH = f"*** Begin Patch\n*** Add File: added.txt\n{ADDED}*** End Patch"

SLEEP = f"sleep 297.{os.getpid()}"  # one of our own, also if these tests run twice at the same time

# One call of each tool. Those that run something say how it shows in the list of processes.
CALLS: dict[str, Call] = {
    "read": Call("read", {"path": "file.txt"}),
    "ls": Call("ls", {}),
    "glob": Call("glob", {"pattern": "**/*.txt"}),
    "grep": Call("grep", {"pattern": "o(l|n)d", "path": "."}),
    "write": Call("write", {"path": "file.txt", "content": NEW}),
    "edit": Call("edit", {"path": "file.txt", "old": "old\n", "new": "new\n", "replace_all": True}),
    "apply_patch": Call("apply_patch", {"patch": PATCH}),
    "bash": Call("bash", {"command": f"(setsid {SLEEP} &); {SLEEP}"}),
    "process": Call("process", {"action": "start", "command": f"(setsid {SLEEP} &); {SLEEP}"}),
    "fetch": Call("fetch", {"url": "http://127.0.0.1:1/slow"}),
    "spawn": Call("spawn", {"prompt": "child", "tools": ["bash"]}),
    "schedule": Call("schedule", {"action": "add", "when": "0 7 * * *", "text": "hello"}),
}


def test_there_is_a_call_of_each_built_in_tool() -> None:
    assert set(CALLS) == set(list_tool_names("all")), "add a call of the new tool to CALLS"


def answer(context: Context, options: Options) -> Any:
    """The call, then an answer; a sub-agent runs a command that does not end."""
    last = context.messages[-1]
    if last.role != "user":
        return "done"
    if last.text == "child":
        return CALLS["bash"]
    return answer.call  # type: ignore[attr-defined]


def left_over() -> list[str]:
    """Command lines of processes that are still there."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                said = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if SLEEP in said and "pytest" not in said:
                found.append(said)
    return found


@pytest.fixture
async def slow_server() -> AsyncIterator[int]:
    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(never, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def until(condition: Callable[[], bool], seconds: float = 120.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        await asyncio.sleep(0.02)
    return condition()


class Stage:
    """When the abort comes."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def wait(self, agent: Agent) -> None:
        match self.name.split():
            case ["after", turns, "rounds"]:  # of the event loop
                for _ in range(int(turns)):
                    await asyncio.sleep(0)
            case ["after", ms, "ms"]:
                await asyncio.sleep(int(ms) / 1000)
            case ["started"]:
                async for event in agent.watch("s"):
                    if isinstance(event, ToolStarted | ToolProgress | ToolFinished):
                        return


ALLOWED = PolicySettings(allow=("bash", "process"))  # also where no sandbox works and each would be asked about
STAGES = ["after 0 rounds", "after 12 rounds", "after 40 rounds", "after 5 ms", "after 60 ms", "started"]
WHOLE = [f"after {n} rounds" for n in range(0, 120, 3)] if os.environ.get("MAINSTAY_TEST_ALL") else []


@pytest.mark.skipif(not Path("/proc").exists(), reason="leftover processes are counted in /proc")
@pytest.mark.parametrize("stage", [*STAGES, *WHOLE])
@pytest.mark.parametrize("name", CALLS)
async def test_abort_during_a_tool_leaves_no_process_no_half_written_file_and_exactly_one_result(
    name: str, stage: str, tmp_path: Path, slow_server: int
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "file.txt").write_text(OLD)
    call = CALLS[name]
    if name == "fetch":
        call = Call("fetch", {"url": f"http://127.0.0.1:{slow_server}/slow"})
    answer.call = call  # type: ignore[attr-defined]
    tools = ToolSettings(builtin=("all",), roots=(str(work),), fetch_private=(f"127.0.0.1:{slow_server}",))
    async with Agent(
        ScriptedProvider(answer), home=tmp_path / "home", config=Config(tools=tools, policy=ALLOWED)
    ) as agent:
        running = asyncio.ensure_future(agent.run("s", "go"))
        waiting = asyncio.ensure_future(Stage(stage).wait(agent))
        await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED, timeout=120)
        while not await agent.abort("s") and not running.done():  # False: the prompt is not accepted yet
            await asyncio.sleep(0)
        reply = await asyncio.wait_for(running, 120)
        waiting.cancel()
        assert isinstance(reply.outcome, Aborted | Answered), "it was stopped, or had already ended"
        events = [record.event for record in await agent.sessions.records("s")]
        calls = [part for event in events for part in getattr(event, "parts", ()) if isinstance(part, ToolCall)]
        results = [event.result.call_id for event in events if isinstance(event, ToolFinished)]
        assert sorted(results) == sorted(one.id for one in calls), "each call has exactly one result"
        if name != "process":  # what it started is meant to go on, until the session or the agent ends
            assert await until(lambda: not left_over()), left_over()
        assert (work / "file.txt").read_text() in (OLD, NEW), "a file is the old one or the new one"
        added = work / "added.txt"
        assert not added.exists() or added.read_text() == NEW
        names = {one.name for one in work.iterdir()}
        assert names <= {"file.txt", "added.txt"}, "nothing half-made lies about"
    assert await until(lambda: not left_over()), left_over()
