"""The home as a command uses it: read beside its owner, or owned for as long as something is written."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mainstay.agent.agent import fast_loop
from mainstay.agent.places import own_database
from mainstay.agent.sessions import read_all
from mainstay.agent.world import SystemClock
from mainstay.config.loading import default_home, load_config
from mainstay.config.schema import check_workspace, data_home
from mainstay.core.errors import ConfigError, SessionUnknown
from mainstay.core.events import Event
from mainstay.core.journal import Record
from mainstay.core.limits import Limits
from mainstay.core.ports import Standing, Store
from mainstay.core.session import Session
from mainstay.lane.hub import Hub
from mainstay.lane.scribe import Pen
from mainstay.store.home import HomeLock, make_workspace, prepare
from mainstay.testing.memory_store import MemoryStore

T = TypeVar("T")
_TAIL_BYTES = 64 * 1024  # settings need none of the history; a store loads at least what is needed to go on


def home_of(options: argparse.Namespace) -> Path:
    given: str | None = options.home
    return Path(given).expanduser().absolute() if given is not None else default_home(os.environ)


class Place(msgspec.Struct, frozen=True):
    """A workspace of a home. `data` is where everything is kept: the configuration may say elsewhere."""

    home: Path
    data: Path
    workspace: str = "default"

    @property
    def database(self) -> Path:
        return own_database(self.data, self.workspace)


def place_of(options: argparse.Namespace) -> Place:
    """Raises ConfigError where the configuration cannot be read: it may name another workspace."""
    home = home_of(options)
    if options.workspace is None:
        load_config(home, env=os.environ)
    return place_at(home, options.workspace)


def place_at(home: Path, workspace: str | None = None) -> Place:
    """The workspace asked for, else the configured one, if the configuration can be read."""
    if workspace is not None:
        check_workspace(workspace)
    try:
        config = load_config(home, env=os.environ).config
    except ConfigError:
        return Place(home, home, workspace or "default")
    return Place(home, data_home(home, config), workspace or config.workspace)


def kept_in(home: Path) -> Path:
    return place_at(home).data


def overrides_of(options: argparse.Namespace) -> dict[str, Any]:
    """What the command line says beside the configuration."""
    return {} if options.workspace is None else {"workspace": options.workspace}


def run_async(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        return runner.run(work)


@asynccontextmanager
async def reading(where: Place | Path) -> AsyncIterator[Store]:
    """The store of a workspace, or of a home's configured one, to read only: works while another process owns it."""
    path = (where if isinstance(where, Place) else place_at(where)).database
    store: Store
    if path.exists():
        from mainstay.store.sqlite import SqliteStore  # its engine is loaded only where there is something

        store = SqliteStore(str(path), read_only=True)
    else:
        store = MemoryStore()  # nothing was ever kept here
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def writing(place: Place) -> AsyncIterator[Store]:
    """The workspace's store under the home's lock. No lane runs: what is unfinished stays so."""
    from mainstay.store.sqlite import SqliteStore

    path = place.database
    prepare(place.data)
    lock = HomeLock(place.data)
    lock.take()
    try:
        make_workspace(place.data, place.workspace)
        store = SqliteStore(str(path))
        await store.open()
        try:
            yield store
        finally:
            await store.close()
    finally:
        lock.release()


async def standing_of(store: Store, key: str) -> Standing:
    standing = await store.get(key)
    if standing is None or standing.status == "deleted":
        raise SessionUnknown(await _unknown(store, key))
    return standing


async def records_of(store: Store, key: str) -> tuple[Standing, list[Record]]:
    """A session that must be there, with its whole journal."""
    return await standing_of(store, key), await read_all(store, key)


async def change(store: Store, key: str, *events: Event) -> None:
    """Append to a session that no lane is running."""
    tail = await store.load(key, _TAIL_BYTES)
    session = Session.of(tail) if tail is not None else Session(key)
    limits = Limits()
    pen = Pen(session, store, SystemClock(), limits.ride_along_s, Hub(limits.watcher_buffer_max))
    await pen.record(*events)


async def _unknown(store: Store, key: str) -> str:
    from difflib import get_close_matches

    names = [one.key for one in await store.sessions(limit=1000)]
    near = get_close_matches(key, names, n=1)
    return f"there is no session {key!r}" + (f"; did you mean {near[0]!r}?" if near else "")
