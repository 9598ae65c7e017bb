"""Facts as quads: what is written into the graph, and how it is read back.

Each time a fact was said is a node with its words, its source and its time, so that the graph can be asked with
SPARQL too: `SELECT ?object WHERE { ?said <urn:mainstay:about> "ana" ; <urn:mainstay:object> ?object }`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import apsw

from mainstay.core.recall import Fact
from mainstay.store import facts as rules
from mainstay.store.sqlite.words import TOKENIZER, indexed

PREFIX = "urn:mainstay:"
FIELDS = ("subject", "predicate", "object")
TEXTS = ("subject", "predicate", "object", "session", "origin", "name")
NUMBERS = ("source", "at", "many", "until")


class Graph:
    """A store of quads, and changes to it that happen together or not at all."""

    def __init__(self, store: Any, terms: Any) -> None:
        self.store = store
        self._terms = terms  # the module: imported by whoever opened the store
        self._removed: list[Any] = []
        self._added: list[Any] = []
        self.stems = stemmer()

    # --- reading ---------------------------------------------------------------------------------

    def nodes(self, name: str, value: str | int) -> list[Any]:
        """Those that have this value under this name."""
        quads = self.store.quads_for_pattern(None, self._name(name), self._literal(value), None)
        return [quad.subject for quad in quads]

    def fields(self, node: Any) -> dict[str, str]:
        found: dict[str, str] = {}
        for quad in self.store.quads_for_pattern(node, None, None, None):
            found[quad.predicate.value.removeprefix(PREFIX)] = quad.object.value
        return found

    def having(self, name: str) -> list[Any]:
        """Those that have any value under this name."""
        return [quad.subject for quad in self.store.quads_for_pattern(None, self._name(name), None, None)]

    def fact(self, node: Any) -> Fact:
        found = self.fields(node)
        source, at, many, until = (int(found[name]) for name in NUMBERS)
        subject, predicate, object, session, origin, name = (found[name] for name in TEXTS)
        confidence = float(found["confidence"])
        return Fact(subject, predicate, object, source, confidence, origin, bool(many), session, at, name, until)

    # --- changing: nothing happens before `commit` -----------------------------------------------

    def node(self, kind: str, *parts: object) -> Any:
        """Always the same for the same parts."""
        digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()[:32]
        return self._terms.NamedNode(f"{PREFIX}{kind}:{digest}")

    def put(self, node: Any, fields: dict[str, str | int | float]) -> None:
        """In place of what it had under these names."""
        for name, value in fields.items():
            self._removed += self.store.quads_for_pattern(node, self._name(name), None, None)
            self._added.append(self._terms.Quad(node, self._name(name), self._literal(value)))

    def remove(self, node: Any) -> None:
        self._removed += self.store.quads_for_pattern(node, None, None, None)

    def put_fact(self, fact: Fact) -> None:
        name = rules.name_of(fact)
        node = self.node("said", name, fact.session, fact.source)
        before = self.fields(node)
        self.put(
            node,
            {
                "name": name,
                "topic": rules.topic_of(fact),
                "about": rules.normal(fact.subject),
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
        for field in FIELDS:
            for stem in self.stems(getattr(fact, field)):
                quad = self._terms.Quad(node, self._name(f"{field}-word"), self._literal(stem))
                self._added.append(quad)

    def commit(self) -> None:
        removed, added = set(self._removed), set(self._added)
        self._removed, self._added = [], []
        steps = [f"DELETE DATA {{ {_written(removed - added)} }}", f"INSERT DATA {{ {_written(added - removed)} }}"]
        if removed != added:
            self.store.update(";\n".join(steps))

    def _name(self, name: str) -> Any:
        return self._terms.NamedNode(PREFIX + name)

    def _literal(self, value: str | int | float) -> Any:
        return self._terms.Literal(value)


def _written(quads: Iterable[Any]) -> str:
    return "\n".join(f"{quad.subject} {quad.predicate} {quad.object} ." for quad in quads)


def stemmer() -> Callable[[str], Sequence[str]]:
    """Words as the other indexes know them, by the same tokenizer."""
    kind, *arguments = TOKENIZER.split()
    tokenizer = apsw.Connection(":memory:").fts5_tokenizer(kind, arguments)

    def stems(text: str) -> Sequence[str]:
        found: Any = tokenizer(indexed(text).encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False)
        return list(dict.fromkeys(word for words in found for word in words))

    return stems
