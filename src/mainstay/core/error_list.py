"""The list of errors, as a port: what went wrong, where, how often, and what else is like it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

KEPT_MAX = 10_000  # the newest
KEPT_DAYS = 90
SENTENCE_CHARS_MAX = 300
DETAILS_CHARS_MAX = 8_000

Kind = Literal["turn", "tool", "judge", "delivery", "guard", "server", "channel", "store", "trigger", "runtime"]
KINDS: tuple[Kind, ...] = Kind.__args__  # type: ignore[attr-defined]


class Mishap(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that went wrong, once."""

    id: str
    at: int  # ms
    kind: Kind
    place: str  # what it arose in: the name of a tool, a judge, a channel, an error, a part of the program
    sentence: str
    details: str = ""
    workspace: str = ""  # empty: of none, or nobody knows
    session: str = ""
    turn: int = 0
    step: int = 0
    trace: str = ""
    record: int = 0  # where it stands in the session's journal; 0: in none
    call: str = ""  # the tool call that it came of

    @property
    def group(self) -> str:
        """The same of whatever differs only in numbers, names and places."""
        return digest("group", self.kind, self.place, alike(self.sentence))


class Kin(msgspec.Struct, frozen=True, kw_only=True):
    """All that are alike, and the newest of them."""

    id: str
    count: int
    first: int  # ms
    last: int
    newest: Mishap


class Sought(msgspec.Struct, frozen=True, kw_only=True):
    """Which are meant; what is None or empty does not matter."""

    workspace: str | None = None  # "" are those of none
    session: str = ""
    kind: str = ""
    group: str = ""
    trace: str = ""
    since: int = 0  # ms


class ErrorList(Protocol):
    async def positions(self, workspace: str) -> dict[str, int]:
        """By session: the last record that was looked through."""
        ...

    async def follow(self, workspace: str, session: str, upto: int, found: Sequence[Mishap]) -> None:
        """What was found in a journal up to this record; on disk with how far that is."""
        ...

    async def add(self, found: Sequence[Mishap]) -> None:
        """What no journal has. Of one that a journal has as well, only the details are kept."""
        ...

    async def groups(self, sought: Sought, limit: int = 100) -> list[Kin]:
        """Those that were last seen first."""
        ...

    async def find(self, sought: Sought, limit: int = 100) -> list[Mishap]:
        """The newest first."""
        ...

    async def get(self, id: str) -> Mishap | None: ...
    async def clear(self, sought: Sought) -> int:
        """How many there were."""
        ...

    async def forget(self, workspace: str, session: str, records: Sequence[int] | None = None) -> None:
        """What came of these records of a session, or of all of them, is not in the list any more."""
        ...


# --- what is alike -------------------------------------------------------------------------------

_NAMED = re.compile(
    r"""
    (?P<quoted> '[^']{0,200}' | "[^"]{0,200}" | `[^`]{0,200}` )
    | (?P<path> (?: [a-z][a-z0-9+.-]{1,15}:/ | \.{0,2} ) / [^\s,;:'"()]+ )
    | (?P<id> \b (?: call|msg|run|chat|resp|toolu )[_-] [\w-]+ | \b (?=[a-z-]*[0-9]) [0-9a-f-]{8,} \b )
    | (?P<number> [0-9]+ (?: [.,:] [0-9]+ )* )
    """,
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)
_SIGNS = {"quoted": "'…'", "path": "/…", "id": "#", "number": "#"}


def alike(sentence: str) -> str:
    """Without numbers, ids, paths and whatever is quoted."""
    plain = _NAMED.sub(lambda found: _SIGNS[found.lastgroup or "number"], sentence[:SENTENCE_CHARS_MAX])
    return " ".join(plain.split())


def digest(*words: object) -> str:
    """In 12 hexadecimal digits: short enough to be typed."""
    return hashlib.blake2b("\0".join(map(str, words)).encode(errors="replace"), digest_size=6).hexdigest()


def told(text: str) -> tuple[str, str]:
    """The sentence that stands for a longer text, and the whole of it if that says more."""
    whole = text.strip()[:DETAILS_CHARS_MAX]
    first, _, rest = whole.partition("\n")
    sentence = " ".join(first.split())[:SENTENCE_CHARS_MAX]
    return sentence, whole if rest or len(first) > SENTENCE_CHARS_MAX else ""
