"""Locates a command's home and workspace, and opens the store: read-only beside the owner, or locked for writing."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mainstay.agent import workspace_stores
from mainstay.agent.agent import get_uvloop_factory
from mainstay.agent.home_paths import checked_workspace_folder
from mainstay.config.loader import default_home, load_config
from mainstay.config.schema import StorageSettings, check_workspace, resolve_data_folder
from mainstay.core.errors import ConfigError, SessionUnknown
from mainstay.core.journal import Record
from mainstay.core.ports import SessionInfo, Store
from mainstay.operations.sessions import read_journal
from mainstay.store.home import check_path_encoding

T = TypeVar("T")


def resolve_home(options: argparse.Namespace) -> Path:
    given: str | None = options.home
    home = Path(given).expanduser().absolute() if given is not None else default_home(os.environ)
    check_path_encoding(home)
    return home


class WorkspaceLocation(msgspec.Struct, frozen=True):
    """A workspace of a home. `data` is the data folder: the home, unless the configuration moves it."""

    home: Path
    data: Path
    workspace: str = "default"

    @property
    def folder(self) -> Path:
        """The workspace's folder."""
        return checked_workspace_folder(self.data, self.workspace)


def resolve_workspace(options: argparse.Namespace) -> WorkspaceLocation:
    """Return the workspace of a command. Raises ConfigError if the configuration, which may name it, is invalid."""
    home = resolve_home(options)
    if options.workspace is None:
        load_config(home, env=os.environ)
    return locate_workspace(home, options.workspace)


def locate_workspace(home: Path, workspace: str | None = None) -> WorkspaceLocation:
    """Return the named workspace, else the configured one; the defaults if the configuration cannot be read."""
    if workspace is not None:
        check_workspace(workspace)
    try:
        config = load_config(home, env=os.environ).config
    except ConfigError:
        return WorkspaceLocation(home, home, workspace or "default")
    return WorkspaceLocation(home, resolve_data_folder(home, config), workspace or config.workspace)


def locate_data_folder(home: Path) -> Path:
    return locate_workspace(home).data


def load_storage(home: Path) -> StorageSettings:
    """Return the storage settings of a home; the defaults if the configuration cannot be read."""
    try:
        return load_config(home, env=os.environ).config.storage
    except ConfigError:
        return StorageSettings()


def build_overrides(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that the command line overrides."""
    return {} if options.workspace is None else {"workspace": options.workspace}


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=get_uvloop_factory()) as runner:
        return runner.run(coroutine)


@asynccontextmanager
async def open_store_read_only(location: WorkspaceLocation | Path) -> AsyncIterator[Store]:
    """Open a workspace's store read-only, which works while another process owns the home."""
    location = location if isinstance(location, WorkspaceLocation) else locate_workspace(location)
    storage = load_storage(location.home)
    workspace_stores.refuse_lost_database(storage, location.folder)
    async with workspace_stores.open_store(storage, location.folder, read_only=True) as store:
        yield store


@asynccontextmanager
async def open_store_locked(location: WorkspaceLocation) -> AsyncIterator[Store]:
    """Open the workspace's store for writing, under the home's lock. No lane runs: unfinished turns stay unfinished."""
    workspace = location.folder.name  # checked
    async with workspace_stores.open_store_locked(load_storage(location.home), location.data, workspace) as store:
        yield store


async def load_session_info(store: Store, key: str) -> SessionInfo:
    standing = await store.get_session(key)
    if standing is None or standing.status == "deleted":
        raise SessionUnknown(await _describe_unknown_session(store, key))
    return standing


async def load_session_records(store: Store, key: str) -> tuple[SessionInfo, list[Record]]:
    """Return a session and its whole journal. Raises SessionUnknown."""
    return await load_session_info(store, key), await read_journal(store, key)


async def _describe_unknown_session(store: Store, key: str) -> str:
    from difflib import get_close_matches

    names = [session.key for session in await store.list_sessions(limit=1000)]
    near = get_close_matches(key, names, n=1)
    return f"there is no session {key!r}" + (f"; did you mean {near[0]!r}?" if near else "")
