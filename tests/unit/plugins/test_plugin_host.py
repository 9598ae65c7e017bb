"""The lifecycle of a plugin: started at the first call, called concurrently, given up, restarted, ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from support import plugin_lab as lab
from support.paths import PYTHONPATH

from mainstay.agent.system_clock import SystemClock
from mainstay.core.errors import AgentClosed
from mainstay.core.limits import Limits
from mainstay.core.plugin_protocol import ExecuteRequest
from mainstay.core.tool_ports import Sandbox
from mainstay.metering.circuit_breaker import CircuitBreakerRegistry
from mainstay.plugins.host import PluginHost
from mainstay.plugins.launcher import ConfinementUnavailable, sweep_stale_folders
from mainstay.plugins.plugin import (
    PluginCircuitOpen,
    PluginFailed,
    PluginHostSettings,
    PluginNotStarted,
    PluginReportedError,
    PluginTimedOut,
)
from mainstay.plugins.tool import PluginToolSource
from mainstay.sandbox.bubblewrap.sandbox import BubblewrapSandbox
from mainstay.sandbox.host.sandbox import HostSandbox

pytestmark = pytest.mark.skipif(lab.NO_WALLS is not None, reason=lab.NO_WALLS or "")


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    sandbox = BubblewrapSandbox()
    yield sandbox
    await sandbox.close()


def request(text: str, action: str = "do", call_id: str = "c") -> ExecuteRequest:
    return ExecuteRequest(call_id, action, json.dumps({"text": text}))


async def ask(host: PluginHost, text: str, timeout_s: float = lab.PATIENT_S) -> str:
    return await host.call(request(text), timeout_s)


def tell(host: PluginHost) -> None:
    """What waits `when told` need not wait any longer."""
    Path(host.plugin.data_folder, "home", "go").touch()


# --- starting ------------------------------------------------------------------------------------


async def test_nothing_runs_until_the_first_call_and_nothing_after_the_last(sandbox: Sandbox, tmp_path: Path) -> None:
    """OPENTALON-002, OPENTALON-008: a task goes in and a result comes out, over gRPC on a socket of its own."""
    files = lab.open_files()
    host = lab.host("behaves", tmp_path, sandbox)
    source = PluginToolSource([host])
    assert [tool.name for tool in source.tools] == ["bad__do", "bad__soon"]
    assert lab.alive(host) == []
    assert (await lab.call(host, "hello")).content == "do hello {}"
    assert lab.alive(host)
    await source.close()
    await lab.until(lambda: not lab.alive(host))
    second = lab.host("behaves", tmp_path, sandbox)  # the library itself keeps some files open once it is in use
    files = lab.open_files()
    await lab.call(second, "hello")
    await second.close()
    await lab.until(lambda: lab.open_files() <= files)


async def test_many_first_calls_start_one_process(sandbox: Sandbox, tmp_path: Path) -> None:
    host = lab.host("waits", tmp_path, sandbox)
    assert len(set(await asyncio.gather(*(ask(host, "0.01") for _ in range(8))))) == 1
    await host.close()


async def test_a_call_that_is_given_up_while_it_starts_does_not_stop_the_start(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    host = lab.host("waits", tmp_path, sandbox)
    impatient = asyncio.create_task(ask(host, "0"))
    patient = asyncio.create_task(ask(host, "0"))
    await asyncio.wait({impatient}, timeout=0.02)
    impatient.cancel()
    assert await patient
    with pytest.raises(asyncio.CancelledError):
        await impatient
    await host.close()


async def test_a_call_with_less_time_than_the_start_takes_is_refused_with_the_reason(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    host = lab.host("behaves", tmp_path, sandbox)
    with pytest.raises(PluginTimedOut, match=r"The plugin bad was not ready within 0.01 s\."):
        await ask(host, "x", 0.01)
    assert await ask(host, "x") == "do x {}"  # and the start went on
    await host.close()


async def test_without_isolation_it_is_refused_unless_the_owner_allows_it(tmp_path: Path) -> None:
    host_sandbox = HostSandbox()
    host = lab.host("behaves", tmp_path, host_sandbox)
    with pytest.raises(ConfinementUnavailable, match="the sandbox 'host' cannot confine it"):
        await ask(host, "x")
    free = msgspec.structs.replace(host.plugin, allow_unconfined=True)
    unheld = PluginHost(free, host_sandbox, lab.InMemoryPluginState())
    assert await ask(unheld, "x") == "do x {}"
    assert all(tool.sink for tool in PluginToolSource([unheld]).tools)  # it could carry anything anywhere
    await unheld.close()
    await lab.until(lambda: not lab.alive(unheld))
    await host_sandbox.close()


# --- calls ---------------------------------------------------------------------------------------


async def test_only_so_many_calls_run_at_once(sandbox: Sandbox, tmp_path: Path) -> None:
    limits = msgspec.structs.replace(lab.LIMITS, concurrency=3)
    host = lab.host("waits", tmp_path, sandbox, lab.PluginSetup(limits=limits))
    await asyncio.gather(*(ask(host, "0.05") for _ in range(12)))
    assert await ask(host, "counts") == "3"
    await host.close()


async def test_waiting_for_other_calls_counts_against_a_calls_own_time(sandbox: Sandbox, tmp_path: Path) -> None:
    limits = msgspec.structs.replace(lab.LIMITS, concurrency=1)
    host = lab.host("waits", tmp_path, sandbox, lab.PluginSetup(limits=limits))
    await ask(host, "0")
    long = asyncio.create_task(ask(host, "when told"))
    await asyncio.wait({long}, timeout=0.01)
    with pytest.raises(PluginTimedOut, match=r"was busy with other calls for 0.2 s\."):
        await ask(host, "0", 0.2)
    tell(host)
    assert await long
    await host.close()


async def test_only_so_many_wait(sandbox: Sandbox, tmp_path: Path) -> None:
    host = lab.host("waits", tmp_path, sandbox, lab.PluginSetup(pace=PluginHostSettings(calls_max=2)))
    waiting = [asyncio.create_task(ask(host, "0.1")) for _ in range(2)]
    await asyncio.wait(waiting, timeout=0.01)
    with pytest.raises(PluginFailed, match="has 2 calls waiting already"):
        await ask(host, "0")
    await asyncio.gather(*waiting)
    await host.close()


async def test_f21_a_missed_deadline_costs_others_nothing_and_the_next_call_finds_a_new_process(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """F21, OPENTALON-050, OPENTALON-051: who missed it is given up, and put down once its other calls have ended."""
    host = lab.host("waits", tmp_path, sandbox)
    old = await ask(host, "0")
    slow = asyncio.create_task(ask(host, "when told"))
    began = time.monotonic()
    with pytest.raises(PluginTimedOut, match=r"did not answer within 0.3 s, and the call was cancelled\."):
        await ask(host, "3600", 0.3)
    assert time.monotonic() - began < 120  # despite its other work, which does not end
    new = await ask(host, "0")
    assert new != old
    assert not slow.done()
    before = lab.alive(host)
    tell(host)
    assert await slow == old  # it was let finish
    await lab.until(lambda: len(lab.alive(host)) < len(before))  # and is gone now
    assert await ask(host, "0") == new
    assert "a late answer is ignored" in lab.log_of(host)
    await host.close()


async def test_cancelling_a_call_reaches_the_plugin_which_goes_on(sandbox: Sandbox, tmp_path: Path) -> None:
    """OPENTALON-050: what is cancelled here is cancelled there."""
    host = lab.host("ends_late", tmp_path, sandbox)
    hanging = asyncio.create_task(ask(host, "hang"))

    async def seen(what: str) -> bool:
        return what in await ask(host, "log")

    await lab.until_async(lambda: seen("began"))
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    await lab.until_async(lambda: seen("cancelled"))
    assert len(lab.alive(host)) > 0
    await host.close()


async def test_its_own_error_is_reported_within_a_limit(sandbox: Sandbox, tmp_path: Path) -> None:
    """OPENTALON-015, OPENTALON-053: a result has a content, and an error if there was one."""
    host = lab.host("error_look_alikes", tmp_path, sandbox)
    with pytest.raises(PluginReportedError) as told:
        await ask(host, "x")
    assert 1000 < len(str(told.value)) <= 2000
    await host.close()


# --- failing -------------------------------------------------------------------------------------


async def test_f26_a_plugin_that_crashes_repeatedly_is_paused_and_tried_again(sandbox: Sandbox, tmp_path: Path) -> None:
    """F26: three failures within a minute, then it is left alone for a while, with the reason."""
    pace = PluginHostSettings(restart_backoff_s=(0.05, 0.1), circuit_open_s=1.5)
    host = lab.host("crashes_at_start", tmp_path, sandbox, lab.PluginSetup(pace=pace))
    began = time.monotonic()
    for _ in range(3):
        with pytest.raises(
            PluginNotStarted, match=r"ended with code 1 before it was ready\. The end of its output: no such mod"
        ):
            await ask(host, "x")
    assert time.monotonic() - began >= 0.15  # it was waited between them
    tried = lab.log_of(host).count("no such module")
    with pytest.raises(PluginCircuitOpen) as resting:
        await ask(host, "x")
    assert "The plugin bad failed 3 times within 60 s and is not started for another" in str(resting.value)
    assert "no such module" in str(resting.value)
    assert lab.log_of(host).count("no such module") == tried == 3  # not even tried

    async def awake() -> bool:
        try:
            await ask(host, "x")
        except PluginFailed as error:
            return isinstance(error, PluginNotStarted)
        return False

    await lab.until_async(awake)
    await host.close()


async def test_a_plugin_that_exits_in_a_call_is_started_again_for_the_next(sandbox: Sandbox, tmp_path: Path) -> None:
    host = lab.host("exits_in_a_call", tmp_path, sandbox)
    began = time.monotonic()
    assert "ended with code 3 during the call" in (await lab.call(host)).content
    assert time.monotonic() - began < 120  # and not at the deadline, ten minutes later
    assert (await lab.call(host, "quick")).content == "quick"
    await host.close()


@pytest.mark.parametrize("how", ["killed", "connections lost"])
async def test_f58_one_crash_with_seven_calls_in_flight_counts_as_one_failure(
    sandbox: Sandbox, tmp_path: Path, how: str
) -> None:
    """F58: neither the host's restart limit nor the circuit breaker of the tool counts one cause seven times."""
    limits = msgspec.structs.replace(lab.LIMITS, concurrency=8)
    host = lab.host("drops_connections", tmp_path, sandbox, lab.PluginSetup(limits=limits))
    breakers = CircuitBreakerRegistry(SystemClock(), Limits())
    assert (await lab.call(host, "", breakers=breakers)).content == "fine"
    calls = [asyncio.create_task(lab.call(host, "wait", breakers=breakers)) for _ in range(6)]
    await lab.until(lambda: host._process is not None and host._process.active_calls == 6)
    calls.append(
        asyncio.create_task(lab.call(host, "drop" if how == "connections lost" else "wait", breakers=breakers))
    )
    await lab.until(lambda: host._process is None or host._process.active_calls == 7 or calls[0].done())
    if how == "killed":
        for pid in lab.alive(host):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    results = [await one for one in calls]
    assert all(result.is_error for result in results)
    assert all("during the call" in result.content for result in results), [one.content for one in results]
    assert len(host._failures) == 1
    assert breakers.get_breaker("bad__do").failures_total == 1
    assert (await lab.call(host, "", breakers=breakers)).content == "fine", "it is started again"
    await host.close()


async def test_the_last_output_is_reported_only_to_the_single_call_it_can_belong_to(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    host = lab.host("exits_in_a_call", tmp_path, sandbox)
    assert "The end of its output: I am leaving \\x1b[31mnow" in (await lab.call(host)).content
    assert (await lab.call(host, "quick")).content == "quick"
    told = (await lab.call(host)).content  # the same process has had a call of another session
    assert "ended with code 3 during the call" in told
    assert "end of its output" not in told
    await host.close()


async def test_an_idle_process_is_stopped_and_started_again(sandbox: Sandbox, tmp_path: Path) -> None:
    host = lab.host("waits", tmp_path, sandbox, lab.PluginSetup(pace=PluginHostSettings(idle_timeout_s=0.3)))
    first = await ask(host, "0.6")  # a call longer than that is not idleness
    await lab.until(lambda: not lab.alive(host))
    assert await ask(host, "0") != first
    await host.close()


# --- ending --------------------------------------------------------------------------------------


async def test_closing_ends_a_call_and_a_start_with_the_reason(sandbox: Sandbox, tmp_path: Path) -> None:
    calling, starting = (lab.host(mode, tmp_path, sandbox) for mode in ("hangs_in_a_call", "hangs_at_start"))
    await lab.call(calling, "quick")
    waiting = [asyncio.create_task(ask(host, "x")) for host in (calling, starting)]
    await lab.until(lambda: bool(lab.alive(starting)))
    began = time.monotonic()
    await PluginToolSource([calling, starting]).close()
    assert time.monotonic() - began < 120  # neither would end by itself
    for one in waiting:
        with pytest.raises(AgentClosed, match=r"The plugin bad was stopped\."):
            await one
    with pytest.raises(AgentClosed):
        await ask(calling, "x")
    await lab.until(lambda: not lab.alive(calling) and not lab.alive(starting))


LIFE = """
import asyncio, sys
from pathlib import Path
from support import plugin_lab as lab
from mainstay.sandbox.bubblewrap.sandbox import BubblewrapSandbox

async def main():
    host = lab.host("forks_and_leaves", Path(sys.argv[1]), BubblewrapSandbox())
    await lab.call(host)
    print(host.plugin.env[lab.MARK], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_no_plugin_survives_a_killed_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """U20: the whole tree of every plugin ends with its owner, however that ends, and its folder at the next start."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="lab-") as passing:
        core = subprocess.Popen(
            [sys.executable, "-c", LIFE, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": PYTHONPATH, "TMPDIR": passing},
        )
        assert core.stdout is not None
        mark = await asyncio.to_thread(core.stdout.readline)
        stray = lab.host("behaves", tmp_path, BubblewrapSandbox(), lab.PluginSetup(env={lab.MARK: mark.strip()}))
        assert mark.startswith("mark-")
        assert lab.alive(stray)
        core.send_signal(signal.SIGKILL)
        core.wait()
        core.stdout.close()
        await lab.until(lambda: not lab.alive(stray))
        (left,) = Path(passing).iterdir()
        os.utime(left, (0, 0))
        monkeypatch.setattr(tempfile, "tempdir", passing)
        await asyncio.to_thread(sweep_stale_folders)
        assert not left.exists()


async def test_a_thousand_calls_leak_nothing(sandbox: Sandbox, tmp_path: Path) -> None:
    """Neither files nor processes nor memory; a sample of them by default."""
    count = 1000 if os.environ.get("MAINSTAY_TEST_ALL") else 300
    host = lab.host("behaves", tmp_path, sandbox)
    for _ in range(50):
        await ask(host, "warm")
    files, processes, memory = lab.open_files(), len(lab.alive(host)), lab.resident_mb()
    for number in range(count):
        assert await ask(host, str(number)) == f"do {number} {{}}"
    assert lab.open_files() == files
    assert len(lab.alive(host)) == processes
    assert lab.resident_mb() - memory < 4
    await host.close()
