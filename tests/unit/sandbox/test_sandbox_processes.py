"""Commands and our own process: what happens to them when we die, are flooded, or run on another loop."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from mainstay.core.errors import AgentClosed, InputRefused
from mainstay.core.tool_ports import SandboxCommand
from mainstay.sandbox.base import BaseSandbox
from mainstay.sandbox.bubblewrap.sandbox import BubblewrapSandbox, bubblewrap_problem
from mainstay.sandbox.host.sandbox import HostSandbox
from mainstay.sandbox.limits import SandboxLimits, SandboxUnusable
from mainstay.testing.sandbox_suite import DAEMON_SCRIPTS, create_folders, find_processes

SANDBOXES = [
    pytest.param(HostSandbox, id="host"),
    pytest.param(
        BubblewrapSandbox,
        id="bubblewrap",
        marks=pytest.mark.skipif(bubblewrap_problem() is not None, reason=bubblewrap_problem() or ""),
    ),
]
Make = Callable[..., BaseSandbox]

DIES = """
import asyncio, sys
from pathlib import Path
from mainstay.core.tool_ports import SandboxCommand
from {module} import {name}
from mainstay.testing.sandbox_suite import create_folders

async def main():
    command = SandboxCommand(script=sys.argv[3], folders=create_folders(Path(sys.argv[1])), env={{"MARK": sys.argv[2]}})
    sandbox = {name}()
    await sandbox.start(command)
    await sandbox.exec(command, lambda stream, data: print("up", flush=True))

asyncio.run(main())
"""


@pytest.mark.parametrize("make", SANDBOXES)
def test_no_command_survives_our_process(make: type[BaseSandbox], tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    script = "\n".join([*DAEMON_SCRIPTS.values(), "trap '' TERM; echo up; sleep 1000; sleep 1000"])
    source = DIES.format(module=make.__module__, name=make.__name__)
    ours = subprocess.Popen([sys.executable, "-c", source, str(tmp_path), mark, script], stdout=subprocess.PIPE)
    assert ours.stdout is not None
    try:
        assert ours.stdout.readline() == b"up\n"
        assert len(find_processes(mark)) > 5
    finally:
        ours.send_signal(signal.SIGKILL)
        ours.wait()
        ours.stdout.close()
    patience = time.monotonic() + 120
    while find_processes(mark) and time.monotonic() < patience:
        os.sched_yield()
    assert find_processes(mark) == []


@pytest.mark.parametrize("make", SANDBOXES)
def test_it_works_on_uvloop_too(make: Make, tmp_path: Path) -> None:
    async def work() -> None:
        sandbox, mark = make(), uuid.uuid4().hex
        command = SandboxCommand(script="cat; echo err >&2; exit 3", folders=create_folders(tmp_path), input=b"in")
        every = await asyncio.gather(*(sandbox.exec(command) for _ in range(10)))
        assert {(ran.exit_code, ran.stdout, ran.stderr) for ran in every} == {(3, b"in", b"err\n")}
        stays = SandboxCommand(
            script="setsid sleep 1000 & sleep 1000", folders=create_folders(tmp_path), env={"MARK": mark}
        )
        process = await sandbox.start(stays)
        running = asyncio.create_task(sandbox.exec(stays))
        await asyncio.wait({running}, timeout=0.1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await process.stop()
        assert find_processes(mark) == []
        await sandbox.close()

    _on_uvloop(work())


def _on_uvloop(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


@pytest.mark.parametrize("make", SANDBOXES)
async def test_no_file_and_no_zombie_is_left(make: Make, tmp_path: Path) -> None:
    sandbox = make()
    command = SandboxCommand(
        script="echo x; (sleep 5 &) ; exit 1",
        folders=create_folders(tmp_path),
        protect_deletions=sandbox.can_protect_deletions,
    )
    await sandbox.exec(command)
    before = sorted(os.listdir("/dev/fd"))
    for _ in range(10):
        await sandbox.exec(command)
        process = await sandbox.start(command)
        await process.read(5)
        await process.stop()
    assert sorted(os.listdir("/dev/fd")) == before
    states = subprocess.run(["ps", "-o", "stat=", "--ppid", str(os.getpid())], capture_output=True, check=False)
    assert b"Z" not in states.stdout
    await sandbox.close()


async def test_a_flood_neither_fills_memory_nor_blocks_the_loop(tmp_path: Path) -> None:
    """F22"""
    sandbox = HostSandbox(SandboxLimits(output_bytes=1_000_000))
    command = SandboxCommand(script="yes flood & yes flood >&2", folders=create_folders(tmp_path), timeout_s=1.5)
    before, spent = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    ran = await sandbox.exec(command)
    assert ran.truncated
    assert ran.timed_out
    assert len(ran.stdout) == len(ran.stderr) == 1_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000  # KB
    assert time.process_time() - spent < 1.0  # it was not all we did
    await sandbox.close()


async def test_a_nearly_full_disk_ends_a_command(tmp_path: Path) -> None:
    stat = os.statvfs(tmp_path)
    left_mb = stat.f_bavail * stat.f_frsize // (1024 * 1024)
    sandbox = HostSandbox(SandboxLimits(disk_free_mb=left_mb - 20))
    script = "i=0; while :; do i=$((i + 1)); head -c 2000000 /dev/zero > file$i; sync file$i; done"
    ran = await sandbox.exec(SandboxCommand(script=script, folders=create_folders(tmp_path), timeout_s=240))
    assert ran.exit_code == 137
    assert b"left on the disk" in ran.stderr
    await sandbox.close()


async def test_too_many_wait_their_turn_and_too_many_processes_are_refused(tmp_path: Path) -> None:
    sandbox = HostSandbox(SandboxLimits(commands=2, background=2))
    counting = "mkdir here.$$; ls -d here.* | wc -l; sleep 0.05; rmdir here.$$"
    command = SandboxCommand(script=counting, folders=create_folders(tmp_path))
    every = await asyncio.gather(*(sandbox.exec(command) for _ in range(6)))
    assert max(int(ran.stdout) for ran in every) <= 2
    stays = SandboxCommand(script="sleep 1000", folders=create_folders(tmp_path))
    for _ in range(2):
        await sandbox.start(stays)
    with pytest.raises(InputRefused, match="2 processes run already"):
        await sandbox.start(stays)
    await sandbox.close()
    with pytest.raises(AgentClosed):
        await sandbox.exec(command)


async def test_the_host_cannot_hold_back_removals_and_says_so(tmp_path: Path) -> None:
    sandbox = HostSandbox()
    assert (sandbox.can_protect_deletions, sandbox.is_confined) == (False, False)
    with pytest.raises(SandboxUnusable, match="hold back deletions"):
        await sandbox.exec(SandboxCommand(script="touch ran", folders=create_folders(tmp_path), protect_deletions=True))
    assert not (tmp_path / "work/ran").exists()


async def test_a_killed_supervisor_does_not_leave_us_waiting(tmp_path: Path) -> None:
    """On the host a command can kill its own keeper; we notice, and go on."""
    sandbox = HostSandbox()
    ran = await sandbox.exec(
        SandboxCommand(script="kill -9 $PPID; exit 0", folders=create_folders(tmp_path), timeout_s=240)
    )
    assert ran.exit_code == 137
    assert not ran.timed_out
    await sandbox.close()


async def test_a_process_that_reads_nothing_does_not_block_our_writes(tmp_path: Path) -> None:
    sandbox = HostSandbox()
    process = await sandbox.start(SandboxCommand(script="echo up; sleep 1000", folders=create_folders(tmp_path)))
    await process.read(5)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(process.write(b"x" * 1_000_000), 0.2)
    await process.stop()
    assert process.exit_code == 143
    await sandbox.close()
