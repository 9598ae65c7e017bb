"""What the engines use of the PostgreSQL and MySQL drivers (psycopg, PyMySQL), which are imported on first use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

Row = tuple[Any, ...]  # values as the driver converts them
Parameters = Sequence[object] | Mapping[str, object] | None


# --- PostgreSQL ----------------------------------------------------------------------------------


class PostgresColumn(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def type_code(self) -> int: ...


class PostgresCursor(Protocol):
    @property
    def rowcount(self) -> int: ...
    @property
    def description(self) -> Sequence[PostgresColumn] | None: ...
    async def fetchall(self) -> Sequence[Row]: ...


class PostgresTransactionStatus(Protocol):
    @property
    def name(self) -> str: ...


class PostgresInfo(Protocol):
    @property
    def server_version(self) -> int: ...
    @property
    def transaction_status(self) -> PostgresTransactionStatus: ...


class PsycopgConnection(Protocol):
    """A connection of psycopg."""

    @property
    def closed(self) -> bool: ...
    @property
    def info(self) -> PostgresInfo: ...
    async def execute(self, query: str, params: Parameters = None, *, binary: bool = False) -> PostgresCursor: ...
    async def close(self) -> None: ...
    def fileno(self) -> int: ...


# --- MySQL ---------------------------------------------------------------------------------------


class MysqlCursor(Protocol):
    @property
    def description(self) -> Sequence[Row] | None: ...
    def execute(self, query: str, args: Parameters = None) -> int: ...
    def fetchone(self) -> Row | None: ...
    def fetchall(self) -> Sequence[Row]: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...


class MysqlSocket(Protocol):
    def fileno(self) -> int: ...


class PyMysqlConnection(Protocol):
    """A connection of PyMySQL."""

    _sock: MysqlSocket | None

    def cursor(self, cursor: type[MysqlCursor] | None = None) -> MysqlCursor: ...
    def get_server_info(self) -> str: ...
    def _force_close(self) -> None: ...
