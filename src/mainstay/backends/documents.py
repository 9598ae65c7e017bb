"""`documents`: a folder of text, searched by words and read on in. Links are not followed; what a project ignores is
not there; a file that is no text is only named."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from mainstay.backends.common import (
    Arguments,
    BackendRefused,
    BackendTool,
    Traits,
    clean_name,
    fit_lines,
    is_one_word,
    page,
)
from mainstay.backends.documents_index import SHOWN_CHARS_MAX, Document, Found, Index, chosen
from mainstay.core.errors import ConfigError
from mainstay.core.ports import Tool, ToolContext
from mainstay.core.workers import in_thread

PASSAGES = 8  # that one answer shows
LINES = 200
PAGE_CHARS = 15_000


class DocumentsSettings(Traits, frozen=True, kw_only=True):
    """What the owner says of one folder."""

    path: str
    paths: tuple[str, ...] = ()  # globs; none: all of it
    index: str = ""  # a file to keep the index in, instead of the memory
    protected: tuple[str, ...] = ()  # files and folders that are no documents wherever they lie: the home's own


class DocumentsBackend:
    def __init__(self, settings: DocumentsSettings) -> None:
        self.settings = settings
        self.name = settings.name
        root = os.path.realpath(os.path.expanduser(settings.path))
        self._index = Index(root, settings.paths, settings.index, settings.protected)
        self._listed: tuple[Document, ...] = ()
        self.tools: tuple[Tool, ...] = (Describe(self), Query(self))
        if settings.write:
            raise ConfigError(
                f"backends.{self.name}.write: documents can only be read; `write` and `edit` change files."
            )

    async def start(self) -> None:
        """Looks what is there; it is read when it is first searched."""
        if not await in_thread(lambda: os.path.isdir(self._index.root)):
            raise ConfigError(f"backends.{self.name}.path: there is no folder {clean_name(self.settings.path)}.")
        self._listed = await in_thread(lambda: self._index.listed(lambda: False))

    async def close(self) -> None:
        await in_thread(self._index.close)

    def schema(self) -> str:
        settings = self.settings
        lines = [f"### {self.name}: documents, reading only", *([settings.about] if settings.about else [])]
        lines.append(f"{self.name}__query finds passages by words; {self.name}__describe lists files.")
        left = max(settings.schema_tokens - len("\n".join(lines)) // 3, 20)
        plain = [one for one in self._listed if is_one_word(one.path)]
        every, odd = [f"- {one.path}" for one in plain], len(self._listed) - len(plain)
        whole = fit_lines(every, left, "files", odd)
        if whole.count("\n") + 1 < len(every):
            whole = fit_lines([f"- {line}" for line in _folders(plain)], left, "folders")
        return "\n".join((*lines, whole)) if every else "\n".join(lines)

    # --- asking ----------------------------------------------------------------------------------

    async def listed(self, context: ToolContext) -> tuple[Document, ...]:
        self._listed = await in_thread(lambda: self._index.listed(lambda: context.cancelled))
        return self._listed

    async def search(self, text: str, path: str, offset: int, context: ToolContext) -> Found:
        found: Found = await in_thread(
            lambda: self._index.search(text, path, offset, PASSAGES, lambda: context.cancelled)
        )
        return found

    async def read(self, path: str, context: ToolContext) -> tuple[Document, Sequence[str]]:
        read: tuple[Document, Sequence[str]] = await in_thread(
            lambda: self._index.read(path, lambda: context.cancelled)
        )
        return read


# --- the tools -----------------------------------------------------------------------------------


class _Describe(Arguments, frozen=True):
    path: str | None = None
    offset: int | None = None


class _Query(Arguments, frozen=True):
    text: str | None = None
    path: str | None = None
    offset: int | None = None


class Describe(BackendTool):
    action = "describe"
    arguments = _Describe

    def __init__(self, backend: DocumentsBackend) -> None:
        about = f" ({backend.settings.about})" if backend.settings.about else ""
        super().__init__(backend.settings, f"The documents {backend.name}{about}: lists files. path: a folder or glob.")
        self._backend = backend

    async def answer(self, arguments: _Describe, context: ToolContext) -> str:
        every = await self._backend.listed(context)
        fits = chosen(arguments.path or "")
        shown, note = page([one for one in every if fits(one.path)], arguments.offset, self._backend.settings.rows_max)
        lines = [_line(one) for one in shown]
        if note and not arguments.path:
            lines = ["Folders:", *_folders(every)[:30], "Files:", *lines]
        return "\n".join((*lines, note) if note else lines) or "There are no documents here."


class Query(BackendTool):
    action = "query"
    arguments = _Query

    def __init__(self, backend: DocumentsBackend) -> None:
        finds = "finds passages by words (text; path: only there), or reads a file (path; offset: from that line on)."
        super().__init__(backend.settings, f"The documents {backend.name}: {finds}")
        self._backend = backend

    async def answer(self, arguments: _Query, context: ToolContext) -> str:
        if arguments.text and arguments.text.strip():
            found = await self._backend.search(
                arguments.text, arguments.path or "", max(arguments.offset or 0, 0), context
            )
            return _shown(found, max(arguments.offset or 0, 0))
        if not arguments.path:
            raise BackendRefused("Say what to find (text) or what to read (path).")
        document, lines = await self._backend.read(arguments.path, context)
        if not document.is_text:
            raise BackendRefused(f"{clean_name(document.path)} is no text ({document.size} bytes): it is only named.")
        return _page(document, lines, max(arguments.offset or 1, 1))


# --- lines ---------------------------------------------------------------------------------------


def _line(one: Document) -> str:
    return f"{clean_name(one.path, SHOWN_CHARS_MAX)} ({one.size} bytes{'' if one.is_text else ', no text'})"


def _folders(listed: Sequence[Document]) -> list[str]:
    counts = Counter(os.path.dirname(one.path) for one in listed)
    return [
        f"{clean_name(f'{folder}/' if folder else './')}: {count} files" for folder, count in counts.most_common(200)
    ]


def _shown(found: Found, offset: int) -> str:
    parts = [f"{clean_name(one.path, SHOWN_CHARS_MAX)}:{one.first}-{one.last}\n{one.text}" for one in found.passages]
    end = offset + len(parts)
    if found.more:
        parts.append(f"[{offset + 1} to {end}; go on with offset={end}]")
    if found.cut:
        parts.append(f"[{found.cut}]")
    return "\n\n".join(parts) or "Nothing was found."


def _page(document: Document, lines: Sequence[str], first: int) -> str:
    name, total = clean_name(document.path, SHOWN_CHARS_MAX), len(lines)
    if first > total:
        return f"{name}\n[it has {total} lines; there is nothing from {first} on]"
    shown: list[str] = []
    left = PAGE_CHARS
    for line in lines[first - 1 : first - 1 + LINES]:
        left -= len(line) + 1
        if left < 0 and shown:
            break
        shown.append(line if len(line) <= PAGE_CHARS else f"{line[:PAGE_CHARS]}… [{len(line)} characters]")
    last = first - 1 + len(shown)
    text = "\n".join(shown)
    if first == 1 and last == total:
        return f"{name}\n{text}"
    rest = f"; go on with offset={last + 1}" if last < total else ""
    return f"{name}\n{text}\n[lines {first} to {last} of {total}{rest}]"
