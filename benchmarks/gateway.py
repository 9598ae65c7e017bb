"""Load and cost of `mainstay serve`: a real server, a model server and clients, each in a separate process.

All of them share the machine's cores. CPU is that of a process as /proc reports it, all threads. Every answer is
compared with the model's text. Results go to benchmarks/results/gateway.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway_processes import (
    ClientProcess,
    GatewayProcess,
    read_cpu_s,
    read_other_cpu_s,
    read_rss_mb,
    run_model_server,
)
from paced_model_server import LONG_TOKENS
from processes import HERE, ChildProcessFailed, run_python
from report import Row, Target, describe_machine, format_table

CONCURRENCY = 16
NO_RATE_LIMIT = "server: {rate_per_min: 100000000, streams_max: 100000}\n"
LANE_IDLE_S = 10.0
QUIET_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Sizes:
    """Sizes of all cases."""

    paced_s: float  # duration of the case `paced`
    rate: float  # new turns per second
    pace: float  # tokens per second of an answer
    turns: int  # of the case `flat`
    lanes: int
    idle_s: float
    repeats: int
    turns_per_repeat: int
    people: int
    quiet_s: float  # without CPU use, until the server counts as idle

    @property
    def long_answer_s(self) -> float:
        return LONG_TOKENS / self.pace


FULL_SIZES = Sizes(
    paced_s=100.0,
    rate=25.0,
    pace=30.0,
    turns=50_000,
    lanes=1_000,
    idle_s=60.0,
    repeats=7,
    turns_per_repeat=500,
    people=20,
    quiet_s=2.5,
)
QUICK_SIZES = Sizes(
    paced_s=2.0,
    rate=20.0,
    pace=600.0,
    turns=100,
    lanes=30,
    idle_s=1.0,
    repeats=1,
    turns_per_repeat=20,
    people=3,
    quiet_s=0.0,
)


class TurnsFailed(Exception):
    """A client reported failed turns."""


def compute_percentile(values: list[float], percent: float) -> float:
    return sorted(values)[min(int(len(values) * percent / 100), len(values) - 1)]


def compute_percentiles(values: list[float]) -> list[float]:
    """The percentiles 0 to 100."""
    return [round(compute_percentile(values, percent), 1) for percent in range(101)]


def warm_up(gateway: GatewayProcess, model_url: str, keys: list[str], sizes: Sizes) -> None:
    """Run some turns, so that everything is loaded, and wait until the server is idle."""
    arguments = {"turns": min(sizes.turns_per_repeat, 100), "concurrency": 8, "first_turn": 10**8}
    with ClientProcess("burst", gateway.url, model_url, keys=keys, **arguments) as client:
        check_result(client.read_result())
    wait_until_quiet(gateway, sizes)


def wait_until_quiet(gateway: GatewayProcess, sizes: Sizes) -> None:
    """Wait until the server uses no CPU: memory starts to index only after a second without activity."""
    deadline, before_s = time.monotonic() + QUIET_TIMEOUT_S, -1.0
    while sizes.quiet_s and time.monotonic() < deadline and (now_s := read_cpu_s(gateway.pid)) - before_s > 0.02:
        before_s = now_s
        time.sleep(sizes.quiet_s)


def check_result(result: dict[str, Any]) -> dict[str, Any]:
    if result["failures"]:
        raise TurnsFailed(f"{result['failures']} of {result['turns']} turns failed: {result['failed'][0]}")
    return result


class CpuShares:
    """CPU use, in cores, of some processes and of the rest of the machine since this object was created."""

    def __init__(self, *pids: int) -> None:
        self._pids = pids
        self._started = time.monotonic()
        self._cpu_s, self._other_cpu_s = [read_cpu_s(pid) for pid in pids], read_other_cpu_s(*pids)

    def read(self) -> list[float]:
        """One value per process, then one for everything else."""
        wall_s = time.monotonic() - self._started
        shares = [(read_cpu_s(pid) - before) / wall_s for pid, before in zip(self._pids, self._cpu_s, strict=True)]
        return [*shares, (read_other_cpu_s(*self._pids) - self._other_cpu_s) / wall_s]


# --- cases ---------------------------------------------------------------------------------------


def measure_paced_streams(sizes: Sizes, folder: Path) -> list[Row]:
    """Answers at the speed of a model, with as many concurrent streams as the rate and their duration cause."""
    with (
        run_model_server(per_second=sizes.pace) as (url, model_pid),
        GatewayProcess(folder, url) as gateway,
    ):
        keys = gateway.create_api_keys(sizes.people)
        warm_up(gateway, url, keys, sizes)
        ramp_up_s = min(sizes.long_answer_s + 2.0, sizes.paced_s / 2)  # until the number of open streams is constant
        arguments = {"rate": sizes.rate, "seconds": sizes.paced_s, "sessions": 1_000, "probes_s": 4.0}
        with ClientProcess("paced", gateway.url, url, keys=keys, **arguments) as client:
            time.sleep(ramp_up_s)
            shares = CpuShares(gateway.pid, model_pid, client.pid)
            time.sleep((sizes.paced_s - ramp_up_s) * 0.9)
            cores = shares.read()
            result = check_result(client.read_result())
        rss_mb = read_rss_mb(gateway.pid)
    return build_paced_rows(sizes, result, cores, rss_mb)


def build_paced_rows(sizes: Sizes, result: dict[str, Any], cores: list[float], rss_mb: float) -> list[Row]:
    server, model, clients, others = cores
    first, direct = result["first_ms"], result["direct_ms"]
    direct_median = statistics.median(direct)
    whole_added = compute_percentile(result["whole_ms"], 99) - statistics.median(result["direct_whole_ms"])
    first_added = compute_percentile(first, 99) - direct_median
    streams = sizes.rate * sizes.long_answer_s
    tokens_per_s = sizes.rate * LONG_TOKENS
    case = "paced"
    raw = {"first_ms": compute_percentiles(first), "direct_ms": compute_percentiles(direct)}
    load = f"{streams:,.0f} streams of {sizes.pace:g} tokens/s, {sizes.rate:g} new a second"
    return [
        Row(case, load, "open at most", result["open_max"], target=Target(streams, of="ours", at_least=True)),
        Row(case, f"failed, of {result['turns']:,}", "turns", result["failures"], target=Target(0.0, of="ours")),
        Row(case, "first token, the model's own, median", "ms", direct_median),
        Row(case, "first token, above that, median", "ms", statistics.median(first) - direct_median),
        Row(case, "first token, above that, p99", "ms", first_added, target=Target(100.0, of="ours"), raw=raw),
        Row(case, "first token, above that, worst", "ms", max(first) - direct_median),
        Row(case, "whole answer, later than the model's, p99", "ms", whole_added),
        Row(case, "tokens that come in one event", "tokens", compute_tokens_per_event(result)),
        Row(case, "the server", "cores", server),
        Row(case, "a streamed token", "us of the server's CPU", 1e6 * server / tokens_per_s),
        Row(case, "the model beside it", "cores", model),
        Row(case, "the clients beside it", "cores", clients),
        Row(case, "others on the machine meanwhile", "cores", others),
        Row(case, "memory in the end", "RSS MB", rss_mb),
    ]


def compute_tokens_per_event(result: dict[str, Any]) -> float:
    return float(result["turns"] * LONG_TOKENS / max(result["events"], 1))


def measure_memory_growth(sizes: Sizes, folder: Path) -> list[Row]:
    """Many sessions with five turns each. Lanes are unloaded soon after, so that growing memory indicates a leak."""
    config = f"{NO_RATE_LIMIT}limits: {{lane_idle_s: {LANE_IDLE_S}}}\n"
    with run_model_server() as (url, _), GatewayProcess(folder, url, config) as gateway:
        keys = gateway.create_api_keys(sizes.people)
        warm_up_turns, turns_per_session = sizes.turns // 5, 5
        arguments = {"keys": keys, "concurrency": CONCURRENCY, "turns_per_session": turns_per_session}
        with ClientProcess("burst", gateway.url, url, turns=warm_up_turns, **arguments) as client:
            check_result(client.read_result())
        wait_until_quiet(gateway, sizes)
        shares = CpuShares(gateway.pid)
        started = time.monotonic()
        samples = [read_rss_mb(gateway.pid)]
        arguments |= {"turns": sizes.turns, "first_turn": warm_up_turns}
        with ClientProcess("burst", gateway.url, url, **arguments) as client:
            while client.is_running and not client.wait_for_output(1.0):
                samples.append(read_rss_mb(gateway.pid))
            result = check_result(client.read_result())
        wall_s = time.monotonic() - started
        server, others = shares.read()
        wait_until_quiet(gateway, sizes)
        idle_mb = read_rss_mb(gateway.pid)
    tenth = max(len(samples) // 10, 1)
    before, after = statistics.mean(samples[:tenth]), statistics.mean(samples[-tenth:])
    half = statistics.mean(samples[len(samples) // 2 : len(samples) // 2 + tenth])
    case = "flat"
    load = f"{sizes.turns:,} turns in {sizes.turns // turns_per_session:,} sessions, after {warm_up_turns:,}"
    return [
        Row(case, f"{load}: memory in their first tenth", "RSS MB", before),
        Row(case, "in their last tenth", "RSS MB", after, raw={"rss_mb": samples}),
        Row(case, "at most", "RSS MB", max(samples)),
        Row(case, "grown", "%", 100 * (after / before - 1), target=Target(10.0, of="ours")),
        Row(case, "grown, over their second half", "RSS MB", after - half, target=Target(5.0, of="ours")),
        Row(case, "at rest afterwards", "RSS MB", idle_mb),
        Row(case, f"failed, of {result['turns']:,}", "turns", result["failures"], target=Target(0.0, of="ours")),
        Row(case, "as fast as it goes", "turns/s", result["turns_s"]),
        Row(case, "a short turn, among many, everything that follows it included", "ms of the server's CPU",
            1000 * server * wall_s / sizes.turns),
        Row(case, "others on the machine meanwhile", "cores", others),
    ]  # fmt: skip


def measure_idle_server(sizes: Sizes, folder: Path) -> list[Row]:
    """Loaded lanes, some of them with a subscriber, without activity."""
    subscribers = max(sizes.lanes // 10, 1)
    with run_model_server() as (url, _), GatewayProcess(folder, url, NO_RATE_LIMIT) as gateway:
        keys = gateway.create_api_keys(sizes.people)
        arguments = {"turns": sizes.lanes, "concurrency": CONCURRENCY}
        with ClientProcess("burst", gateway.url, url, keys=keys, **arguments) as client:
            check_result(client.read_result())
        with ClientProcess("subscribe", gateway.url, url, keys=keys, subscribers=subscribers) as client:
            client.read_result()  # all subscriptions are open
            wait_until_quiet(gateway, sizes)
            shares = CpuShares(gateway.pid)
            time.sleep(sizes.idle_s)
            server, others = shares.read()
            rss_mb = read_rss_mb(gateway.pid)
            connected = check_result(client.finish())["connected"]
    case = "idle"
    load = f"{sizes.lanes:,} lanes awake, {subscribers} followers, for {sizes.idle_s:g} s"
    return [
        Row(case, load, "% of a core", 100 * server, target=Target(1.0, of="ours")),
        Row(case, "memory then", "RSS MB", rss_mb),
        Row(case, "followers who were let go of", "", subscribers - connected, target=Target(0.0, of="ours")),
        Row(case, "others on the machine meanwhile", "cores", others),
    ]


def measure_startup(sizes: Sizes, folder: Path) -> list[Row]:
    """From the command to the first successful `/readyz`, with an empty home and one workspace."""
    start_s, rss_mb, cpu_s = [], [], []
    with run_model_server() as (url, _):
        for _ in range(max(sizes.repeats, 1)):
            with GatewayProcess(folder, url) as gateway:
                start_s.append(gateway.start_s)
                cpu_s.append(read_cpu_s(gateway.pid))
                time.sleep(1.0)
                rss_mb.append(read_rss_mb(gateway.pid))
    case = "start"
    return [
        Row(case, "from the command until it is ready", "s", statistics.median(start_s), raw={"s": start_s}),
        Row(case, "CPU of that", "s", statistics.median(cpu_s)),
        Row(case, "idle, one workspace", "RSS MB", statistics.median(rss_mb)),
    ]


INTERFACES: dict[str, dict[str, Any]] = {
    "POST /api/sessions/…/prompt, JSON": {"interface": "json"},
    "the same as events (SSE)": {"interface": "events"},
    "POST /v1/chat/completions": {"interface": "chat", "streamed": False},
    "the same, streamed": {"interface": "chat", "streamed": True},
}


def measure_turn_by_interface(sizes: Sizes, folder: Path) -> list[Row]:
    """Sequential turns through each interface, alternating."""
    cpu_ms: dict[str, list[float]] = {"agent.run, in-process": []}
    turns = sizes.turns_per_repeat
    with run_model_server() as (url, _), GatewayProcess(folder, url, NO_RATE_LIMIT) as gateway:
        keys = gateway.create_api_keys(sizes.people)
        warm_up(gateway, url, keys, sizes)
        for repeat in range(sizes.repeats):
            home = tempfile.mkdtemp(dir=folder)
            output = run_python(str(HERE / "in_process_turns.py"), url, home, str(turns // 10), "10")
            cpu_ms["agent.run, in-process"].append(json.loads(output)["cpu_ms"])
            for index, (name, interface) in enumerate(INTERFACES.items()):
                first_turn = (repeat * len(INTERFACES) + index) * turns
                load = {"turns": turns, "turns_per_session": 10, "concurrency": 1, "first_turn": first_turn}
                before_s = read_cpu_s(gateway.pid)
                with ClientProcess("burst", gateway.url, url, keys=keys, **interface, **load) as client:
                    check_result(client.read_result())
                    cpu_ms.setdefault(name, []).append(1000 * (read_cpu_s(gateway.pid) - before_s) / turns)
                wait_until_quiet(gateway, sizes)  # background work does not count for the next interface
    return [
        Row("turn", f"a short turn: {name}", "ms of CPU", statistics.median(values), raw={"ms": values})
        for name, values in cpu_ms.items()
    ]


CASES: dict[str, Callable[[Sizes, Path], list[Row]]] = {
    "start": measure_startup,
    "turn": measure_turn_by_interface,
    "paced": measure_paced_streams,
    "flat": measure_memory_growth,
    "idle": measure_idle_server,
}


def measure_cases(names: list[str], sizes: Sizes, folder: Path) -> list[Row]:
    rows: list[Row] = []
    for name in names:
        print(f"{name} …", file=sys.stderr, flush=True)
        try:
            rows += CASES[name](sizes, folder)
        except (ChildProcessFailed, TurnsFailed) as error:
            rows.append(Row(name, name, "", error=str(error)))
    return rows


def save_results(rows: list[Row], out: Path) -> None:
    """Replace the results of the measured cases; the others stay as they are in the file."""
    machine, measured = describe_machine(), {row.case for row in rows}
    old = json.loads(out.read_text())["rows"] if out.exists() else []
    data = [row for row in old if row["case"] not in measured]
    data += [row.to_dict() | {"at": machine["date"]} for row in rows]
    data.sort(key=lambda row: list(CASES).index(row["case"]))
    out.write_text(json.dumps({"machine": machine, "rows": data}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: check that everything runs")
    parser.add_argument("--only", help="cases, separated by commas: " + ",".join(CASES))
    parser.add_argument("--out", type=Path, help="file for the results (default benchmarks/results/gateway.json)")
    parser.add_argument(
        "--place", dest="parent_folder", type=Path, help="folder on the disk to use (default: the temporary folder)"
    )
    arguments = parser.parse_args()
    if not Path("/proc/self/stat").exists():
        parser.error("this benchmark reads the CPU time of processes from /proc, which this system does not have")
    names = arguments.only.split(",") if arguments.only else list(CASES)
    if unknown := set(names) - set(CASES):
        parser.error(f"unknown cases: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(dir=arguments.parent_folder) as folder:
        rows = measure_cases(names, QUICK_SIZES if arguments.quick else FULL_SIZES, Path(folder))
    print(format_table(rows))
    if out := arguments.out or (None if arguments.quick else HERE / "results" / "gateway.json"):
        save_results(rows, out)
    sys.exit(any(row.meets_target is False for row in rows))


if __name__ == "__main__":
    main()
