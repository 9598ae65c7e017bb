"""The directory of a graph, and how nothing of what was forgotten stays in it.

Oxigraph keeps every text it ever saw, whether or not anything still says it. So after something was forgotten the
graph is copied, without that, and the copy takes its place: when it is closed, or, after a crash, when it is opened.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any


class Place:
    """`path/graph` is the graph; `path/purge` says that it holds what should be forgotten."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._graph, self._new, self._old = path / "graph", path / "graph.new", path / "graph.old"
        self._mark = path / "purge"

    def open(self, kind: Any) -> Any:
        """`kind` is Oxigraph's store, which nobody imports who does not use it."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._old.exists() and not self._graph.exists():  # it stopped between the two renames
            self._old.rename(self._graph)
        self._sweep()
        store = kind(str(self._graph))
        if self._mark.exists():
            self._copy(store, kind)
            del store  # which closes it
            self.swap()
            store = kind(str(self._graph))
        return store

    def mark(self) -> None:
        self._mark.touch(mode=0o600)

    def close(self, store: Any, kind: Any) -> bool:
        """True if the graph was copied, and `swap` is due once nobody holds it any more."""
        store.flush()
        if not self._mark.exists():
            return False
        self._copy(store, kind)
        return True

    def _copy(self, store: Any, kind: Any) -> None:
        shutil.rmtree(self._new, ignore_errors=True)
        copy = kind(str(self._new))
        copy.bulk_extend(store.quads_for_pattern(None, None, None, None))
        copy.flush()

    def swap(self) -> None:
        self._graph.rename(self._old)
        self._new.rename(self._graph)
        self._mark.unlink()
        self._sweep()

    def _sweep(self) -> None:
        for left in (self._old, self._new):
            shutil.rmtree(left, ignore_errors=True)
