"""The FactTier on Oxigraph: follows a journal that is kept elsewhere, by a position of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from mainstay.core.errors import HomeUnusable, StoreFailed
from mainstay.core.recall import UNTRUSTED, Fact
from mainstay.core.workers import Workers
from mainstay.store import facts as rules
from mainstay.store.oxigraph.graph import FIELDS, Graph
from mainstay.store.oxigraph.place import Place
from mainstay.store.sqlite.words import terms

T = TypeVar("T")

LIMIT_MAX = 1_000
FOUND_MAX = 400  # facts that a topic is looked up in, before they are put in order
HOPS = 2
WEIGHTS = {"subject": 4.0, "predicate": 1.0, "object": 2.0}


class OxigraphFacts:
    """All of it happens in one thread. `path` is a directory, made if need be; without one it is in RAM."""

    name = "facts"

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._place = Place(path) if path is not None else None
        self._graph: Graph | None = None
        self._thread = Workers(threads_max=1, abandon=False)

    async def open(self) -> None:
        await self._thread.run(self._open, {})

    def _open(self) -> None:
        try:
            import pyoxigraph  # an extra: only whoever chose this backend needs it
        except ImportError as error:
            raise HomeUnusable("facts cannot be kept in Oxigraph: pip install -e '.[graph]'") from error
        try:
            store = self._place.open(pyoxigraph.Store) if self._place is not None else pyoxigraph.Store()
        except OSError as error:
            raise HomeUnusable(f"the facts in {self._path} cannot be opened: {error}") from error
        self._graph = Graph(store, pyoxigraph)

    async def close(self) -> None:
        await self._thread.run(self._close, {})

    def _close(self) -> None:
        graph, self._graph = self._graph, None
        if graph is None or self._place is None:
            return
        copied = self._place.close(graph.store, type(graph.store))
        del graph  # the last to hold it
        if copied:
            self._place.swap()

    async def _on(self, work: Callable[[Graph], T]) -> T:
        def run() -> T:
            if self._graph is None:
                raise StoreFailed(f"the facts in {self._path} are not open")
            try:
                return work(self._graph)
            except OSError as error:
                raise StoreFailed(f"the facts in {self._path}: {error}") from error

        result: T = await self._thread.run(run, {})
        return result

    # --- following -------------------------------------------------------------------------------

    async def position(self, session: str) -> int:
        return (await self.positions()).get(session, 0)

    async def positions(self) -> dict[str, int]:
        def work(graph: Graph) -> dict[str, int]:
            found = [graph.fields(node) for node in graph.having("position")]
            return {fields["of"]: int(fields["position"]) for fields in found}

        return await self._on(work)

    async def absorb(self, session: str, facts: Sequence[Fact], upto: int) -> None:
        def work(graph: Graph) -> None:
            if upto <= _position(graph, session):
                return
            gone = _gone(graph, session)
            new = [one for fact in facts if (one := rules.bounded(fact)) is not None]
            for fact in new:
                if not any(first <= fact.source <= last for first, last in gone):
                    graph.put_fact(fact)
            graph.put(graph.node("cursor", session), {"of": session, "position": upto})
            graph.commit()
            _settle(graph, {rules.topic_of(fact) for fact in new})

        await self._on(work)

    async def drop(self, session: str, seqs: Sequence[int] | None = None) -> None:
        def work(graph: Graph) -> None:
            stretches = [(1, _position(graph, session))] if seqs is None else [(seq, seq) for seq in seqs]
            for first, last in stretches:
                node = graph.node("gone", session, first, last)
                graph.put(node, {"gone-from": session, "first": first, "last": last})
            wanted = None if seqs is None else {0, *seqs}
            found = [(node, graph.fact(node)) for node in graph.nodes("session", session)]
            self._remove(graph, [pair for pair in found if wanted is None or pair[1].source in wanted])

        await self._on(work)

    async def forget(self, ids: Sequence[str]) -> int:
        def work(graph: Graph) -> int:
            found = [(node, graph.fact(node)) for id in set(ids) for node in graph.nodes("name", _plain(id))]
            self._remove(graph, found)
            return len({fact.id for _, fact in found})

        return await self._on(work)

    def _remove(self, graph: Graph, found: Sequence[tuple[Any, Fact]]) -> None:
        """Whatever these superseded holds again; and nothing of them stays on the disk."""
        if found and self._place is not None:
            self._place.mark()
        for node, _ in found:
            graph.remove(node)
        graph.commit()
        _settle(graph, {rules.topic_of(fact) for _, fact in found})

    # --- recalling -------------------------------------------------------------------------------

    async def recall(self, topic: str, limit: int = 20, *, past: bool = False) -> list[Fact]:
        return await self._on(lambda graph: _recall(graph, topic, max(0, min(limit, LIMIT_MAX)), past))

    async def facts(self, *, origin: str | None = None, limit: int = 100) -> list[Fact]:
        def work(graph: Graph) -> list[Fact]:
            found = [graph.fact(node) for node in graph.nodes("until", 0)]
            wanted = [
                fact
                for fact in found
                if origin is None or (fact.origin.startswith(origin) if origin else not fact.origin)
            ]
            wanted.sort(key=lambda fact: (fact.at, fact.source), reverse=True)
            return rules.merged(wanted)[: max(0, limit)]

        return await self._on(work)


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _position(graph: Graph, session: str) -> int:
    return int(graph.fields(graph.node("cursor", session)).get("position", 0))


def _gone(graph: Graph, session: str) -> list[tuple[int, int]]:
    found = [graph.fields(node) for node in graph.nodes("gone-from", session)]
    return [(int(fields["first"]), int(fields["last"])) for fields in found]


def _settle(graph: Graph, topics: set[str]) -> None:
    """Which of the facts about each thing hold, and how many of them are worth keeping."""
    for topic in topics:
        found = [(node, graph.fact(node)) for node in graph.nodes("topic", topic)]
        found.sort(key=lambda pair: (pair[1].at, pair[1].source))
        _keep_newest(graph, found)
        single = [pair for pair in found if not pair[1].many]
        until = rules.settled([fact for _, fact in single])
        past = [node for (node, _), when in zip(single, until, strict=True) if when]
        for (node, fact), when in zip(single, until, strict=True):
            if when != fact.until:
                graph.put(node, {"until": when})
        for node in past[: max(0, len(past) - rules.PAST_MAX)]:
            graph.remove(node)
    graph.commit()
    _bound(graph)


def _keep_newest(graph: Graph, found: list[tuple[Any, Fact]]) -> None:
    """Of each fact the last few times it was said."""
    said: Counter[str] = Counter()
    for node, fact in reversed(found):
        said[fact.id] += 1
        if said[fact.id] > rules.SAID_MAX:
            graph.remove(node)


def _bound(graph: Graph) -> None:
    nodes = graph.having("topic")
    if len(nodes) <= rules.FACTS_MAX:
        return
    found = [(node, graph.fact(node)) for node in nodes]
    found.sort(key=lambda pair: _worth(pair[1]))
    for node, _ in found[: len(found) - rules.FACTS_MAX]:
        graph.remove(node)
    graph.commit()


def _worth(fact: Fact) -> tuple[bool, bool, float, int]:
    """What is superseded goes first, then what came from outside, then what is least sure, then the oldest."""
    return not fact.until, not fact.origin.startswith(UNTRUSTED), fact.confidence if not fact.until else 0.0, fact.at


def _recall(graph: Graph, topic: str, limit: int, past: bool) -> list[Fact]:
    named = rules.normal(_plain(topic[: rules.CHARS_MAX]))
    scores: dict[Any, float] = dict.fromkeys(graph.nodes("about", named), 100.0)
    for stem in graph.stems(" ".join(term.rstrip("*") for term in terms(topic))):
        for field in FIELDS:
            nodes = graph.nodes(f"{field}-word", stem)
            for node in nodes:
                scores[node] = scores.get(node, 0.0) + WEIGHTS[field] / (1 + len(nodes)) ** 0.5
    best = sorted(scores, key=lambda node: (-scores[node], str(node)))[:FOUND_MAX]
    found = rules.merged(_holding(graph, best, past))
    found.sort(key=lambda fact: rules.nearness(fact, named))
    for _ in range(HOPS):
        if len(found) >= limit:
            break
        have = {fact.id for fact in found}
        values = dict.fromkeys(rules.normal(fact.object) for fact in found[:limit])
        nodes = [node for value in values for node in graph.nodes("about", value)[:FOUND_MAX]]
        found = rules.merged([*found, *(fact for fact in _holding(graph, nodes, past) if fact.id not in have)])
    return found[:limit]


def _holding(graph: Graph, nodes: Sequence[Any], past: bool) -> list[Fact]:
    found = [graph.fact(node) for node in nodes]
    return [fact for fact in found if past or not fact.until]
