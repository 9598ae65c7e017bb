"""What it costs to find the patterns that fit a request, and how soon a changed file is in use.

Made-up libraries of 65, 150 and 10,000 patterns, with long descriptions, from a seed. CPU is that of the whole
process. A reload is timed from before the file is written until a search finds what it says, while another thread
searches some hundred times a second. Results go to benchmarks/results/patterns.json.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from report import Row, Target, machine, table

from mainstay.io.file_watcher import FileWatcher
from mainstay.patterns.index import PatternIndex, weigh_terms
from mainstay.patterns.library import PatternLibrary
from mainstay.patterns.pattern_template import InstructionPattern

QUERIES, RELOADS, IDLE_S = 500, 50, 20.0
THRESHOLD, MATCHES = 0.22, 3
_PARTS = ("da", "ke", "li", "mo", "nu", "pra", "que", "ro", "sti", "ta", "ver", "wo", "xi", "zen", "bra", "cho")


def words(random: random.Random, count: int) -> list[str]:
    made: set[str] = set()
    while len(made) < count:
        made.add("".join(random.choices(_PARTS, k=random.randint(2, 4))))
    return sorted(made)


class Made:
    """A library whose words are as unevenly used as those of a language."""

    def __init__(self, count: int, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._words = words(self._random, 3_000 if count < 1_000 else 12_000)
        self._random.shuffle(self._words)
        self._shares = [1.0 / (rank + 8) for rank in range(len(self._words))]
        self.patterns = [self._pattern(number) for number in range(count)]

    def text(self, count: int) -> str:
        return " ".join(self._random.choices(self._words, self._shares, k=count))

    def _pattern(self, number: int) -> InstructionPattern:
        return InstructionPattern(
            name=f"{self.text(2).replace(' ', '_')}_{number}",
            title=self.text(4),
            description=self.text(120),
            category=self.text(1),
            intents=tuple(self.text(2) for _ in range(4)),
            use_cases=tuple(self.text(6) for _ in range(6)),
        )

    def queries(self, count: int) -> list[str]:
        """From three words to a page."""
        return [self.text(self._random.choice((3, 6, 10, 20, 60))) for _ in range(count)]


def spent(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return (time.process_time() - before) * 1000


def measure(count: int) -> list[Row]:
    made = Made(count)
    case = f"{count:,} patterns"
    builds = []
    for _ in range(3 if count > 1_000 else 9):
        terms: list[dict[str, float]] = []
        took = spent(lambda terms=terms: terms.extend(map(weigh_terms, made.patterns)))  # type: ignore[misc]
        builds.append(took + spent(lambda terms=terms: PatternIndex(made.patterns, terms)))  # type: ignore[misc]
    index = PatternIndex(made.patterns, [weigh_terms(one) for one in made.patterns])
    found = 0
    times = []
    for query in made.queries(QUERIES):
        before = time.process_time()
        found += len(index.match(query, MATCHES, THRESHOLD))
        times.append((time.process_time() - before) * 1000)
    times.sort()
    most = {65: 8.0, 150: 1.0, 10_000: 10.0}[count]
    built = Target(50.0, of="ours") if count == 150 else None
    worst = Target(15.0 if count == 65 else most, of="ours")
    raw = {"ms": [round(one, 4) for one in times]}
    return [
        Row(case, f"{case}: the index", "ms of CPU", statistics.median(builds), target=built, raw={"ms": builds}),
        Row(case, f"{case}: a search, median", "ms of CPU", statistics.median(times), target=Target(most, of="ours")),
        Row(case, f"{case}: a search, p99", "ms of CPU", times[int(len(times) * 0.99)], target=worst, raw=raw),
    ]


def document(pattern: InstructionPattern) -> str:
    fields = {name: getattr(pattern, name) for name in ("name", "title", "description", "category")}
    fields |= {"intents": list(pattern.intents), "use_cases": list(pattern.use_cases)}
    return "\n".join(f"{name}: {json.dumps(value)}" for name, value in fields.items()) + "\n"


def reloads(count: int, place: Path) -> list[Row]:
    """The file is written in place, as an editor does it."""
    made = Made(150)
    for number, pattern in enumerate(made.patterns):
        (place / f"{number}.yaml").write_text(document(pattern))
    loading = PatternLibrary([str(place)])
    first = spent(loading.load)
    stop, failed, searches = threading.Event(), [0], [0]
    queries = made.queries(100)

    def search() -> None:
        while not stop.is_set():
            try:
                loading.match(queries[searches[0] % len(queries)], MATCHES, THRESHOLD)
            except Exception:  # whatever it is, it is counted
                failed[0] += 1
            searches[0] += 1
            stop.wait(0.001)

    loading.start_watching()
    searching = threading.Thread(target=search, daemon=True)
    searching.start()
    time.sleep(3.0)  # until the files are old enough to be told apart by their times
    walls = [_reload(loading, place, number) for number in range(count)]
    stop.set()
    searching.join()
    loading.close()
    walls.sort()
    case = "reload"
    return [
        Row(case, "150 files: the first load", "ms of CPU", first),
        Row(case, "150 files: a change is in use, median", "ms", statistics.median(walls), raw={"ms": walls}),
        Row(case, "150 files: a change is in use, worst", "ms", walls[-1], target=Target(140.0, of="ours")),
        Row(case, f"failed, of {searches[0]:,} searches meanwhile", "", failed[0], target=Target(0.0, of="ours")),
    ]


def _reload(library: PatternLibrary, place: Path, number: int) -> float:
    time.sleep(random.Random(number).uniform(0.05, 0.25))  # at any moment of its rhythm
    word = f"zyx{number}abc"
    text = f"name: changed\ntitle: {word}\ndescription: about {word} and nothing else\n"
    began = time.perf_counter()
    (place / "changed.yaml").write_text(text)
    while not any(word in one.pattern.title for one in library.match(word, 1, 0.1)):
        if time.perf_counter() - began > 10:
            raise SystemExit("a change was not noticed")
        time.sleep(0.001)
    return (time.perf_counter() - began) * 1000


def idle(place: Path, seconds: float) -> Row:
    watch = FileWatcher([str(place)], lambda: None)
    watch.start()
    time.sleep(4.0)
    cost = spent(lambda: time.sleep(seconds))
    watch.close()
    return Row("watch", "150 files: watching while nothing changes", "ms of CPU a minute", cost / seconds * 60)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="does it run at all?")
    options.add_argument("--out", type=Path, help="where the results go (default benchmarks/results/patterns.json)")
    given = options.parse_args()
    rows = [row for count in ((65, 150) if given.quick else (65, 150, 10_000)) for row in measure(count)]
    with tempfile.TemporaryDirectory() as place:
        rows += reloads(5 if given.quick else RELOADS, Path(place))
        rows.append(idle(Path(place), 2.0 if given.quick else IDLE_S))
    print(table(rows))
    if out := given.out or (None if given.quick else Path(__file__).parent / "results" / "patterns.json"):
        out.write_text(json.dumps({"machine": machine(), "rows": [row.data() for row in rows]}, indent=1) + "\n")
    sys.exit(any(row.met is False for row in rows))


if __name__ == "__main__":
    main()
