"""What recall costs over 100,000 messages: CPU time of a search, and how fast messages are indexed.

The messages have about sixty words from a vocabulary whose frequencies fall as they do in English. CPU time is that of
the whole process, its threads included. Results go to benchmarks/results/memory_speed.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

from report import Row, Target, machine, table

from mainstay.core.memory_tiers import Embedder, IndexedMessage, MemoryQuery, WorkspaceTiers
from mainstay.memory.embedders.local.embedder import LocalEmbedder
from mainstay.memory.hybrid_search import MemorySearchResult, hybrid_search, semantic_search
from mainstay.memory.text_chunks import split_chunks
from mainstay.store.sqlite.full_text import STOP_WORDS
from mainstay.store.sqlite.workspace_tiers import StandaloneTiers

MESSAGES = 100_000
SESSION = 500  # messages in each
BATCH = 100  # handed over at once, as a follower would
WORDS = 60
VOCABULARY = 50_000
QUERIES = 50
SEED = 7


class Writing:
    """Messages and questions that nobody wrote, of words as frequent as words are."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        stop = sorted(STOP_WORDS["en"], key=len)
        self._words = [*stop, *self._made(VOCABULARY - len(stop))]
        self._first_told = len(stop)
        self._weights = list(accumulate(1 / (rank + 2.7) for rank in range(VOCABULARY)))

    def _made(self, count: int) -> list[str]:
        """Pronounceable, the frequent ones shorter."""
        syllables = [
            a + b for a in "bcdfghjklmnprstvwz" for b in ("a", "e", "i", "o", "u", "an", "er", "in", "os", "ul")
        ]
        found: dict[str, None] = {}
        while len(found) < count:
            parts = 2 + (len(found) > 400) + (len(found) > 8000) * self._chance.randrange(2)
            found["".join(self._chance.choices(syllables, k=parts))] = None
        return list(found)

    def message(self) -> str:
        length = max(3, round(self._chance.lognormvariate(3.8, 0.75)))  # sixty on average, a few of hundreds
        words = self._chance.choices(self._words, cum_weights=self._weights, k=length)
        return " ".join(words).capitalize() + "."

    def question(self) -> str:
        """A few words that tell something, from frequent to rare, between words that do not."""
        telling = [
            self._words[min(VOCABULARY - 1, self._first_told + int(10 ** self._chance.uniform(1, 4)))]
            for _ in range(self._chance.randrange(2, 6))
        ]
        return f"what did {telling[0]} say about the {' '.join(telling[1:])}?"


def entries(writing: Writing, count: int) -> list[list[IndexedMessage]]:
    """In sessions."""
    made = []
    for start in range(0, count, SESSION):
        session = f"session-{start // SESSION}"
        seqs = range(1, min(SESSION, count - start) + 1)
        made.append(
            [
                IndexedMessage(
                    session, seq, (start + seq) * 60_000, ("user", "assistant")[seq % 2], writing.message(), "user"
                )
                for seq in seqs
            ]
        )
    return made


async def index(tiers: WorkspaceTiers, sessions: list[list[IndexedMessage]]) -> tuple[float, float]:
    """Messages a second, elapsed, and a second of CPU."""
    began, cpu = time.perf_counter(), time.process_time()
    for session in sessions:
        for start in range(0, len(session), BATCH):
            some = session[start : start + BATCH]
            await tiers.messages.ingest(some[0].session, some, some[-1].seq)
    count = sum(map(len, sessions))
    return count / (time.perf_counter() - began), count / (time.process_time() - cpu)


async def vectorise(
    tiers: WorkspaceTiers, embedder: Embedder, sessions: list[list[IndexedMessage]]
) -> tuple[float, float]:
    assert tiers.vectors is not None, "sqlite-vec is not installed"
    await tiers.vectors.set_model(embedder.name, await embedder.load())
    began, cpu = time.perf_counter(), time.process_time()
    for session in sessions:
        for start in range(0, len(session), BATCH):
            some = session[start : start + BATCH]
            cut = [(entry.seq, piece) for entry in some for piece in split_chunks(entry.text)]
            made = await embedder.embed([piece for _, piece in cut])
            numbered = [(seq, vector) for (seq, _), vector in zip(cut, made, strict=True)]
            await tiers.vectors.ingest(some[0].session, numbered, some[-1].seq)
    count = sum(map(len, sessions))
    return count / (time.perf_counter() - began), count / (time.process_time() - cpu)


async def ask(
    way: Callable[..., Awaitable[MemorySearchResult]],
    tiers: WorkspaceTiers,
    embedder: Embedder | None,
    questions: list[MemoryQuery],
) -> list[float]:
    """Milliseconds of CPU for each; once more before, so that no file is read for the first time."""
    spent: list[float] = []
    for warm in (True, False):
        for question in questions:
            cpu = time.process_time()
            found = await way(tiers, embedder, question)
            assert found.hits or way is hybrid_search, question
            if not warm:
                spent.append((time.process_time() - cpu) * 1000)
    return spent


def rows(figure: str, spent: list[float], bound: float | None) -> list[Row]:
    median, late = statistics.median(spent), sorted(spent)[int(len(spent) * 0.95)]
    target = Target(bound, of="ours") if bound is not None else None
    return [
        Row("memory", f"{figure}, median", "ms of CPU", median, target=target, raw={"ms": spent}),
        Row("memory", f"{figure}, p95", "ms of CPU", late),
    ]


async def measure(count: int, place: str) -> list[Row]:
    writing = Writing(SEED)
    sessions = entries(writing, count)
    questions = [MemoryQuery(text=writing.question(), k=10) for _ in range(QUERIES)]
    narrow = [MemoryQuery(text=one.text, k=10, start=0, end=count * 30_000, speaker="user") for one in questions]
    database = StandaloneTiers(f"{place}/tiers.db")
    tiers, embedder = await database.open(), LocalEmbedder()
    rate, rate_cpu = await index(tiers, sessions)
    made = [
        Row("memory", "indexed by words", "messages/s", rate, target=Target(2_000, of="ours", at_least=True)),
        Row("memory", "indexed by words", "messages/s of CPU", rate_cpu),
    ]
    rate, rate_cpu = await vectorise(tiers, embedder, sessions)
    made += [
        Row("memory", "indexed by meaning", "messages/s", rate),
        Row("memory", "indexed by meaning", "messages/s of CPU", rate_cpu),
    ]
    made += rows("memory_semantic", await ask(semantic_search, tiers, embedder, questions), 15)
    made += rows("memory_search", await ask(hybrid_search, tiers, embedder, questions), 20)
    made += rows("memory_search, words only", await ask(hybrid_search, tiers, None, questions), None)
    made += rows("memory_search, by time and speaker", await ask(hybrid_search, tiers, embedder, narrow), None)
    await database.close()
    return made


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--messages", type=int, default=MESSAGES, help=f"how many (default {MESSAGES})")
    options.add_argument("--out", type=Path, help="where the results go (default benchmarks/results/memory_speed.json)")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        made = asyncio.run(measure(given.messages, place))
        size = sum(path.stat().st_size for path in Path(place).iterdir())
    made.append(Row("memory", "on disk, text included", "bytes a message", size / given.messages))
    print(f"over {given.messages:,} messages\n\n{table(made)}")
    if out := given.out or (
        Path(__file__).parent / "results" / "memory_speed.json" if given.messages == MESSAGES else None
    ):
        results: dict[str, Any] = {
            "machine": machine(),
            "messages": given.messages,
            "rows": [row.data() for row in made],
        }
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(any(row.met is False for row in made))


if __name__ == "__main__":
    main()
