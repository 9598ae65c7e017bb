"""Audit log: event and entry types, the hash chain that links entries, and the ports to write and read it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Protocol

import msgspec

from mainstay.core.json_types import JsonMapping

GENESIS_DIGEST = "0" * 64  # the digest before the first entry
CHAIN_BEGUN = "record.begun"  # first entry of a home: holds a random number, so that no two homes have the same chain
CHAIN_PRUNED = "record.pruned"  # older entries were removed, by the configured retention
CHAIN_RESUMED = "record.resumed"  # the log was continued although its last entry was not the one written last
CHAIN_ACCEPTED = "record.accepted"  # the owner has acknowledged a `record.resumed` entry
# the person whose request is being executed; "": the owner
acting_person: ContextVar[str] = ContextVar("acting", default="")


class AuditEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something to be written to the audit log: names and digests, no contents."""

    at: int  # ms
    kind: str
    what: str = ""
    workspace: str = ""
    session: str = ""
    turn: int = 0
    record: int = 0  # sequence in the session's journal; 0: it is in no journal
    person: str = ""  # empty: the owner, or no person
    details: str = "{}"  # a JSON object


class AuditEntry(msgspec.Struct, frozen=True, gc=False):
    """An entry of the audit log. The order of its fields is that of the digest, the table and the exports."""

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
    before: str  # digest of the previous entry
    digest: str  # of all fields above


ENTRY_FIELDS = AuditEntry.__struct_fields__
AuditRow = tuple[int, int, str, str, str, int, int, str, str, str, str, str]  # the values of an AuditEntry


def chain_entry(event: AuditEvent, seq: int, before: str) -> AuditRow:
    """Return the values of the entry for this event, linked to the previous digest."""
    values = (
        seq, event.at, event.kind, event.workspace, event.session, event.turn, event.record, event.person, event.what,
        event.details, before,
    )  # fmt: skip
    return (*values, entry_digest(values))


def entry_digest(values: Sequence[object]) -> str:
    """Return the SHA-256 of the fields in order, each as its length in characters, a colon and its text (numbers in
    decimal), encoded as UTF-8."""
    text = "".join([f"{len(field)}:{field}" for field in map(str, values)])
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def sha256_hex(text: str | bytes) -> str:
    """Return the hexadecimal SHA-256 of contents, which the log holds in place of the contents."""
    return hashlib.sha256(text.encode(errors="surrogatepass") if isinstance(text, str) else text).hexdigest()


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Filter for audit entries; None matches everything. Selects the newest `limit`, returned oldest first."""

    session: str | None = None
    person: str | None = None
    workspace: str | None = None
    kind: str | None = None  # or a prefix: "approval" matches "approval.asked" too
    since: int | None = None  # ms
    until: int | None = None  # ms
    limit: int = 100


class AuditLog(Protocol):
    """Append-only storage of audit entries; one for all workspaces of a home."""

    async def positions(self, workspace: str) -> dict[str, int]:
        """Return, by session, the last journal record whose events are in the log."""
        ...

    async def add_from_journal(self, workspace: str, session: str, position: int, events: Sequence[AuditEvent]) -> None:
        """Append events from a session's journal together with the new position; on disk when it returns."""
        ...

    async def add(self, events: Sequence[AuditEvent]) -> None:
        """Append events that are in no journal; on disk when it returns."""
        ...

    async def prune(self, before_ms: int) -> int:
        """Remove entries older than `before_ms`, record how many there were, and return that number."""
        ...


class AuditReader(Protocol):
    """Reads the audit log."""

    async def find_entries(self, query: AuditQuery) -> list[AuditEntry]: ...


class AdminAuditRecorder(Protocol):
    """Writes audit events that no session's journal contains: people, keys, settings, deletions."""

    async def ensure_available(self) -> None:
        """Call before an action: raises AuditUnavailable if auditing is mandatory and the log cannot be written."""
        ...

    async def close(self) -> None:
        """Write the events that are still buffered, if possible."""
        ...

    async def record(
        self,
        kind: str,
        what: str = "",
        *,
        workspace: str = "",
        session: str = "",
        by: str = "",
        details: JsonMapping | None = None,
    ) -> None: ...
