"""Manifest of the SQL backend, and its settings."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Self

import msgspec
from msgspec import Meta

from mainstay.core.backend_settings import BackendSettings, resolve_path, strip_credentials
from mainstay.core.components import Component
from mainstay.core.settings import ConfigSection

_SQLITE = "sqlite:///"
_URL = re.compile(r"(sqlite|postgresql|postgres|mysql|mariadb)://\S+")


class SqlScope(ConfigSection, frozen=True, kw_only=True):
    """Globs of what can be reached; empty: everything except system tables."""

    databases: Annotated[tuple[str, ...], Meta(description="Databases; empty: all.")] = ()
    schemas: Annotated[tuple[str, ...], Meta(description="Schemas; empty: all.")] = ()
    tables: Annotated[
        tuple[str, ...], Meta(description="Tables and views: `orders`, `public.*`; empty: all but system tables.")
    ] = ()


class SqlSettings(BackendSettings, frozen=True, kw_only=True):
    """One database."""

    kind: str = "sql"
    url: Annotated[str, Meta(description="The database: `sqlite:///file.db`, `postgresql://…`, `mysql://…`.")] = ""
    scope: Annotated[SqlScope, Meta(description="Allowlist of what can be reached, as globs.")] = SqlScope()

    @property
    def location(self) -> str:
        return self.url.removeprefix(_SQLITE) if self.url.startswith(_SQLITE) else strip_credentials(self.url)

    def find_problem(self, mcp_servers: Collection[str]) -> str:
        return "" if _URL.fullmatch(self.url) else "'url' must begin with sqlite:///, postgresql:// or mysql://"

    def resolve_paths(self, home: Path) -> Self:
        """Resolve the file of a SQLite URL: `sqlite:///shop.db` is relative to the home, `sqlite:////srv/shop.db` is
        absolute."""
        if not self.url.startswith(_SQLITE):
            return self
        return msgspec.structs.replace(self, url=_SQLITE + resolve_path(self.url.removeprefix(_SQLITE), home))


COMPONENT = Component(
    kind="backend",
    name="sql",
    summary="A SQLite, PostgreSQL or MySQL database.",
    settings=SqlSettings,
    factory="mainstay.backends.sql.backend:build_sql_backend",
    required={"url": "sqlite:///shop.db"},
    libraries={"sqlglot": "sqlglot"},
    install="pip install -e '.[sql]'",
    check="mainstay.backends.sql.health:check_sql_backend",
)
