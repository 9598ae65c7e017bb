"""Manifest of the documents backend, and its settings."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Self

import msgspec
from msgspec import Meta

from mainstay.core.backend_settings import BackendSettings, resolve_path
from mainstay.core.components import Component
from mainstay.core.settings import ConfigSection


class DocumentsScope(ConfigSection, frozen=True, kw_only=True):
    """Globs of what can be reached; empty: everything."""

    paths: Annotated[tuple[str, ...], Meta(description="Paths below the folder: `**/*.md`; empty: all.")] = ()


class DocumentsSettings(BackendSettings, frozen=True, kw_only=True):
    """One folder of text files, which can only be read."""

    kind: str = "documents"
    path: Annotated[str, Meta(description="The folder.")] = ""
    scope: Annotated[DocumentsScope, Meta(description="Allowlist of what can be reached, as globs.")] = DocumentsScope()

    @property
    def location(self) -> str:
        return self.path

    def find_problem(self, mcp_servers: Collection[str]) -> str:
        if self.write:
            return "'write' is not a key of 'kind: documents': files are written with the file tools; remove it"
        return ""

    def resolve_paths(self, home: Path) -> Self:
        return msgspec.structs.replace(self, path=resolve_path(self.path, home))


COMPONENT = Component(
    kind="backend",
    name="documents",
    summary="A folder of text files, with full-text search.",
    settings=DocumentsSettings,
    factory="mainstay.backends.documents.backend:build_documents_backend",
    required={"path": "handbook"},
    check="mainstay.backends.documents.health:check_documents_backend",
)
