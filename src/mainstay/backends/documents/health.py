"""Health check of a documents backend: counts its files and finds patterns of the scope that match none."""

from __future__ import annotations

from mainstay.backends.documents.backend import DocumentsBackend
from mainstay.backends.health import BackendContents, format_unmatched
from mainstay.core.outcome_text import format_count
from mainstay.core.ports import ToolContext
from mainstay.io.globs import compile_path_glob


async def check_documents_backend(backend: DocumentsBackend, start_programs: bool) -> BackendContents:
    documents = await backend.list_documents(ToolContext("command", 0, 0, "", lambda event: None))
    paths = [document.path for document in documents]
    unmatched = [pattern for pattern in backend.settings.scope.paths if not any(map(compile_path_glob(pattern), paths))]
    return BackendContents(
        summary=format_count(len(paths), "file"),
        warnings=format_unmatched("paths", unmatched),
        is_empty=not paths,
    )
