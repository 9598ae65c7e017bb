"""Backup and restore of a home, and acceptance of a loss.

A backup is a folder: the databases, copied while they are in use, the other files of the home, and `backup.json`, which
is written last and says what the databases contain. The home's database is copied first, so that it never knows more
of a workspace than that workspace's copy has.

Restoring replaces databases of workspaces. The home's own database (people, keys, audit log, spending) stays, unless it
is missing or damaged: keys that were revoked stay revoked, and what was charged stays charged.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainstay import __version__
from mainstay.agent.home_audit import open_home_audit
from mainstay.agent.home_paths import GATEWAY_DATABASE, checked_workspace_folder
from mainstay.agent.workspace_stores import SQLITE_STORE, find_workspace_loss
from mainstay.config.schema import FILE, Config, StorageSettings, find_workspace_name_problem
from mainstay.core.errors import HomeUnusable, InputRefused, MainstayError, StoreCorrupt, StoreLost
from mainstay.core.worker_threads import run_in_thread
from mainstay.store.home import (
    LOCK_FILE,
    REMOVED_FOLDER,
    HomeLock,
    check_path_encoding,
    create_workspace_folder,
    prepare_home,
)
from mainstay.store.oxigraph.manifest import GRAPH_FOLDER
from mainstay.store.sqlite.manifest import DATABASE_FILE

if TYPE_CHECKING:
    from mainstay.store.sqlite.backup import DatabaseCopy
    from mainstay.store.sqlite.journal_loss import JournalLoss, SessionHeads

MANIFEST_FILE = "backup.json"
COMPANION_SUFFIXES = ("-wal", "-shm", "-ahead")
WRITE_AHEAD_SUFFIX = "-ahead"
STAGED_SUFFIX = ".restoring"  # of a copy of the backup's database, until it replaces the home's
# Not copied: what belongs to a running process, what was removed, and what is derived from the journals.
SKIPPED_NAMES = frozenset({LOCK_FILE, REMOVED_FOLDER, GRAPH_FOLDER})


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """Content of `backup.json`. `databases` has the size of each database in rows, by its path in the folder."""

    version: str  # of Mainstay
    at: int  # ms
    databases: dict[str, dict[str, int]]
    digests: dict[str, str]
    files: int  # other files

    @property
    def workspaces(self) -> list[str]:
        return sorted(Path(path).parent.name for path in self.databases if Path(path).name == DATABASE_FILE)


class RestoredWorkspace(msgspec.Struct, frozen=True, kw_only=True):
    """A workspace whose database was replaced, or whose loss was accepted."""

    name: str
    sessions: int
    lost_events: int  # events that the home knew of and the database does not have
    moved: str  # folder with the files that were replaced; "": there were none


# --- backup --------------------------------------------------------------------------------------


def back_up_home(home: Path, data: Path, storage: StorageSettings, target: Path) -> BackupManifest:
    """Copy a home into a new folder; a process may be using it meanwhile. Raises InputRefused, HomeUnusable or
    StoreError: then the folder is not a backup."""
    _check_store(storage)
    check_path_encoding(target)
    if target.exists() and not target.is_dir():
        raise InputRefused(f"{target} is not a folder; choose a new one")
    if target.resolve().is_relative_to(data.resolve()):
        raise InputRefused(f"{target} is inside of the home; a backup must be outside, best on another disk")
    if not data.is_dir():
        raise InputRefused(f"there is nothing in {data}")
    from mainstay.store.sqlite.backup import copy_database  # imports the database engine

    copies: dict[str, DatabaseCopy] = {}
    with _name_failed_file():
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise InputRefused(f"{target} is not empty; choose a new folder")
        for database in (data / GATEWAY_DATABASE, *sorted(data.glob(f"workspaces/*/{DATABASE_FILE}"))):
            if not database.is_file() or database.parent.is_symlink():
                continue
            copy = target / database.relative_to(data)
            copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            copies[str(database.relative_to(data))] = copy_database(database, copy)
            ahead = Path(f"{database}{WRITE_AHEAD_SUFFIX}")  # after the database: what is in both is refused as stale
            if ahead.is_file():
                _copy_private(ahead, Path(f"{copy}{WRITE_AHEAD_SUFFIX}"))
        files = _copy_files(data, target)
        if home != data and (home / FILE).is_file():
            _copy_private(home / FILE, target / FILE)
        manifest = BackupManifest(
            version=__version__,
            at=time.time_ns() // 1_000_000,
            databases={path: copy.rows for path, copy in copies.items()},
            digests={path: copy.digest for path, copy in copies.items()},
            files=files,
        )
        (target / MANIFEST_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
        _sync(target / MANIFEST_FILE)
        _sync(target)
    return manifest


def _copy_files(source: Path, target: Path) -> int:
    """Copy the files that are not databases and do not exist in the target; return how many. Links, sockets and files
    that vanish meanwhile are left out."""
    count = 0
    for parent, folders, names in os.walk(source):
        folders[:] = [name for name in folders if name not in SKIPPED_NAMES]
        for name in names:
            path = Path(parent, name)
            copy = target / path.relative_to(source)
            if name in SKIPPED_NAMES or _is_database_file(name) or path.is_symlink() or not path.is_file():
                continue
            if os.path.lexists(copy):
                continue
            copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                shutil.copy2(path, copy)
            except FileNotFoundError:
                continue
            count += 1
    return count


def _is_database_file(name: str) -> bool:
    return name in (MANIFEST_FILE, *(f"{base}{suffix}" for base in _DATABASES for suffix in ("", *COMPANION_SUFFIXES)))


_DATABASES = (GATEWAY_DATABASE, DATABASE_FILE)


# --- restore -------------------------------------------------------------------------------------


def read_backup(folder: Path) -> BackupManifest:
    """Return the manifest of a backup. Raises InputRefused if the folder is not a complete one."""
    check_path_encoding(folder)
    try:
        manifest = msgspec.json.decode((folder / MANIFEST_FILE).read_bytes(), type=BackupManifest)
    except FileNotFoundError:
        raise InputRefused(f"{folder} is not a complete backup: it has no {MANIFEST_FILE}") from None
    except OSError as error:
        raise InputRefused(f"{folder} is not a backup: {error.strerror or error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputRefused(f"{folder / MANIFEST_FILE} is damaged ({error}); use another backup") from None
    for path in manifest.databases:
        name = Path(path).parent.name
        is_known = path == GATEWAY_DATABASE or (
            path == _workspace_path(name) and find_workspace_name_problem(name) is None
        )
        if not is_known or path not in manifest.digests:
            raise InputRefused(f"{folder / MANIFEST_FILE} is damaged (it names {path[:100]!r}); use another backup")
    return manifest


def select_workspaces(backup: Path, manifest: BackupManifest, workspace: str | None) -> list[str]:
    """Return the workspaces to restore: all, or the given one. Raises InputRefused if the backup does not have it."""
    if workspace is None:
        return manifest.workspaces
    if workspace not in manifest.workspaces:
        has = ", ".join(manifest.workspaces) or "none"
        raise InputRefused(f"{backup} has no workspace {workspace!r}; it has {has}")
    return [workspace]


async def restore_home(
    home: Path, data: Path, config: Config, backup: Path, workspace: str | None = None
) -> list[RestoredWorkspace]:
    """Replace the databases of all workspaces of a backup, or of one, and add files that are missing. What is replaced
    is moved to `removed`. Budgets count on from the restored journals; what was charged stays charged. Raises HomeTaken
    while another process owns the home, InputRefused or StoreError for a backup that cannot be used: then nothing is
    changed."""
    _check_store(config.storage)
    manifest = read_backup(backup)
    names = select_workspaces(backup, manifest, workspace)
    with _own_home(data), _name_failed_file():
        restores_home = not await run_in_thread(lambda: _is_intact(data / GATEWAY_DATABASE))
        wanted = [_workspace_path(name) for name in names]
        if restores_home and GATEWAY_DATABASE in manifest.databases:
            wanted.append(GATEWAY_DATABASE)
        await run_in_thread(lambda: _stage_databases(data, backup, manifest, wanted))
        moved = {path: await run_in_thread(partial(_replace_database, data, path)) for path in wanted}
        for name in names if workspace is not None else ("",):
            part = Path(_workspace_path(name)).parent if name else Path()
            await run_in_thread(partial(_copy_files, backup / part, data / part))
        if workspace is None and home != data and not (home / FILE).exists() and (backup / FILE).exists():
            prepare_home(home)
            _copy_private(backup / FILE, home / FILE)
        return await _expect_databases(data, config, {name: moved[_workspace_path(name)] for name in names}, "restored")


def _stage_databases(data: Path, backup: Path, manifest: BackupManifest, paths: Sequence[str]) -> None:
    """Copy the databases beside those that they will replace, and verify the copies. Whatever fails (a damaged backup,
    a full disk), the copies are removed, and the home is as it was."""
    from mainstay.store.sqlite.backup import inspect_copy  # imports the database engine

    created: list[Path] = []
    try:
        for path in paths:
            if Path(path).name == DATABASE_FILE and not (data / path).parent.exists():
                created.append(create_workspace_folder(data, Path(path).parent.name))
            if not (backup / path).is_file():
                raise StoreLost(f"{backup / path} is missing; use another backup")
            staged = _staged_path(data, path)
            _copy_private(backup / path, staged)
            ahead = Path(f"{backup / path}{WRITE_AHEAD_SUFFIX}")
            if ahead.is_file():
                _copy_private(ahead, Path(f"{staged}{WRITE_AHEAD_SUFFIX}"))
            copy = inspect_copy(staged, shown=backup / path)
            if copy.digest != manifest.digests[path] or copy.rows != manifest.databases[path]:
                raise StoreCorrupt(f"{backup / path} is not the file that the backup wrote; use another backup")
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is the one to report
            for path in paths:
                for suffix in ("", WRITE_AHEAD_SUFFIX):
                    Path(f"{_staged_path(data, path)}{suffix}").unlink(missing_ok=True)
            for folder in created:
                folder.rmdir()
        raise


def _staged_path(data: Path, path: str) -> Path:
    return data / f"{path}{STAGED_SUFFIX}"


def _replace_database(data: Path, path: str) -> str:
    """Move a database and what belongs to it to `removed`, and its staged copy into its place."""
    moved, staged = move_aside(data, data / path), _staged_path(data, path)
    ahead = Path(f"{staged}{WRITE_AHEAD_SUFFIX}")
    if ahead.exists():
        ahead.rename(f"{data / path}{WRITE_AHEAD_SUFFIX}")
    staged.rename(data / path)
    _sync(staged.parent)
    return moved


def move_aside(data: Path, database: Path) -> str:
    """Move a database, its logs and what is derived from it to `removed`; return that folder, "" if there is none."""
    names = [database, *(Path(f"{database}{suffix}") for suffix in COMPANION_SUFFIXES), database.parent / GRAPH_FOLDER]
    found = [path for path in names if os.path.lexists(path)]
    if not found:
        return ""
    name = database.parent.name if database.name == DATABASE_FILE else database.stem
    (data / REMOVED_FOLDER).mkdir(mode=0o700, exist_ok=True)
    target = data / REMOVED_FOLDER / f"{name}-replaced-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"
    target.mkdir(mode=0o700)
    for path in found:
        path.rename(target / path.name)
    return str(target)


def _is_intact(database: Path) -> bool:
    from mainstay.store.sqlite.health import check_database  # imports the database engine

    return database.is_file() and database.stat().st_size > 0 and check_database(database).verdict == "ok"


# --- loss ----------------------------------------------------------------------------------------


def find_acceptable_loss(data: Path, config: Config, name: str) -> JournalLoss:
    """Return what a workspace's database lacks. Raises InputRefused if it lacks nothing, or does not exist."""
    _check_store(config.storage)
    folder = checked_workspace_folder(data, name)
    loss = find_workspace_loss(config.storage, folder)
    if loss is not None:
        return loss
    if not folder.exists():
        raise InputRefused(f"there is no workspace {name!r}, and the home knows of none")
    raise InputRefused(f"the database of the workspace {name!r} lacks nothing that the home knows of")


async def accept_loss(data: Path, config: Config, name: str) -> RestoredWorkspace:
    """Go on with a workspace whose database lacks what the home knows of it. Raises InputRefused if it lacks nothing,
    HomeTaken while another process owns the home."""
    with _own_home(data), _name_failed_file():
        loss: JournalLoss = await run_in_thread(lambda: find_acceptable_loss(data, config, name))
        moved = move_aside(data, loss.path) if loss.state != "older" else ""
        (result,) = await _expect_databases(data, config, {name: moved}, "loss_accepted")
        return result


async def _expect_databases(data: Path, config: Config, moved: dict[str, str], action: str) -> list[RestoredWorkspace]:
    """Make the home expect what the databases of these workspaces have now, and record it in the audit log."""
    from mainstay.store.sqlite.journal_loss import accept_heads, find_loss, read_heads  # imports the database engine

    results = []
    async with open_home_audit(data, config) as audit:
        for name, folder in moved.items():
            path = data / _workspace_path(name)
            loss = await run_in_thread(partial(find_loss, path, data / GATEWAY_DATABASE))
            heads: SessionHeads = await run_in_thread(partial(read_heads, path)) if path.exists() else {}
            lost = loss.events if loss is not None else 0
            assert audit.database is not None
            await audit.database.write(partial(accept_heads, workspace=name, found=heads))
            if audit.recorder is not None:
                details = {"sessions": len(heads), "lost_events": lost}
                await audit.recorder.record(f"workspace.{action}", name, workspace=name, details=details)
            results.append(RestoredWorkspace(name=name, sessions=len(heads), lost_events=lost, moved=folder))
    return results


# --- files ---------------------------------------------------------------------------------------


def _workspace_path(name: str) -> str:
    return f"workspaces/{name}/{DATABASE_FILE}"


def _check_store(storage: StorageSettings) -> None:
    if storage.backend != SQLITE_STORE:
        raise InputRefused(f"storage.backend is {storage.backend!r}: use the backup of that store; this is for SQLite")


@contextmanager
def _own_home(data: Path) -> Iterator[None]:
    prepare_home(data)
    lock = HomeLock(data)
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _name_failed_file() -> Iterator[None]:
    """Raise HomeUnusable with the file's name for an operating system's error."""
    try:
        yield
    except MainstayError:
        raise
    except OSError as error:
        raise HomeUnusable(f"{error.filename2 or error.filename}: {error.strerror or error}") from error


def _copy_private(source: Path, target: Path) -> None:
    """Copy a file, readable by its owner only, and sync it."""
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    shutil.copyfile(source, target)
    _sync(target)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
