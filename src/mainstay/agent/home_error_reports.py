"""Error reports of a home: the projection and the log handler that write them, and access for commands."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mainstay.agent.home_paths import GATEWAY_DATABASE
from mainstay.agent.trust_setup import list_known_secrets
from mainstay.config.schema import Config
from mainstay.core.error_reports import ErrorStore
from mainstay.core.projection_ports import Projection
from mainstay.guards.redaction import Redactor
from mainstay.observe.error_log_handler import ErrorLogHandler
from mainstay.observe.error_projection import ErrorProjection

if TYPE_CHECKING:
    from mainstay.store.sqlite.home_projection_database import HomeProjectionDatabase


def get_error_store(database: HomeProjectionDatabase | None) -> ErrorStore | None:
    """Return the error store in a home's database (a `HomeProjectionDatabase`); None without a database."""
    if database is None:
        return None
    from mainstay.store.sqlite.error_store import SqliteErrorStore  # imports the database engine

    return SqliteErrorStore(database)


def build_error_projections(
    database: HomeProjectionDatabase | None, workspace: str, redact: Callable[[str], str]
) -> list[Projection]:
    """Return the projection that reports errors from a workspace's journals; none without a home's database."""
    errors = get_error_store(database)
    return [ErrorProjection(errors, workspace, redact)] if errors is not None else []


@asynccontextmanager
async def store_logged_errors(error_store: ErrorStore | None, get_config: Callable[[], Config]) -> AsyncIterator[None]:
    """Store every error that this process logs while the block runs. For a process with one home: a log line does not
    say which home it belongs to. The secrets of the current `config()` are redacted."""
    if error_store is None:
        yield
        return
    logged = ErrorLogHandler(error_store, _ConfigSecretRedactor(get_config))
    logged.open()
    try:
        yield
    finally:
        await logged.aclose()


@asynccontextmanager
async def open_error_store(data_folder: Path) -> AsyncIterator[ErrorStore | None]:
    """Open the error store of a home, which another process may own; None if the home has no database yet."""
    path = data_folder / GATEWAY_DATABASE
    if not path.exists():
        yield None
        return
    from mainstay.store.sqlite.home_projection_database import HomeProjectionDatabase

    database = HomeProjectionDatabase(str(path))
    await database.open()
    try:
        yield get_error_store(database)
    finally:
        await database.close()


class _ConfigSecretRedactor:
    """Redacts the secrets of the current configuration in a text; rebuilt when the configuration is reloaded."""

    def __init__(self, get_config: Callable[[], Config]) -> None:
        self._get_config = get_config
        self._cached: tuple[Config, Redactor] | None = None

    def __call__(self, text: str) -> str:
        config = self._get_config()
        if self._cached is None or self._cached[0] is not config:
            self._cached = config, Redactor(list_known_secrets(config, os.environ))
        return self._cached[1].redact(text)[0]
