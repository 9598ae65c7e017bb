"""Maps facts to RDF quads and back, with batched changes to the graph. Needs the optional dependency pyoxigraph.

Each mention of a fact is a node with its words, source and time, so that the graph can be queried with SPARQL too:
`SELECT ?object WHERE { ?said <urn:mainstay:about> "ana" ; <urn:mainstay:object> ?object }`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence

import apsw
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, Store, Triple

from mainstay.core.memory_tiers import Fact
from mainstay.store import fact_rules as rules
from mainstay.store.sqlite.full_text import TOKENIZER, to_index_text

FactNode = NamedNode | BlankNode | Triple  # a node that has properties

URN_PREFIX = "urn:mainstay:"
TRIPLE_FIELDS = ("subject", "predicate", "object")
TEXT_PROPERTIES = ("subject", "predicate", "object", "session", "origin", "name")
INTEGER_PROPERTIES = ("source", "at", "many", "until")


class FactGraph:
    """An RDF graph of facts. Changes are collected and applied atomically by `commit`; reads do not see them before."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._pending_removals: list[Quad] = []
        self._pending_additions: list[Quad] = []
        self.split_stems = build_stemmer()

    # --- reading ---------------------------------------------------------------------------------

    def find_nodes(self, property_name: str, value: str | int) -> list[FactNode]:
        """Return the nodes that have this value of a property."""
        quads = self.store.quads_for_pattern(None, _property_node(property_name), Literal(value), None)
        return [quad.subject for quad in quads]

    def read_properties(self, node: FactNode) -> dict[str, str]:
        properties: dict[str, str] = {}
        for quad in self.store.quads_for_pattern(node, None, None, None):
            assert isinstance(quad.object, Literal)
            properties[quad.predicate.value.removeprefix(URN_PREFIX)] = quad.object.value
        return properties

    def find_nodes_with(self, property_name: str) -> list[FactNode]:
        """Return the nodes that have a property, with any value."""
        quads = self.store.quads_for_pattern(None, _property_node(property_name), None, None)
        return [quad.subject for quad in quads]

    def read_fact(self, node: FactNode) -> Fact:
        properties = self.read_properties(node)
        source, at, many, until = (int(properties[name]) for name in INTEGER_PROPERTIES)
        subject, predicate, object, session, origin, id = (properties[name] for name in TEXT_PROPERTIES)
        confidence = float(properties["confidence"])
        return Fact(subject, predicate, object, source, confidence, origin, bool(many), session, at, id, until)

    # --- changing: applied by `commit` -----------------------------------------------------------

    def build_node(self, kind: str, *parts: object) -> NamedNode:
        """Return the node named by a digest of `parts`: always the same for the same parts."""
        digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()[:32]
        return NamedNode(f"{URN_PREFIX}{kind}:{digest}")

    def set_properties(self, node: FactNode, properties: dict[str, str | int | float]) -> None:
        """Set these properties of a node, replacing their values."""
        for name, value in properties.items():
            self._pending_removals += self.store.quads_for_pattern(node, _property_node(name), None, None)
            self._pending_additions.append(Quad(node, _property_node(name), Literal(value)))

    def remove_node(self, node: FactNode) -> None:
        self._pending_removals += self.store.quads_for_pattern(node, None, None, None)

    def add_mention(self, fact: Fact) -> None:
        """Add a mention of a fact; one that is stored already keeps the later time and the higher confidence."""
        id = rules.fact_id(fact)
        node = self.build_node("said", id, fact.session, fact.source)
        before = self.read_properties(node)
        self.set_properties(
            node,
            {
                "name": id,
                "topic": rules.topic_key(fact),
                "about": rules.normalise_text(fact.subject),
                "subject": fact.subject,
                "predicate": fact.predicate,
                "object": fact.object,
                "session": fact.session,
                "source": fact.source,
                "at": max(fact.at, int(before.get("at", 0))),
                "confidence": max(fact.confidence, float(before.get("confidence", 0))),
                "origin": fact.origin,
                "many": int(fact.many),
                "until": 0,
            },
        )
        for field in TRIPLE_FIELDS:
            for stem in self.split_stems(getattr(fact, field)):
                self._pending_additions.append(Quad(node, _property_node(f"{field}-word"), Literal(stem)))

    def commit(self) -> None:
        """Apply the collected changes in one transaction."""
        removed, added = set(self._pending_removals), set(self._pending_additions)
        self._pending_removals, self._pending_additions = [], []
        updates = [
            f"DELETE DATA {{ {_format_triples(removed - added)} }}",
            f"INSERT DATA {{ {_format_triples(added - removed)} }}",
        ]
        if removed != added:
            self.store.update(";\n".join(updates))


def _property_node(name: str) -> NamedNode:
    return NamedNode(URN_PREFIX + name)


def _format_triples(quads: Iterable[Quad]) -> str:
    return "\n".join(f"{quad.subject} {quad.predicate} {quad.object} ." for quad in quads)


def build_stemmer() -> Callable[[str], Sequence[str]]:
    """Return a function that splits text into distinct stems, with the same FTS5 tokenizer as the SQLite indexes."""
    name, *arguments = TOKENIZER.split()
    tokenizer = apsw.Connection(":memory:").fts5_tokenizer(name, arguments)

    def stems(text: str) -> Sequence[str]:
        tokens = tokenizer(to_index_text(text).encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False)
        return list(dict.fromkeys(stem for synonyms in tokens for stem in synonyms if isinstance(stem, str)))

    return stems
