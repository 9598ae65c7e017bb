"""The audit: what is put on record of every decision that matters, each entry chained to the one before it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

import msgspec

NOTHING = "0" * 64  # what stands before the first entry
BEGUN = "record.begun"  # the first entry of a home: a number by chance, so that no two homes have the same chain
PRUNED = "record.pruned"  # older entries were removed, as it is configured
RESUMED = "record.resumed"  # it went on although what it found was not what it had left
ACCEPTED = "record.accepted"  # the owner knows of an entry that says so
acting: ContextVar[str] = ContextVar("acting", default="")  # who asks for what is done now; empty: the owner


class Fact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is to be put on record. Names and digests, no contents. `record` is where it stands in its session's
    journal; `details` is a JSON object."""

    at: int  # ms
    kind: str
    what: str = ""
    workspace: str = ""
    session: str = ""
    turn: int = 0
    record: int = 0
    person: str = ""  # empty: the owner, or nobody
    details: str = "{}"


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A fact on record. The order of the fields is that of their digest and of every column."""

    seq: int
    at: int
    kind: str
    workspace: str
    session: str
    turn: int
    record: int
    person: str
    what: str
    details: str
    before: str  # the digest of the entry before
    digest: str  # of all the others


FIELDS = Entry.__struct_fields__


def linked(fact: Fact, seq: int, before: str) -> tuple[Any, ...]:
    """The values of its entry."""
    values = (
        seq, fact.at, fact.kind, fact.workspace, fact.session, fact.turn, fact.record, fact.person, fact.what,
        fact.details, before,
    )  # fmt: skip
    return (*values, digest_of(values))


def digest_of(values: Sequence[Any]) -> str:
    """SHA-256 of the fields in order, each as its length in characters, a colon, and itself; numbers in decimals, and
    all of it in UTF-8."""
    text = "".join([f"{len(one)}:{one}" for one in map(str, values)])
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def sha256(text: str | bytes) -> str:
    """Of contents, which are not kept."""
    return hashlib.sha256(text.encode(errors="surrogatepass") if isinstance(text, str) else text).hexdigest()


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries to show: what is None may be anything. The newest so many, oldest first."""

    session: str | None = None
    person: str | None = None
    workspace: str | None = None
    kind: str | None = None  # or a family of them: "approval" is also "approval.asked"
    since: int | None = None  # ms
    until: int | None = None
    limit: int = 100


class AuditLog(Protocol):
    """Where it is kept; one for all workspaces of a home."""

    async def positions(self, workspace: str) -> dict[str, int]:
        """By session: the last record of which everything is here."""
        ...

    async def follow(self, workspace: str, session: str, position: int, facts: Sequence[Fact]) -> None:
        """Put on record together with how far that goes; on disk when it returns."""
        ...

    async def add(self, facts: Sequence[Fact]) -> None: ...

    async def prune(self, before: int) -> int:
        """Remove what is older (ms), and put on record how much that was."""
        ...


class AuditReading(Protocol):
    async def entries(self, wanted: Wanted) -> list[Entry]: ...


class Notary(Protocol):
    """Puts on record what no journal tells."""

    async def ready(self) -> None:
        """Before something is done: raises AuditUnavailable if it has to be on record and could not be."""
        ...

    async def close(self) -> None:
        """What waits for the disk is written, if it can be."""
        ...

    async def note(
        self,
        kind: str,
        what: str = "",
        *,
        workspace: str = "",
        session: str = "",
        by: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> None: ...
