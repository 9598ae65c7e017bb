"""Requirements on commands, in every sandbox available here and in a stand-in for docker."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.fake_docker import fake_docker

from mainstay import Agent, Config
from mainstay.config.schema import PolicySettings, SandboxSettings, ToolSettings
from mainstay.core.limits import Limits
from mainstay.core.tool_ports import Sandbox, SandboxCommand, SessionFolders
from mainstay.sandbox.bubblewrap.sandbox import BubblewrapSandbox, bubblewrap_problem
from mainstay.sandbox.docker.manifest import DockerOptions
from mainstay.sandbox.docker.sandbox import DockerSandbox, build_sandbox
from mainstay.sandbox.host.sandbox import HostSandbox
from mainstay.sandbox.limits import SandboxLimits
from mainstay.testing import Call, ScriptedProvider
from mainstay.testing.sandbox_suite import create_folders

KINDS = ("host", "bubblewrap", "docker")
NO_WALLS = bubblewrap_problem()


@pytest.fixture(params=KINDS)
async def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sandbox]:
    made: Sandbox
    match str(request.param):
        case "host":
            made = HostSandbox()
        case "bubblewrap":
            if NO_WALLS is not None:
                pytest.skip(NO_WALLS)
            made = BubblewrapSandbox()
        case _:
            made = DockerSandbox("box", docker=fake_docker(tmp_path))
    yield made
    await made.close()


@pytest.fixture
def grounds(tmp_path: Path) -> SessionFolders:
    made = create_folders(tmp_path)
    Path(made.cwd, "sub").mkdir()
    return made


def beating(grounds: SessionFolders) -> str:
    """Children and grandchildren, one of them in a session of its own, that write for as long as they live."""
    beat = "while :; do date +%s%N > {}; sleep 0.02; done"
    one, two = (beat.format(name) for name in ("one", "two"))
    return f"({one}) & (setsid sh -c '{two}' &) ; sleep 60"


async def dead(grounds: SessionFolders) -> None:
    """Both are at work, and then neither is."""

    def told() -> list[str]:
        return [Path(grounds.cwd, name).read_text() for name in ("one", "two")]

    before = told()
    for _ in range(100):
        await asyncio.sleep(0.1)
        if before == (before := told()):
            return
    raise AssertionError("something still runs")


async def at_work(grounds: SessionFolders) -> None:
    async with asyncio.timeout(120):
        while not all(Path(grounds.cwd, name).exists() for name in ("one", "two")):
            await asyncio.sleep(0.02)


async def test_guppy_083_guppy_085_one_interface_gives_streams_code_and_whether_time_ran_out(
    sandbox: Sandbox, grounds: SessionFolders
) -> None:
    ran = await sandbox.exec(SandboxCommand(script="echo out; echo err >&2; exit 3", folders=grounds))
    assert (ran.stdout, ran.stderr, ran.exit_code, ran.timed_out) == (b"out\n", b"err\n", 3, False)


async def test_guppy_084_a_command_has_a_time_a_folder_and_can_be_cancelled(
    sandbox: Sandbox, grounds: SessionFolders
) -> None:
    assert SandboxCommand(script="x", folders=grounds).timeout_s == 120.0
    place = os.path.join(grounds.cwd, "sub")
    ran = await sandbox.exec(SandboxCommand(script="echo here > made.txt", folders=grounds, cwd=place))
    assert ran.exit_code == 0
    assert Path(place, "made.txt").read_text() == "here\n"
    task = asyncio.ensure_future(sandbox.exec(SandboxCommand(script=beating(grounds), folders=grounds)))
    await at_work(grounds)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await dead(grounds)


async def test_guppy_088_out_of_time_the_whole_tree_is_killed(sandbox: Sandbox, grounds: SessionFolders) -> None:
    for seconds in (1.5, 30):  # on a loaded machine they may not have begun in time
        ran = await sandbox.exec(SandboxCommand(script=beating(grounds), folders=grounds, timeout_s=seconds))
        assert ran.timed_out
        if all(Path(grounds.cwd, name).exists() for name in ("one", "two")):
            break
    await dead(grounds)


async def test_guppy_086_a_command_is_the_text_of_a_shell(sandbox: Sandbox, grounds: SessionFolders) -> None:
    """`sh -c`; where there is a bash, it is that one, which understands all that sh does."""
    script = 'name=${0##*/}; echo "$name $#"; case $- in *c*) echo as text;; esac; echo a | tr a b && exit 4'
    ran = await sandbox.exec(SandboxCommand(script=script, folders=grounds))
    shell, told, piped = ran.stdout.decode().splitlines()
    assert shell in ("sh 0", "bash 0")
    assert (told, piped, ran.exit_code) == ("as text", "b", 4)


async def test_guppy_087_ten_megabytes_of_a_stream_are_stored_and_a_cut_is_noted(
    sandbox: Sandbox, grounds: SessionFolders
) -> None:
    script = "head -c 12000000 /dev/zero | tr '\\0' x; head -c 11000000 /dev/zero | tr '\\0' y >&2"
    ran = await sandbox.exec(SandboxCommand(script=script, folders=grounds))
    assert ran.truncated
    assert len(ran.stdout) <= 10 * 1024 * 1024
    assert len(ran.stderr) <= 10 * 1024 * 1024
    assert len(ran.stdout) + len(ran.stderr) > 19 * 1024 * 1024
    assert not (await sandbox.exec(SandboxCommand(script="echo short", folders=grounds))).truncated


def test_guppy_090_the_files_are_at_workspace_unless_the_owner_says_otherwise(tmp_path: Path) -> None:
    sandbox = build_sandbox(DockerOptions(container="box", folder=str(tmp_path)), SandboxLimits())
    assert sandbox.to_sandbox_path(str(tmp_path / "notes" / "a.txt")) == "/workspace/notes/a.txt"
    assert sandbox.to_host_path("/workspace/notes/a.txt") == str(tmp_path / "notes" / "a.txt")


async def test_guppy_090_docker_runs_a_command_in_a_container_managed_by_the_owner(tmp_path: Path) -> None:
    real, log = fake_docker(tmp_path), tmp_path / "docker.log"
    spy = tmp_path / "spy"
    spy.write_text(f'#!/bin/sh\necho "$@" | head -n 1 >> {log}\nexec {real} "$@"\n')
    spy.chmod(0o755)
    sandbox = DockerSandbox("box", docker=str(spy))
    grounds = create_folders(tmp_path)
    assert (await sandbox.exec(SandboxCommand(script="echo made > x.txt", folders=grounds))).exit_code == 0
    await sandbox.close()
    assert Path(grounds.cwd, "x.txt").read_text() == "made\n"
    words = [line.split() for line in log.read_text().splitlines()]
    assert {line[0] for line in words} == {"inspect", "exec"}, "it is neither made nor ended by us"
    assert all("box" in line for line in words)
    assert sandbox.to_sandbox_path(grounds.cwd) == str(tmp_path / "box" / "workspace" / "work")
    assert any(sandbox.to_sandbox_path(grounds.cwd) in line for line in words if line[0] == "exec"), (
        "where the container has it"
    )


async def test_guppy_082_the_agent_is_told_the_containers_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    docker = fake_docker(work)
    monkeypatch.setenv("PATH", f"{Path(docker).parent}:{os.environ['PATH']}")
    provider = ScriptedProvider([[Call("bash", {"command": "echo made > x.txt"})], "done"])
    config = Config(
        tools=ToolSettings(builtin=("bash", "read"), roots=(str(work),)),
        sandbox=SandboxSettings(kind="docker", container="box"),
        policy=PolicySettings(allow=("bash",)),
    )
    async with Agent(provider, home=tmp_path / "home", config=config) as agent:
        await agent.run("s", "make it")
        inside = work / "box" / "workspace"
        assert f"You work in {inside}; " in provider.asked[0].system
        assert (work / "x.txt").read_text() == "made\n"


async def test_guppy_043_an_abort_during_a_tool_kills_its_whole_process_tree(
    tmp_path: Path, grounds: SessionFolders
) -> None:
    provider = ScriptedProvider([[Call("bash", {"command": beating(grounds)})], "never"])
    config = Config(
        tools=ToolSettings(builtin=("bash",), roots=(grounds.cwd,)),
        policy=PolicySettings(allow=("bash",)),
        limits=Limits(undo_turn_bytes_max=0),  # so that its beats are in the folder while it runs
    )
    async with Agent(provider, home=tmp_path / "home", config=config) as agent:
        turn = asyncio.ensure_future(agent.run("s", "work"))
        await at_work(grounds)
        assert await agent.abort("s")
        await turn
        await dead(grounds)
