"""The soak: `mainstay serve` on a small disk under traffic of many sessions, with faults; prints a report as JSON.

Run in a mount namespace of its own (`unshare --user --map-root-user --mount`), because the disk is mounted here. The
model server and the clients are in this process, the server and its plugin are processes of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec

from mainstay.core.events import Received
from mainstay.core.journal import Record
from mainstay.store.sqlite.store import SqliteStore
from support.full_disk_process import fill
from support.gateway_chaos import ServerRestarts, ask
from support.journal_checks import check_answers, check_journal, read_journal
from support.paths import SUPPORT
from support.soak_clients import Refusal, SoakClients, SoakTurn
from support.soak_model import ANSWERED, SoakModel

DISK_MB = 8192  # memory is taken only for what is written
SPARE_MB = 4  # left on the disk, before a file takes it
WATCH_S = 0.5
POLL_S = 0.02
KILLS_TOGETHER = 2  # the third failure of a plugin within a minute stops it for a minute
KILL_PERIOD_S = 35.0
RECOVERY_S = 60.0  # after the disk has space again: the server is ready
NOT_STORED = "not accepted: the server's disk is full; try again later"
STORED = "the server's disk is full; the prompt is stored and will be answered later"


class SoakPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How much is run."""

    seed: int
    turns: int
    clients: int
    deck_size: int  # calls among which the faults of 2,000 calls are
    latency_s: float  # of the model, at most
    full_s: float  # how long the disk is full
    kills: int  # of the plugin, at most


class ProcessSample(msgspec.Struct):
    """What the server's process holds, after so many turns."""

    turns: int
    rss_mb: float
    files: int
    threads: int


class SoakServer(ServerRestarts):
    """With a plugin, a budget, and lanes that are unloaded soon."""

    def configure(self, instructions: str = "Be terse.", more: str = "") -> None:
        super().configure(
            instructions,
            f"plugins: {{till: {{path: '{SUPPORT / 'soak_plugin'}', trusted: true}}}}\n"
            "policy: {allow: ['till__*']}\n"
            "limits: {lane_idle_s: 5}\n"
            f"budgets: {{home: {{month: {{money: 1000000, tokens: 1000000000000}}}}}}\n{more}",
        )

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def find_plugin(self) -> int | None:
        """Return the plugin's own process, which has no child; None if it does not run."""
        parents = dict(read_parents())
        for pid in parents:
            ancestor = pid
            while ancestor in parents and ancestor != self.pid:
                ancestor = parents[ancestor]
            if ancestor == self.pid and pid not in parents.values() and "main.py" in read_command(pid):
                return pid
        return None

    def measure(self, turns: int) -> ProcessSample:
        folder = Path(f"/proc/{self.pid}")
        rss_mb = int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / (1 << 20)
        return ProcessSample(turns, rss_mb, len(os.listdir(folder / "fd")), len(os.listdir(folder / "task")))

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_parents() -> list[tuple[int, int]]:
    """Return the process id and the parent's of every process."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{entry}/stat").read_text()
                found.append((int(entry), int(stat.rpartition(")")[2].split()[1])))
    return found


def read_command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


# --- faults ---------------------------------------------------------------------------------------


def mount(home: Path) -> None:
    home.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=700", "tmpfs", str(home)], check=True)


def remount(home: Path, size_mb: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size_mb}m", str(home)], check=True)


def used_mb(home: Path) -> int:
    disk = os.statvfs(home)
    return (disk.f_blocks - disk.f_bfree) * disk.f_frsize >> 20


class ServerFaults:
    """What happens to the server while it runs: its disk is full once, and its plugin is killed now and then."""

    def __init__(self, plan: SoakPlan, server: SoakServer, clients: SoakClients) -> None:
        self._plan, self._server, self._clients = plan, server, clients
        self.full_from = self.full_until = 0.0
        self.kills: list[float] = []
        self.samples: list[ProcessSample] = []
        self.unready: list[tuple[float, str]] = []
        self.breaker_open_count = 0  # how often it was seen

    @property
    def progress(self) -> float:
        return len(self._clients.turns) / self._plan.turns

    async def fill_disk(self) -> None:
        """Fill the disk at half of the turns, for so long, and at least until a prompt was refused."""
        while self.progress < 0.5:
            await asyncio.sleep(POLL_S)
        home, refused_before = self._server.home, len(self._clients.refusals)
        self.full_from = time.monotonic()
        remount(home, used_mb(home) + SPARE_MB)
        until = self.full_from + self._plan.full_s
        while time.monotonic() < until or len(self._clients.refusals) == refused_before:
            fill(home / "filler")  # a log that is truncated gives space back
            await asyncio.sleep(0.1)
        (home / "filler").unlink()
        remount(home, DISK_MB)
        self.full_until = time.monotonic()

    async def kill_plugin(self) -> None:
        """Kill it at equal distances; not while the disk is full, when it cannot be started."""
        period_s = KILL_PERIOD_S if self._plan.kills > KILLS_TOGETHER else 0.0
        for number in range(1, self._plan.kills + 1):
            while self.progress < 1.0:
                is_due = self.progress >= number / (self._plan.kills + 1)
                is_early = self.kills and time.monotonic() < self.kills[-1] + period_s
                is_full = self.full_from and not self.full_until
                if is_due and not is_early and not is_full and (pid := self._server.find_plugin()) is not None:
                    os.kill(pid, signal.SIGKILL)
                    self.kills.append(time.monotonic())
                    break
                await asyncio.sleep(POLL_S)

    async def watch(self) -> None:
        """Measure the process, and ask for its health and its circuit breakers."""
        while True:
            self.samples.append(self._server.measure(len(self._clients.turns)))
            status, said = await ask(self._server.port, "GET /readyz")
            if status != 200:
                self.unready.append((time.monotonic(), json.dumps(said)))
            page = await read_metrics(self._server.port)
            gauges = [line for line in page.splitlines() if line.startswith("mainstay_breaker_open{")]
            assert gauges, page[:500]
            self.breaker_open_count += sum(not line.endswith(" 0") for line in gauges)
            await asyncio.sleep(WATCH_S)

    def is_touched(self, turn: SoakTurn) -> bool:
        """True if the disk was full while the turn ran."""
        return turn.began_at < self.full_until and turn.ended_at > self.full_from


async def read_metrics(port: int) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
    page = (await reader.read()).decode()
    writer.close()
    return page


# --- the run --------------------------------------------------------------------------------------


async def run_soak(plan: SoakPlan, folder: Path) -> dict[str, Any]:
    """Run all of it; the report is what the test judges. Raises AssertionError for a journal that is not right."""
    mount(folder / "home")
    async with SoakModel(plan.seed, plan.deck_size, plan.latency_s) as model, SoakServer(folder, model) as server:
        clients = SoakClients(server.port, plan.seed, plan.turns)
        faults = ServerFaults(plan, server, clients)
        watching, began = asyncio.create_task(faults.watch()), time.monotonic()
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(plan.clients):
                    group.create_task(clients.run_client(number))
                group.create_task(faults.fill_disk())
                group.create_task(faults.kill_plugin())
            assert not watching.done(), watching.exception()
        except BaseException:
            print(f"after {len(clients.turns)} turns: {server.said[-5000:]}", file=sys.stderr)
            raise
        finally:
            watching.cancel()
        report = {"seconds": time.monotonic() - began, "server_cpu_s": server.cpu_s(), "turns": len(clients.turns)}
        report["calls"] = model.count_faults()
        assert await server.end(signal.SIGTERM) == 0, server.said[-3000:]
        await server.start()
        model.is_healthy, sessions = True, range(len(clients.prompts))
        async with asyncio.TaskGroup() as group:
            for number in range(plan.clients):
                group.create_task(clients.continue_sessions(list(sessions[number :: plan.clients])))
        assert await server.end(signal.SIGTERM) == 0, server.said[-3000:]
        await check_journals(clients, server.home)
        return report | judge(clients, faults, model, report["turns"]) | judge_server(clients, faults, server)


def judge(clients: SoakClients, faults: ServerFaults, model: SoakModel, count: int) -> dict[str, Any]:
    """Return what became of the prompts; the first `count` turns were under faults."""
    touched = {turn.mark for turn in clients.turns if faults.is_touched(turn)}
    answered = [turn for turn in clients.turns if turn.outcome == "Answered"]
    wrong = [turn for turn in answered if not turn.is_right() and turn.mark not in touched]
    continued = clients.turns[count:]
    repeated = [mark for (mark, _), calls in model.calls.items() if calls.count(ANSWERED) > 1 and mark not in touched]
    return {
        "sessions": len(clients.prompts),
        "continued": sum(turn.outcome == "Answered" and turn.is_right() for turn in continued),
        "outcomes": Counter(turn.outcome for turn in clients.turns),
        "failed": {turn.mark: turn.sentence for turn in clients.turns if turn.outcome == "Failed"},
        "unrepeatable": sorted(model.list_unrepeatable()),
        "touched": sorted(touched),
        "wrong": [(turn.mark, turn.answer) for turn in wrong],
        "repeated": repeated,
        "refusals": Counter(refusal.sentence for refusal in clients.refusals),
        "refused_before": [one.sentence for one in clients.refusals if one.at < faults.full_from],
        "problems": clients.problems,
    }


def judge_server(clients: SoakClients, faults: ServerFaults, server: SoakServer) -> dict[str, Any]:
    """Return what became of the server, and what its plugin did."""
    ledger = Counter(
        line for path in server.home.rglob("ledger") if path.is_file() for line in path.read_text().splitlines()
    )
    told = [turn.mark for turn in clients.turns if turn.prompt.startswith("charge") and turn.is_right()]
    ready_by = faults.full_until + RECOVERY_S
    return {
        "kills": len(faults.kills),
        "full_s": faults.full_until - faults.full_from,
        "charged": len(ledger),
        "charged_twice": [mark for mark, times in ledger.items() if times > 1],
        "not_charged": [mark for mark in told if mark not in ledger],
        "unready": [said for at, said in faults.unready if not faults.full_from <= at <= ready_by],
        "breaker_open_count": faults.breaker_open_count,
        "breaker_lines": [line for line in server.said.splitlines() if "failed too often" in line][:5],
        "traceback_lines": [line for line in server.said.splitlines() if "Traceback" in line][:5],
        "samples": msgspec.to_builtins(faults.samples),
        "home_mb": used_mb(server.home),
    }


async def check_journals(clients: SoakClients, home: Path) -> None:
    """Every prompt is in its session's journal once, in one turn that ended, and nothing else is."""
    store = SqliteStore(str(home / "workspaces" / "default" / "workspace.db"), read_only=True)
    await store.open()
    try:
        for session, count in enumerate(clients.prompts):
            records = await read_journal(store, f"s{session}")
            check_journal(f"s{session}", records)
            ids = [f"p{number}" for number in range(1, count + 1)]
            check_answers(records, ids)
            stored = {one.event.id: one for one in records if isinstance(one.event, Received)}
            assert sorted(stored) == sorted(ids), f"s{session}: {sorted(stored)}"
            for refusal in clients.refusals:
                if refusal.session == session:
                    check_refusal(refusal, stored[f"p{refusal.number}"])
    finally:
        await store.close()


def check_refusal(refusal: Refusal, stored: Record) -> None:
    """What was said about a prompt was true at that time: that it is stored, or that it is not."""
    if refusal.sentence == NOT_STORED:
        assert stored.at >= refusal.at_ms, f"it was stored, and called refused: {refusal}"
    if refusal.sentence == STORED:
        assert stored.at <= refusal.at_ms, f"it was not stored, and called so: {refusal}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("plan", help="as JSON")
    arguments = parser.parse_args()
    report = asyncio.run(run_soak(msgspec.json.decode(arguments.plan, type=SoakPlan), arguments.folder))
    print(json.dumps(report))


if __name__ == "__main__":
    main()
