"""Files that people and the agent keep for it: who it is, its rules, and MEMORY.md in each scope.

Scopes are home, workspace, channel and room, found from the session's key. Files are looked at before every turn and
read only when they have changed. One of a workspace is never read from outside of that workspace's folder.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from mainstay.io.paths import Watched, folder_name, scopes_of

log = logging.getLogger("mainstay.memory")

FILE_BYTES_MAX = 64 * 1024
MEMORY = "MEMORY.md"
NO_MEMORY = "(no memory yet)"
_KNOWN_MAX = 1024  # files and sessions that are held in memory
_LABEL_CHARS_MAX = 80
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where a scope's file is. `root` is the folder that it must really lie in."""

    heading: str
    path: str
    root: str


class Note(msgspec.Struct, frozen=True, gc=False):
    """What the file of one scope says."""

    place: Place
    text: str

    def same(self, other: Note) -> bool:
        return self.place is other.place and self.text is other.text


class MemoryFiles:
    """The files of one workspace of a home."""

    def __init__(self, home: Path, workspace: Path) -> None:
        self._home = str(home)
        self._workspace = str(workspace)
        self._files: dict[str, _File] = {}
        self._places: dict[str, tuple[Place, ...]] = {}
        self._read: dict[str, tuple[list[str], tuple[Note, ...]]] = {}
        self._scoped: dict[str, tuple[tuple[Place, _File], ...]] = {}
        self._identity: tuple[list[str], str] | None = None
        self._fixed = (
            Place("", os.path.join(self._home, "IDENTITY.md"), self._home),
            Place("## Rules (AGENTS.md)", os.path.join(self._home, "AGENTS.md"), self._home),
            Place("## Rules of this workspace", os.path.join(self._workspace, "AGENTS.md"), self._workspace),
            Place("## Changes made to the environment (SYSTEM.md)", os.path.join(self._home, "SYSTEM.md"), self._home),
        )

    @property
    def system(self) -> str:
        """Where the agent notes what it changed about its environment."""
        return self._fixed[-1].path

    def writable(self, session: str) -> tuple[str, ...]:
        """The files that the agent keeps itself: MEMORY.md from the workspace down, and SYSTEM.md."""
        return (*(place.path for place in self.places(session)[1:]), self.system)

    def rules(self) -> str:
        """AGENTS.md of the home and of the workspace, and nothing else."""
        read = ((place, self._file(place).read()) for place in self._fixed[1:3])
        return "\n\n".join(f"{place.heading}\n\n{text}" for place, text in read if text)

    def identity(self) -> str:
        """Who the agent is, its rules, and what it changed around itself; what is missing is left out."""
        texts = [self._file(place).read() for place in self._fixed]
        known = self._identity
        if known is None or any(new is not old for new, old in zip(texts, known[0], strict=True)):
            found = zip(self._fixed, texts, strict=True)
            made = "\n\n".join(f"{place.heading}\n\n{text}".strip() for place, text in found if text)
            self._identity = known = texts, made
        return known[1]

    def memories(self, session: str) -> tuple[Note, ...]:
        """What MEMORY.md says in each scope of the session, broadest first: the same object while nothing changed."""
        files = self._scoped.get(session)
        if files is None:
            _make_room(self._scoped)
            files = self._scoped[session] = tuple((place, self._file(place)) for place in self.places(session))
        texts = [file.read() for _, file in files]
        before = self._read.get(session)
        if before is not None and all(new is old for new, old in zip(texts, before[0], strict=True)):
            return before[1]
        made = tuple(Note(place, text) for (place, _), text in zip(files, texts, strict=True) if text)
        if before is not None and len(made) == len(before[1]) and all(map(Note.same, made, before[1])):
            made = before[1]
        _make_room(self._read)
        self._read[session] = texts, made
        return made

    def places(self, session: str) -> tuple[Place, ...]:
        """Every MEMORY.md that this session has, whether it is there or not; the first is the home's."""
        known = self._places.get(session)
        if known is None:
            _make_room(self._places)
            known = self._places[session] = tuple(self._find(session))
        return known

    def _find(self, session: str) -> list[Place]:
        folder = self._workspace
        found = [
            Place("home", os.path.join(self._home, MEMORY), self._home),
            Place("workspace", os.path.join(folder, MEMORY), folder),
        ]
        for kind, part in zip(("channel", "room"), scopes_of(session), strict=False):
            if not part:  # it has no name, so nothing can be kept for it
                break
            folder = os.path.join(folder, folder_name(part))
            found.append(Place(f"{kind} {_label(part)}", os.path.join(folder, MEMORY), self._workspace))
        return [Place(f"## Memory: {one.heading}", one.path, one.root) for one in found]

    def _file(self, place: Place) -> _File:
        file = self._files.get(place.path)
        if file is None:
            _make_room(self._files)
            file = self._files[place.path] = _File(place)
        return file


class _File:
    """One file as text."""

    __slots__ = ("_complaint", "_found", "_path", "_text", "_watched")

    def __init__(self, place: Place) -> None:
        self._path = place.path
        self._watched = Watched(place.root, place.path, FILE_BYTES_MAX)
        self._found: tuple[bytes, int] | None = None
        self._text = ""
        self._complaint = ""

    def read(self) -> str:
        """Without blank ends; empty if there is none that may be read. The same object while nothing changes."""
        try:
            found = self._watched.read()
        except OSError as error:
            found = None
            self._complain(error)
        else:
            self._complaint = ""
        if found is not self._found:
            self._found = found
            self._text = "" if found is None else _text(*found)
        return self._text

    def _complain(self, error: OSError) -> None:
        """Once for as long as the trouble stays the same: this is asked before every turn."""
        reason = error.strerror or str(error)
        if reason != self._complaint:
            self._complaint = reason
            log.warning("%s is left out: %s", self._path, reason)


def _text(data: bytes, size: int) -> str:
    text = data.decode(errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")
    text = _UNPRINTABLE.sub("", text).strip()
    if size > FILE_BYTES_MAX:
        text = f"{at_line(text)}\n\n(The file has {size} bytes; only its first {FILE_BYTES_MAX} are shown.)"
    return text


def _make_room(known: dict[str, Any]) -> None:
    """All of it can be read again, so the simple bound will do."""
    if len(known) >= _KNOWN_MAX:
        known.clear()


def _label(part: str) -> str:
    """A name as people know it, on one line: it was chosen by somebody outside."""
    name = part.replace("%3A", ":").replace("%25", "%")
    name = " ".join("".join(char if char.isprintable() else " " for char in name).split())
    return name if len(name) <= _LABEL_CHARS_MAX else name[: _LABEL_CHARS_MAX - 1] + "…"


def at_line(text: str) -> str:
    """Without its last line, which may be half of one; the text itself if it has only one."""
    return text[: text.rfind("\n")].rstrip() if "\n" in text else text


def render(notes: Sequence[Note], bytes_max: int) -> str:
    """Each scope under its heading, within the bound: short ones whole, long ones cut to an equal share of the rest."""
    if not notes:
        return NO_MEMORY
    shares: dict[str, int] = {}
    left = bytes_max
    for number, note in enumerate(sorted(notes, key=lambda one: _size(one.text))):
        around = _size(note.place.heading) + 4
        shares[note.place.path] = share = max(0, left // (len(notes) - number) - around)
        left -= min(share, _size(note.text)) + around
    return "\n\n".join(f"{note.place.heading}\n\n{_cut(note, shares[note.place.path])}" for note in notes)


def _cut(note: Note, bytes_max: int) -> str:
    size = _size(note.text)
    if size <= bytes_max:
        return note.text
    notice = f"(cut: the rest of its {size} bytes is in {note.place.path})"
    room = bytes_max - _size(notice) - 1
    if room <= 0:
        return notice
    return f"{at_line(note.text.encode()[:room].decode(errors='ignore'))}\n{notice}"


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
