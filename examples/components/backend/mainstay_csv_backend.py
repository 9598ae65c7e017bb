"""CSV backend: a CSV file as the tools `NAME__describe` (its columns) and `NAME__query` (rows that contain a text)."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated, Self

import msgspec
from msgspec import Meta

from mainstay.backends.base import BackendRefused, BackendTool, BackendToolArguments, clean_line, clean_name, paginate
from mainstay.backends.factory_context import BackendFactoryContext
from mainstay.backends.health import BackendContents
from mainstay.core.backend_settings import BackendSettings, resolve_path
from mainstay.core.components import Component
from mainstay.core.ports import Tool, ToolContext
from mainstay.core.worker_threads import run_in_thread


class CsvSettings(BackendSettings, frozen=True, kw_only=True):
    path: Annotated[str, Meta(description="The file; its first line has the names of the columns.")] = ""
    delimiter: Annotated[str, Meta(description="Character between two values.", min_length=1, max_length=1)] = ","

    @property
    def location(self) -> str:
        return self.path

    def resolve_paths(self, home: Path) -> Self:
        return msgspec.structs.replace(self, path=resolve_path(self.path, home))


class CsvBackend:
    def __init__(self, name: str, settings: CsvSettings) -> None:
        self.name = name
        self.settings = settings
        self.tools: tuple[Tool, ...] = (CsvDescribeTool(self), CsvQueryTool(self))
        self._columns: list[str] = []

    async def start(self) -> None:
        self._columns, _ = await self.read_rows()

    async def close(self) -> None:
        pass

    def schema_summary(self) -> str:
        columns = ", ".join(map(clean_name, self._columns[:50]))
        return f"### {self.name}: rows of a CSV file, reading only\n{clean_line(self.settings.about)}\n{columns}"

    async def read_rows(self) -> tuple[list[str], list[list[str]]]:
        return await run_in_thread(lambda: read_csv(self.settings))


def read_csv(settings: CsvSettings) -> tuple[list[str], list[list[str]]]:
    try:
        with open(settings.path, newline="", encoding="utf-8") as file:
            columns, *rows = csv.reader(file, delimiter=settings.delimiter)
    except (OSError, ValueError, csv.Error) as error:  # the second sentence is for the owner only
        raise BackendRefused("The file cannot be read now.", f"{settings.path}: {error}") from None
    return columns, rows


class DescribeArguments(BackendToolArguments, frozen=True):
    pass


class QueryArguments(BackendToolArguments, frozen=True):
    text: str
    offset: int | None = None


class CsvDescribeTool(BackendTool[DescribeArguments]):
    action = "describe"
    arguments = DescribeArguments

    def __init__(self, backend: CsvBackend) -> None:
        super().__init__(backend, f"The columns of {backend.name}.")
        self._backend = backend

    async def execute(self, arguments: DescribeArguments, context: ToolContext) -> str:
        columns, rows = await self._backend.read_rows()
        return f"{len(rows)} rows with the columns {', '.join(map(clean_name, columns))}"


class CsvQueryTool(BackendTool[QueryArguments]):
    action = "query"
    arguments = QueryArguments

    def __init__(self, backend: CsvBackend) -> None:
        super().__init__(backend, f"The rows of {backend.name} that contain a text.")
        self._backend = backend

    async def execute(self, arguments: QueryArguments, context: ToolContext) -> str:
        _, rows = await self._backend.read_rows()
        text = arguments.text.casefold()
        found = [row for row in rows if any(text in value.casefold() for value in row)]
        page, note = paginate(found, arguments.offset, self.settings.rows_max)
        return "\n".join((*(", ".join(map(clean_name, row)) for row in page), note)) or "No row contains it."


def build_csv_backend(name: str, settings: CsvSettings, context: BackendFactoryContext) -> CsvBackend:
    return CsvBackend(name, settings)


async def check_csv_backend(backend: CsvBackend, start_programs: bool) -> BackendContents:
    _, rows = await backend.read_rows()
    return BackendContents(summary=f"{len(rows)} rows", is_empty=not rows)


COMPONENT = Component(
    kind="backend",
    name="csv",
    summary="A CSV file.",
    settings=CsvSettings,
    factory="mainstay_csv_backend:build_csv_backend",
    required={"path": "stock.csv"},
    check="mainstay_csv_backend:check_csv_backend",
)
