"""What a turn changed in files, and what undoing it shows and does. The previous contents are in the home."""

from __future__ import annotations

import os
from typing import Literal, NamedTuple, Protocol

import msgspec

EntryKind = Literal["missing", "file", "link", "folder", "other"]


class EntryState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is, or was, at a path."""

    kind: EntryKind = "missing"
    mode: int = 0  # permission bits
    size: int = 0
    mtime_ns: int = 0
    sha256: str = ""  # of a file's content; "": not computed
    target: str = ""  # of a link
    blob: str = ""  # name of the kept content; "": not kept


class EntryLocation(NamedTuple):
    """An entry of an open folder."""

    folder_fd: int
    name: str
    status: os.stat_result


NewEntry = EntryLocation | EntryState | bytes | None  # bytes: the content of a file whose permissions stay


class ChangeRecorder(Protocol):
    """Keeps what is about to be replaced or removed. The method blocks, is called in a thread and raises nothing."""

    def record(self, path: str, old: EntryLocation | None, new: NewEntry) -> None:
        """Record a change that is about to be made; None: there is nothing at the path."""
        ...


# --- what undoing shows --------------------------------------------------------------------------


class UndoableTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that changed files."""

    turn: int
    at: int  # ms
    paths: int
    kept_bytes: int
    is_undone: bool = False  # it was undone before; what could not be restored then is still kept


class UndoFile(msgspec.Struct, frozen=True, kw_only=True):
    """One path that a turn changed. `change` is what the turn did to it."""

    path: str  # relative to the session's working folder if it is in it
    change: Literal["created", "changed", "removed"]
    old_bytes: int = 0
    new_bytes: int = 0
    refusal: str = ""  # why it cannot be restored, as a sentence; "": it can
    diff: str = ""  # unified diff from the previous content to that of the turn; "": binary, too large or not a file
    note: str = ""  # what replaces the diff


class UndoPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What undoing a turn would do."""

    turn: int
    at: int  # ms
    files: list[UndoFile]
    files_not_shown: int = 0
    paths_not_recorded: int = 0  # changed paths beyond the limit: they stay as they are
    can_restore: bool = True  # at least one path can be restored


class RefusedPath(msgspec.Struct, frozen=True):
    """A path that was not restored, and why."""

    path: str
    reason: str


class UndoResult(msgspec.Struct, frozen=True, kw_only=True):
    """What undoing a turn did."""

    turn: int
    restored: list[str]
    refused: list[RefusedPath]
    paths_not_recorded: int = 0
