"""Lists, creates and removes the workspace folders of a home."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from mainstay.agent.home_paths import checked_workspace_folder
from mainstay.agent.workspace_stores import find_workspace_loss, has_store, list_known_workspaces, open_store
from mainstay.config.loader import LoadedConfig
from mainstay.config.schema import Config, check_workspace
from mainstay.core.errors import HomeUnusable, InputRefused, StoreError, WorkspaceUnknown
from mainstay.core.worker_threads import run_in_thread
from mainstay.gateway.people import People
from mainstay.operations.runtime_protocols import RemovedWorkspace
from mainstay.store.home import REMOVED_FOLDER, create_workspace_folder, prepare_home, workspace_folder

FILES_COUNTED_MAX = 200_000  # files that are counted for the size of a workspace


class WorkspaceFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A workspace on disk."""

    name: str
    configured: bool = False  # the default workspace of the configuration
    bytes: int = 0
    sessions: int = 0
    updated: int = 0  # ms: the last change of any session
    trouble: str = ""  # why its database cannot be read


def list_workspace_names(home: Path, config: Config) -> list[str]:
    """Return the names of workspaces that exist, are configured, or of which the home knows events. Symbolic links are
    ignored: one may lead to another workspace."""
    existing = [path.name for path in (home / "workspaces").glob("*") if path.is_dir() and not path.is_symlink()]
    known = list_known_workspaces(config.storage, home)
    return sorted({*existing, *known, *config.workspaces, config.workspace})


def select_configs(loaded: LoadedConfig, names: Sequence[str], workspace: str | None) -> list[Config]:
    """Return the configuration of each of these workspaces, the main one first; or of `workspace` only. Raises
    WorkspaceUnknown for one that is not among them."""
    main = loaded.config.workspace
    if workspace is None:
        return [loaded.for_workspace(name) for name in sorted(names, key=lambda name: name != main)]
    if workspace not in names:
        raise WorkspaceUnknown(f"there is no workspace {workspace[:80]!r}")
    return [loaded.for_workspace(workspace)]


async def list_workspace_folders(home: Path, config: Config) -> list[WorkspaceFolder]:
    return [await _inspect_folder(home, config, name) for name in list_workspace_names(home, config)]


async def _inspect_folder(home: Path, config: Config, name: str) -> WorkspaceFolder:
    path = workspace_folder(home, name)
    size: int = await run_in_thread(lambda: _folder_bytes(path))
    folder = WorkspaceFolder(name=name, configured=name == config.workspace, bytes=size)
    try:
        if (loss := await run_in_thread(lambda: find_workspace_loss(config.storage, path))) is not None:
            folder = msgspec.structs.replace(folder, trouble=loss.describe())
            if loss.state != "older":
                return folder
        async with open_store(config.storage, path, read_only=True) as store:
            heads, newest = await store.list_heads(), await store.list_sessions(limit=1)
    except (StoreError, HomeUnusable) as error:
        return msgspec.structs.replace(folder, trouble=str(error))
    return msgspec.structs.replace(folder, sessions=len(heads), updated=newest[0].updated if newest else 0)


def _folder_bytes(folder: Path) -> int:
    """Return the size of a folder in bytes, counting at most about `ENTRIES_MAX` files; links are not followed."""
    total = counted = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:  # it was deleted meanwhile
                continue
        counted += len(files) + 1
        if counted > FILES_COUNTED_MAX:
            break
    return total


async def create_workspace(home: Path, config: Config, name: str) -> Path:
    """Create a workspace with an empty store and return its folder. Raises InputRefused if it exists."""
    folder = checked_workspace_folder(home, check_workspace(name))
    if has_store(config.storage, folder):
        raise InputRefused(f"there is a workspace {name!r} already")
    prepare_home(home)
    create_workspace_folder(home, name)
    async with open_store(config.storage, folder):
        return folder


def check_removable(home: Path, config: Config, name: str) -> Path:
    """Return the folder of a workspace that can be removed. Raises InputRefused if there is no such workspace or the
    configuration names it."""
    folder = checked_workspace_folder(home, check_workspace(name))
    if name == config.workspace:
        raise InputRefused(f"{name!r} is the default workspace; set another in mainstay.yaml (`workspace`) first")
    if references := _find_references(config, name):
        raise InputRefused(f"mainstay.yaml names {name!r} ({', '.join(references)}); remove it there first")
    if not folder.is_dir():
        raise InputRefused(f"there is no workspace {name!r}")
    return folder


def _find_references(config: Config, name: str) -> list[str]:
    """Return the configuration keys that name a workspace."""
    keys = ["workspaces"] if name in config.workspaces else []
    for channel, entry in config.channels.items():
        keys += [f"channels.{channel}"] if name in (entry.workspace, *entry.rooms.values()) else []
    return keys + [f"people.{person}" for person, entry in config.people.items() if name in entry.workspaces]


def people_with_role(people: People, workspace: str) -> list[str]:
    """Return the people with a stored role in a workspace, without those declared in the configuration."""
    return [
        person.name
        for person in people.list_people()
        if workspace in person.roles and not people.is_declared(person.name)
    ]


async def move_to_removed(
    home: Path, config: Config, people: People, name: str, close: Callable[[str], Awaitable[None]] | None = None
) -> RemovedWorkspace:
    """Move a workspace to `<home>/removed`; the caller owns the home, and `close` closes the workspace before. People
    lose their roles in it and their keys to it, so that they have none in a later workspace of this name."""
    folder = check_removable(home, config, name)
    withdrawn = people_with_role(people, name)
    for person in withdrawn:
        await people.withdraw_role(person, name)
    if close is not None:
        await close(name)
    target = await run_in_thread(lambda: _move_folder(home, folder))
    return RemovedWorkspace(name=name, moved=str(target), withdrawn=withdrawn)


def _move_folder(home: Path, folder: Path) -> Path:
    try:
        (home / REMOVED_FOLDER).mkdir(mode=0o700, exist_ok=True)
        stem = f"{folder.name}-{time.strftime('%Y%m%d-%H%M%S')}"
        for number in range(1000):
            target = home / REMOVED_FOLDER / (f"{stem}-{number}" if number else stem)
            if not target.exists():
                return folder.rename(target)
    except OSError as error:
        raise HomeUnusable(f"{folder} cannot be moved to {home / REMOVED_FOLDER}: {error.strerror or error}") from error
    raise HomeUnusable(f"{home / REMOVED_FOLDER} has too many workspaces of this name; delete some")
