"""What every Sandbox must do. Subclass it, say how to make one, and let your test runner find the tests.

class TestMySandbox(SandboxSuite):
    def make(self, where: Path) -> Sandbox: ...

`BoundedSuite` is for one that bounds what a command takes, `ConfinedSuite` (escape_suite) for one with walls, and
`GuardingSuite` (guarding_suite) for one that holds removals back.
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
from mainstay.core.outside import Command, Grounds, Ran, Sandbox
from mainstay.testing.writing import expect

LONG_S = 60.0
VANISH_S = 5.0
WAYS_TO_STAY = {
    "in the background": "sleep 1000 &",
    "in a session of its own": "setsid sleep 1000 &",
    "forked twice": "(setsid sh -c 'sleep 1000 & exit' &)",
    "deaf to a hangup": "nohup sleep 1000 >/dev/null 2>&1 &",
    "deaf to a polite end": "(trap '' TERM HUP INT; sleep 1000; sleep 1000) &",
}


def grounds_at(where: Path) -> Grounds:
    """A workspace and a scratch folder beside it."""
    for name in ("work", "scratch"):
        (where / name).mkdir(exist_ok=True)
    real = os.path.realpath(where)
    return Grounds(cwd=f"{real}/work", writable=(f"{real}/work", f"{real}/scratch"), scratch=f"{real}/scratch")


def write(where: Path, name: str, text: str) -> str:
    """A file in the workspace; its path as the host calls it."""
    path = Path(grounds_at(where).cwd, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def text_of(path: str) -> str | None:
    """None if there is nothing under this name."""
    return Path(path).read_text() if os.path.lexists(path) else None


def left_over(mark: str) -> list[str]:
    """Processes on this machine whose environment or words carry the mark."""
    if not os.path.isdir("/proc/self"):
        listed = subprocess.run(["ps", "-Eaxo", "command="], capture_output=True, text=True, check=False).stdout
        return [line for line in listed.splitlines() if mark in line]
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words, env = Path(f"/proc/{pid}/cmdline").read_bytes(), Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:  # it is gone, or not ours
            continue
        if mark.encode() in words + env:
            found.append(f"{pid} {words.replace(bytes(1), b' ').decode(errors='replace')[:200]}")
    return found


async def outlived(mark: str) -> list[str]:
    """Those that are still there when the system has had the time to take away what was ended."""
    until = time.monotonic() + VANISH_S
    while (found := left_over(mark)) and time.monotonic() < until:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.01)
    return found


class Heard:
    """What came through the callback, and a way to wait for it."""

    def __init__(self) -> None:
        self.said = b""
        self._came = asyncio.Event()

    def take(self, stream: str, data: bytes) -> None:
        self.said += data
        self._came.set()

    async def until(self, text: bytes) -> None:
        async with asyncio.timeout(30):
            while text not in self.said:
                self._came.clear()
                await self._came.wait()


class Stage:
    """A sandbox to be tested, and something to run in it."""

    def make(self, where: Path) -> Sandbox:
        raise NotImplementedError

    def command(self, where: Path, script: str) -> Command:
        return Command(script=script, grounds=grounds_at(where), timeout_s=LONG_S)

    async def run(self, where: Path, script: str) -> Ran:
        return await self.run_command(where, self.command(where, script))

    async def run_command(self, where: Path, command: Command) -> Ran:
        sandbox = self.make(where)
        try:
            return await sandbox.exec(command)
        finally:
            await sandbox.close()


class SandboxSuite(Stage):
    """Everything that a sandbox promises; `make` is the one thing a subclass must say."""

    async def test_a_command_says_what_it_says_and_how_it_ended(self, tmp_path: Path) -> None:
        ran = await self.run(tmp_path, "echo out; echo err >&2; exit 3")
        assert (ran.code, ran.stdout, ran.stderr) == (3, b"out\n", b"err\n")
        assert not ran.timed_out
        assert not ran.cut

    async def test_a_signal_is_told_as_a_shell_tells_it(self, tmp_path: Path) -> None:
        assert (await self.run(tmp_path, "kill -9 $$")).code == 137
        assert (await self.run(tmp_path, "kill -15 $$")).code == 143
        assert (await self.run(tmp_path, "no-such-program-anywhere")).code == 127

    async def test_input_reaches_it_and_none_is_an_end(self, tmp_path: Path) -> None:
        given = replace(self.command(tmp_path, "wc -c"), input=b"x" * 300_000)
        assert (await self.run_command(tmp_path, given)).stdout.strip() == b"300000"
        assert (await self.run(tmp_path, "cat; echo done")).stdout == b"done\n"

    async def test_it_works_where_it_is_told_and_the_host_sees_it(self, tmp_path: Path) -> None:
        ran = await self.run(tmp_path, "mkdir -p deep/er && echo hi > deep/er/file && cat deep/er/file")
        assert ran.stdout == b"hi\n"
        assert (tmp_path / "work/deep/er/file").read_text() == "hi\n"
        inner = replace(self.command(tmp_path, "cat file"), cwd=grounds_at(tmp_path).cwd + "/deep/er")
        assert (await self.run_command(tmp_path, inner)).stdout == b"hi\n"

    async def test_paths_go_in_and_come_back(self, tmp_path: Path) -> None:
        sandbox = self.make(tmp_path)
        path = write(tmp_path, "a file", "found")
        inside = sandbox.inside(path)
        assert sandbox.outside(inside) == path
        assert (await sandbox.exec(self.command(tmp_path, f"cat '{inside}'"))).stdout == b"found"
        await sandbox.close()

    async def test_output_comes_while_it_runs(self, tmp_path: Path) -> None:
        sandbox, heard = self.make(tmp_path), Heard()
        script = "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two"
        running = asyncio.create_task(sandbox.exec(self.command(tmp_path, script), heard.take))
        await heard.until(b"one")
        assert not running.done()
        (tmp_path / "work/go").touch()
        assert (await running).stdout == heard.said == b"one\ntwo\n"
        await sandbox.close()

    async def test_a_flood_is_cut_and_does_not_hold_the_command_up(self, tmp_path: Path) -> None:
        """F22"""
        ran = await self.run(tmp_path, "head -c 15000000 /dev/zero; echo over >&2; exit 5")
        assert ran.cut
        assert ran.code == 5
        assert ran.stderr == b"over\n"
        assert 1_000_000 < len(ran.stdout) < 15_000_000

    async def test_it_inherits_a_short_list_and_no_secret(self, tmp_path: Path) -> None:
        """F40"""
        name, canary = f"KEY_{uuid.uuid4().hex}", uuid.uuid4().hex
        os.environ[name] = canary
        try:
            given = replace(self.command(tmp_path, "env; cat /proc/$PPID/environ /proc/1/environ"), env={"OWN": "mine"})
            ran = await self.run_command(tmp_path, given)
        finally:
            del os.environ[name]
        assert b"OWN=mine" in ran.stdout
        assert canary.encode() not in ran.stdout
        assert f"HOME={Path.home()}\n".encode() not in ran.stdout

    async def test_what_is_left_when_it_ends_is_ended(self, tmp_path: Path) -> None:
        for name, way in WAYS_TO_STAY.items():
            mark = uuid.uuid4().hex
            given = replace(self.command(tmp_path, f"{way}\necho up"), env={"MARK": mark})
            ran = await self.run_command(tmp_path, given)
            assert ran.stdout == b"up\n", name
            assert await outlived(mark) == [], name

    async def test_out_of_time_it_is_ended_with_all_its_descendants(self, tmp_path: Path) -> None:
        mark = uuid.uuid4().hex
        script = "\n".join([*WAYS_TO_STAY.values(), "echo up; sleep 1000"])
        ran = await self.run_command(
            tmp_path, replace(self.command(tmp_path, script), env={"MARK": mark}, timeout_s=1.0)
        )
        assert ran.timed_out
        assert ran.code != 0
        assert ran.stdout == b"up\n"
        assert await outlived(mark) == []

    async def test_cancelled_it_is_ended_with_all_its_descendants(self, tmp_path: Path) -> None:
        sandbox = self.make(tmp_path)
        script = "\n".join([*WAYS_TO_STAY.values(), "trap '' TERM; echo up; sleep 1000; sleep 1000"])
        mark, heard = uuid.uuid4().hex, Heard()
        given = replace(self.command(tmp_path, script), env={"MARK": mark})
        running = asyncio.create_task(sandbox.exec(given, heard.take))
        await heard.until(b"up")
        assert left_over(mark) != []
        running.cancel()
        await asyncio.sleep(0)
        running.cancel()  # an impatient one
        await expect(asyncio.CancelledError, running)  # type: ignore[arg-type]
        assert await outlived(mark) == []
        await sandbox.close()

    async def test_cancelled_at_any_moment_it_leaves_nothing(self, tmp_path: Path) -> None:
        sandbox, mark = self.make(tmp_path), uuid.uuid4().hex
        given = replace(self.command(tmp_path, "setsid sleep 1000 & sleep 1000"), env={"MARK": mark})
        before = len(os.listdir("/dev/fd"))
        for moment_s in (0.0, 0.001, 0.004, 0.008, 0.012, 0.016, 0.02, 0.03, 0.05, 0.1):
            running = asyncio.create_task(sandbox.exec(given))
            await asyncio.wait({running}, timeout=moment_s)
            running.cancel()
            await expect(asyncio.CancelledError, running)  # type: ignore[arg-type]
            assert await outlived(mark) == [], moment_s
        await sandbox.close()
        assert len(os.listdir("/dev/fd")) <= before

    async def test_many_run_at_once(self, tmp_path: Path) -> None:
        sandbox = self.make(tmp_path)
        scripts = [f"echo {number}; exit {number}" for number in range(20)]
        every = await asyncio.gather(*(sandbox.exec(self.command(tmp_path, script)) for script in scripts))
        assert [(ran.code, ran.stdout) for ran in every] == [(n, f"{n}\n".encode()) for n in range(20)]
        await sandbox.close()

    async def test_what_cannot_run_is_refused_in_a_sentence(self, tmp_path: Path) -> None:
        sandbox = self.make(tmp_path)
        good = self.command(tmp_path, "touch ran")
        for bad in (
            replace(good, script=" "),
            replace(good, script="touch ran\0"),
            replace(good, script="touch ran #" + "x" * 1_000_000),
            replace(good, cwd="/usr"),
            replace(good, cwd=good.grounds.cwd + "/.."),
            replace(good, cwd=good.grounds.cwd + "/missing"),
            replace(good, env={"A=B": "c"}),
        ):
            error = await expect(InputRefused, sandbox.exec(bad))
            assert len(str(error)) > 10
        assert not (tmp_path / "work/ran").exists()
        await sandbox.close()

    async def test_a_process_is_heard_spoken_to_and_stopped(self, tmp_path: Path) -> None:
        sandbox, mark = self.make(tmp_path), uuid.uuid4().hex
        script = f'{WAYS_TO_STAY["forked twice"]}\nwhile read -r line; do echo "got $line"; done'
        process = await sandbox.start(replace(self.command(tmp_path, script), env={"MARK": mark}))
        for word in ("one", "two"):
            await process.write(word.encode() + b"\n")
            heard = b""
            while not heard.endswith(b"\n"):
                heard += await process.read(10)
            assert heard == f"got {word}\n".encode()
        assert [process.code, left_over(mark) != []] == [None, True]
        await process.stop()
        assert process.code is not None
        assert await outlived(mark) == []
        await expect(InputRefused, process.write(b"three\n"))
        await sandbox.close()

    async def test_a_process_ends_by_itself(self, tmp_path: Path) -> None:
        sandbox = self.make(tmp_path)
        process = await sandbox.start(self.command(tmp_path, "echo out; echo err >&2; exit 4"))
        heard = b""
        while process.code is None:
            heard += await process.read(10)
        assert process.code == 4
        assert heard + await process.read() == b"out\nerr\n"
        await process.stop()
        await sandbox.close()

    async def test_what_nobody_reads_is_dropped_with_a_note(self, tmp_path: Path) -> None:
        sandbox = self.make(tmp_path)
        script = """trap 'echo the end; exit' TERM
        sh -c "trap '' TERM; echo up; head -c 5000000 /dev/zero"
        while :; do sleep 0.01; done"""
        process = await sandbox.start(self.command(tmp_path, script))
        assert (await process.read(10)).startswith(b"up")
        await process.stop(30)
        said = await process.read()
        assert len(said) < 2_000_000
        assert b"dropped" in said[:100]
        assert said.endswith(b"the end\n")
        await sandbox.close()

    async def test_closing_ends_whatever_runs(self, tmp_path: Path) -> None:
        sandbox, mark, heard = self.make(tmp_path), uuid.uuid4().hex, Heard()
        given = replace(self.command(tmp_path, "trap '' TERM; echo up; sleep 1000; sleep 1000"), env={"MARK": mark})
        beside = [await sandbox.start(given) for _ in range(3)]
        running = asyncio.create_task(sandbox.exec(given, heard.take))
        await heard.until(b"up")
        await sandbox.close()
        assert await outlived(mark) == []
        assert (await running).code != 0
        assert all(process.code is not None for process in beside)


class BoundedSuite(Stage):
    """For a sandbox that bounds what a command takes. `make_small` allows it 64 processes, 256 MB, 8 MB a file."""

    def make_small(self, where: Path) -> Sandbox:
        raise NotImplementedError

    async def run_small(self, where: Path, script: str) -> Ran:
        sandbox = self.make_small(where)
        try:
            return await sandbox.exec(self.command(where, script))
        finally:
            await sandbox.close()

    async def test_a_fork_bomb_is_ended(self, tmp_path: Path) -> None:
        mark = uuid.uuid4().hex
        # Doubles as fast as it can, and stops at a thousand for the sake of the machine, should it not be stopped.
        bomb = "f() { [ $1 -gt 0 ] && { f $(($1 - 1)) & f $(($1 - 1)) & }; sleep 30; }; f 8"
        ran = await self.run_small(tmp_path, f"sh -c '{bomb} # {mark}'")
        assert ran.code != 0
        assert b"64 processes" in ran.stderr, ran
        assert await outlived(mark) == []

    async def test_one_process_cannot_take_all_memory(self, tmp_path: Path) -> None:
        ran = await self.run_small(tmp_path, f"{sys.executable} -S -c 'bytearray(2_000_000_000)'")
        assert ran.code != 0
        assert b"MemoryError" in ran.stderr

    async def test_nor_can_many_together(self, tmp_path: Path) -> None:
        take = f"{sys.executable} -S -c 'x = b\"x\" * 40_000_000; import time; time.sleep(30)' &"
        ran = await self.run_small(tmp_path, "\n".join([take] * 8 + ["wait"]))
        assert ran.code != 0
        assert b"256 MB" in ran.stderr, ran

    async def test_a_file_has_a_largest_size(self, tmp_path: Path) -> None:
        ran = await self.run_small(tmp_path, "head -c 20000000 /dev/zero > large; echo $?; echo small > small")
        assert (tmp_path / "work/large").stat().st_size <= 8 * 1024 * 1024
        assert ran.stdout.strip() != b"0"
        assert (tmp_path / "work/small").exists()

    async def test_no_core_is_dumped(self, tmp_path: Path) -> None:
        ran = await self.run_small(tmp_path, "ulimit -c; ulimit -n")
        assert ran.stdout.split()[0] == b"0"
        assert int(ran.stdout.split()[1]) <= 1024
