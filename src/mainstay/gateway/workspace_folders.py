"""Workspaces as folders of a home: which there are, making one, and putting one away."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from mainstay.agent.places import own_database
from mainstay.config.schema import Config, check_workspace
from mainstay.core.errors import HomeUnusable, InputRefused, StoreError
from mainstay.core.workers import in_thread
from mainstay.gateway.people import People
from mainstay.store.home import make_workspace, prepare, workspace_path

REMOVED = "removed"  # a folder of the home; nothing is deleted
ENTRIES_MAX = 200_000  # files of a workspace that are looked at to tell its size


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """A workspace as it lies there."""

    name: str
    configured: bool = False  # the one that is used where nothing else is said
    bytes: int = 0
    sessions: int = 0
    updated: int = 0  # ms: when something was last said in it
    trouble: str = ""


def names(data: Path, config: Config) -> list[str]:
    """Those that are there, and those that are configured. A link may lead to what is another's."""
    found = [one.name for one in (data / "workspaces").glob("*") if one.is_dir() and not one.is_symlink()]
    return sorted({*found, *config.workspaces, config.workspace})


async def look(data: Path, config: Config) -> list[Folder]:
    return [await _folder(data, config, name) for name in names(data, config)]


async def _folder(data: Path, config: Config, name: str) -> Folder:
    from mainstay.store.sqlite import SqliteStore

    size: int = await in_thread(lambda: _size(workspace_path(data, name).parent))
    made = Folder(name=name, configured=name == config.workspace, bytes=size)
    path = workspace_path(data, name)
    if not path.exists():
        return made
    store = SqliteStore(str(path), read_only=True)
    try:
        await store.open()
        heads, newest = await store.heads(), await store.sessions(limit=1)
    except (StoreError, HomeUnusable) as error:
        return msgspec.structs.replace(made, trouble=str(error))
    finally:
        await store.close()
    return msgspec.structs.replace(made, sessions=len(heads), updated=newest[0].updated if newest else 0)


def _size(folder: Path) -> int:
    """As far as it can be told; no link is followed."""
    total = seen = 0
    for where, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(where, name)).st_size
            except OSError:  # it has just gone
                continue
        seen += len(files) + 1
        if seen > ENTRIES_MAX:
            break
    return total


async def create(data: Path, name: str) -> Path:
    """Its folder, with an empty database in it. Raises InputRefused if there is one."""
    from mainstay.store.sqlite import SqliteStore

    path = own_database(data, check_workspace(name))
    if path.exists():
        raise InputRefused(f"there is a workspace {name!r} already")
    prepare(data)
    make_workspace(data, name)
    store = SqliteStore(str(path))
    await store.open()
    await store.close()
    return path.parent


def check_removal(data: Path, config: Config, name: str) -> Path:
    """Its folder. Raises InputRefused for one that is not there, or that the configuration needs."""
    folder = own_database(data, check_workspace(name)).parent
    if name == config.workspace:
        raise InputRefused(f"{name!r} is the configured workspace; name another in mainstay.yaml (`workspace`) first")
    if users := _users(config, name):
        raise InputRefused(f"mainstay.yaml names {name!r} ({', '.join(users)}); take it out there first")
    if not folder.is_dir():
        raise InputRefused(f"there is no workspace {name!r}")
    return folder


def _users(config: Config, name: str) -> list[str]:
    found = ["workspaces"] if name in config.workspaces else []
    for channel, entry in config.channels.items():
        found += [f"channels.{channel}"] if name in (entry.workspace, *entry.rooms.values()) else []
    return found + [f"people.{person}" for person, entry in config.people.items() if name in entry.workspaces]


def roles_in(people: People, name: str) -> list[str]:
    return [one.name for one in people.everybody() if name in one.roles and not people.is_declared(one.name)]


async def put_away(
    data: Path, config: Config, people: People, name: str, close: Callable[[str], Awaitable[None]] | None = None
) -> dict[str, Any]:
    """Moves it to `<home>/removed`, for whoever owns the home; `close` sees to it that nobody uses it. Roles in it go,
    and the keys to it: they are not for another of its name."""
    folder = check_removal(data, config, name)
    lost = roles_in(people, name)
    for person in lost:
        await people.withdraw(person, name)
    if close is not None:
        await close(name)
    target = await in_thread(lambda: _moved(data, folder))
    return {"name": name, "moved": str(target), "withdrawn": lost}


def _moved(data: Path, folder: Path) -> Path:
    try:
        (data / REMOVED).mkdir(mode=0o700, exist_ok=True)
        stem = f"{folder.name}-{time.strftime('%Y%m%d-%H%M%S')}"
        for number in range(1000):
            target = data / REMOVED / (f"{stem}-{number}" if number else stem)
            if not target.exists():
                return folder.rename(target)
    except OSError as error:
        raise HomeUnusable(f"{folder} cannot be moved to {data / REMOVED}: {error.strerror or error}") from error
    raise HomeUnusable(f"{data / REMOVED} is full of workspaces of this name")
