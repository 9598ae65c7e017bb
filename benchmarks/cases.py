"""What is measured, and what it should be."""

from __future__ import annotations

import resource
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from processes import Bench, Server, python
from report import Row, Target

Runs = dict[str, list[dict[str, float]]]


@dataclass(frozen=True)
class Figure:
    """A field of a worker's result."""

    key: str
    name: str
    unit: str
    target: Target


@dataclass(frozen=True)
class Paired:
    """A case that the limit runs too, turn about. Sizes are (full, quick)."""

    name: str
    work: str
    sessions: tuple[int, int]
    turns: tuple[int, int]
    figures: list[Figure]
    options: tuple[str, ...] = ()
    latency_ms: float = 0
    gap_ms: float = 0

    def rows(self, bench: Bench) -> list[Row]:
        sizes = ["--sessions", str(bench.size(*self.sessions)), "--turns", str(bench.size(*self.turns))]
        runs: Runs = {"limit": [], "mainstay": []}
        with Server(self.latency_ms, self.gap_ms) as server:
            for _ in range(bench.pairs):
                for subject, results in runs.items():
                    results.append(bench.work(server, self.work, subject, *sizes, *self.options))
        rows = [self.row(figure, runs) for figure in self.figures]
        limit, ours = ({int(run["requests"]) for run in results} for results in runs.values())
        if limit != ours:
            error = f"asked the model {sorted(ours)} times, the limit {sorted(limit)}"
            rows.append(Row(self.name, f"{self.figures[0].name}: requests", "", error=error))
        return rows

    def row(self, figure: Figure, runs: Runs) -> Row:
        raw = {subject: [run[figure.key] for run in results] for subject, results in runs.items()}
        limit, ours = raw["limit"], raw["mainstay"]
        middle = statistics.median
        ratio = middle(b / a for a, b in zip(limit, ours, strict=True))
        return Row(self.name, figure.name, figure.unit, middle(ours), middle(limit), ratio, figure.target, raw=raw)


def cpu(name: str, bound: float) -> Figure:
    return Figure("cpu_ms", name, "CPU ms a turn", Target(bound))


MANY = "200 sessions at once, model 50 ms"
RATE = Figure("turns_s", MANY, "turns/s", Target(0.8, at_least=True))
IN_FLIGHT = Figure("turn_kb", "a running turn (200 waiting for the model)", "RSS KB", Target(2.0))
DISK = Figure("turn_kb", "disk after a checkpoint, a chat turn of 300 bytes, memory off", "KB", Target(1.5, of="ours"))

PAIRED = [
    Paired("chat", "turns", (50, 5), (10, 4), [cpu("durable chat turn", 1.5)]),
    Paired("tool", "turns", (50, 5), (10, 4), [cpu("durable tool turn", 1.5)], ("--tool",)),
    Paired("many", "together", (200, 40), (5, 2), [cpu(MANY, 1.5), RATE], ("--tool",), latency_ms=50),
    Paired("paced1", "together", (4, 4), (15, 3), [cpu("chunks 1 ms apart", 0.8)], gap_ms=1),
    Paired("paced15", "together", (12, 4), (5, 1), [cpu("chunks 15 ms apart", 1.3)], gap_ms=15),
    Paired("flight", "flight", (200, 50), (1, 1), [IN_FLIGHT], latency_ms=2000),
    Paired("disk", "disk", (50, 10), (10, 4), [DISK], ("--memory", "off")),
]


def alone(case: str, figure: str, unit: str, values: list[float], bound: float | None = None) -> Row:
    target = None if bound is None else Target(bound, of="ours")
    return Row(case, figure, unit, statistics.median(values), target=target, raw={"mainstay": values})


def less(these: list[float], those: list[float]) -> list[float]:
    return [a - b for a, b in zip(these, those, strict=True)]


def long(bench: Bench) -> list[Row]:
    """The first turn of a long session in a fresh process, above that of an empty one."""
    lengths = (1000, 5000) if bench.quick else (1000, 5000, 50_000)
    home, taken = bench.home(), {n: list[float]() for n in (0, *lengths)}
    with Server() as server:
        for n in lengths:
            bench.work(server, "seed", "mainstay", "--session", f"long{n}", "--messages", str(n), home=home)
        for i in range(bench.pairs):
            for n, times in taken.items():
                session = f"long{n}" if n else f"empty{i}"
                times.append(bench.work(server, "first", "mainstay", "--session", session, home=home)["cpu_ms"])
    rows = [alone("long", "first turn of an empty session, fresh process", "CPU ms", taken[0])]
    for n in lengths:
        rows.append(alone("long", f"of one with {n:,} messages, above that", "CPU ms", less(taken[n], taken[0]), 10))
    most, least = lengths[-1], lengths[0]
    rows.append(alone("long", f"{most:,} messages above {least:,}", "CPU ms", less(taken[most], taken[least]), 3))
    return rows


def asleep(bench: Bench) -> list[Row]:
    many = bench.size(10_000, 500)
    with Server() as server:
        sizes = (
            "--sessions",
            str(bench.size(2000, 100)),
            "--more",
            str(bench.size(2000, 100) + many),
            "--idle-s",
            "0.2",
        )
        got = bench.work(server, "sleepers", "mainstay", *sizes)
    return [alone("asleep", f"{many:,} more sessions asleep", "RSS MB", [got["grown_mb"]], 5)]


def lanes(bench: Bench) -> list[Row]:
    many = bench.size(2100, 300)
    with Server() as server:
        got = bench.work(server, "lanes", "mainstay", "--sessions", "100", "--more", str(many))
    return [alone("lanes", f"an awake idle lane ({many - 100:,} of them)", "RSS KB", [got["lane_kb"]], 20)]


STATEMENTS = {
    "bare": "",
    "import mainstay": "import mainstay",
    "from mainstay import Agent": "from mainstay import Agent",
}
COLD = "import time\n%s\ncpu = time.process_time()\nprint(cpu, open('/proc/self/statm').read().split()[1])"


def cold(bench: Bench) -> list[Row]:
    """What it costs to start, in fresh processes. The first of each compiles and is not counted."""
    cpu_ms: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    rss_mb: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    help_ms: list[float] = []
    for _ in range(bench.pairs + 1):
        for name, statement in STATEMENTS.items():
            seconds, pages = python("-c", COLD % statement).split()
            cpu_ms[name].append(1000 * float(seconds))
            rss_mb[name].append(int(pages) * resource.getpagesize() / 2**20)
        before = children_s()
        python("-m", "mainstay", "--help")
        help_ms.append(1000 * (children_s() - before))
    rows = []
    for name, most_ms, most_mb in (("import mainstay", 120, 20), ("from mainstay import Agent", None, None)):
        figure = f"{name}, above bare Python"
        rows.append(alone("cold", figure, "CPU ms", less(cpu_ms[name], cpu_ms["bare"])[1:], most_ms))
        rows.append(alone("cold", figure, "RSS MB", less(rss_mb[name], rss_mb["bare"])[1:], most_mb))
    rows.append(alone("cold", "mainstay --help, the whole process", "CPU ms", help_ms[1:], 100))
    return rows


def children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def create(bench: Bench) -> list[Row]:
    with Server() as server:
        taken = [bench.work(server, "create", "mainstay")["cpu_us"] for _ in range(bench.pairs)]
    return [alone("create", "creating an Agent", "CPU us", taken, 100)]


def memory(bench: Bench) -> list[Row]:
    """The same turns with memory on and off, turn about; and what memory does beside them."""
    sizes = ("--sessions", str(bench.size(50, 5)), "--turns", str(bench.size(10, 4)))
    runs: Runs = {"off": [], "on": []}
    with Server() as server:
        for _ in range(bench.pairs):
            for state, results in runs.items():
                results.append(bench.work(server, "turns", "mainstay", *sizes, "--memory", state))
        beside = [bench.work(server, "indexing", "mainstay", *sizes)["cpu_ms"] for _ in range(bench.pairs)]
        disk = [bench.work(server, "disk", "mainstay", *sizes)["turn_kb"]]
    rows = []
    for key, unit in (("cpu_ms", "CPU ms a turn"), ("wall_ms", "wall ms a turn")):
        raw = {state: [run[key] for run in results] for state, results in runs.items()}
        ratio = statistics.median(b / a for a, b in zip(raw["off"], raw["on"], strict=True))
        middle = {state: statistics.median(values) for state, values in raw.items()}
        figure = "chat turn with memory on (limit: off)"
        rows.append(Row("memory", figure, unit, middle["on"], middle["off"], ratio, Target(1.15), raw=raw))
    rows.append(alone("memory", "indexing what it said, words and meaning, afterwards", "CPU ms a turn", beside))
    rows.append(alone("memory", "disk after a checkpoint, a chat turn of 300 bytes, memory on", "KB", disk))
    return rows


def times(bench: Bench) -> list[Row]:
    """Wall time of loading and persisting, taken at the store while turns run."""
    with Server() as server:
        got = bench.work(server, "times", "mainstay", "--sessions", str(bench.size(500, 40)), "--messages", "20")
    rows = []
    for what, published in (("load", (12, 28)), ("persist", (3, 8))):
        for percent, theirs in zip((50, 99), published, strict=True):
            note = f"others publish {theirs} ms"
            value = got[f"{what}_p{percent}_ms"]
            rows.append(Row("times", f"session {what} P{percent}", "wall ms", value, note=note))
    return rows


CASES: dict[str, Callable[[Bench], list[Row]]] = {case.name: case.rows for case in PAIRED}
CASES |= {"long": long, "asleep": asleep, "lanes": lanes, "cold": cold, "create": create, "times": times}
CASES |= {"memory": memory}
