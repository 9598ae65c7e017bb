"""A store for Mainstay: every session is a JSON file. It writes the whole file at each change, which suits short
sessions."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from mainstay.core.component_options import StoreOptions
from mainstay.core.errors import DuplicateInput, MainstayError, SessionUnknown, StaleWriter, StoreFailed
from mainstay.core.events import Folded, ToolFinished
from mainstay.core.health import CheckContext, CheckFinding
from mainstay.core.journal import BLANKED_BODY, Record, decode_event, encode_event, redact_event, remove_facts
from mainstay.core.memory_tiers import Fact
from mainstay.core.ports import IdempotencyKey, SessionInfo, SessionTail
from mainstay.core.store_components import StoreComponent, StoreLocation


class FilesOptions(StoreOptions, frozen=True, kw_only=True):
    folder: Annotated[str, Meta(description="Folder of the files, relative to the workspace's folder.")] = "sessions"


COMPONENT = StoreComponent(
    kind="store",
    name="files",
    summary="Every session is a JSON file.",
    settings=FilesOptions,
    factory="mainstay_files_store:build_files_store",
    check="mainstay_files_store:check_files",
)


def build_files_store(options: FilesOptions, location: StoreLocation) -> FilesStore:
    return FilesStore(location.folder / options.folder, read_only=location.read_only)


class SessionFile(msgspec.Struct):
    """A session as it is stored. The sequence of a record is its position, counted from 1."""

    info: SessionInfo
    bodies: list[tuple[int, str]] = []  # time in ms, and the event as JSON
    inputs: dict[str, tuple[int, str]] = {}  # by id: sequence and digest
    values: dict[str, str] = {}  # tool results that are too large for the history

    def records(self, after: int = 0, upto: int | None = None) -> list[Record]:
        rows = enumerate(self.bodies[after:upto], start=after + 1)
        return [Record(seq, at, decode_event(body.encode())) for seq, (at, body) in rows]

    def find_fold(self, upto: int) -> tuple[int, int]:
        """Return the newest fold up to a sequence, and the last record that it summarised; (0, 0): there is none."""
        folds = [
            (record.seq, record.event.upto) for record in self.records(0, upto) if isinstance(record.event, Folded)
        ]
        return folds[-1] if folds else (0, 0)


class FilesStore:
    """The `Store` port on JSON files."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        self._folder = folder
        self._read_only = read_only
        self._sessions: dict[str, SessionFile] = {}

    async def open(self) -> None:
        if not self._read_only:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._sessions = {session.info.key: session for session in read_sessions(self._folder)}

    async def close(self) -> None:
        self._sessions = {}

    # --- writing ---------------------------------------------------------------------------------

    def append(
        self,
        info: SessionInfo,
        expected: int,
        events: Sequence[bytes],
        idempotency_key: IdempotencyKey | None = None,
        *,
        synced: bool = True,
    ) -> Awaitable[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:  # now, not when it is awaited: appends happen in the order of the calls
            self._append(info, expected, events, idempotency_key)
            done.set_result(None)
        except MainstayError as error:
            done.set_exception(error)
        return done

    def _append(self, info: SessionInfo, expected: int, events: Sequence[bytes], key: IdempotencyKey | None) -> None:
        session = self._sessions.get(info.key) or SessionFile(SessionInfo(key=info.key))
        if key is not None and (known := session.inputs.get(key.id)):
            raise DuplicateInput(known[0], same=known[1] == key.digest)
        if session.info.head != expected:
            raise StaleWriter(f"session {info.key!r} was changed by another writer")
        bodies = [*session.bodies, *((info.updated, bytes(body).decode()) for body in events)]
        inputs = session.inputs if key is None else session.inputs | {key.id: (expected + 1, key.digest)}
        self._save(msgspec.structs.replace(session, info=info, bodies=bodies, inputs=inputs))

    async def fork_session(self, source: str, upto: int, info: SessionInfo, event: bytes) -> None:
        original = self._get(source)
        if info.key in self._sessions:
            raise StoreFailed(f"there is a session {info.key!r} already")
        events = [record.event for record in original.records(0, upto)]
        done = {event.result.call_id for event in events if isinstance(event, ToolFinished)}
        values = {ref: value for ref, value in original.values.items() if ref in done}
        self._save(SessionFile(info, [*original.bodies[:upto], (info.updated, event.decode())], values=values))

    async def blank_session(self, key: str, at: int) -> None:
        session, info = self._get(key), self._get(key).info
        kept = SessionInfo(
            key=key,
            head=info.head,
            status="deleted",
            turns=info.turns,
            prompt_tokens=info.prompt_tokens,
            completion_tokens=info.completion_tokens,
            cost=info.cost,
            created=info.created,
            updated=at,
        )
        self._save(SessionFile(kept, [(when, BLANKED_BODY.decode()) for when, _ in session.bodies]))

    async def redact_records(self, key: str, seqs: Sequence[int]) -> None:
        session = self._get(key)
        wanted = sorted({seq for seq in seqs if 0 < seq <= session.info.head})
        bodies, values = list(session.bodies), dict(session.values)
        for record in session.records():
            if record.seq in wanted:
                bodies[record.seq - 1] = (record.at, encode_event(redact_event(record.event)).decode())
                if isinstance(record.event, ToolFinished):
                    values.pop(record.event.result.call_id, None)
            elif wanted and isinstance(record.event, Folded) and record.event.upto >= wanted[0]:
                bodies[record.seq - 1] = (record.at, BLANKED_BODY.decode())  # it summarised a redacted record
        changed = msgspec.structs.replace(session, bodies=bodies, values=values)
        if wanted and session.info.fold:
            changed.info = msgspec.structs.replace(session.info, fold=changed.find_fold(session.info.head)[0])
        self._save(changed)

    async def remove_facts(self, key: str, facts: Sequence[Fact]) -> None:
        session = self._get(key)
        bodies = list(session.bodies)
        for record in session.records():
            if isinstance(record.event, Folded):
                bodies[record.seq - 1] = (record.at, encode_event(remove_facts(record.event, facts)).decode())
        self._save(msgspec.structs.replace(session, bodies=bodies))

    async def save_value(self, key: str, ref: str, body: str) -> None:
        session = self._get(key)
        self._save(msgspec.structs.replace(session, values=session.values | {ref: body}))

    def _save(self, session: SessionFile) -> None:
        """Replace the session's file; it is on disk when this returns."""
        if self._read_only:
            raise StoreFailed(f"{self._folder} is open for reading only")
        path = self._folder / f"{hashlib.sha256(session.info.key.encode()).hexdigest()}.json"
        draft = path.with_suffix(".part")
        try:
            with open(draft, "wb") as file:
                file.write(msgspec.json.encode(session))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
            sync_folder(self._folder)
        except OSError as error:
            raise StoreFailed(f"{path} cannot be written: {error.strerror or error}") from error
        self._sessions[session.info.key] = session

    # --- reading ---------------------------------------------------------------------------------

    async def load_tail(self, key: str, bytes_max: int) -> SessionTail | None:
        session = self._sessions.get(key)
        if session is None:
            return None
        info, bottom = session.info, 0
        if info.fold:
            fold, bottom = session.find_fold(info.fold)
            info = msgspec.structs.replace(info, fold=fold)
        first, size = info.head, 0
        while first > bottom and (info.fold or size < bytes_max or first >= max(info.floor, 1)):
            first -= 1
            size += len(session.bodies[first][1])
        pinned = sorted({seq for seq in (info.fixed, info.amended, info.client_tools_seq) if 0 < seq <= first})
        older = [record for seq in pinned for record in session.records(seq - 1, seq)]
        return SessionTail(info, session.records(first, info.head), first <= bottom, older)

    async def read_records(self, key: str, after: int = 0, limit: int = 1000) -> list[Record]:
        session = self._sessions.get(key)
        return session.records(after, after + limit) if session is not None else []

    async def find_input(self, key: str, id: str) -> tuple[int, str] | None:
        session = self._sessions.get(key)
        return session.inputs.get(id) if session is not None else None

    async def list_unfinished(self) -> list[str]:
        return [key for key, session in self._sessions.items() if session.info.unfinished]

    async def list_sessions(
        self, *, limit: int = 100, offset: int = 0, include_deleted: bool = False
    ) -> list[SessionInfo]:
        infos = [session.info for session in reversed(self._sessions.values())]
        listed = [info for info in infos if include_deleted or info.status != "deleted"]
        return sorted(listed, key=lambda info: -info.updated)[offset : offset + limit]

    async def get_session(self, key: str) -> SessionInfo | None:
        session = self._sessions.get(key)
        return session.info if session is not None else None

    async def read_value(self, key: str, ref: str, offset: int, limit: int) -> tuple[str, int] | None:
        session = self._sessions.get(key)
        value = session.values.get(ref) if session is not None else None
        return None if value is None else (value[max(offset, 0) :][: max(limit, 0)], len(value))

    async def list_heads(self) -> dict[str, int]:
        return {key: one.info.head for key, one in self._sessions.items() if one.info.status != "deleted"}

    def _get(self, key: str) -> SessionFile:
        if key not in self._sessions:
            raise SessionUnknown(f"there is no session {key!r}")
        return self._sessions[key]


def read_sessions(folder: Path) -> Iterator[SessionFile]:
    for path in sorted(folder.glob("*.json")):
        try:
            yield msgspec.json.decode(path.read_bytes(), type=SessionFile)
        except (OSError, msgspec.DecodeError) as error:
            raise StoreFailed(f"{path} cannot be read: {error}") from error


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_files(options: FilesOptions, context: CheckContext) -> Iterator[CheckFinding]:
    for folder in sorted((context.data / "workspaces").glob(f"*/{options.folder}")):
        try:
            count = sum(1 for _ in read_sessions(folder))
        except StoreFailed as error:
            yield CheckFinding("Database", "FAIL", str(error), "restore that file from a backup")
        else:
            yield CheckFinding("Database", "ok", f"{folder}: {count} sessions")
