"""Reads the Markdown files of an agent: IDENTITY.md, AGENTS.md, SYSTEM.md, and MEMORY.md of each scope.

Scopes are home, workspace, channel and room, derived from the session's key. Files are checked before every turn and
read only when they have changed. A workspace's files are never read from outside of its folder (symbolic links).
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from mainstay.io.paths import CachedFileReader, encode_folder_name, parse_session_scopes

log = logging.getLogger("mainstay.memory")

T = TypeVar("T")

FILE_BYTES_MAX = 64 * 1024
MEMORY_FILE_NAME = "MEMORY.md"
NO_MEMORY = "(no memory yet)"
_CACHE_MAX = 1024  # entries of each cache
_LABEL_CHARS_MAX = 80
_CONTROL_CHARS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class ScopedFile(msgspec.Struct, frozen=True, gc=False):
    """Path and heading of one scope's file. Its real path must be inside of `root`."""

    heading: str
    path: str
    root: str


class ScopeNote(msgspec.Struct, frozen=True, gc=False):
    """The text of one scope's file."""

    file: ScopedFile
    text: str

    def is_same(self, other: ScopeNote) -> bool:
        return self.file is other.file and self.text is other.text


class MemoryFiles:
    """The files of one workspace of a home."""

    def __init__(self, home: Path, workspace: Path) -> None:
        self._home = str(home)
        self._workspace = str(workspace)
        self._files: dict[str, _CachedFile] = {}
        self._scope_files: dict[str, tuple[ScopedFile, ...]] = {}
        self._notes: dict[str, tuple[list[str], tuple[ScopeNote, ...]]] = {}
        self._cached_scope_files: dict[str, tuple[tuple[ScopedFile, _CachedFile], ...]] = {}
        self._identity_cache: tuple[list[str], str] | None = None
        self._identity_files = (
            ScopedFile("", os.path.join(self._home, "IDENTITY.md"), self._home),
            ScopedFile("## Rules (AGENTS.md)", os.path.join(self._home, "AGENTS.md"), self._home),
            ScopedFile("## Rules of this workspace", os.path.join(self._workspace, "AGENTS.md"), self._workspace),
            ScopedFile(
                "## Changes made to the environment (SYSTEM.md)", os.path.join(self._home, "SYSTEM.md"), self._home
            ),
        )

    @property
    def system_path(self) -> str:
        """Path of SYSTEM.md, where the agent records changes to its environment."""
        return self._identity_files[-1].path

    def writable_paths(self, session: str) -> tuple[str, ...]:
        """Paths of the files that the agent itself writes: MEMORY.md from the workspace down, and SYSTEM.md."""
        return (*(place.path for place in self.scope_files(session)[1:]), self.system_path)

    def rules(self) -> str:
        """Text of AGENTS.md of the home and of the workspace only."""
        read = ((place, self._get_file(place).read()) for place in self._identity_files[1:3])
        return "\n\n".join(f"{place.heading}\n\n{text}" for place, text in read if text)

    def identity(self) -> str:
        """Text of IDENTITY.md, AGENTS.md and SYSTEM.md; missing files are left out."""
        texts = [self._get_file(place).read() for place in self._identity_files]
        cached = self._identity_cache
        if cached is None or any(new is not old for new, old in zip(texts, cached[0], strict=True)):
            pairs = zip(self._identity_files, texts, strict=True)
            text = "\n\n".join(f"{place.heading}\n\n{text}".strip() for place, text in pairs if text)
            self._identity_cache = cached = texts, text
        return cached[1]

    def load_notes(self, session: str) -> tuple[ScopeNote, ...]:
        """Return MEMORY.md of each scope of the session, broadest first; the same object until one changes."""
        files = self._cached_scope_files.get(session)
        if files is None:
            _clear_if_full(self._cached_scope_files)
            files = self._cached_scope_files[session] = tuple(
                (place, self._get_file(place)) for place in self.scope_files(session)
            )
        texts = [file.read() for _, file in files]
        before = self._notes.get(session)
        if before is not None and all(new is old for new, old in zip(texts, before[0], strict=True)):
            return before[1]
        notes = tuple(ScopeNote(place, text) for (place, _), text in zip(files, texts, strict=True) if text)
        if before is not None and len(notes) == len(before[1]) and all(map(ScopeNote.is_same, notes, before[1])):
            notes = before[1]
        _clear_if_full(self._notes)
        self._notes[session] = texts, notes
        return notes

    def scope_files(self, session: str) -> tuple[ScopedFile, ...]:
        """Return every MEMORY.md location of this session, whether the file exists or not; the home's is first."""
        cached = self._scope_files.get(session)
        if cached is None:
            _clear_if_full(self._scope_files)
            cached = self._scope_files[session] = tuple(self._list_scope_files(session))
        return cached

    def _list_scope_files(self, session: str) -> list[ScopedFile]:
        folder = self._workspace
        places = [
            ScopedFile("home", os.path.join(self._home, MEMORY_FILE_NAME), self._home),
            ScopedFile("workspace", os.path.join(folder, MEMORY_FILE_NAME), folder),
        ]
        for kind, part in zip(("channel", "room"), parse_session_scopes(session), strict=False):
            if not part:  # a scope without a name has no folder
                break
            folder = os.path.join(folder, encode_folder_name(part))
            places.append(
                ScopedFile(f"{kind} {_display_name(part)}", os.path.join(folder, MEMORY_FILE_NAME), self._workspace)
            )
        return [ScopedFile(f"## Memory: {place.heading}", place.path, place.root) for place in places]

    def _get_file(self, location: ScopedFile) -> _CachedFile:
        file = self._files.get(location.path)
        if file is None:
            _clear_if_full(self._files)
            file = self._files[location.path] = _CachedFile(location)
        return file


class _CachedFile:
    """The cached text of one file."""

    __slots__ = ("_content", "_last_warning", "_path", "_text", "_watched")

    def __init__(self, location: ScopedFile) -> None:
        self._path = location.path
        self._watched = CachedFileReader(location.root, location.path, FILE_BYTES_MAX)
        self._content: tuple[bytes, int] | None = None
        self._text = ""
        self._last_warning = ""

    def read(self) -> str:
        """Return the stripped text; empty if the file is missing or unreadable. The same object until it changes."""
        try:
            content = self._watched.read()
        except OSError as error:
            content = None
            self._warn_once(error)
        else:
            self._last_warning = ""
        if content is not self._content:
            self._content = content
            self._text = "" if content is None else _decode_text(*content)
        return self._text

    def _warn_once(self, error: OSError) -> None:
        """Log a reason once while it stays the same: the file is read before every turn."""
        reason = error.strerror or str(error)
        if reason != self._last_warning:
            self._last_warning = reason
            log.warning("%s cannot be read and is left out: %s", self._path, reason)


def _decode_text(data: bytes, size: int) -> str:
    text = data.decode(errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")
    text = _CONTROL_CHARS.sub("", text).strip()
    if size > FILE_BYTES_MAX:
        text = f"{drop_last_line(text)}\n\n(The file has {size} bytes; only its first {FILE_BYTES_MAX} are shown.)"
    return text


def _clear_if_full(cache: dict[str, T]) -> None:
    """Clear a full cache: all of it can be read again."""
    if len(cache) >= _CACHE_MAX:
        cache.clear()


def _display_name(part: str) -> str:
    """Decode a name for display, on one line: it comes from an external platform."""
    name = part.replace("%3A", ":").replace("%25", "%")
    name = " ".join("".join(char if char.isprintable() else " " for char in name).split())
    return name if len(name) <= _LABEL_CHARS_MAX else name[: _LABEL_CHARS_MAX - 1] + "…"


def drop_last_line(text: str) -> str:
    """Drop the last line, which may be incomplete; a single line is kept."""
    return text[: text.rfind("\n")].rstrip() if "\n" in text else text


def render_notes(notes: Sequence[ScopeNote], bytes_max: int) -> str:
    """Render each scope under its heading, within the bound: short texts whole, long ones cut to equal shares."""
    if not notes:
        return NO_MEMORY
    shares: dict[str, int] = {}
    left = bytes_max
    for number, note in enumerate(sorted(notes, key=lambda note: _size_bytes(note.text))):
        overhead = _size_bytes(note.file.heading) + 4
        shares[note.file.path] = share = max(0, left // (len(notes) - number) - overhead)
        left -= min(share, _size_bytes(note.text)) + overhead
    return "\n\n".join(f"{note.file.heading}\n\n{_truncate_note(note, shares[note.file.path])}" for note in notes)


def _truncate_note(note: ScopeNote, bytes_max: int) -> str:
    size = _size_bytes(note.text)
    if size <= bytes_max:
        return note.text
    notice = f"(cut: the rest of its {size} bytes is in {note.file.path})"
    room = bytes_max - _size_bytes(notice) - 1
    if room <= 0:
        return notice
    return f"{drop_last_line(note.text.encode()[:room].decode(errors='ignore'))}\n{notice}"


def _size_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
