"""The list of errors of a home: who fills it, and how commands and the server get at it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mainstay.agent.places import GATEWAY
from mainstay.agent.trust import known_secrets
from mainstay.config.schema import Config
from mainstay.core.error_list import ErrorList
from mainstay.core.following import Reader
from mainstay.observe.error_log import ErrorLog
from mainstay.observe.errors import ErrorReader
from mainstay.trust.guards.redact import Redactor


def errors_in(books: Any) -> ErrorList | None:
    """`books` is a `store.sqlite.observed.SqliteObserved`; None: nothing is kept."""
    if books is None:
        return None
    from mainstay.store.sqlite.errors import SqliteErrors  # its engine is loaded only by those who keep something

    return SqliteErrors(books)


def error_readers(books: Any, workspace: str, clean: Callable[[str], str]) -> list[Reader]:
    """Whoever follows the journals of a workspace for errors: one, or nobody where nothing is kept."""
    errors = errors_in(books)
    return [ErrorReader(errors, workspace, clean)] if errors is not None else []


@asynccontextmanager
async def listed(errors: ErrorList | None, config: Callable[[], Config]) -> AsyncIterator[None]:
    """While the block runs, what this program logs as an error is in the list. For a program that is one home's own:
    it is not known of every line whose it is. `config` is what is in force, whose secrets are left out."""
    if errors is None:
        yield
        return
    logged = ErrorLog(errors, _Cleaning(config))
    logged.open()
    try:
        yield
    finally:
        await logged.aclose()


@asynccontextmanager
async def errors_at(data: Path) -> AsyncIterator[ErrorList | None]:
    """Those of a home, beside whoever owns it; None if nothing was ever kept there."""
    path = data / GATEWAY
    if not path.exists():
        yield None
        return
    from mainstay.store.sqlite.observed import SqliteObserved

    books = SqliteObserved(str(path))
    await books.open()
    try:
        yield errors_in(books)
    finally:
        await books.close()


class _Cleaning:
    """Takes secrets out of a text, those of the configuration as it is now."""

    def __init__(self, config: Callable[[], Config]) -> None:
        self._config = config
        self._made: tuple[Config, Redactor] | None = None

    def __call__(self, text: str) -> str:
        config = self._config()
        if self._made is None or self._made[0] is not config:
            self._made = config, Redactor(known_secrets(config, os.environ))
        return self._made[1].whole(text)[0]
