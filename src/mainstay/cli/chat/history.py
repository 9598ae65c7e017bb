"""What was typed, across conversations: for its owner's eyes only, bounded, and without secrets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from prompt_toolkit.history import History

from mainstay.trust.guards.redact import Redactor

FILE = "history"
KEPT_MAX = 1_000  # entries
ENTRY_CHARS_MAX = 8_000
FILE_BYTES_MAX = 1024 * 1024


class Typed(History):
    """One JSON string a line, so that what has several lines stays one entry. A file that cannot be read or written is
    no reason not to talk: then it is only remembered until the chat ends."""

    def __init__(self, path: Path, secrets: Sequence[str] = ()) -> None:
        super().__init__()
        self._path = path
        self._redactor = Redactor(secrets)

    def load_history_strings(self) -> Iterable[str]:
        """The newest first."""
        entries = self._read()
        if len(entries) > KEPT_MAX or self._too_long():
            entries = entries[-KEPT_MAX // 2 :]
            self._rewrite(entries)
        return reversed(entries)

    def store_string(self, string: str) -> None:
        if string.startswith(" ") or len(string) > ENTRY_CHARS_MAX:  # a space in front, as in a shell: not this one
            return
        clean, _ = self._redactor.whole(string)
        try:
            with open(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(_line(clean))  # in one go: another chat may write too
        except OSError:
            pass

    def _read(self) -> list[str]:
        try:
            with self._path.open("rb") as file:
                file.seek(max(os.fstat(file.fileno()).st_size - FILE_BYTES_MAX, 0))
                lines = file.read(FILE_BYTES_MAX).split(b"\n")
        except OSError:
            return []
        return [text for line in lines if (text := _text(line))]

    def _too_long(self) -> bool:
        try:
            return self._path.stat().st_size > FILE_BYTES_MAX
        except OSError:
            return False

    def _rewrite(self, entries: list[str]) -> None:
        draft = self._path.with_name(f"{FILE}.part")
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
                file.writelines(map(_line, entries))
            draft.replace(self._path)
        except OSError:
            pass


def _line(text: str) -> bytes:
    return msgspec.json.encode(text.encode(errors="replace").decode()) + b"\n"


def _text(line: bytes) -> str:
    """Nothing, for a line that is not one of ours."""
    try:
        return msgspec.json.decode(line, type=str)
    except msgspec.DecodeError:
        return ""
