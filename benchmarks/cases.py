"""The cases of run.py: what each measures, its sizes and its targets."""

from __future__ import annotations

import resource
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from processes import BenchmarkRun, ModelServerProcess, run_python
from report import Row, Target

ResultsBySubject = dict[str, list[dict[str, float]]]


@dataclass(frozen=True)
class Figure:
    """A field of a worker's result."""

    key: str
    name: str
    unit: str
    target: Target


@dataclass(frozen=True)
class PairedCase:
    """A case that the limit and Mainstay run alternately. Sizes are (full, quick)."""

    name: str
    worker_case: str
    sessions: tuple[int, int]
    turns: tuple[int, int]
    figures: list[Figure]
    options: tuple[str, ...] = ()
    latency_ms: float = 0
    gap_ms: float = 0

    def measure(self, benchmark: BenchmarkRun) -> list[Row]:
        sizes = self.build_size_options(benchmark)
        results: ResultsBySubject = {"limit": [], "mainstay": []}
        with ModelServerProcess(self.latency_ms, self.gap_ms) as server:
            for _ in range(benchmark.pairs):
                for subject, subject_results in results.items():
                    subject_results.append(
                        benchmark.run_worker(server, self.worker_case, subject, *sizes, *self.options)
                    )
        rows = [self.build_row(figure, results) for figure in self.figures]
        limit, mainstay = ({int(result["requests"]) for result in runs} for runs in results.values())
        if limit != mainstay:
            error = f"Mainstay sent {sorted(mainstay)} model requests, the limit {sorted(limit)}"
            rows.append(Row(self.name, f"{self.figures[0].name}: requests", "", error=error))
        return rows

    def build_size_options(self, benchmark: BenchmarkRun) -> list[str]:
        sessions, turns = benchmark.pick_size(*self.sessions), benchmark.pick_size(*self.turns)
        return ["--sessions", str(sessions), "--turns", str(turns)]

    def build_row(self, figure: Figure, results: ResultsBySubject) -> Row:
        raw = {subject: [result[figure.key] for result in runs] for subject, runs in results.items()}
        limit, mainstay = raw["limit"], raw["mainstay"]
        median = statistics.median
        ratio = median(b / a for a, b in zip(limit, mainstay, strict=True))
        return Row(self.name, figure.name, figure.unit, median(mainstay), median(limit), ratio, figure.target, raw=raw)


def build_cpu_figure(name: str, bound: float) -> Figure:
    return Figure("cpu_ms", name, "CPU ms a turn", Target(bound))


MANY_SESSIONS = "200 sessions at once, model 50 ms"
THROUGHPUT = Figure("turns_s", MANY_SESSIONS, "turns/s", Target(0.8, at_least=True))
TURN_MEMORY = Figure("turn_kb", "a running turn (200 waiting for the model)", "RSS KB", Target(2.0))
DISK = Figure("turn_kb", "disk after a checkpoint, a chat turn of 300 bytes, memory off", "KB", Target(1.5, of="ours"))

PAIRED_CASES = [
    PairedCase("chat", "turns", (50, 5), (10, 4), [build_cpu_figure("durable chat turn", 1.5)]),
    PairedCase("tool", "turns", (50, 5), (10, 4), [build_cpu_figure("durable tool turn", 1.5)], ("--tool",)),
    PairedCase(
        "many",
        "together",
        (200, 40),
        (5, 2),
        [build_cpu_figure(MANY_SESSIONS, 1.5), THROUGHPUT],
        ("--tool",),
        latency_ms=50,
    ),
    PairedCase("paced1", "together", (4, 4), (15, 3), [build_cpu_figure("chunks 1 ms apart", 0.8)], gap_ms=1),
    PairedCase("paced15", "together", (12, 4), (5, 1), [build_cpu_figure("chunks 15 ms apart", 1.3)], gap_ms=15),
    PairedCase("flight", "flight", (200, 50), (1, 1), [TURN_MEMORY], latency_ms=2000),
    PairedCase("disk", "disk", (50, 10), (10, 4), [DISK], ("--memory", "off")),
]


def build_mainstay_row(case: str, figure: str, unit: str, values: list[float], bound: float | None = None) -> Row:
    """The median of Mainstay's values, without a comparison with the limit."""
    target = None if bound is None else Target(bound, of="ours")
    return Row(case, figure, unit, statistics.median(values), target=target, raw={"mainstay": values})


def subtract_pairwise(values: list[float], baselines: list[float]) -> list[float]:
    return [value - baseline for value, baseline in zip(values, baselines, strict=True)]


def measure_long_sessions(benchmark: BenchmarkRun) -> list[Row]:
    """The first turn of a long session in a fresh process, above that of an empty one."""
    lengths = (1000, 5000) if benchmark.quick else (1000, 5000, 50_000)
    home, cpu_ms = benchmark.create_home(), {length: list[float]() for length in (0, *lengths)}
    with ModelServerProcess() as server:
        for length in lengths:
            options = ("--session", f"long{length}", "--messages", str(length))
            benchmark.run_worker(server, "seed", "mainstay", *options, home=home)
        for repetition in range(benchmark.pairs):
            for length, values in cpu_ms.items():
                session = f"long{length}" if length else f"empty{repetition}"
                result = benchmark.run_worker(server, "first", "mainstay", "--session", session, home=home)
                values.append(result["cpu_ms"])
    rows = [build_mainstay_row("long", "first turn of an empty session, fresh process", "CPU ms", cpu_ms[0])]
    for length in lengths:
        figure, added_ms = f"of one with {length:,} messages, above that", subtract_pairwise(cpu_ms[length], cpu_ms[0])
        rows.append(build_mainstay_row("long", figure, "CPU ms", added_ms, 10))
    longest, shortest = lengths[-1], lengths[0]
    added_ms = subtract_pairwise(cpu_ms[longest], cpu_ms[shortest])
    rows.append(build_mainstay_row("long", f"{longest:,} messages above {shortest:,}", "CPU ms", added_ms, 3))
    return rows


def measure_unloaded_sessions(benchmark: BenchmarkRun) -> list[Row]:
    """Memory that remains in use for sessions whose lanes were unloaded."""
    first, added = benchmark.pick_size(2000, 100), benchmark.pick_size(10_000, 500)
    options = ("--sessions", str(first), "--more", str(first + added), "--idle-s", "0.2")
    with ModelServerProcess() as server:
        result = benchmark.run_worker(server, "sleepers", "mainstay", *options)
    return [build_mainstay_row("asleep", f"{added:,} more sessions asleep", "RSS MB", [result["grown_mb"]], 5)]


def measure_idle_lanes(benchmark: BenchmarkRun) -> list[Row]:
    """Memory of a loaded lane without a running turn."""
    total = benchmark.pick_size(2100, 300)
    with ModelServerProcess() as server:
        result = benchmark.run_worker(server, "lanes", "mainstay", "--sessions", "100", "--more", str(total))
    figure = f"an awake idle lane ({total - 100:,} of them)"
    return [build_mainstay_row("lanes", figure, "RSS KB", [result["lane_kb"]], 20)]


IMPORT_STATEMENTS = {
    "bare": "",
    "import mainstay": "import mainstay",
    "from mainstay import Agent": "from mainstay import Agent",
}
IMPORT_PROGRAM = "import time\n%s\ncpu = time.process_time()\nprint(cpu, open('/proc/self/statm').read().split()[1])"


def measure_cold_start(benchmark: BenchmarkRun) -> list[Row]:
    """CPU and memory of a start in fresh processes. The first run of each compiles bytecode and is not counted."""
    cpu_ms: dict[str, list[float]] = {name: [] for name in IMPORT_STATEMENTS}
    rss_mb: dict[str, list[float]] = {name: [] for name in IMPORT_STATEMENTS}
    help_ms: list[float] = []
    for _ in range(benchmark.pairs + 1):
        for name, statement in IMPORT_STATEMENTS.items():
            seconds, pages = run_python("-c", IMPORT_PROGRAM % statement).split()
            cpu_ms[name].append(1000 * float(seconds))
            rss_mb[name].append(int(pages) * resource.getpagesize() / 2**20)
        before_s = read_children_cpu_s()
        run_python("-m", "mainstay", "--help")
        help_ms.append(1000 * (read_children_cpu_s() - before_s))
    rows = []
    for name, max_ms, max_mb in (("import mainstay", 120, 20), ("from mainstay import Agent", None, None)):
        figure = f"{name}, above bare Python"
        added_ms = subtract_pairwise(cpu_ms[name], cpu_ms["bare"])[1:]
        added_mb = subtract_pairwise(rss_mb[name], rss_mb["bare"])[1:]
        rows.append(build_mainstay_row("cold", figure, "CPU ms", added_ms, max_ms))
        rows.append(build_mainstay_row("cold", figure, "RSS MB", added_mb, max_mb))
    rows.append(build_mainstay_row("cold", "mainstay --help, the whole process", "CPU ms", help_ms[1:], 100))
    return rows


def read_children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure_agent_construction(benchmark: BenchmarkRun) -> list[Row]:
    with ModelServerProcess() as server:
        cpu_us = [benchmark.run_worker(server, "create", "mainstay")["cpu_us"] for _ in range(benchmark.pairs)]
    return [build_mainstay_row("create", "creating an Agent", "CPU us", cpu_us, 100)]


def measure_memory_overhead(benchmark: BenchmarkRun) -> list[Row]:
    """The same turns with memory on and off, alternating; also the cost of indexing and the size on disk."""
    sizes = ("--sessions", str(benchmark.pick_size(50, 5)), "--turns", str(benchmark.pick_size(10, 4)))
    results: dict[str, list[dict[str, float]]] = {"off": [], "on": []}
    with ModelServerProcess() as server:
        for _ in range(benchmark.pairs):
            for state, state_results in results.items():
                state_results.append(benchmark.run_worker(server, "turns", "mainstay", *sizes, "--memory", state))
        indexing_ms = [
            benchmark.run_worker(server, "indexing", "mainstay", *sizes)["cpu_ms"] for _ in range(benchmark.pairs)
        ]
        disk_kb = [benchmark.run_worker(server, "disk", "mainstay", *sizes)["turn_kb"]]
    rows = []
    for key, unit in (("cpu_ms", "CPU ms a turn"), ("wall_ms", "wall ms a turn")):
        raw = {state: [result[key] for result in runs] for state, runs in results.items()}
        ratio = statistics.median(b / a for a, b in zip(raw["off"], raw["on"], strict=True))
        medians = {state: statistics.median(values) for state, values in raw.items()}
        figure = "chat turn with memory on (limit: off)"
        rows.append(Row("memory", figure, unit, medians["on"], medians["off"], ratio, Target(1.15), raw=raw))
    figure = "indexing what it said, words and meaning, afterwards"
    rows.append(build_mainstay_row("memory", figure, "CPU ms a turn", indexing_ms))
    figure = "disk after a checkpoint, a chat turn of 300 bytes, memory on"
    rows.append(build_mainstay_row("memory", figure, "KB", disk_kb))
    return rows


def measure_store_times(benchmark: BenchmarkRun) -> list[Row]:
    """Wall time of the store's load and append while turns run."""
    options = ("--sessions", str(benchmark.pick_size(500, 40)), "--messages", "20")
    with ModelServerProcess() as server:
        result = benchmark.run_worker(server, "times", "mainstay", *options)
    rows = []
    for operation, published_ms in (("load", (12, 28)), ("persist", (3, 8))):
        for percent, other_ms in zip((50, 99), published_ms, strict=True):
            note = f"others publish {other_ms} ms"
            value = result[f"{operation}_p{percent}_ms"]
            rows.append(Row("times", f"session {operation} P{percent}", "wall ms", value, note=note))
    return rows


CASES: dict[str, Callable[[BenchmarkRun], list[Row]]] = {case.name: case.measure for case in PAIRED_CASES}
CASES |= {
    "long": measure_long_sessions,
    "asleep": measure_unloaded_sessions,
    "lanes": measure_idle_lanes,
    "cold": measure_cold_start,
    "create": measure_agent_construction,
    "times": measure_store_times,
    "memory": measure_memory_overhead,
}
