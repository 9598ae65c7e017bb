"""Prompt history shared by all chats of a home: private to its owner, bounded in size, and with secrets redacted."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from prompt_toolkit.history import History

from mainstay.guards.redaction import Redactor

HISTORY_FILE = "history"
ENTRIES_MAX = 1_000  # entries
ENTRY_CHARS_MAX = 8_000
FILE_BYTES_MAX = 1024 * 1024


class PromptHistory(History):
    """History file with one JSON string per line, so that a prompt of several lines stays one entry.

    If the file cannot be read or written, the history lasts only until the chat ends.
    """

    def __init__(self, path: Path, secrets: Sequence[str] = ()) -> None:
        super().__init__()
        self._path = path
        self._redactor = Redactor(secrets)

    def load_history_strings(self) -> Iterable[str]:
        """Return the entries, newest first."""
        entries = self._read_entries()
        if len(entries) > ENTRIES_MAX or self._is_too_large():
            entries = entries[-ENTRIES_MAX // 2 :]
            self._rewrite_file(entries)
        return reversed(entries)

    def store_string(self, string: str) -> None:
        if string.startswith(" ") or len(string) > ENTRY_CHARS_MAX:  # a leading space skips the history, as in a shell
            return
        clean, _ = self._redactor.redact(string)
        try:
            with open(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(_encode_entry(clean))  # in one write: another chat may append too
        except OSError:
            pass

    def _read_entries(self) -> list[str]:
        try:
            with self._path.open("rb") as file:
                file.seek(max(os.fstat(file.fileno()).st_size - FILE_BYTES_MAX, 0))
                lines = file.read(FILE_BYTES_MAX).split(b"\n")
        except OSError:
            return []
        return [text for line in lines if (text := _decode_entry(line))]

    def _is_too_large(self) -> bool:
        try:
            return self._path.stat().st_size > FILE_BYTES_MAX
        except OSError:
            return False

    def _rewrite_file(self, entries: list[str]) -> None:
        draft = self._path.with_name(f"{HISTORY_FILE}.part")
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
                file.writelines(map(_encode_entry, entries))
            draft.replace(self._path)
        except OSError:
            pass


def _encode_entry(text: str) -> bytes:
    return msgspec.json.encode(text.encode(errors="replace").decode()) + b"\n"


def _decode_entry(line: bytes) -> str:
    """Return the entry, or "" if the line is not a JSON string."""
    try:
        return msgspec.json.decode(line, type=str)
    except msgspec.DecodeError:
        return ""
