"""Conformance suite of the Sandbox port. Subclass it and override `make`:

class TestMySandbox(SandboxSuite):
    def make(self, folder: Path) -> Sandbox: ...

Further suites: `SandboxLimitsSuite` for a sandbox with resource limits, `SandboxEscapeSuite` (sandbox_escape_suite) for
one that confines commands, `SandboxDeletionSuite` (sandbox_file_deletion_suite) for one that protects
files from deletion.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

from msgspec.structs import replace

from mainstay.core.errors import InputRefused
from mainstay.core.tool_ports import CommandResult, Sandbox, SandboxCommand, SessionFolders
from mainstay.testing.store_writer import expect_error

TIMEOUT_S = 120.0
EXIT_TIMEOUT_S = 120.0  # for killed processes to disappear
DAEMON_SCRIPTS = {  # scripts that start a process which tries to outlive its command
    "in the background": "sleep 1000 &",
    "in a session of its own": "setsid sleep 1000 &",
    "forked twice": "(setsid sh -c 'sleep 1000 & exit' &)",
    "ignores SIGHUP": "nohup sleep 1000 >/dev/null 2>&1 &",
    "ignores SIGTERM": "(trap '' TERM HUP INT; sleep 1000; sleep 1000) &",
}


def create_folders(folder: Path) -> SessionFolders:
    """Create a workspace and a scratch folder."""
    for name in ("work", "scratch"):
        (folder / name).mkdir(exist_ok=True)
    real = os.path.realpath(folder)
    return SessionFolders(cwd=f"{real}/work", writable=(f"{real}/work", f"{real}/scratch"), scratch=f"{real}/scratch")


def write_file(folder: Path, name: str, text: str) -> str:
    """Write a file in the workspace; return its path on the host."""
    path = Path(create_folders(folder).cwd, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def read_text(path: str) -> str | None:
    """Return the text of a file; None if it does not exist."""
    return Path(path).read_text() if os.path.lexists(path) else None


def find_processes(marker: str) -> list[str]:
    """Return the processes on this machine whose environment or command line contains the marker."""
    if not os.path.isdir("/proc/self"):
        listed = subprocess.run(["ps", "-Eaxo", "command="], capture_output=True, text=True, check=False).stdout
        return [line for line in listed.splitlines() if marker in line]
    matches = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            cmdline, env = Path(f"/proc/{pid}/cmdline").read_bytes(), Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:  # it ended, or belongs to another user
            continue
        if marker.encode() in cmdline + env:
            matches.append(f"{pid} {cmdline.replace(bytes(1), b' ').decode(errors='replace')[:200]}")
    return matches


async def surviving_processes(marker: str) -> list[str]:
    """Return the processes with the marker that still run after `EXIT_TIMEOUT_S`."""
    until = time.monotonic() + EXIT_TIMEOUT_S
    while (matches := find_processes(marker)) and time.monotonic() < until:  # noqa: ASYNC110 - there is no notification
        await asyncio.sleep(0.01)
    return matches


class OutputCollector:
    """Collects the output that a sandbox passes to its callback."""

    def __init__(self) -> None:
        self.output = b""
        self._has_output = asyncio.Event()

    def add(self, stream: str, data: bytes) -> None:
        self.output += data
        self._has_output.set()

    async def wait_for(self, text: bytes) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while text not in self.output:
                self._has_output.clear()
                await self._has_output.wait()


class SandboxSuiteBase:
    """Base of the sandbox suites: creates the sandbox under test and runs commands in it."""

    def make(self, folder: Path) -> Sandbox:
        raise NotImplementedError

    def build_command(self, folder: Path, script: str) -> SandboxCommand:
        return SandboxCommand(script=script, folders=create_folders(folder), timeout_s=TIMEOUT_S)

    async def run_script(self, folder: Path, script: str) -> CommandResult:
        return await self.run_command(folder, self.build_command(folder, script))

    async def run_command(self, folder: Path, command: SandboxCommand) -> CommandResult:
        sandbox = self.make(folder)
        try:
            return await sandbox.exec(command)
        finally:
            await sandbox.close()


class SandboxSuite(SandboxSuiteBase):
    """Tests of every sandbox; a subclass overrides `make`."""

    async def test_a_command_returns_its_output_and_exit_code(self, tmp_path: Path) -> None:
        result = await self.run_script(tmp_path, "echo out; echo err >&2; exit 3")
        assert (result.exit_code, result.stdout, result.stderr) == (3, b"out\n", b"err\n")
        assert not result.timed_out
        assert not result.truncated

    async def test_a_signal_is_reported_as_a_shell_does(self, tmp_path: Path) -> None:
        assert (await self.run_script(tmp_path, "kill -9 $$")).exit_code == 137
        assert (await self.run_script(tmp_path, "kill -15 $$")).exit_code == 143
        assert (await self.run_script(tmp_path, "no-such-program-anywhere")).exit_code == 127

    async def test_input_is_passed_and_without_it_stdin_is_empty(self, tmp_path: Path) -> None:
        command = replace(self.build_command(tmp_path, "wc -c"), input=b"x" * 300_000)
        assert (await self.run_command(tmp_path, command)).stdout.strip() == b"300000"
        assert (await self.run_script(tmp_path, "cat; echo done")).stdout == b"done\n"

    async def test_it_runs_in_its_folder_and_the_host_sees_its_files(self, tmp_path: Path) -> None:
        result = await self.run_script(tmp_path, "mkdir -p deep/er && echo hi > deep/er/file && cat deep/er/file")
        assert result.stdout == b"hi\n"
        assert (tmp_path / "work/deep/er/file").read_text() == "hi\n"
        inner = replace(self.build_command(tmp_path, "cat file"), cwd=create_folders(tmp_path).cwd + "/deep/er")
        assert (await self.run_command(tmp_path, inner)).stdout == b"hi\n"

    async def test_paths_are_translated_both_ways(self, tmp_path: Path) -> None:
        sandbox = self.make(tmp_path)
        path = write_file(tmp_path, "a file", "found")
        inside = sandbox.to_sandbox_path(path)
        assert sandbox.to_host_path(inside) == path
        assert (await sandbox.exec(self.build_command(tmp_path, f"cat '{inside}'"))).stdout == b"found"
        await sandbox.close()

    async def test_output_is_streamed_while_it_runs(self, tmp_path: Path) -> None:
        sandbox, output = self.make(tmp_path), OutputCollector()
        script = "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two"
        running = asyncio.create_task(sandbox.exec(self.build_command(tmp_path, script), output.add))
        await output.wait_for(b"one")
        assert not running.done()
        (tmp_path / "work/go").touch()
        assert (await running).stdout == output.output == b"one\ntwo\n"
        await sandbox.close()

    async def test_excessive_output_is_truncated_without_blocking_the_command(self, tmp_path: Path) -> None:
        """F22"""
        result = await self.run_script(tmp_path, "head -c 15000000 /dev/zero; echo over >&2; exit 5")
        assert result.truncated
        assert result.exit_code == 5
        assert result.stderr == b"over\n"
        assert 1_000_000 < len(result.stdout) < 15_000_000

    async def test_it_inherits_a_short_environment_without_secrets(self, tmp_path: Path) -> None:
        """F40"""
        name, canary = f"KEY_{uuid.uuid4().hex}", uuid.uuid4().hex
        os.environ[name] = canary
        try:
            command = replace(
                self.build_command(tmp_path, "env; cat /proc/$PPID/environ /proc/1/environ"), env={"OWN": "mine"}
            )
            result = await self.run_command(tmp_path, command)
        finally:
            del os.environ[name]
        assert b"OWN=mine" in result.stdout
        assert canary.encode() not in result.stdout
        assert f"HOME={Path.home()}\n".encode() not in result.stdout

    async def test_background_processes_are_killed_when_the_command_ends(self, tmp_path: Path) -> None:
        for name, script in DAEMON_SCRIPTS.items():
            marker = uuid.uuid4().hex
            command = replace(self.build_command(tmp_path, f"{script}\necho up"), env={"MARK": marker})
            result = await self.run_command(tmp_path, command)
            assert result.stdout == b"up\n", name
            assert await surviving_processes(marker) == [], name

    async def test_a_timeout_kills_the_command_and_its_descendants(self, tmp_path: Path) -> None:
        marker = uuid.uuid4().hex
        script = "\n".join([*DAEMON_SCRIPTS.values(), "echo up; sleep 1000"])
        result = await self.run_command(
            tmp_path, replace(self.build_command(tmp_path, script), env={"MARK": marker}, timeout_s=1.0)
        )
        assert result.timed_out
        assert result.exit_code != 0
        assert result.stdout == b"up\n"
        assert await surviving_processes(marker) == []

    async def test_cancelling_kills_the_command_and_its_descendants(self, tmp_path: Path) -> None:
        sandbox = self.make(tmp_path)
        script = "\n".join([*DAEMON_SCRIPTS.values(), "trap '' TERM; echo up; sleep 1000; sleep 1000"])
        marker, output = uuid.uuid4().hex, OutputCollector()
        command = replace(self.build_command(tmp_path, script), env={"MARK": marker})
        running = asyncio.create_task(sandbox.exec(command, output.add))
        await output.wait_for(b"up")
        assert find_processes(marker) != []
        running.cancel()
        await asyncio.sleep(0)
        running.cancel()  # a second time, while the first is being handled
        await expect_error(asyncio.CancelledError, running)  # type: ignore[arg-type]
        assert await surviving_processes(marker) == []
        await sandbox.close()

    async def test_cancelling_at_any_moment_leaves_no_process_and_no_open_file(self, tmp_path: Path) -> None:
        sandbox, marker = self.make(tmp_path), uuid.uuid4().hex
        command = replace(self.build_command(tmp_path, "setsid sleep 1000 & sleep 1000"), env={"MARK": marker})
        before = len(os.listdir("/dev/fd"))
        for moment_s in (0.0, 0.001, 0.004, 0.008, 0.012, 0.016, 0.02, 0.03, 0.05, 0.1):
            running = asyncio.create_task(sandbox.exec(command))
            await asyncio.wait({running}, timeout=moment_s)
            running.cancel()
            await expect_error(asyncio.CancelledError, running)  # type: ignore[arg-type]
            assert await surviving_processes(marker) == [], moment_s
        await sandbox.close()
        assert len(os.listdir("/dev/fd")) <= before

    async def test_commands_run_concurrently(self, tmp_path: Path) -> None:
        sandbox = self.make(tmp_path)
        scripts = [f"echo {number}; exit {number}" for number in range(20)]
        results = await asyncio.gather(*(sandbox.exec(self.build_command(tmp_path, script)) for script in scripts))
        assert [(result.exit_code, result.stdout) for result in results] == [(n, f"{n}\n".encode()) for n in range(20)]
        await sandbox.close()

    async def test_an_invalid_command_is_refused_with_a_message(self, tmp_path: Path) -> None:
        sandbox = self.make(tmp_path)
        good = self.build_command(tmp_path, "touch ran")
        for bad in (
            replace(good, script=" "),
            replace(good, script="touch ran\0"),
            replace(good, script="touch ran #" + "x" * 1_000_000),
            replace(good, cwd="/usr"),
            replace(good, cwd=good.folders.cwd + "/.."),
            replace(good, cwd=good.folders.cwd + "/missing"),
            replace(good, env={"A=B": "c"}),
        ):
            error = await expect_error(InputRefused, sandbox.exec(bad))
            assert len(str(error)) > 10
        assert not (tmp_path / "work/ran").exists()
        await sandbox.close()

    async def test_a_background_process_is_read_written_and_stopped(self, tmp_path: Path) -> None:
        sandbox, marker = self.make(tmp_path), uuid.uuid4().hex
        script = f'{DAEMON_SCRIPTS["forked twice"]}\nwhile read -r line; do echo "got $line"; done'
        process = await sandbox.start(replace(self.build_command(tmp_path, script), env={"MARK": marker}))
        for word in ("one", "two"):
            await process.write(word.encode() + b"\n")
            output = b""
            while not output.endswith(b"\n"):
                output += await process.read(10)
            assert output == f"got {word}\n".encode()
        assert [process.exit_code, find_processes(marker) != []] == [None, True]
        await process.stop()
        assert process.exit_code is not None
        assert await surviving_processes(marker) == []
        await expect_error(InputRefused, process.write(b"three\n"))
        await sandbox.close()

    async def test_a_background_process_ends_by_itself(self, tmp_path: Path) -> None:
        sandbox = self.make(tmp_path)
        process = await sandbox.start(self.build_command(tmp_path, "echo out; echo err >&2; exit 4"))
        output = b""
        while process.exit_code is None:
            output += await process.read(10)
        assert process.exit_code == 4
        assert output + await process.read() == b"out\nerr\n"
        await process.stop()
        await sandbox.close()

    async def test_unread_output_is_dropped_with_a_note(self, tmp_path: Path) -> None:
        sandbox = self.make(tmp_path)
        script = """trap 'echo the end; exit' TERM
        sh -c "trap '' TERM; echo up; head -c 5000000 /dev/zero"
        while :; do sleep 0.01; done"""
        process = await sandbox.start(self.build_command(tmp_path, script))
        assert (await process.read(10)).startswith(b"up")
        await process.stop(30)
        output = await process.read()
        assert len(output) < 2_000_000
        assert b"dropped" in output[:100]
        assert output.endswith(b"the end\n")
        await sandbox.close()

    async def test_closing_kills_everything_that_runs(self, tmp_path: Path) -> None:
        sandbox, marker, output = self.make(tmp_path), uuid.uuid4().hex, OutputCollector()
        command = replace(
            self.build_command(tmp_path, "trap '' TERM; echo up; sleep 1000; sleep 1000"), env={"MARK": marker}
        )
        processes = [await sandbox.start(command) for _ in range(3)]
        running = asyncio.create_task(sandbox.exec(command, output.add))
        await output.wait_for(b"up")
        await sandbox.close()
        assert await surviving_processes(marker) == []
        assert (await running).exit_code != 0
        assert all(process.exit_code is not None for process in processes)


class SandboxLimitsSuite(SandboxSuiteBase):
    """Tests of resource limits. `make_limited` creates a sandbox with 64 processes, 256 MB of memory, 8 MB per file."""

    def make_limited(self, folder: Path) -> Sandbox:
        raise NotImplementedError

    async def run_limited(self, folder: Path, script: str) -> CommandResult:
        sandbox = self.make_limited(folder)
        try:
            return await sandbox.exec(self.build_command(folder, script))
        finally:
            await sandbox.close()

    async def test_a_fork_bomb_is_killed(self, tmp_path: Path) -> None:
        marker = uuid.uuid4().hex
        # Doubles as fast as it can, but stops at a thousand processes to spare the machine if the limit does not work.
        bomb = "f() { [ $1 -gt 0 ] && { f $(($1 - 1)) & f $(($1 - 1)) & }; sleep 30; }; f 8"
        result = await self.run_limited(tmp_path, f"sh -c '{bomb} # {marker}'")
        assert result.exit_code != 0
        assert b"64 processes" in result.stderr, result
        assert await surviving_processes(marker) == []

    async def test_one_process_cannot_take_all_memory(self, tmp_path: Path) -> None:
        result = await self.run_limited(tmp_path, f"{sys.executable} -S -c 'bytearray(2_000_000_000)'")
        assert result.exit_code != 0
        assert b"MemoryError" in result.stderr

    async def test_many_processes_together_cannot_take_all_memory(self, tmp_path: Path) -> None:
        take = f"{sys.executable} -S -c 'x = b\"x\" * 40_000_000; import time; time.sleep(30)' &"
        result = await self.run_limited(tmp_path, "\n".join([take] * 8 + ["wait"]))
        assert result.exit_code != 0
        assert b"256 MB" in result.stderr, result

    async def test_the_size_of_a_file_is_limited(self, tmp_path: Path) -> None:
        result = await self.run_limited(tmp_path, "head -c 20000000 /dev/zero > large; echo $?; echo small > small")
        assert (tmp_path / "work/large").stat().st_size <= 8 * 1024 * 1024
        assert result.stdout.strip() != b"0"
        assert (tmp_path / "work/small").exists()

    async def test_no_core_is_dumped(self, tmp_path: Path) -> None:
        result = await self.run_limited(tmp_path, "ulimit -c; ulimit -n")
        assert result.stdout.split()[0] == b"0"
        assert int(result.stdout.split()[1]) <= 1024
