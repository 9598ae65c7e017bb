"""FactTier on Oxigraph. The journal is in another database; the graph stores its own position in each session."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mainstay.core.component_options import FactStoreOptions
from mainstay.core.errors import HomeUnusable, StoreFailed
from mainstay.core.memory_tiers import UNTRUSTED, Fact
from mainstay.core.store_components import FactStoreContext
from mainstay.core.worker_threads import WorkerThreads
from mainstay.store import fact_rules as rules
from mainstay.store.oxigraph.graph_directory import GraphDirectory
from mainstay.store.oxigraph.manifest import COMPONENT, GRAPH_FOLDER
from mainstay.store.sqlite.full_text import extract_terms

if TYPE_CHECKING:
    from mainstay.store.oxigraph.fact_graph import FactGraph, FactNode

T = TypeVar("T")

LIMIT_MAX = 1_000
CANDIDATES_MAX = 400  # candidate facts for a topic, before ranking
RELATED_HOPS = 2  # from object to subject, to find related facts
FIELD_WEIGHTS = {"subject": 4.0, "predicate": 1.0, "object": 2.0}


@asynccontextmanager
async def open_oxigraph_facts(options: FactStoreOptions, context: FactStoreContext) -> AsyncIterator[OxigraphFactTier]:
    """Factory of the fact store `oxigraph`."""
    tier = OxigraphFactTier(context.folder / GRAPH_FOLDER if context.folder is not None else None)
    await tier.open()
    try:
        yield tier
    finally:
        await tier.close()


class OxigraphFactTier:
    """All access is in one thread. `path` is a directory, created if it does not exist; None: in memory."""

    name = "facts"

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._directory = GraphDirectory(path) if path is not None else None
        self._graph: FactGraph | None = None
        self._thread = WorkerThreads(threads_max=1, abandon=False)

    async def open(self) -> None:
        await self._thread.run(self._open, {})

    def _open(self) -> None:
        try:
            from pyoxigraph import Store  # an optional dependency

            from mainstay.store.oxigraph.fact_graph import FactGraph
        except ImportError as error:
            raise HomeUnusable(f"Oxigraph is not installed; to store facts in it: {COMPONENT.install}") from error
        try:
            store = self._directory.open_store(Store) if self._directory is not None else Store()
        except OSError as error:
            raise HomeUnusable(f"the facts in {self._path} cannot be opened: {error}") from error
        self._graph = FactGraph(store)

    async def close(self) -> None:
        await self._thread.run(self._close, {})

    def _close(self) -> None:
        graph, self._graph = self._graph, None
        if graph is None or self._directory is None:
            return
        copied = self._directory.close_store(graph.store, type(graph.store))
        del graph  # the last reference: closes the database
        if copied:
            self._directory.swap_in_copy()

    async def _run_on_graph(self, work: Callable[[FactGraph], T]) -> T:
        def run() -> T:
            if self._graph is None:
                raise StoreFailed(f"the fact store in {self._path} is not open")
            try:
                return work(self._graph)
            except OSError as error:
                raise StoreFailed(f"the facts in {self._path}: {error}") from error

        return await self._thread.run(run, {})

    # --- ingesting -------------------------------------------------------------------------------

    async def position(self, session: str) -> int:
        return (await self.positions()).get(session, 0)

    async def positions(self) -> dict[str, int]:
        def work(graph: FactGraph) -> dict[str, int]:
            cursors = [graph.read_properties(node) for node in graph.find_nodes_with("position")]
            return {cursor["of"]: int(cursor["position"]) for cursor in cursors}

        return await self._run_on_graph(work)

    async def ingest(self, session: str, facts: Sequence[Fact], position: int) -> None:
        def work(graph: FactGraph) -> None:
            if position <= _read_position(graph, session):
                return
            tombstones = _read_tombstones(graph, session)
            new = [cleaned for fact in facts if (cleaned := rules.clean_fact(fact)) is not None]
            for fact in new:
                if not any(first <= fact.source <= last for first, last in tombstones):
                    graph.add_mention(fact)
            graph.set_properties(graph.build_node("cursor", session), {"of": session, "position": position})
            graph.commit()
            _update_superseded(graph, {rules.topic_key(fact) for fact in new})

        await self._run_on_graph(work)

    async def delete_derived(self, session: str, seqs: Sequence[int] | None = None) -> None:
        def work(graph: FactGraph) -> None:
            ranges = [(1, _read_position(graph, session))] if seqs is None else [(seq, seq) for seq in seqs]
            for first, last in ranges:
                node = graph.build_node("gone", session, first, last)
                graph.set_properties(node, {"gone-from": session, "first": first, "last": last})
            sources = None if seqs is None else {0, *seqs}  # 0: a fact of this session whose message is unknown
            mentions = [(node, graph.read_fact(node)) for node in graph.find_nodes("session", session)]
            self._delete_mentions(graph, [pair for pair in mentions if sources is None or pair[1].source in sources])

        await self._run_on_graph(work)

    async def forget(self, ids: Sequence[str]) -> int:
        def work(graph: FactGraph) -> int:
            mentions = [
                (node, graph.read_fact(node))
                for id in set(ids)
                for node in graph.find_nodes("name", _replace_surrogates(id))
            ]
            self._delete_mentions(graph, mentions)
            return len({fact.id for _, fact in mentions})

        return await self._run_on_graph(work)

    def _delete_mentions(self, graph: FactGraph, mentions: Sequence[tuple[FactNode, Fact]]) -> None:
        """Delete mentions and purge their texts from the disk; facts that they superseded become current again."""
        if mentions and self._directory is not None:
            self._directory.request_purge()
        for node, _ in mentions:
            graph.remove_node(node)
        graph.commit()
        _update_superseded(graph, {rules.topic_key(fact) for _, fact in mentions})

    # --- searching -------------------------------------------------------------------------------

    async def recall(self, topic: str, limit: int = 20, *, past: bool = False) -> list[Fact]:
        return await self._run_on_graph(lambda graph: _search_topic(graph, topic, max(0, min(limit, LIMIT_MAX)), past))

    async def list_facts(self, *, origin: str | None = None, limit: int = 100) -> list[Fact]:
        def work(graph: FactGraph) -> list[Fact]:
            current = [graph.read_fact(node) for node in graph.find_nodes("until", 0)]
            matching = [
                fact
                for fact in current
                if origin is None or (fact.origin.startswith(origin) if origin else not fact.origin)
            ]
            matching.sort(key=lambda fact: (fact.at, fact.source), reverse=True)
            return rules.merge_mentions(matching)[: max(0, limit)]

        return await self._run_on_graph(work)


def _replace_surrogates(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _read_position(graph: FactGraph, session: str) -> int:
    return int(graph.read_properties(graph.build_node("cursor", session)).get("position", 0))


def _read_tombstones(graph: FactGraph, session: str) -> list[tuple[int, int]]:
    """Return the ranges of sequences (inclusive) whose facts were deleted and must not be stored again."""
    tombstones = [graph.read_properties(node) for node in graph.find_nodes("gone-from", session)]
    return [(int(tombstone["first"]), int(tombstone["last"])) for tombstone in tombstones]


def _update_superseded(graph: FactGraph, topics: set[str]) -> None:
    """Recompute which facts of these topics are superseded, and delete what exceeds the limits."""
    for topic in topics:
        mentions = [(node, graph.read_fact(node)) for node in graph.find_nodes("topic", topic)]
        mentions.sort(key=lambda pair: (pair[1].at, pair[1].source))
        _trim_mentions(graph, mentions)
        single = [pair for pair in mentions if not pair[1].many]
        until = rules.compute_superseded_times([fact for _, fact in single])
        past = [node for (node, _), when in zip(single, until, strict=True) if when]
        for (node, fact), when in zip(single, until, strict=True):
            if when != fact.until:
                graph.set_properties(node, {"until": when})
        for node in past[: max(0, len(past) - rules.SUPERSEDED_PER_TOPIC_MAX)]:
            graph.remove_node(node)
    graph.commit()
    _trim_facts(graph)


def _trim_mentions(graph: FactGraph, mentions: list[tuple[FactNode, Fact]]) -> None:
    """Delete all but the newest mentions of each fact."""
    counts: Counter[str] = Counter()
    for node, fact in reversed(mentions):
        counts[fact.id] += 1
        if counts[fact.id] > rules.MENTIONS_PER_FACT_MAX:
            graph.remove_node(node)


def _trim_facts(graph: FactGraph) -> None:
    nodes = graph.find_nodes_with("topic")
    if len(nodes) <= rules.MENTIONS_MAX:
        return
    mentions = [(node, graph.read_fact(node)) for node in nodes]
    mentions.sort(key=lambda pair: _retention_key(pair[1]))
    for node, _ in mentions[: len(mentions) - rules.MENTIONS_MAX]:
        graph.remove_node(node)
    graph.commit()


def _retention_key(fact: Fact) -> tuple[bool, bool, float, int]:
    """Return the sort key for deletion: superseded facts first, then untrusted, then least confident, then oldest."""
    return not fact.until, not fact.origin.startswith(UNTRUSTED), fact.confidence if not fact.until else 0.0, fact.at


def _search_topic(graph: FactGraph, topic: str, limit: int, include_superseded: bool) -> list[Fact]:
    subject = rules.normalise_text(_replace_surrogates(topic[: rules.FIELD_CHARS_MAX]))
    scores: dict[FactNode, float] = dict.fromkeys(graph.find_nodes("about", subject), 100.0)
    for stem in graph.split_stems(" ".join(term.rstrip("*") for term in extract_terms(topic))):
        for field, weight in FIELD_WEIGHTS.items():
            nodes = graph.find_nodes(f"{field}-word", stem)
            for node in nodes:
                scores[node] = scores.get(node, 0.0) + weight / (1 + len(nodes)) ** 0.5
    best = sorted(scores, key=lambda node: (-scores[node], str(node)))[:CANDIDATES_MAX]
    facts = rules.merge_mentions(_read_facts(graph, best, include_superseded))
    facts.sort(key=lambda fact: rules.rank_for_topic(fact, subject))
    for _ in range(RELATED_HOPS):
        if len(facts) >= limit:
            break
        known = {fact.id for fact in facts}
        objects = dict.fromkeys(rules.normalise_text(fact.object) for fact in facts[:limit])
        nodes = [node for object in objects for node in graph.find_nodes("about", object)[:CANDIDATES_MAX]]
        facts = rules.merge_mentions(
            [*facts, *(fact for fact in _read_facts(graph, nodes, include_superseded) if fact.id not in known)]
        )
    return facts[:limit]


def _read_facts(graph: FactGraph, nodes: Sequence[FactNode], include_superseded: bool) -> list[Fact]:
    """Read facts; superseded ones only with `include_superseded`."""
    facts = [graph.read_fact(node) for node in nodes]
    return [fact for fact in facts if include_superseded or not fact.until]
