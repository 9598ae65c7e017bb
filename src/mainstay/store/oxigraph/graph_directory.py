"""Directory of an Oxigraph database: opens and closes it, and purges deleted texts from the disk.

Oxigraph keeps every text it ever stored, also after the last quad with it was removed. So after a deletion the
remaining quads are copied to a new database that replaces the old one: on close or, after a crash, on the next open.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyoxigraph import Store


class GraphDirectory:
    """`path/graph` is the database; `path/purge` exists while it contains texts that must be purged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._graph_path, self._copy_path, self._old_path = path / "graph", path / "graph.new", path / "graph.old"
        self._purge_marker = path / "purge"

    def open_store(self, store_class: type[Store]) -> Store:
        """Open the database, purging it first if that is due. `store_class` is Oxigraph's Store: an optional dependency
        that only its users import."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._old_path.exists() and not self._graph_path.exists():  # a swap was interrupted between its two renames
            self._old_path.rename(self._graph_path)
        self._remove_leftovers()
        store = store_class(str(self._graph_path))
        if self._purge_marker.exists():
            self._copy_store(store, store_class)
            del store  # closes it
            self.swap_in_copy()
            store = store_class(str(self._graph_path))
        return store

    def request_purge(self) -> None:
        """Request a purge; call before anything is deleted."""
        self._purge_marker.touch(mode=0o600)

    def close_store(self, store: Store, store_class: type[Store]) -> bool:
        """Flush the store. Returns True if it was copied; the caller must then release the store and call
        `swap_in_copy`."""
        store.flush()
        if not self._purge_marker.exists():
            return False
        self._copy_store(store, store_class)
        return True

    def _copy_store(self, store: Store, store_class: type[Store]) -> None:
        shutil.rmtree(self._copy_path, ignore_errors=True)
        copy = store_class(str(self._copy_path))
        copy.bulk_extend(store.quads_for_pattern(None, None, None, None))
        copy.flush()

    def swap_in_copy(self) -> None:
        """Replace the database by its copy; the database must be closed."""
        self._graph_path.rename(self._old_path)
        self._copy_path.rename(self._graph_path)
        self._purge_marker.unlink()
        self._remove_leftovers()

    def _remove_leftovers(self) -> None:
        for path in (self._old_path, self._copy_path):
            shutil.rmtree(path, ignore_errors=True)
