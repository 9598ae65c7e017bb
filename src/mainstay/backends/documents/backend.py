"""Documents backend: a folder of text files, with full-text search and paged reading.

Symbolic links are not followed, files that the project ignores (.gitignore) are left out, and files that are not text
are only listed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from mainstay.backends.base import (
    BackendRefused,
    BackendTool,
    BackendToolArguments,
    clean_name,
    fit_lines,
    is_single_word,
    paginate,
)
from mainstay.backends.documents.index import (
    PATH_CHARS_MAX,
    DocumentFile,
    DocumentIndex,
    PassageHits,
    build_path_filter,
)
from mainstay.backends.documents.manifest import DocumentsSettings
from mainstay.backends.factory_context import BackendFactoryContext
from mainstay.core.errors import ConfigError
from mainstay.core.ports import Tool, ToolContext
from mainstay.core.worker_threads import run_in_thread

PASSAGES_MAX = 8  # per search result
LINES_MAX = 200  # per page of a file
PAGE_CHARS_MAX = 15_000


def build_documents_backend(name: str, settings: DocumentsSettings, context: BackendFactoryContext) -> DocumentsBackend:
    """Build the backend. The home is protected, unless the configured folder is inside it."""
    home, index_path = os.path.realpath(context.home), ""
    if (folder := context.index_folder) is not None:
        if folder.parent.is_dir():  # it exists wherever the backend is used
            folder.mkdir(mode=0o700, exist_ok=True)
        index_path = str(folder / f"{name}.db")
    protected = () if os.path.realpath(settings.path).startswith(f"{home}/") else (home,)
    return DocumentsBackend(name, settings, index_path=index_path, protected_paths=protected)


class DocumentsBackend:
    """One folder. `index_path` is the file of its index (empty: in memory); `protected_paths` are never documents."""

    def __init__(
        self, name: str, settings: DocumentsSettings, *, index_path: str = "", protected_paths: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.settings = settings
        root = os.path.realpath(os.path.expanduser(settings.path))
        self._index = DocumentIndex(root, settings.scope.paths, index_path, protected_paths)
        self._documents: tuple[DocumentFile, ...] = ()
        self.tools: tuple[Tool, ...] = (DocumentsDescribeTool(self), DocumentsQueryTool(self))
        if settings.write:
            raise ConfigError(
                f"backends.{self.name}.write: documents are read-only; use `write` and `edit` to change files."
            )

    async def start(self) -> None:
        """List the files; they are indexed at the first search."""
        if not await run_in_thread(lambda: os.path.isdir(self._index.root)):
            raise ConfigError(f"there is no folder {self.settings.path}")
        self._documents = await run_in_thread(lambda: self._index.list_documents(lambda: False))

    async def close(self) -> None:
        await run_in_thread(self._index.close)

    def schema_summary(self) -> str:
        settings = self.settings
        lines = [f"### {self.name}: documents, reading only", *([settings.about] if settings.about else [])]
        lines.append(f"{self.name}__query finds passages by words; {self.name}__describe lists files.")
        tokens_left = max(settings.schema_tokens - len("\n".join(lines)) // 3, 20)
        listable = [document for document in self._documents if is_single_word(document.path)]
        file_lines, omitted = [f"- {document.path}" for document in listable], len(self._documents) - len(listable)
        listing = fit_lines(file_lines, tokens_left, "files", omitted)
        if listing.count("\n") + 1 < len(file_lines):
            listing = fit_lines([f"- {line}" for line in _format_folders(listable)], tokens_left, "folders")
        return "\n".join((*lines, listing)) if file_lines else "\n".join(lines)

    # --- calls -----------------------------------------------------------------------------------

    async def list_documents(self, context: ToolContext) -> tuple[DocumentFile, ...]:
        self._documents = await run_in_thread(lambda: self._index.list_documents(lambda: context.cancelled))
        return self._documents

    async def search_passages(self, text: str, path: str, offset: int, context: ToolContext) -> PassageHits:
        result: PassageHits = await run_in_thread(
            lambda: self._index.search_passages(text, path, offset, PASSAGES_MAX, lambda: context.cancelled)
        )
        return result

    async def read_document(self, path: str, context: ToolContext) -> tuple[DocumentFile, Sequence[str]]:
        result: tuple[DocumentFile, Sequence[str]] = await run_in_thread(
            lambda: self._index.read_document(path, lambda: context.cancelled)
        )
        return result


# --- tools ---------------------------------------------------------------------------------------


class _DocumentsDescribeArguments(BackendToolArguments, frozen=True):
    path: str | None = None
    offset: int | None = None


class _DocumentsQueryArguments(BackendToolArguments, frozen=True):
    text: str | None = None
    path: str | None = None
    offset: int | None = None


class DocumentsDescribeTool(BackendTool[_DocumentsDescribeArguments]):
    action = "describe"
    arguments = _DocumentsDescribeArguments

    def __init__(self, backend: DocumentsBackend) -> None:
        about = f" ({backend.settings.about})" if backend.settings.about else ""
        super().__init__(backend, f"The documents {backend.name}{about}: lists files. path: a folder or glob.")
        self._backend = backend

    async def execute(self, arguments: _DocumentsDescribeArguments, context: ToolContext) -> str:
        documents = await self._backend.list_documents(context)
        matches = build_path_filter(arguments.path or "")
        rows, note = paginate(
            [document for document in documents if matches(document.path)],
            arguments.offset,
            self._backend.settings.rows_max,
        )
        lines = [_format_document(document) for document in rows]
        if note and not arguments.path:
            lines = ["Folders:", *_format_folders(documents)[:30], "Files:", *lines]
        return "\n".join((*lines, note) if note else lines) or "There are no documents here."


class DocumentsQueryTool(BackendTool[_DocumentsQueryArguments]):
    action = "query"
    arguments = _DocumentsQueryArguments

    def __init__(self, backend: DocumentsBackend) -> None:
        usage = "finds passages by words (text; path: where), or reads a file (path; offset: from that line on)."
        super().__init__(backend, f"The documents {backend.name}: {usage}")
        self._backend = backend

    async def execute(self, arguments: _DocumentsQueryArguments, context: ToolContext) -> str:
        if arguments.text and arguments.text.strip():
            result = await self._backend.search_passages(
                arguments.text, arguments.path or "", max(arguments.offset or 0, 0), context
            )
            return _format_hits(result, max(arguments.offset or 0, 0))
        if not arguments.path:
            raise BackendRefused("Give the text to find, or the path to read.")
        document, lines = await self._backend.read_document(arguments.path, context)
        if not document.is_text:
            raise BackendRefused(
                f"{clean_name(document.path)} is not a text file ({document.size_bytes} bytes): it cannot be read."
            )
        return _format_page(document, lines, max(arguments.offset or 1, 1))


# --- formatting ----------------------------------------------------------------------------------


def _format_document(document: DocumentFile) -> str:
    kind = "" if document.is_text else ", not text"
    return f"{clean_name(document.path, PATH_CHARS_MAX)} ({document.size_bytes} bytes{kind})"


def _format_folders(documents: Sequence[DocumentFile]) -> list[str]:
    counts = Counter(os.path.dirname(document.path) for document in documents)
    return [
        f"{clean_name(f'{folder}/' if folder else './')}: {count} files" for folder, count in counts.most_common(200)
    ]


def _format_hits(hits: PassageHits, offset: int) -> str:
    parts = [
        f"{clean_name(passage.path, PATH_CHARS_MAX)}:{passage.first_line}-{passage.last_line}\n{passage.text}"
        for passage in hits.passages
    ]
    end = offset + len(parts)
    if hits.has_more:
        parts.append(f"[{offset + 1} to {end}; continue with offset={end}]")
    if hits.incomplete_reason:
        parts.append(f"[{hits.incomplete_reason}]")
    return "\n\n".join(parts) or "Nothing was found."


def _format_page(document: DocumentFile, lines: Sequence[str], first_line: int) -> str:
    name, total = clean_name(document.path, PATH_CHARS_MAX), len(lines)
    if first_line > total:
        return f"{name}\n[it has {total} lines; there is nothing from {first_line} on]"
    page_lines: list[str] = []
    chars_left = PAGE_CHARS_MAX
    for line in lines[first_line - 1 : first_line - 1 + LINES_MAX]:
        chars_left -= len(line) + 1
        if chars_left < 0 and page_lines:
            break
        page_lines.append(line if len(line) <= PAGE_CHARS_MAX else f"{line[:PAGE_CHARS_MAX]}… [{len(line)} characters]")
    last = first_line - 1 + len(page_lines)
    text = "\n".join(page_lines)
    if first_line == 1 and last == total:
        return f"{name}\n{text}"
    hint = f"; continue with offset={last + 1}" if last < total else ""
    return f"{name}\n{text}\n[lines {first_line} to {last} of {total}{hint}]"
