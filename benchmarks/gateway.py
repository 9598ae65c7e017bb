"""What `mainstay serve` carries, and what it costs: a real server, a model and clients, each in a process of its own.

All of them share the machine's cores. CPU is what the system says of each process, all threads. Every answer is
compared with what the model said. Results go to benchmarks/results/gateway.json.
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

from gateway_model import LONG
from gateway_server import Client, Gateway, cpu_s, model, others_s, rss_mb
from processes import HERE, Failed, python
from report import Row, Target, machine, table

AT_ONCE = 16
OPEN = "server: {rate_per_min: 100000000, streams_max: 100000}\n"  # nobody is to wait for their turn here
ASLEEP_S = 10.0
REST_MAX_S = 60.0


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    paced_s: float  # new turns come for so long
    rate: float  # a second
    pace: float  # tokens of an answer, a second
    turns: int  # for memory
    lanes: int
    idle_s: float
    repeats: int
    each: int  # turns of a repetition
    people: int
    rest_s: float  # without work, until it is believed to have none

    @property
    def long_s(self) -> float:
        return LONG / self.pace


WHOLE = Size(
    paced_s=100.0,
    rate=25.0,
    pace=30.0,
    turns=50_000,
    lanes=1_000,
    idle_s=60.0,
    repeats=7,
    each=500,
    people=20,
    rest_s=2.5,
)
QUICK = Size(
    paced_s=2.0, rate=20.0, pace=600.0, turns=100, lanes=30, idle_s=1.0, repeats=1, each=20, people=3, rest_s=0.0
)


class Failure(Exception):
    pass


def percentile(values: list[float], percent: float) -> float:
    return sorted(values)[min(int(len(values) * percent / 100), len(values) - 1)]


def percentiles(values: list[float]) -> list[float]:
    """All of them, from the least to the worst."""
    return [round(percentile(values, percent), 1) for percent in range(101)]


def warmed(gateway: Gateway, model_url: str, keys: list[str], size: Size) -> None:
    """Until it has done everything once, and has come to rest."""
    given = {"turns": min(size.each, 100), "at_once": 8, "from": 10**8}
    with Client("burst", gateway.url, model_url, keys=keys, **given) as client:
        good(client.line())
    rested(gateway, size)


def rested(gateway: Gateway, size: Size) -> None:
    """Until it has done nothing for a while: memory waits for a quiet second before it follows."""
    until, before = time.monotonic() + REST_MAX_S, -1.0
    while size.rest_s and time.monotonic() < until and (now := cpu_s(gateway.pid)) - before > 0.02:
        before = now
        time.sleep(size.rest_s)


def good(found: dict[str, Any]) -> dict[str, Any]:
    if found["failures"]:
        raise Failure(f"{found['failures']} of {found['turns']} turns failed: {found['failed'][0]}")
    return found


class Shares:
    """What each of some processes, and everybody else, has of a core."""

    def __init__(self, *pids: int) -> None:
        self._pids = pids
        self._began, self._spent, self._others = time.monotonic(), [cpu_s(one) for one in pids], others_s(*pids)

    def now(self) -> list[float]:
        wall = time.monotonic() - self._began
        mine = [(cpu_s(one) - before) / wall for one, before in zip(self._pids, self._spent, strict=True)]
        return [*mine, (others_s(*self._pids) - self._others) / wall]


# --- cases ---------------------------------------------------------------------------------------


def paced(size: Size, place: Path) -> list[Row]:
    """Answers at the pace of a model, as many at once as come to be when one ends as another begins."""
    with model(per_second=size.pace) as (url, model_pid), Gateway(place, url) as gateway:
        keys = gateway.keys(size.people)
        warmed(gateway, url, keys, size)
        full_s = min(size.long_s + 2.0, size.paced_s / 2)  # until as many are open as will be
        spread = {"rate": size.rate, "seconds": size.paced_s, "sessions": 1_000, "probes_s": 4.0}
        with Client("paced", gateway.url, url, keys=keys, **spread) as client:
            time.sleep(full_s)
            shares = Shares(gateway.pid, model_pid, client.pid)
            time.sleep((size.paced_s - full_s) * 0.9)
            server, speaking, listening, others = shares.now()
            found = good(client.line())
        rss = rss_mb(gateway.pid)
    first, direct = found["first_ms"], found["direct_ms"]
    streams = size.rate * size.long_s
    tokens = size.rate * LONG
    whole, straight = found["whole_ms"], found["direct_whole_ms"]
    over = percentile(first, 99) - statistics.median(direct)
    case = "paced"
    raw = {"first_ms": percentiles(first), "direct_ms": percentiles(direct)}
    said = f"{streams:,.0f} streams of {size.pace:g} tokens/s, {size.rate:g} new a second"
    return [
        Row(case, said, "open at most", found["open_max"], target=Target(streams, of="ours", at_least=True)),
        Row(case, f"failed, of {found['turns']:,}", "turns", found["failures"], target=Target(0.0, of="ours")),
        Row(case, "first token, the model's own, median", "ms", statistics.median(direct)),
        Row(case, "first token, above that, median", "ms", statistics.median(first) - statistics.median(direct)),
        Row(case, "first token, above that, p99", "ms", over, target=Target(100.0, of="ours"), raw=raw),
        Row(case, "first token, above that, worst", "ms", max(first) - statistics.median(direct)),
        Row(
            case, "whole answer, later than the model's, p99", "ms", percentile(whole, 99) - statistics.median(straight)
        ),
        Row(case, "tokens that come in one event", "tokens", tokens_an_event(found)),
        Row(case, "the server", "cores", server),
        Row(case, "a streamed token", "us of the server's CPU", 1e6 * server / tokens),
        Row(case, "the model beside it", "cores", speaking),
        Row(case, "the clients beside it", "cores", listening),
        Row(case, "others on the machine meanwhile", "cores", others),
        Row(case, "memory in the end", "RSS MB", rss),
    ]


def tokens_an_event(found: dict[str, Any]) -> float:
    return float(found["turns"] * LONG / max(found["events"], 1))


def flat(size: Size, place: Path) -> list[Row]:
    """Sessions come, have five turns, and are left; lanes go to sleep soon, so that what stays is what leaks."""
    more = f"{OPEN}limits: {{lane_idle_s: {ASLEEP_S}}}\n"
    with model() as (url, _), Gateway(place, url, more) as gateway:
        keys = gateway.keys(size.people)
        warm, each = size.turns // 5, 5
        given = {"keys": keys, "at_once": AT_ONCE, "each": each}
        with Client("burst", gateway.url, url, turns=warm, **given) as client:
            good(client.line())
        rested(gateway, size)
        shares = Shares(gateway.pid)
        began = time.monotonic()
        samples = [rss_mb(gateway.pid)]
        with Client("burst", gateway.url, url, turns=size.turns, **{"from": warm}, **given) as client:
            while client.runs and not client.waits(1.0):
                samples.append(rss_mb(gateway.pid))
            found = good(client.line())
        wall = time.monotonic() - began
        server, others = shares.now()
        rested(gateway, size)
        settled = rss_mb(gateway.pid)
    tenth = max(len(samples) // 10, 1)
    before, after = statistics.mean(samples[:tenth]), statistics.mean(samples[-tenth:])
    half = statistics.mean(samples[len(samples) // 2 : len(samples) // 2 + tenth])
    case = "flat"
    said = f"{size.turns:,} turns in {size.turns // each:,} sessions, after {warm:,}"
    return [
        Row(case, f"{said}: memory in their first tenth", "RSS MB", before),
        Row(case, "in their last tenth", "RSS MB", after, raw={"rss_mb": samples}),
        Row(case, "at most", "RSS MB", max(samples)),
        Row(case, "grown", "%", 100 * (after / before - 1), target=Target(10.0, of="ours")),
        Row(case, "grown, over their second half", "RSS MB", after - half, target=Target(5.0, of="ours")),
        Row(case, "at rest afterwards", "RSS MB", settled),
        Row(case, f"failed, of {found['turns']:,}", "turns", found["failures"], target=Target(0.0, of="ours")),
        Row(case, "as fast as it goes", "turns/s", found["turns_s"]),
        Row(case, "a short turn, among many, everything that follows it included", "ms of the server's CPU",
            1000 * server * wall / size.turns),
        Row(case, "others on the machine meanwhile", "cores", others),
    ]  # fmt: skip


def idle(size: Size, place: Path) -> list[Row]:
    """Sessions that are awake, and people who follow some of them, while nothing happens."""
    followers = max(size.lanes // 10, 1)
    with model() as (url, _), Gateway(place, url, OPEN) as gateway:
        keys = gateway.keys(size.people)
        with Client("burst", gateway.url, url, keys=keys, turns=size.lanes, at_once=AT_ONCE) as client:
            good(client.line())
        with Client("follow", gateway.url, url, keys=keys, followers=followers) as client:
            client.line()
            rested(gateway, size)
            shares = Shares(gateway.pid)
            time.sleep(size.idle_s)
            server, others = shares.now()
            rss = rss_mb(gateway.pid)
            left = good(client.leave())["left"]
    case = "idle"
    said = f"{size.lanes:,} lanes awake, {followers} followers, for {size.idle_s:g} s"
    return [
        Row(case, said, "% of a core", 100 * server, target=Target(1.0, of="ours")),
        Row(case, "memory then", "RSS MB", rss),
        Row(case, "followers who were let go of", "", followers - left, target=Target(0.0, of="ours")),
        Row(case, "others on the machine meanwhile", "cores", others),
    ]


def start(size: Size, place: Path) -> list[Row]:
    """From the command to the first ready answer, with an empty home and one workspace."""
    taken, memory, spent = [], [], []
    with model() as (url, _):
        for _ in range(max(size.repeats, 1)):
            with Gateway(place, url) as gateway:
                taken.append(gateway.start_s)
                spent.append(cpu_s(gateway.pid))
                time.sleep(1.0)
                memory.append(rss_mb(gateway.pid))
    case = "start"
    return [
        Row(case, "from the command until it is ready", "s", statistics.median(taken), raw={"s": taken}),
        Row(case, "CPU of that", "s", statistics.median(spent)),
        Row(case, "idle, one workspace", "RSS MB", statistics.median(memory)),
    ]


DOORS: dict[str, dict[str, Any]] = {
    "POST /api/sessions/…/prompt, JSON": {"door": "json"},
    "the same as events (SSE)": {"door": "events"},
    "POST /v1/chat/completions": {"door": "chat", "streamed": False},
    "the same, streamed": {"door": "chat", "streamed": True},
}


def turn(size: Size, place: Path) -> list[Row]:
    """Turns one after another, by each way in turn."""
    spent: dict[str, list[float]] = {"agent.run, in-process": []}
    with model() as (url, _), Gateway(place, url, OPEN) as gateway:
        keys = gateway.keys(size.people)
        warmed(gateway, url, keys, size)
        for n in range(size.repeats):
            home = tempfile.mkdtemp(dir=place)
            alone = python(str(HERE / "gateway_alone.py"), url, home, str(size.each // 10), "10")
            spent["agent.run, in-process"].append(json.loads(alone)["cpu_ms"])
            for m, (name, given) in enumerate(DOORS.items()):
                some = {"turns": size.each, "each": 10, "at_once": 1, "from": (n * len(DOORS) + m) * size.each}
                before = cpu_s(gateway.pid)
                with Client("burst", gateway.url, url, keys=keys, **given, **some) as client:
                    good(client.line())
                    spent.setdefault(name, []).append(1000 * (cpu_s(gateway.pid) - before) / size.each)
                rested(gateway, size)  # what follows a turn beside it is not its own
    return [
        Row("turn", f"a short turn: {name}", "ms of CPU", statistics.median(took), raw={"ms": took})
        for name, took in spent.items()
    ]


CASES: dict[str, Callable[[Size, Path], list[Row]]] = {
    "start": start,
    "turn": turn,
    "paced": paced,
    "flat": flat,
    "idle": idle,
}


def measure(names: list[str], size: Size, place: Path) -> list[Row]:
    rows: list[Row] = []
    for name in names:
        print(f"{name} …", file=sys.stderr, flush=True)
        try:
            rows += CASES[name](size, place)
        except (Failed, Failure) as error:
            rows.append(Row(name, name, "", error=str(error)))
    return rows


def keep(rows: list[Row], out: Path) -> None:
    """Cases that were not measured this time stay as they were."""
    measured = {row.case for row in rows}
    kept = json.loads(out.read_text())["rows"] if out.exists() else []
    data = [row for row in kept if row["case"] not in measured] + [
        row.data() | {"at": machine()["date"]} for row in rows
    ]
    data.sort(key=lambda row: list(CASES).index(row["case"]))
    out.write_text(json.dumps({"machine": machine(), "rows": data}, indent=1) + "\n")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="does it run at all?")
    options.add_argument("--only", help="some of: " + ",".join(CASES))
    options.add_argument("--out", type=Path, help="where the results go (default benchmarks/results/gateway.json)")
    options.add_argument("--place", type=Path, help="a folder on the disk to use (default: the temporary folder)")
    given = options.parse_args()
    if not Path("/proc/self/stat").exists():
        options.error("this asks /proc for the CPU of processes, which this system does not have")
    names = given.only.split(",") if given.only else list(CASES)
    if unknown := set(names) - set(CASES):
        options.error(f"no such case: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(dir=given.place) as place:
        rows = measure(names, QUICK if given.quick else WHOLE, Path(place))
    print(table(rows))
    if out := given.out or (None if given.quick else HERE / "results" / "gateway.json"):
        keep(rows, out)
    sys.exit(any(row.met is False for row in rows))


if __name__ == "__main__":
    main()
