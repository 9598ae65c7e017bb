"""What a backend has, or why it has nothing: told to its owner, who may know where it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

import msgspec

from mainstay.agent.backends import why
from mainstay.backends import rest_scope
from mainstay.backends.common import Backend, clean_name
from mainstay.backends.documents import DocumentsBackend
from mainstay.backends.remote import RemoteBackend
from mainstay.backends.rest import RestBackend
from mainstay.backends.sql import SqlBackend
from mainstay.backends.sql_engine import scope_of
from mainstay.backends.sql_sqlite import path_of
from mainstay.cli.chat.words import count
from mainstay.config.schema_external_tools import BackendEntry
from mainstay.core.errors import MainstayError
from mainstay.core.ports import ToolContext
from mainstay.io.globs import glob

OPEN_S = 10.0
SHOWN_MAX = 5  # globs that fit nothing
REASON_CHARS_MAX = 300


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """`has`: "3 tables". `odd`: what of its scope fits nothing. `trouble`: it cannot be used, and why."""

    has: str = ""
    odd: tuple[str, ...] = ()
    trouble: str = ""
    seconds: float = 0.0

    @property
    def state(self) -> str:
        return self.trouble or "; ".join((self.has, *self.odd))


async def look_at(backend: Backend, hide: Callable[[str], str], *, servers: bool = False) -> Look:
    """Opens it, within OPEN_S. An MCP server is started only with `servers`: that is another's program."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(OPEN_S):
            await backend.start()
            has, odd = await _found(backend, servers=servers)
    except TimeoutError:
        return Look(trouble=f"it did not say what it has within {OPEN_S:g} s", seconds=time.monotonic() - began)
    except MainstayError as error:
        return Look(trouble=hide(why(backend, error)), seconds=time.monotonic() - began)
    return Look(has=has, odd=odd, seconds=time.monotonic() - began)


def place_of(entry: BackendEntry, backend: Backend | None) -> str:
    """Where it is, without who we are there."""
    match backend:
        case SqlBackend(settings=settings):
            return path_of(settings.url) if settings.url.startswith("sqlite:") else _bare(settings.url)
        case RestBackend(settings=settings):
            return _bare(settings.url or settings.description)
        case DocumentsBackend(settings=settings):
            return settings.path
    return f"the MCP server {entry.server}" if entry.kind == "mcp" else _bare(entry.url or entry.path)


def _bare(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}" if mark else url


# --- what there is -------------------------------------------------------------------------------


async def _found(backend: Backend, *, servers: bool) -> tuple[str, tuple[str, ...]]:
    match backend:
        case SqlBackend():
            return await _tables(backend)
        case RestBackend():
            return await _operations(backend)
        case DocumentsBackend(settings=settings):
            paths = [one.path for one in await backend.listed(ToolContext("command", 0, 0, "", lambda event: None))]
            odd = [one for one in settings.paths if not any(map(glob(one), paths))]
            return count(len(paths), "file"), _fit_nothing("paths", odd)
        case RemoteBackend() if servers:
            tools, resources = await backend.listed(), await backend.resources()
            return f"{count(len(tools), 'tool')}, {count(len(resources), 'resource')}", ()
        case RemoteBackend():
            return f"asked when it is first used, or by `mainstay backend test {backend.name}`", ()
    return "open", ()


async def _tables(backend: SqlBackend) -> tuple[str, tuple[str, ...]]:
    """It is asked itself: a backend starts without what it stands for, and tries again later."""
    catalog, scope = await backend.engine.catalog()
    given = backend.settings.scope
    within = [one for one in catalog if scope.grant(one) and one.kind != "shadow table"]
    odd = []
    for pattern in given.tables:
        alone = scope_of(msgspec.structs.replace(given, tables=(pattern,)), catalog)
        if not any(alone.grant(one) for one in catalog):
            odd.append(pattern)
    return count(len(within), "table"), _fit_nothing("tables", odd)


async def _operations(backend: RestBackend) -> tuple[str, tuple[str, ...]]:
    api, given = await backend.api(), backend.settings
    every = api.description.operations.values()
    paths = [one for one in given.paths if not any(map(rest_scope.Scope((one,), (), write=True).holds, every))]
    ids = [one for one in given.operations if not any(map(rest_scope.Scope((), (one,), write=True).holds, every))]
    return count(len(api.listed), "operation"), (*_fit_nothing("paths", paths), *_fit_nothing("operations", ids))


def _fit_nothing(where: str, globs: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"scope.{where}: {clean_name(one)} fits nothing" for one in globs)[:SHOWN_MAX]


# --- what is wrong -------------------------------------------------------------------------------
