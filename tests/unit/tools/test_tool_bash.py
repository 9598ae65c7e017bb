"""`bash`, with real commands on the host: what the model reads of them, and that nothing is left of an aborted one."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import splintr
from hypothesis import given
from hypothesis import strategies as st
from support.tool_world import RecordedNotes, Workspace, call, calling, running_with

from mainstay.core.errors import MainstayError
from mainstay.core.memory_tiers import CONVERSATION_ORIGIN
from mainstay.core.ports import Tool
from mainstay.core.tool_ports import CommandResult, FileOriginLabel, OutputHandler, SandboxCommand
from mainstay.core.tools import BadArguments
from mainstay.io.path_resolver import PathRefused
from mainstay.sandbox.bubblewrap.sandbox import BubblewrapSandbox, bubblewrap_problem
from mainstay.sandbox.host.sandbox import HostSandbox
from mainstay.testing.in_memory_tool_ports import InMemoryOutbox, InMemoryScheduler
from mainstay.tools.base import ToolRefused
from mainstay.tools.bash import create_bash_tool
from mainstay.tools.command_output import (
    PROGRESS_INTERVAL_S,
    SHOWN_BYTES_MAX,
    SHOWN_LINES_MAX,
    shorten_output,
    strip_terminal_codes,
)
from mainstay.tools.fetch import create_fetch_tool
from mainstay.tools.message import create_message_tool
from mainstay.tools.process import BackgroundProcesses, create_process_tool
from mainstay.tools.schedule import create_schedule_tool
from mainstay.tools.search_channel import create_search_channel_tool
from mainstay.tools.spawn import create_spawn_tool
from mainstay.tools.upload import create_upload_tool


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.fixture
async def bash(space: Workspace) -> AsyncIterator[Tool]:
    sandbox = HostSandbox()
    yield create_bash_tool(space.files, sandbox, space.labels)
    await sandbox.close()


def test_all_eight_that_reach_out_cost_at_most_seven_hundred_tokens(space: Workspace) -> None:
    sandbox, outbox = HostSandbox(), InMemoryOutbox()
    tools = (
        *(
            create_bash_tool(space.files, sandbox, space.labels),
            create_process_tool(BackgroundProcesses(space.files, sandbox)),
            create_fetch_tool(),
        ),
        *(
            create_upload_tool(space.files, outbox),
            create_search_channel_tool(lambda session: None),
            create_message_tool(outbox),
        ),
        *(create_schedule_tool(InMemoryScheduler()), create_spawn_tool(None)),  # type: ignore[arg-type]
    )
    count = splintr.Tokenizer.from_pretrained("o200k_base").encode
    documents = [
        msgspec.json.encode({"name": one.name, "description": one.description, "parameters": one.schema}).decode()
        for one in tools
    ]
    assert len(documents) == 8
    assert sum(len(count(document)) for document in documents) <= 700


def test_it_runs_once_needs_exec_and_brings_in_what_is_outside(bash: Tool) -> None:
    assert (bash.effect, bash.capabilities, bash.untrusted, bash.sink) == ("unsafe", ("exec",), True, False)
    assert bash.timeout_s is not None
    assert bash.timeout_s > 600  # the command's own time comes first


async def test_output_is_what_both_streams_said(bash: Tool) -> None:
    said = await call(bash, command="echo one; echo two >&2; printf three")
    assert sorted(said.splitlines()) == ["one", "three", "two"]


async def test_silence_and_failure_are_said(bash: Tool) -> None:
    assert await call(bash, command="true") == "(no output)"
    assert await call(bash, command="false") == "[exit code 1]"
    assert await call(bash, command="echo x; exit 7") == "x\n[exit code 7]"
    assert await call(bash, command="kill -9 $$") == "[exit code 137]"


async def test_it_works_in_the_workspace_and_each_call_begins_there(bash: Tool, space: Workspace) -> None:
    (space.work / "sub").mkdir()
    assert await call(bash, command="cd sub; pwd") == str(space.work / "sub")
    assert await call(bash, command="pwd") == str(space.work)
    assert await call(bash, command="pwd", cwd="sub") == str(space.work / "sub")


@pytest.mark.parametrize("cwd", ["..", "/", "/etc", "out", "missing", "file", "\x00", "sub/../../.."])
async def test_f32_it_does_not_begin_outside(cwd: str, bash: Tool, space: Workspace) -> None:
    (space.work / "out").symlink_to("/etc")
    (space.work / "file").write_text("x")
    with pytest.raises(PathRefused):
        await call(bash, command="touch ran", cwd=cwd)
    assert not list(space.root.rglob("ran"))


@pytest.mark.parametrize(
    "given",
    [{"command": ""}, {"command": " \n"}, {"command": "a\x00b"}, {"command": "x" * 100_001}]
    + [{"command": "touch ran", "timeout": seconds} for seconds in (0, -1, 601, 1e9)],
    ids=str,
)
async def test_a_command_that_cannot_run_is_one_sentence(
    given: dict[str, object], bash: Tool, space: Workspace
) -> None:
    with pytest.raises(ToolRefused, match="Nothing was run"):
        await call(bash, **given)
    assert list(space.work.iterdir()) == []


@pytest.mark.parametrize(
    "input", ["{}", '{"command": 1}', '{"command": "x", "y": 1}', '{"command": "x", "timeout": "a"}', "["]
)
def test_arguments_that_do_not_fit_are_refused(input: str, bash: Tool) -> None:
    with pytest.raises(BadArguments):
        bash.parse(input)


async def test_a_command_that_takes_too_long_is_ended_and_its_output_is_kept(bash: Tool) -> None:
    marker = f"m{uuid.uuid4().hex}"
    said = await call(bash, command=f"echo begun; sleep 1000 && : {marker}", timeout=3)
    assert said == "begun\n[timed out after 3 s; it was stopped, with all processes that it had started]"
    assert running_with(marker) == []


async def test_long_output_is_shown_in_part_and_kept_whole(bash: Tool, space: Workspace) -> None:
    said = await call(bash, calling(call="toolu_A/1"), command="seq 1 10000")
    lines = said.splitlines()
    assert lines[0] == "1"
    assert lines[-1] == "10000"
    assert len(lines) <= SHOWN_LINES_MAX + 1
    kept = list((space.root / "scratch" / "s").iterdir())
    assert len(kept) == 1
    assert kept[0].read_text().splitlines() == [str(number) for number in range(1, 10001)]
    notice = next(line for line in lines if line.startswith("[…"))
    assert str(kept[0]) in notice
    assert f"{10000 - (len(lines) - 1)} lines" in notice


async def test_one_very_long_line_is_shown_in_part_too(bash: Tool) -> None:
    said = await call(bash, command="head -c 300000 /dev/zero | tr '\\0' x")
    assert len(said.encode()) < SHOWN_BYTES_MAX + 500
    assert "left out" in said


async def test_a_flood_is_bounded(space: Workspace) -> None:
    sandbox = HostSandbox()
    said = await call(create_bash_tool(space.files, sandbox, space.labels), command="yes | head -c 30000000")
    assert "the rest was dropped" in said
    assert len(said) < 60_000
    await sandbox.close()


async def test_output_that_cannot_be_stored_is_still_shown(space: Workspace) -> None:
    space.files.folders_of = lambda session: msgspec.structs.replace(space.grounds(session), scratch="")
    sandbox = HostSandbox()
    said = await call(create_bash_tool(space.files, sandbox, space.labels), command="seq 1 10000")
    assert "lines left out]" in said
    await sandbox.close()


async def test_binary_output_is_not_shown_but_kept(bash: Tool, space: Workspace) -> None:
    said = await call(bash, command="head -c 5000 /dev/zero")
    assert said.startswith("[binary output, 5000 bytes, not shown; all of it is in ")
    (kept,) = (space.root / "scratch" / "s").iterdir()
    assert kept.read_bytes() == b"\0" * 5000


async def test_f37_no_terminal_control_sequence_is_left(bash: Tool) -> None:
    words = r"\033[31mred\033[0m \033]0;title\007ok\033]8;;http://x\033\\link\033]8;;\033\\ \033]52;c;aGk=\007\n"
    bars = r"10%%\r55%%\r100%%\nab\bc\n\a"
    assert await call(bash, command=f"printf '{words}{bars}'") == "red oklink \n100%\nac"


async def test_bytes_that_are_no_text_do_not_hurt(bash: Tool) -> None:
    assert await call(bash, command=r"printf 'caf\xc3\xa9 \xff ok'") == "café \ufffd ok"


TERMINAL = [
    ("a\x1b[2K\x1b[1;31mb", "ab"),
    ("\x1b]0;evil\x07x\x1b]0;unfinished", "x"),
    ("\x1bP1;2q...\x1b\\x", "x"),
    ("\x9b31mx", "x"),
    ("1%\r2%\r\n3", "2%\n3"),
    ("a\rb\r", "b"),
    ("x\x08\x08\x08y", "y"),
    ("tab\there\x0b\x0c", "tab\there"),
    ("\x1b", ""),
    ("plain é 日本 ✓", "plain é 日本 ✓"),
]


@pytest.mark.parametrize(("said", "seen"), TERMINAL, ids=[str(index) for index in range(len(TERMINAL))])
def test_terminal_control_characters_are_applied(said: str, seen: str) -> None:
    assert strip_terminal_codes(said) == seen


@given(st.text(st.sampled_from("\x1b[]0;m\x07\\\r\n\b\x9b\x00ab é"), max_size=60))
def test_no_output_controls_the_terminal(text: str) -> None:
    seen = strip_terminal_codes(text)
    assert not any((char < " " and char not in "\n\t") or "\x7f" <= char <= "\x9f" for char in seen)
    assert strip_terminal_codes(seen) == seen


@given(st.text(st.sampled_from("abé\n"), max_size=400), st.integers(10, 80), st.integers(5, 20))
def test_shown_output_fits_and_keeps_its_beginning_and_end(text: str, bytes_max: int, lines_max: int) -> None:
    shown = shorten_output(text, "", lines_max, bytes_max)
    if shown == text:
        assert len(text.encode()) <= bytes_max
        return
    head, _, rest = shown.partition("\n[… ")
    tail = rest.partition(" left out]\n")[2]
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head.encode()) + len(tail.encode()) <= bytes_max


# --- while it runs -------------------------------------------------------------------------------


async def test_output_is_reported_while_the_command_runs(bash: Tool, space: Workspace) -> None:
    told = RecordedNotes()
    task = asyncio.create_task(
        call(bash, calling(told=told), command="echo one; while [ ! -e go ]; do sleep 0.01; done; echo two")
    )
    await asyncio.wait_for(told.came.wait(), 120)
    assert told.notes == ["one"]
    (space.work / "go").touch()
    assert await task == "one\ntwo"


async def test_many_lines_are_reported_together(bash: Tool) -> None:
    told = RecordedNotes()
    began = time.monotonic()
    await call(bash, calling(told=told), command="seq 1 3000; sleep 0.25; seq 1 3000; sleep 0.25")
    assert 1 <= len(told.notes) <= 2 + (time.monotonic() - began) / PROGRESS_INTERVAL_S
    assert all(len(note) <= 2_000 for note in told.notes)


@pytest.mark.parametrize("script", ["sleep 1000", "trap '' TERM; sleep 1000", "setsid sleep 1000 & sleep 1000"])
async def test_an_abort_leaves_no_process(script: str, bash: Tool) -> None:
    marker = f"m{uuid.uuid4().hex}"
    told = RecordedNotes()
    command = f"echo begun; : {marker}; sh -c '{marker}=1; sleep 1000' & {script}; : {marker}"
    task = asyncio.create_task(call(bash, calling(told=told), command=command))
    await asyncio.wait_for(told.came.wait(), 120)
    assert running_with(marker)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert running_with(marker) == []


async def test_an_abort_before_anything_was_said_leaves_no_process(bash: Tool) -> None:
    marker = f"m{uuid.uuid4().hex}"
    for turns in range(12):
        task = asyncio.create_task(call(bash, command=f"sleep 1000; : {marker}"))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert running_with(marker) == []


async def test_an_aborted_call_leaves_no_half_of_a_file(space: Workspace) -> None:
    """It is cancelled just when its output is being kept."""
    sandbox = HostSandbox()
    context = calling()

    class Late:
        name, is_confined, can_protect_deletions = "late", False, False

        async def exec(self, command: SandboxCommand, output: OutputHandler | None = None) -> CommandResult:
            ran = await sandbox.exec(command, output)
            context.cancel()
            return ran

    said = await call(create_bash_tool(space.files, Late(), space.labels), context, command="seq 1 10000")  # type: ignore[arg-type]
    assert "could not be stored: Cancelled" in said
    assert list((space.root / "scratch" / "s").iterdir()) == []
    await sandbox.close()


# --- under taint ---------------------------------------------------------------------------------


class Guarding:
    """A sandbox that holds removals back, as far as the tool can tell."""

    name, is_confined, can_protect_deletions = "guarding", True, True

    def __init__(self, ran: CommandResult) -> None:
        self.ran = ran
        self.commands: list[SandboxCommand] = []

    async def exec(self, command: SandboxCommand, output: OutputHandler | None = None) -> CommandResult:
        self.commands.append(command)
        return self.ran


async def test_a_guarded_call_runs_guarded_and_says_what_was_held(space: Workspace) -> None:
    held = tuple(f"/w/f{number}\n" for number in range(30))
    sandbox = Guarding(CommandResult(exit_code=0, undone_deletions=held, changed=("/w/new", "/w/old")))
    await space.labels.save([FileOriginLabel("/w/old", "", "other")])
    context = calling()
    context.tainted = context.protect_deletions = True
    said = await call(create_bash_tool(space.files, sandbox, space.labels), context, command="rm *")  # type: ignore[arg-type]
    assert sandbox.commands[0].protect_deletions
    assert not sandbox.commands[0].network
    assert "[held back, because content from outside is in this conversation: changes to or deletion of /w/f0" in said
    assert "and 10 more; ask the user]" in said
    assert len(said.splitlines()) == 2
    assert space.labels.known["/w/new"] == FileOriginLabel("/w/new", CONVERSATION_ORIGIN, "")
    assert space.labels.known["/w/old"] == FileOriginLabel("/w/old", CONVERSATION_ORIGIN, "other")


async def test_a_clean_call_is_not_guarded_and_the_network_is_the_owners_choice(space: Workspace) -> None:
    sandbox = Guarding(CommandResult(exit_code=0))
    await call(create_bash_tool(space.files, sandbox, space.labels, network=True), command="true")  # type: ignore[arg-type]
    assert not sandbox.commands[0].protect_deletions
    assert sandbox.commands[0].network


@pytest.fixture
async def sandboxed() -> AsyncIterator[BubblewrapSandbox]:
    if (reason := bubblewrap_problem()) is not None:
        pytest.skip(reason)
    sandbox = BubblewrapSandbox()
    yield sandbox
    await sandbox.close()


async def test_in_a_sandbox_a_guarded_command_removes_nothing_and_its_files_are_labelled(
    space: Workspace, sandboxed: BubblewrapSandbox
) -> None:
    if not sandboxed.can_protect_deletions:
        pytest.skip("this machine has no overlay that would hold removals back")
    (space.work / "kept").write_text("old")
    context = calling()
    context.tainted = context.protect_deletions = True
    said = await call(
        create_bash_tool(space.files, sandboxed, space.labels), context, command="rm kept; echo new > made; ls"
    )
    assert "made" in said
    assert [(change.path, change.kind) for change in context.held_changes] == [(str(space.work / "kept"), "remove")]
    assert (space.work / "kept").read_text() == "old"
    assert (space.work / "made").read_text() == "new\n"
    assert space.labels.known[str(space.work / "made")].origin == CONVERSATION_ORIGIN


async def test_in_a_sandbox_a_command_has_no_network_and_its_output_is_stored(
    space: Workspace, sandboxed: BubblewrapSandbox
) -> None:
    tool = create_bash_tool(space.files, sandboxed, space.labels)
    assert "lo:" in await call(tool, command="cat /proc/net/dev")
    assert "eth" not in await call(tool, command="cat /proc/net/dev")
    said = await call(tool, calling(call="long"), command="seq 1 10000")
    assert str(space.root / "scratch" / "s") in said


async def test_f40_a_command_does_not_see_our_environment(bash: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-5d1f")
    assert "canary-5d1f" not in await call(bash, command="env; cat /proc/self/environ")


async def test_a_closed_sandbox_is_an_error_that_says_so(space: Workspace) -> None:
    sandbox = HostSandbox()
    await sandbox.close()
    with pytest.raises(MainstayError, match="closed"):
        await call(create_bash_tool(space.files, sandbox, space.labels), command="true")
