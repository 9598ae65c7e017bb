"""Stores of a home's workspaces, as `storage` in the configuration says."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mainstay.agent.home_paths import GATEWAY_DATABASE
from mainstay.config.component_options import resolve_store_options
from mainstay.config.schema import StorageSettings
from mainstay.core.components import find_component
from mainstay.core.errors import HomeUnusable, StoreError, StoreLost
from mainstay.core.limits import Limits
from mainstay.core.ports import Store
from mainstay.core.store_components import AuxiliaryStores, StoreComponent, StoreLocation
from mainstay.store.home import HomeLock, create_workspace_folder, prepare_home, workspace_folder
from mainstay.store.sqlite.manifest import DATABASE_FILE

if TYPE_CHECKING:
    from mainstay.store.sqlite.journal_loss import JournalLoss

IN_MEMORY_STORE, SQLITE_STORE = "memory", "sqlite"  # the names of their components

log = logging.getLogger("mainstay")


def build_store(
    storage: StorageSettings, folder: Path, *, limits: Limits | None = None, read_only: bool = False
) -> Store:
    """Return the store of the workspace in this folder, not open yet. With `read_only` it can be used beside the
    process that owns the home, and the folder need not exist. Raises ConfigError or HomeUnusable; opening it raises
    StoreLost if it lacks what the home knows of it."""
    location = StoreLocation(
        folder=folder,
        workspace=folder.name,
        limits=limits or Limits(),
        read_only=read_only,
        home_database=folder.parent.parent / GATEWAY_DATABASE,
    )
    factory = find_component("store", storage.backend).load_factory()
    store: Store = factory(resolve_store_options(storage), location)
    return store


def warn_unused_store(storage: StorageSettings) -> None:
    """Warn that an agent without a home does not use the configured store. Raises ConfigError if there is none of that
    name."""
    if storage.backend in (StorageSettings().backend, IN_MEMORY_STORE):
        return
    name = find_component("store", storage.backend).name
    log.warning("the store is in memory and ends with this process: without a home, storage.backend %r is unused", name)


def get_auxiliary_stores(store: Store, limits: Limits | None = None) -> AuxiliaryStores:
    """Return the store itself if it keeps everything of a workspace, else an in-memory one to be used beside it."""
    if isinstance(store, AuxiliaryStores):
        return store
    from mainstay.store.memory.auxiliary_stores import (
        InMemoryAuxiliaryStores,  # only for stores that keep journals only
    )

    return InMemoryAuxiliaryStores(limits)


@asynccontextmanager
async def open_store(storage: StorageSettings, folder: Path, *, read_only: bool = False) -> AsyncIterator[Store]:
    """Open a store while the block runs."""
    store = build_store(storage, folder, read_only=read_only)
    try:
        await store.open()
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def open_store_locked(storage: StorageSettings, data_folder: Path, workspace: str) -> AsyncIterator[Store]:
    """Open a store for writing while the block runs, and own the home meanwhile. Raises HomeTaken if another process
    owns it."""
    prepare_home(data_folder)
    lock = HomeLock(data_folder)
    lock.acquire()
    try:
        async with open_store(storage, create_workspace_folder(data_folder, workspace)) as store:
            yield store
    finally:
        lock.release()


def has_store(storage: StorageSettings, folder: Path) -> bool:
    """Return True if the workspace in this folder has been used."""
    component = find_component("store", storage.backend)
    return (folder / component.file if isinstance(component, StoreComponent) else folder).exists()


def list_losses(storage: StorageSettings, data_folder: Path) -> list[JournalLoss]:
    """Return what the databases of the workspaces lack of what the home knows of them. A database that cannot be read
    is left out: its own check reports it."""
    losses = []
    for name in list_known_workspaces(storage, data_folder):
        with contextlib.suppress(StoreError, HomeUnusable):
            losses.append(find_workspace_loss(storage, workspace_folder(data_folder, name)))
    return [loss for loss in losses if loss is not None]


def refuse_lost_database(storage: StorageSettings, folder: Path) -> None:
    """Raise StoreLost if the workspace's database is missing or empty although the home knows events of it: a reader
    would find no sessions. An older one can be read."""
    loss = find_workspace_loss(storage, folder)
    if loss is not None and loss.state != "older":
        raise StoreLost(f"{loss.describe()}: {loss.describe_choices()}")


def find_workspace_loss(storage: StorageSettings, folder: Path) -> JournalLoss | None:
    """Return what the database of the workspace in this folder lacks; None if it lacks nothing. Raises StoreError."""
    if storage.backend != SQLITE_STORE:  # the home knows the databases of this store only
        return None
    from mainstay.store.sqlite.journal_loss import find_loss  # imports the database engine

    return find_loss(folder / DATABASE_FILE, folder.parent.parent / GATEWAY_DATABASE)


def list_known_workspaces(storage: StorageSettings, data_folder: Path) -> list[str]:
    """Return the workspaces of which the home knows events, also if their databases are missing."""
    if storage.backend != SQLITE_STORE or not (data_folder / GATEWAY_DATABASE).exists():
        return []
    from mainstay.store.sqlite import journal_loss  # imports the database engine

    return journal_loss.list_known_workspaces(data_folder / GATEWAY_DATABASE)


def list_used_workspaces(storage: StorageSettings, data_folder: Path) -> list[Path]:
    """Return the folders of the workspaces that have been used, by name."""
    return [folder for folder in sorted((data_folder / "workspaces").glob("*")) if has_store(storage, folder)]
