"""The backends of a configuration."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from mainstay.agent.elsewhere import Grounds, refuse_unready
from mainstay.agent.names import clashes, installed
from mainstay.backends.common import Backend, clean_line
from mainstay.backends.remote import RemoteTool, Resource
from mainstay.config.schema import Config
from mainstay.config.schema_external_tools import BackendEntry
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.core.ports import ToolContext
from mainstay.plugins.mcp.servers import McpServers

INDEXES = "indexes"  # a folder of the workspace
PAGES_MAX = 20
REASON_CHARS_MAX = 300


def make_backends(
    config: Config, grounds: Grounds, mcp: McpServers | None, trouble: Callable[[str], None]
) -> tuple[Backend, ...]:
    made: list[Backend] = []
    clashing = clashes(config, installed(grounds.home))
    for name, entry in config.backends.items():
        try:
            refuse_unready(entry, clashing.get(("backends", name), ""))
            made.append(backend_of(name, entry, grounds, mcp))
        except MainstayError as error:
            trouble(f"the backend {name} is left out: {error}")
    return tuple(made)


def backend_of(name: str, entry: BackendEntry, grounds: Grounds, mcp: McpServers | None) -> Backend:
    """Raises ConfigError. Nothing is opened yet."""
    refuse_unready(entry)
    common: dict[str, Any] = {
        "name": name,
        "about": entry.about,
        "write": entry.write,
        "private": entry.private,
        "rows_max": entry.rows_max,
        "timeout_s": entry.timeout_s,
        "schema_tokens": entry.schema_tokens,
    }
    scope = entry.scope
    match entry.kind:
        case "sql":
            from mainstay.backends.sql import SqlBackend, SqlSettings
            from mainstay.backends.sql_scope import SqlScope

            reach = SqlScope(databases=scope.databases, schemas=scope.schemas, tables=scope.tables)
            return SqlBackend(SqlSettings(**common, url=_placed_url(entry.url, grounds), scope=reach))
        case "rest":
            from mainstay.backends.rest import RestBackend, RestSettings

            where = entry.description if "://" in entry.description else _placed(entry.description, grounds)
            reached: dict[str, Any] = {"paths": scope.paths, "operations": scope.operations}
            return RestBackend(
                RestSettings(**common, **reached, description=where, url=entry.url, headers=entry.headers)
            )
        case "documents":
            from mainstay.backends.documents import DocumentsBackend, DocumentsSettings

            index = grounds.workspace / INDEXES
            if grounds.workspace.is_dir():  # it is, wherever something is asked
                index.mkdir(mode=0o700, exist_ok=True)
            path, kept = _placed(entry.path, grounds), str(index / f"{name}.db")
            home = os.path.realpath(grounds.home)  # a folder in it can be meant; it itself, in a folder, is not
            hidden = () if os.path.realpath(path).startswith(f"{home}/") else (home,)
            return DocumentsBackend(
                DocumentsSettings(**common, path=path, paths=scope.paths, index=kept, protected=hidden)
            )
        case "mcp":
            from mainstay.backends.remote import RemoteBackend, RemoteSettings

            if mcp is None or entry.server not in mcp.names:
                raise ConfigError(f"the MCP server {entry.server} is not there, or disabled")
            outward = f"mcp:{entry.server}" if mcp.outward(entry.server) else ""
            settings = RemoteSettings(**common, operations=scope.operations, paths=scope.paths, outward=outward)
            return RemoteBackend(settings, McpSource(mcp, entry.server))


def why(backend: Backend, error: MainstayError) -> str:
    """What the owner is told, which is more than the model is: files by their names, a driver in its own words."""
    from mainstay.backends.documents import DocumentsBackend
    from mainstay.backends.sql import SqlBackend
    from mainstay.backends.sql_engine import unreachable
    from mainstay.backends.sql_sqlite import path_of

    said = str(error).removeprefix(f"backends.{backend.name}: ").removeprefix(f"backends.{backend.name}.")
    match backend:
        case DocumentsBackend(settings=settings) if not os.path.isdir(settings.path):
            return f"there is no folder {settings.path}"
        case SqlBackend(settings=settings):
            title = backend.engine.dialect.title
            path = path_of(settings.url) if settings.url.startswith("sqlite:") else ""
            if path and not os.path.isfile(path):
                return f"{path} is no file" if os.path.exists(path) else f"there is no file {path}"
            if said == str(unreachable(title)) and error.__context__ is not None:
                reason = clean_line(str(error.__context__), REASON_CHARS_MAX)
                return f"the {title} database cannot be opened: {reason}"
    return said


class McpSource:
    """An MCP server, as a backend asks it."""

    def __init__(self, mcp: McpServers, server: str) -> None:
        self._mcp = mcp
        self._server = server

    async def resources(self) -> Sequence[Resource]:
        found: list[Resource] = []
        cursor = ""
        for _ in range(PAGES_MAX):
            page = await self._mcp.resources(self._server, cursor)
            found += (
                Resource(uri=one.uri, name=one.name, about=one.description, mime=one.mime) for one in page.resources
            )
            if not (cursor := page.cursor):
                break
        return found

    async def read(self, uri: str) -> str:
        return (await self._mcp.read(self._server, uri)).text

    async def tools(self) -> Sequence[RemoteTool]:
        await self._mcp.discover([self._server])
        return [
            RemoteTool(name=one.name, about=one.description, schema=one.schema, reads=one.hints.read_only is True)
            for one in self._mcp.listed(self._server)
        ]

    async def call(self, tool: str, arguments: dict[str, Any], context: ToolContext) -> str:
        answer = await self._mcp.call(self._server, tool, arguments)
        if answer.is_error:
            raise ToolFailed(answer.text)
        return answer.text


class ToolFailed(MainstayError):
    """A server says so of its own tool."""


def _placed(path: str, grounds: Grounds) -> str:
    """Relative to the home, as everything in the configuration is."""
    return os.path.join(grounds.home, os.path.expanduser(path))


def _placed_url(url: str, grounds: Grounds) -> str:
    """`sqlite:///shop.db` is a file in the home, `sqlite:////srv/shop.db` one anywhere."""
    if not url.startswith("sqlite:///"):
        return url
    return f"sqlite:///{_placed(url.removeprefix('sqlite:///'), grounds)}"
