"""`process`, with real commands on the host: they go on beside the turn, belong to one session, and end with it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from support.tool_world import Workspace, call, calling, running_with

from mainstay.core.errors import MainstayError
from mainstay.core.ports import Tool
from mainstay.core.tool_ports import SandboxCommand
from mainstay.core.tool_ports import SandboxProcess as Going
from mainstay.core.tools import BadArguments
from mainstay.io.path_resolver import PathRefused
from mainstay.sandbox.host.sandbox import HostSandbox
from mainstay.tools.base import ToolRefused
from mainstay.tools.process import INPUT_BYTES_MAX, RUNNING_MAX, BackgroundProcesses, ProcessTool, create_process_tool

ECHO = "while read line; do echo got $line; done; echo over"


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.fixture
async def processes(space: Workspace) -> AsyncIterator[BackgroundProcesses]:
    sandbox = HostSandbox()
    made = BackgroundProcesses(space.files, sandbox)
    yield made
    await made.close()
    await sandbox.close()


@pytest.fixture
def process(processes: BackgroundProcesses) -> Tool:
    return create_process_tool(processes)


async def until(process: Tool, id: str, text: str, session: str = "s") -> str:
    """Polls until it has said this."""
    said = ""
    for _ in range(100):
        said += await call(process, calling(session), action="poll", id=id, wait=5)
        if text in said:
            return said
    raise AssertionError(said)


def test_it_runs_once_needs_exec_and_brings_in_what_is_outside(process: Tool) -> None:
    assert (process.effect, process.capabilities, process.untrusted) == ("unsafe", ("exec",), True)


async def test_a_process_is_started_written_to_polled_and_stopped(process: Tool) -> None:
    assert await call(process, action="start", command=ECHO, wait=0) == "[p1 running; no new output]"
    assert await call(process, action="write", id="p1", input="one\n", wait=10) == "[p1 running]\ngot one"
    assert await call(process, action="poll", id="p1", wait=0) == "[p1 running; no new output]"
    assert await call(process, action="list") == f"p1 running: {ECHO}"
    assert (await call(process, action="stop", id="p1")).startswith("[p1 ended with exit code")
    assert await call(process, action="list") == "Nothing runs in the background."


async def test_immediate_output_is_in_the_first_answer(process: Tool) -> None:
    assert await call(process, action="start", command="echo ready; sleep 1000", wait=10) == "[p1 running]\nready"


async def test_a_process_that_has_ended_says_its_last_words_once(process: Tool) -> None:
    await call(process, action="start", command="read x; echo last; exit 3", wait=0)
    await call(process, action="write", id="p1", input="go\n", wait=0)
    said = await until(process, "p1", "exit code 3")
    assert "last" in said
    with pytest.raises(ToolRefused, match="There is no process 'p1' here"):
        await call(process, action="poll", id="p1")


async def test_ids_are_not_used_twice(process: Tool) -> None:
    for number in (1, 2, 3):
        said = await call(process, action="start", command="echo up; sleep 1000", wait=10)
        assert said.startswith(f"[p{number} ")
        await call(process, action="stop", id=f"p{number}")


async def test_stopping_ends_its_descendants(process: Tool) -> None:
    marker = f"m{uuid.uuid4().hex}"
    await call(process, action="start", command=f"setsid sh -c 'sleep 1000; : {marker}' & echo up; wait", wait=10)
    assert running_with(marker)
    await call(process, action="stop", id="p1")
    assert running_with(marker) == []


async def test_a_session_sees_and_touches_only_its_own(process: Tool) -> None:
    await call(process, calling("mine"), action="start", command=ECHO, wait=0)
    other = calling("other")
    assert await call(process, other, action="list") == "Nothing runs in the background."
    for action, more in (("poll", {}), ("write", {"input": "x\n"}), ("stop", {})):
        with pytest.raises(ToolRefused, match="There is no process"):
            await call(process, other, action=action, id="p1", **more)
    assert (await call(process, other, action="start", command="sleep 1000", wait=0)).startswith("[p1 running")
    assert ECHO in await call(process, calling("mine"), action="list")


async def test_a_session_has_at_most_eight(process: Tool) -> None:
    for _ in range(RUNNING_MAX):
        await call(process, action="start", command="echo up; sleep 1000", wait=10)
    with pytest.raises(ToolRefused, match="8 processes run already"):
        await call(process, action="start", command="sleep 1000", wait=0)
    await call(process, action="stop", id="p3")
    await call(process, action="start", command="sleep 1000", wait=0)


async def test_eight_at_once_are_eight_too(process: Tool) -> None:
    calls = (call(process, action="start", command="sleep 1000", wait=0) for _ in range(RUNNING_MAX + 4))
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(one, ToolRefused) for one in done) == 4


@pytest.mark.parametrize("way", ["end", "close"])
async def test_all_end_with_their_session(way: str, process: Tool, processes: BackgroundProcesses) -> None:
    marker = f"m{uuid.uuid4().hex}"
    for session in ("a", "b"):
        script = f"trap '' TERM; echo up; sleep 1000; : {session}{marker}"
        await call(process, calling(session), action="start", command=script, wait=10)
    if way == "close":
        await processes.close()
    else:
        await processes.end_session("a")
        await processes.end_session("nobody")
    assert running_with(f"a{marker}") == []
    assert bool(running_with(f"b{marker}")) == (way == "end")
    assert await call(process, calling("a"), action="list") == "Nothing runs in the background."


@pytest.mark.parametrize("given", [
    {"action": "start"}, {"action": "start", "command": " "}, {"action": "start", "command": "a\x00"},
    {"action": "poll"}, {"action": "stop", "id": "p9"}, {"action": "write", "id": "p1"},
    {"action": "write", "id": "p1", "input": ""}, {"action": "write", "id": "p1", "input": "x" * (INPUT_BYTES_MAX + 1)},
    {"action": "poll", "id": "p1", "wait": 61}, {"action": "poll", "id": "p1", "wait": -1},
], ids=[str(number) for number in range(10)])  # fmt: skip
async def test_an_impossible_action_is_one_sentence(given: dict[str, object], process: Tool) -> None:
    await call(process, action="start", command=ECHO, wait=0)
    with pytest.raises(ToolRefused):
        await call(process, **given)
    assert await call(process, action="list") == f"p1 running: {ECHO}"


async def test_f32_it_does_not_begin_outside(process: Tool) -> None:
    with pytest.raises(PathRefused):
        await call(process, action="start", command="true", cwd="..")
    assert await call(process, action="list") == "Nothing runs in the background."


def test_an_action_that_there_is_not_is_refused(process: Tool) -> None:
    with pytest.raises(BadArguments):
        process.parse('{"action": "restart"}')


async def test_output_is_plain_and_short(process: Tool) -> None:
    said = await call(process, action="start", command=r"printf '\033[31mred\033[0m\n'; sleep 1000", wait=10)
    assert said == "[p1 running]\nred"
    await call(process, action="start", command="seq 1 5000; sleep 1000", wait=0)
    assert len(await until(process, "p2", "5000")) < 60_000


# --- aborts --------------------------------------------------------------------------------------


async def test_an_aborted_start_leaves_no_process(process: Tool, processes: BackgroundProcesses) -> None:
    marker = f"m{uuid.uuid4().hex}"
    for turns in (0, 1, 2, 3, 5, 8, 20):
        task = asyncio.create_task(call(process, action="start", command=f"sleep 1000; : {marker}", wait=60))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert running_with(marker) == []
    assert processes.list_processes("s") == []


@pytest.mark.parametrize("action", ["poll", "write"])
async def test_an_aborted_look_leaves_the_process_as_it_was(action: str, process: Tool) -> None:
    await call(process, action="start", command="cat > seen; sleep 1000", wait=0)
    task = asyncio.create_task(call(process, action=action, id="p1", input="x\n", wait=60))
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await call(process, action="list")).startswith("p1 running")


async def test_a_session_that_ends_while_one_is_starting_has_none_left(space: Workspace) -> None:
    sandbox = HostSandbox()
    marker = f"m{uuid.uuid4().hex}"
    gate = asyncio.Event()

    class Slow:
        name, is_confined, can_protect_deletions = "slow", False, False

        async def start(self, command: SandboxCommand) -> Going:
            process = await sandbox.start(command)
            await gate.wait()
            return process

    processes = BackgroundProcesses(space.files, Slow())  # type: ignore[arg-type]
    script = f"sleep 1000; : {marker}"
    task = asyncio.create_task(call(create_process_tool(processes), action="start", command=script, wait=0))
    await asyncio.sleep(0)
    await processes.end_session("s")
    gate.set()
    with pytest.raises(MainstayError, match="ended"):
        await task
    assert running_with(marker) == []
    await sandbox.close()


# --- how far it reaches --------------------------------------------------------------------------


class FakeSandbox:
    """A host that says of itself what a test wants it to say."""

    name = "walls"

    def __init__(self, *, confined: bool, guards: bool = True) -> None:
        self.is_confined = confined
        self.can_protect_deletions = guards
        self.asked: list[SandboxCommand] = []
        self._host = HostSandbox()

    async def start(self, command: SandboxCommand) -> Going:
        self.asked.append(command)
        return await self._host.start(msgspec.structs.replace(command, protect_deletions=False, network=False))


@pytest.mark.parametrize(
    ("confined", "network", "guarded", "sink"),
    [(True, False, True, False), (True, False, False, True), (True, True, True, True), (False, False, True, True)],
)
async def test_writing_to_a_process_is_a_sink_unless_nothing_can_come_of_it(
    confined: bool, network: bool, guarded: bool, sink: bool, space: Workspace
) -> None:
    """A shell that was started while all was well must not take orders from a page."""
    sandbox = FakeSandbox(confined=confined)
    processes = BackgroundProcesses(space.files, sandbox, network)  # type: ignore[arg-type]
    tool = ProcessTool(processes)
    context = calling()
    context.protect_deletions = guarded
    await call(tool, context, action="start", command="sh", wait=0)
    assert sandbox.asked[0].protect_deletions == guarded
    assert sandbox.asked[0].network == network
    reach = tool.reach(tool.parse('{"action": "write", "id": "p1", "input": "rm x"}'), context)
    assert (reach.sink, reach.leaves_workspace, reach.destinations) == (sink, sink and (network or not confined), ())
    for other in (
        '{"action": "poll", "id": "p1"}',
        '{"action": "start", "command": "x"}',
        '{"action": "write", "id": "p2"}',
    ):
        assert not tool.reach(tool.parse(other), context).sink
    await processes.close()


async def test_a_sandbox_that_cannot_hold_removals_is_not_asked_to(space: Workspace) -> None:
    sandbox = FakeSandbox(confined=True, guards=False)
    processes = BackgroundProcesses(space.files, sandbox)  # type: ignore[arg-type]
    context = calling()
    context.protect_deletions = True
    await call(create_process_tool(processes), context, action="start", command="sleep 1000", wait=0)
    assert not sandbox.asked[0].protect_deletions
    await processes.close()
