"""Cost of memory search over 100,000 messages: CPU time of a search, and speed of indexing.

The messages have sixty words on average, with the word frequencies of English. CPU time is that of the whole process,
all threads. Results go to benchmarks/results/memory_speed.json.
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

from report import Row, Target, describe_machine, format_table

from mainstay.core.memory_tiers import Embedder, IndexedMessage, MemoryQuery, WorkspaceTiers
from mainstay.memory.embedders.local.embedder import LocalEmbedder
from mainstay.memory.hybrid_search import MemorySearchResult, hybrid_search, semantic_search
from mainstay.memory.vector_indexer import split_chunks
from mainstay.store.sqlite.full_text import STOP_WORDS
from mainstay.store.sqlite.workspace_tiers import SeparateTierDatabase

MESSAGES = 100_000
MESSAGES_PER_SESSION = 500
BATCH = 100  # messages indexed at once, as the memory indexer does
WORDS = 60
VOCABULARY = 50_000
QUERIES = 50
SEED = 7


class SyntheticText:
    """Random messages and questions with the word frequencies of a language."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        stop = sorted(STOP_WORDS["en"], key=len)
        self._words = [*stop, *self._generate_words(VOCABULARY - len(stop))]
        self._stop_word_count = len(stop)
        self._weights = list(accumulate(1 / (rank + 2.7) for rank in range(VOCABULARY)))

    def _generate_words(self, count: int) -> list[str]:
        """Pronounceable words; frequent ones are shorter."""
        syllables = [
            a + b for a in "bcdfghjklmnprstvwz" for b in ("a", "e", "i", "o", "u", "an", "er", "in", "os", "ul")
        ]
        words: dict[str, None] = {}
        while len(words) < count:
            parts = 2 + (len(words) > 400) + (len(words) > 8000) * self._rng.randrange(2)
            words["".join(self._rng.choices(syllables, k=parts))] = None
        return list(words)

    def generate_message(self) -> str:
        length = max(3, round(self._rng.lognormvariate(3.8, 0.75)))  # sixty on average, some with hundreds
        words = self._rng.choices(self._words, cum_weights=self._weights, k=length)
        return " ".join(words).capitalize() + "."

    def generate_question(self) -> str:
        """A few content words, from frequent to rare, between stop words."""
        content_words = [
            self._words[min(VOCABULARY - 1, self._stop_word_count + int(10 ** self._rng.uniform(1, 4)))]
            for _ in range(self._rng.randrange(2, 6))
        ]
        return f"what did {content_words[0]} say about the {' '.join(content_words[1:])}?"


def generate_sessions(text: SyntheticText, count: int) -> list[list[IndexedMessage]]:
    """`count` messages, in sessions of `MESSAGES_PER_SESSION`."""
    sessions = []
    for start in range(0, count, MESSAGES_PER_SESSION):
        session = f"session-{start // MESSAGES_PER_SESSION}"
        seqs = range(1, min(MESSAGES_PER_SESSION, count - start) + 1)
        sessions.append(
            [
                IndexedMessage(
                    session,
                    seq,
                    (start + seq) * 60_000,
                    ("user", "assistant")[seq % 2],
                    text.generate_message(),
                    "user",
                )
                for seq in seqs
            ]
        )
    return sessions


async def index_words(tiers: WorkspaceTiers, sessions: list[list[IndexedMessage]]) -> tuple[float, float]:
    """Index messages for full-text search; return messages per second and per second of CPU."""
    started, cpu_started = time.perf_counter(), time.process_time()
    for session in sessions:
        for start in range(0, len(session), BATCH):
            batch = session[start : start + BATCH]
            await tiers.messages.ingest(batch[0].session, batch, batch[-1].seq)
    count = sum(map(len, sessions))
    return count / (time.perf_counter() - started), count / (time.process_time() - cpu_started)


async def index_vectors(
    tiers: WorkspaceTiers, embedder: Embedder, sessions: list[list[IndexedMessage]]
) -> tuple[float, float]:
    """Index messages for vector search; return messages per second and per second of CPU."""
    assert tiers.vectors is not None, "sqlite-vec is not installed"
    await tiers.vectors.set_model(embedder.name, await embedder.load())
    started, cpu_started = time.perf_counter(), time.process_time()
    for session in sessions:
        for start in range(0, len(session), BATCH):
            batch = session[start : start + BATCH]
            chunks = [(entry.seq, chunk) for entry in batch for chunk in split_chunks(entry.text)]
            embeddings = await embedder.embed([chunk for _, chunk in chunks])
            vectors = [(seq, vector) for (seq, _), vector in zip(chunks, embeddings, strict=True)]
            await tiers.vectors.ingest(batch[0].session, vectors, batch[-1].seq)
    count = sum(map(len, sessions))
    return count / (time.perf_counter() - started), count / (time.process_time() - cpu_started)


async def measure_searches(
    search: Callable[..., Awaitable[MemorySearchResult]],
    tiers: WorkspaceTiers,
    embedder: Embedder | None,
    questions: list[MemoryQuery],
) -> list[float]:
    """Milliseconds of CPU of each search, after a first round that fills the file cache."""
    cpu_ms: list[float] = []
    for warm_up in (True, False):
        for question in questions:
            started = time.process_time()
            result = await search(tiers, embedder, question)
            assert result.hits or search is hybrid_search, question
            if not warm_up:
                cpu_ms.append((time.process_time() - started) * 1000)
    return cpu_ms


def build_rows(figure: str, cpu_ms: list[float], bound: float | None) -> list[Row]:
    median, p95 = statistics.median(cpu_ms), sorted(cpu_ms)[int(len(cpu_ms) * 0.95)]
    target = Target(bound, of="ours") if bound is not None else None
    return [
        Row("memory", f"{figure}, median", "ms of CPU", median, target=target, raw={"ms": cpu_ms}),
        Row("memory", f"{figure}, p95", "ms of CPU", p95),
    ]


async def measure(count: int, folder: str) -> list[Row]:
    text = SyntheticText(SEED)
    sessions = generate_sessions(text, count)
    questions = [MemoryQuery(text=text.generate_question(), k=10) for _ in range(QUERIES)]
    filtered = [
        MemoryQuery(text=question.text, k=10, start=0, end=count * 30_000, speaker="user") for question in questions
    ]
    database = SeparateTierDatabase(f"{folder}/tiers.db")
    tiers, embedder = await database.open(), LocalEmbedder()
    rate, rate_cpu = await index_words(tiers, sessions)
    rows = [
        Row("memory", "indexed by words", "messages/s", rate, target=Target(2_000, of="ours", at_least=True)),
        Row("memory", "indexed by words", "messages/s of CPU", rate_cpu),
    ]
    rate, rate_cpu = await index_vectors(tiers, embedder, sessions)
    rows += [
        Row("memory", "indexed by meaning", "messages/s", rate),
        Row("memory", "indexed by meaning", "messages/s of CPU", rate_cpu),
    ]
    rows += build_rows("memory_semantic", await measure_searches(semantic_search, tiers, embedder, questions), 15)
    rows += build_rows("memory_search", await measure_searches(hybrid_search, tiers, embedder, questions), 20)
    rows += build_rows("memory_search, words only", await measure_searches(hybrid_search, tiers, None, questions), None)
    rows += build_rows(
        "memory_search, by time and speaker", await measure_searches(hybrid_search, tiers, embedder, filtered), None
    )
    await database.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES, help=f"number of messages (default {MESSAGES})")
    parser.add_argument("--out", type=Path, help="file for the results (default benchmarks/results/memory_speed.json)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = asyncio.run(measure(arguments.messages, folder))
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
    rows.append(Row("memory", "on disk, text included", "bytes a message", size / arguments.messages))
    print(f"over {arguments.messages:,} messages\n\n{format_table(rows)}")
    if out := arguments.out or (
        Path(__file__).parent / "results" / "memory_speed.json" if arguments.messages == MESSAGES else None
    ):
        results: dict[str, Any] = {
            "machine": describe_machine(),
            "messages": arguments.messages,
            "rows": [row.to_dict() for row in rows],
        }
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(any(row.meets_target is False for row in rows))


if __name__ == "__main__":
    main()
