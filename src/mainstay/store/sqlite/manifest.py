"""Manifests of the SQLite store and of the fact store in its database."""

from __future__ import annotations

from mainstay.core.component_options import FactStoreOptions, StoreOptions
from mainstay.core.components import Component
from mainstay.core.store_components import StoreComponent

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

FACT_STORE = Component(
    kind="fact store",
    name="sqlite",
    summary="Facts are in the workspace's own store, with everything else; `doctor` checks them with that store.",
    settings=FactStoreOptions,
    factory="mainstay.store.sqlite.workspace_tiers:open_store_facts",
)
