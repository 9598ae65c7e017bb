"""Error reports that `mainstay error` lists: their type, grouping of similar ones, and the storage port."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

REPORTS_MAX = 10_000  # reports; the newest are kept
RETENTION_DAYS = 90
SENTENCE_CHARS_MAX = 300
DETAILS_CHARS_MAX = 8_000

ErrorKind = Literal["turn", "tool", "judge", "delivery", "guard", "server", "channel", "store", "trigger", "runtime"]
ERROR_KINDS: tuple[ErrorKind, ...] = ErrorKind.__args__  # type: ignore[attr-defined]


class ErrorReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One occurrence of an error."""

    id: str
    at: int  # ms
    kind: ErrorKind
    place: str  # its source: the name of a tool, a judge, a channel, an error class or a component
    sentence: str
    details: str = ""
    workspace: str = ""  # empty: none, or unknown
    session: str = ""
    turn: int = 0
    step: int = 0
    trace: str = ""
    record: int = 0  # sequence in the session's journal; 0: it is in no journal
    call: str = ""  # id of the tool call that caused it

    @property
    def group_id(self) -> str:
        """Return the id of its group: errors that differ only in numbers, ids, paths and quoted text."""
        return short_digest("group", self.kind, self.place, normalise_sentence(self.sentence))


class ErrorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Similar errors: how many, since when, and the newest."""

    id: str
    count: int
    first: int  # ms
    last: int  # ms
    newest: ErrorReport


class ErrorQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Filter for error reports; None, empty and 0 match everything."""

    workspace: str | None = None  # "": errors that belong to no workspace
    session: str = ""
    kind: str = ""
    group: str = ""
    trace: str = ""
    since: int = 0  # ms


class ErrorStore(Protocol):
    """Stores error reports of a home."""

    async def positions(self, workspace: str) -> dict[str, int]:
        """Return, by session, the last journal record that was examined."""
        ...

    async def add_from_journal(
        self, workspace: str, session: str, position: int, reports: Sequence[ErrorReport]
    ) -> None:
        """Add errors from a session's journal together with the new position; on disk when it returns."""
        ...

    async def add(self, reports: Sequence[ErrorReport]) -> None:
        """Add errors that are in no journal. If a journal has one too, only its details are added to that report."""
        ...

    async def find_groups(self, query: ErrorQuery, limit: int = 100) -> list[ErrorGroup]:
        """Return groups of matching errors, the most recent first."""
        ...

    async def find_reports(self, query: ErrorQuery, limit: int = 100) -> list[ErrorReport]:
        """Return matching errors, newest first."""
        ...

    async def get_report(self, id: str) -> ErrorReport | None: ...
    async def delete_reports(self, query: ErrorQuery) -> int:
        """Delete matching errors and return how many there were."""
        ...

    async def forget_records(self, workspace: str, session: str, records: Sequence[int] | None = None) -> None:
        """Delete the errors that these records of a session (None: all) caused."""
        ...


# --- grouping of similar errors ------------------------------------------------------------------

_VARIABLE_TEXT = re.compile(
    r"""
    (?P<quoted> '[^']{0,200}' | "[^"]{0,200}" | `[^`]{0,200}` )
    | (?P<path> (?: [a-z][a-z0-9+.-]{1,15}:/ | \.{0,2} ) / [^\s,;:'"()]+ )
    | (?P<id> \b (?: call|msg|run|chat|resp|toolu )[_-] [\w-]+ | \b (?=[a-z-]*[0-9]) [0-9a-f-]{8,} \b )
    | (?P<number> [0-9]+ (?: [.,:] [0-9]+ )* )
    """,
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)
_PLACEHOLDERS = {"quoted": "'…'", "path": "/…", "id": "#", "number": "#"}


def normalise_sentence(sentence: str) -> str:
    """Replace numbers, ids, paths and quoted text in a sentence by placeholders."""
    plain = _VARIABLE_TEXT.sub(lambda match: _PLACEHOLDERS[match.lastgroup or "number"], sentence[:SENTENCE_CHARS_MAX])
    return " ".join(plain.split())


def short_digest(*values: object) -> str:
    """Return a digest of 12 hexadecimal digits: short enough to type."""
    return hashlib.blake2b("\0".join(map(str, values)).encode(errors="replace"), digest_size=6).hexdigest()


def split_error_text(text: str) -> tuple[str, str]:
    """Split an error text into its first line, shortened to a sentence, and the whole text if that is longer."""
    whole = text.strip()[:DETAILS_CHARS_MAX]
    first, _, rest = whole.partition("\n")
    sentence = " ".join(first.split())[:SENTENCE_CHARS_MAX]
    return sentence, whole if rest or len(first) > SENTENCE_CHARS_MAX else ""
