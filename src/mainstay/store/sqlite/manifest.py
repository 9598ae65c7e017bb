"""Manifest of the SQLite store."""

from __future__ import annotations

from mainstay.core.component_options import StoreOptions
from mainstay.core.workspace_store import StoreComponent

DATABASE_FILE = "workspace.db"

COMPONENT = StoreComponent(
    kind="store",
    name="sqlite",
    summary="One SQLite database per workspace, in the home: journals, memory, file labels, queues.",
    settings=StoreOptions,
    factory="mainstay.store.sqlite.factory:build_store",
    check="mainstay.store.sqlite.health:check_databases",
    file=DATABASE_FILE,
)
