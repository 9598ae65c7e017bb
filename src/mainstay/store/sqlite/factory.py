"""Builds the SQLite store of a workspace."""

from __future__ import annotations

from mainstay.core.component_options import StoreOptions
from mainstay.core.errors import HomeUnusable
from mainstay.core.ports import Store
from mainstay.core.store_components import StoreLocation
from mainstay.store.sqlite.manifest import DATABASE_FILE

COMPANION_SUFFIXES = ("-wal", "-shm", "-ahead")  # of files beside the database


def build_store(options: StoreOptions, location: StoreLocation) -> Store:
    """Return the store, not open yet. Raises HomeUnusable if the database is a symbolic link."""
    path = location.folder / DATABASE_FILE
    for checked in (path, *(path.with_name(path.name + suffix) for suffix in COMPANION_SUFFIXES)):
        if checked.is_symlink():
            raise HomeUnusable(
                f"{checked} is a symbolic link, which may lead into another workspace; "
                "replace it by the file or folder itself"
            )
    if location.read_only and not path.exists():
        from mainstay.store.memory.store import MemoryStore  # only needed where nothing is stored yet

        return MemoryStore()
    from mainstay.store.sqlite.store import SqliteStore  # imports the database engine

    return SqliteStore(
        str(path), limits=location.limits, read_only=location.read_only, home_database=location.home_database
    )
