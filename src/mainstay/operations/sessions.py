"""Operations on whole sessions: list, show, fork, archive, delete, compact, replay, model, profile, working folder."""

from __future__ import annotations

import logging
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mainstay.context.compiler import ContextView, newest_messages
from mainstay.core.errors import InputRefused, MainstayError, SessionUnknown, StoreFailed
from mainstay.core.events import ApprovalAsked, Forked, SessionChanged
from mainstay.core.input_envelope import check_session_name
from mainstay.core.journal import Record, ReplayResult, encode_event
from mainstay.core.limits import NO_SESSION_BUDGET, SessionBudget
from mainstay.core.ports import SessionInfo, Store
from mainstay.core.session import Session
from mainstay.core.worker_threads import run_in_thread
from mainstay.operations.caller import Caller, quote_name
from mainstay.operations.event_feed import PAGE_RECORDS, clamp_count
from mainstay.operations.operation import (
    EVERYWHERE,
    LOCAL,
    SEQUENCE_MAX,
    Access,
    Count,
    Line,
    Name,
    Operation,
    PageSize,
    SessionName,
)
from mainstay.operations.operation_entry import OperationEntry, Route, RunFunction
from mainstay.operations.runtime_protocols import Runtime, SkillInfo
from mainstay.operations.secret_visibility import SecretVisibility

if TYPE_CHECKING:
    from mainstay.observe.session_export import ExportOptions

log = logging.getLogger("mainstay")

PROFILE_FIELDS_MAX = 32
PROFILE_NAME_CHARS_MAX = 64
PROFILE_VALUE_CHARS_MAX = 2000
EXPORT_PAGE_BYTES = 1 << 20  # a page ends with the line that reaches it


# --- results -------------------------------------------------------------------------------------


class SessionView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session."""

    id: str
    status: str
    workspace: str = ""
    person: str = ""  # who started it; "" for the owner
    title: str = ""
    model: str = ""
    parent: str = ""
    head: int = 0  # the sequence of its last event
    turns: int = 0
    messages: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    created: int = 0  # ms
    updated: int = 0
    unfinished: bool = False
    untrusted: bool = False
    private: bool = False
    approval: ApprovalAsked | None = None
    metadata: dict[str, str] = {}
    set_aside: bool = False  # its turn waits until the session is released
    budget: SessionBudget = NO_SESSION_BUDGET  # its own; a kind that it does not name has the configured limit
    compacted: int = 0  # ms; when older turns were last folded into the summary, 0: never


class SessionList(msgspec.Struct, frozen=True, kw_only=True):
    sessions: list[SessionView]


class SkillList(msgspec.Struct, frozen=True, kw_only=True):
    skills: list[SkillInfo]


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    summary: str | None  # None: there was nothing to fold


class ProfileFields(msgspec.Struct, frozen=True, kw_only=True):
    fields: dict[str, str]


class ExportPage(msgspec.Struct, frozen=True, kw_only=True):
    lines: list[str]  # of a JSON Lines file, each a JSON object
    next: int | None  # `after` for the next page; None: this is the last one


# --- requests ------------------------------------------------------------------------------------


class ListSessions(Operation[list[SessionInfo]], frozen=True, kw_only=True):
    """List sessions, the newest first."""

    limit: PageSize = 100
    offset: Count = 0


class GetSession(Operation[SessionInfo], frozen=True, kw_only=True):
    """Show a session."""

    session: SessionName


class DeleteSession(Operation[None], frozen=True, kw_only=True):
    """Delete a session and the sessions of its sub-agents: their content is erased."""

    session: SessionName


class ArchiveSession(Operation[SessionInfo], frozen=True, kw_only=True):
    """Archive a session: it accepts no more prompts."""

    session: SessionName


class ActivateSession(Operation[SessionInfo], frozen=True, kw_only=True):
    """Activate an archived or paused session."""

    session: SessionName


class PauseSession(Operation[SessionInfo], frozen=True, kw_only=True):
    """Pause a session: prompts wait until it is activated."""

    session: SessionName


class ReleaseSession(Operation[SessionInfo], frozen=True, kw_only=True):
    """Release a turn that was set aside because processes ended while they ran it: run it again, or end it."""

    session: SessionName
    fail: bool = False  # end it as failed instead


class RenameSession(Operation[SessionInfo], frozen=True, kw_only=True):
    """Set a session's title."""

    session: SessionName
    title: Name


class ForkSession(Operation[SessionInfo], frozen=True, kw_only=True):
    """Create a session with a copy of another one's history."""

    session: SessionName
    to: SessionName
    upto: Annotated[int, Meta(ge=1, le=SEQUENCE_MAX)] | None = None  # the last event that is copied; None: all


class CompactSession(Operation[Compaction], frozen=True, kw_only=True):
    """Fold all turns but the newest into the summary now."""

    session: SessionName
    focus: Line = ""  # what the summary should keep above all


class SetModel(Operation[None], frozen=True, kw_only=True):
    """Choose the session's model from its next turn on; "" for the agent's."""

    session: SessionName
    model: Name = ""


class ShowContext(Operation[ContextView], frozen=True, kw_only=True):
    """Show what the model sees of a session, section by section, with token counts."""

    session: SessionName


class ReplaySession(Operation[ReplayResult], frozen=True, kw_only=True):
    """Run a session again from its recorded model and tool answers, and compare."""

    session: SessionName


class GetProfile(Operation[ProfileFields], frozen=True, kw_only=True):
    """Show the profile of a session: who the person is, goals, preferences."""

    session: SessionName


class SetProfile(Operation[ProfileFields], frozen=True, kw_only=True):
    """Add or change fields of a session's profile; an empty text removes one."""

    session: SessionName
    fields: Annotated[dict[str, str], Meta(max_length=PROFILE_FIELDS_MAX)]


class ClearProfile(Operation[None], frozen=True, kw_only=True):
    """Remove all fields of a session's profile."""

    session: SessionName


class ListSkills(Operation[list[SkillInfo]], frozen=True, kw_only=True):
    """List the skills that a session can use."""

    session: SessionName


class SetWorkingFolder(Operation[str], frozen=True, kw_only=True):
    """Set the folder in which a session's files and commands are, from its next turn on; returns the one in force."""

    session: SessionName
    folder: str


class ExportSession(Operation[list[Path]], frozen=True, kw_only=True):
    """Write a session as `log.jsonl` (all that was said) and `context.jsonl` (what the model sees)."""

    session: SessionName
    folder: str


class ReadSessionExport(Operation[ExportPage], frozen=True, kw_only=True):
    """Read a session as `log.jsonl` (all that was said) or `context.jsonl` (what the model sees), a page at a time."""

    session: SessionName
    file: Literal["log", "context"] = "log"
    after: Count = 0  # the number of lines that the client has
    limit: PageSize = 1_000


# --- what network clients see -----------------------------------------------------------------------


_SHARED_FIELDS = tuple(name for name in SessionView.__struct_fields__ if name not in ("id", "parent"))


def session_view(caller: Caller, info: SessionInfo) -> SessionView:
    """Return a session as network clients see it. The key in `info` is the caller's name for the session already."""
    same: dict[str, Any] = {name: getattr(info, name) for name in _SHARED_FIELDS}
    parent = caller.session_name(info.parent) if info.parent else ""
    return SessionView(id=info.key, parent=parent or "", **same)


def show_session(caller: Caller, request: Operation[SessionInfo], result: SessionInfo) -> SessionView:
    return session_view(caller, result)


def show_sessions(caller: Caller, request: ListSessions, result: list[SessionInfo]) -> SessionList:
    return SessionList(sessions=[session_view(caller, info) for info in result])


def show_skills(caller: Caller, request: ListSkills, result: list[SkillInfo]) -> SkillList:
    return SkillList(skills=result)


# --- functions -----------------------------------------------------------------------------------


async def list_sessions(caller: Caller, request: ListSessions) -> list[SessionInfo]:
    store = (await caller.runtime()).services.store
    limit, offset = clamp_count(request.limit), clamp_count(request.offset)
    if caller.can_see_all:
        workspace = caller.workspace
        page = await store.list_sessions(limit=limit, offset=offset)
        return [msgspec.structs.replace(info, workspace=workspace) for info in page]
    own: list[SessionInfo] = []
    seen = 0
    while len(own) < offset + limit and (page := await store.list_sessions(limit=PAGE_RECORDS, offset=seen)):
        seen += len(page)
        own += [renamed for info in page if (renamed := caller.with_session_name(info)) is not None]
    return own[offset : offset + limit]


async def get_session(caller: Caller, request: GetSession) -> SessionInfo:
    key, info = await caller.find_session(request.session)
    if info.fold and not info.compacted:  # a release before 0.2 has written it
        for record in await (await caller.runtime()).services.store.read_records(key, after=info.fold - 1, limit=1):
            info = msgspec.structs.replace(info, compacted=record.at)
    return _with_caller_name(caller, info)


def _with_caller_name(caller: Caller, info: SessionInfo) -> SessionInfo:
    renamed = caller.with_session_name(info)
    assert renamed is not None, "the caller found it under its own name"
    return renamed


async def _record_change(caller: Caller, session: str, event: SessionChanged) -> str:
    key, _ = await caller.find_session(session)
    await (await caller.runtime()).lanes.get(key).record_changes(event)
    return key


async def archive_session(caller: Caller, request: ArchiveSession) -> SessionInfo:
    key = await _record_change(caller, request.session, SessionChanged(status="archived"))
    await (await caller.runtime()).stop_commands(key)
    return await get_session(caller, GetSession(session=request.session))


async def activate_session(caller: Caller, request: ActivateSession) -> SessionInfo:
    await _record_change(caller, request.session, SessionChanged(status="active"))
    return await get_session(caller, GetSession(session=request.session))


async def pause_session(caller: Caller, request: PauseSession) -> SessionInfo:
    await _record_change(caller, request.session, SessionChanged(status="paused"))
    return await get_session(caller, GetSession(session=request.session))


async def release_session(caller: Caller, request: ReleaseSession) -> SessionInfo:
    key, _ = await caller.find_session(request.session)
    await (await caller.runtime()).lanes.get(key).release(fail=request.fail)
    return await get_session(caller, GetSession(session=request.session))


async def rename_session(caller: Caller, request: RenameSession) -> SessionInfo:
    await _record_change(caller, request.session, SessionChanged(title=request.title))
    return await get_session(caller, GetSession(session=request.session))


async def delete_session(caller: Caller, request: DeleteSession) -> None:
    """Abort the running turn, then blank the journal in place; its sequence stays. Raises AuditUnavailable if the
    audit log does not cover the session and cannot be brought up to date: then nothing is deleted."""
    key, _ = await caller.find_session(request.session)
    runtime = await caller.runtime()
    await runtime.wait_for_audit()  # before anything is ended
    keys = [key]
    try:
        for session in keys:  # the list grows by the sub-agents of each session
            await runtime.lanes.get(session).end(SessionUnknown(f"session {session!r} was deleted"))
            keys += await list_sub_agent_sessions(runtime.services.store, session)
        await runtime.wait_for_audit()
        for session in reversed(keys):
            await _blank_session(runtime, session)
    finally:
        for session in keys:  # only now: a lane that was opened earlier would have loaded what is deleted
            runtime.lanes.drop(session)


async def _blank_session(runtime: Runtime, session: str) -> None:
    await runtime.services.store.blank_session(session, runtime.services.clock.now_ms())
    runtime.services.approvals.set_pending(session, None)
    try:
        await runtime.delete_derived(session)
    except MainstayError as error:
        log.error("session %r is deleted, but not all data derived from it is gone yet: %s", session, error)


async def list_sub_agent_sessions(store: Store, key: str) -> list[str]:
    """Return the sessions of the sub-agents that a session started."""
    children: list[str] = []
    offset = 0
    while page := await store.list_sessions(limit=PAGE_RECORDS, offset=offset):
        children += [info.key for info in page if info.spawned is not None and info.spawned.parent == key]
        offset += len(page)
    return children


async def fork_session(caller: Caller, request: ForkSession) -> SessionInfo:
    source, _ = await caller.find_session(request.session)
    runtime = await caller.runtime()
    services = runtime.services
    check_session_name(request.to, services.limits)
    target = request.to if caller.can_see_all else caller.session_key(request.to)
    await copy_session(services.store, source, target, request.upto, services.clock.now_ms())
    runtime.lanes.refresh(target)  # it may have been loaded before it had records
    if services.on_stored is not None:
        services.on_stored(target)
    return await get_session(caller, GetSession(session=request.to))


async def copy_session(store: Store, source: str, target: str, upto: int | None, at: int) -> SessionInfo:
    """Copy a session's records, all or up to a sequence, into a new session."""
    records = await read_journal(store, source)
    if not records:
        raise SessionUnknown(f"there is no session {quote_name(source)}")
    if await store.get_session(target) is not None:
        raise InputRefused(f"there is a session {target!r} already")
    last = len(records) if upto is None else upto
    if not 0 < last <= len(records):
        raise InputRefused(f"session {source!r} has records 1 to {len(records)}, not {upto}")
    view = Session(target)
    for record in records[:last]:
        view.apply(record.seq, record.at, record.event)
    event = Forked(source, last)
    view.apply(last + 1, at, event)
    view.created = at
    info = view.to_info()
    try:
        await store.fork_session(source, last, info, encode_event(event))
    except StoreFailed:
        if await store.get_session(target) is None:
            raise
        raise InputRefused(f"there is a session {target!r} already") from None  # created meanwhile
    return info


async def read_journal(store: Store, key: str) -> list[Record]:
    """Return a session's whole journal, read a page at a time."""
    records: list[Record] = []
    while page := await store.read_records(key, after=records[-1].seq if records else 0):
        records += page
    return records


async def compact_session(caller: Caller, request: CompactSession) -> Compaction:
    key, _ = await caller.find_session(request.session)
    contexts = await (await caller.runtime()).lanes.get(key).load_context_compiler()
    return Compaction(summary=await contexts.compact(request.focus))


async def set_model(caller: Caller, request: SetModel) -> None:
    runtime = await caller.runtime()
    await runtime.lanes.get(await caller.resolve_session_key(request.session)).record_changes(
        SessionChanged(model=request.model)
    )


async def show_context(caller: Caller, request: ShowContext) -> ContextView:
    key, _ = await caller.find_session(request.session)
    from mainstay.trust.seen_content import describe_flow  # few callers ask for it

    runtime = await caller.runtime()
    lane = runtime.lanes.get(key)
    view = (await lane.load_context_compiler()).describe_context()
    flow = describe_flow(await lane.load_session(), runtime.services.tools.find_tool)
    return await SecretVisibility(caller).redact_others(msgspec.structs.replace(view, flow=flow), key)


async def replay_session(caller: Caller, request: ReplaySession) -> ReplayResult:
    from mainstay.lane.replay import replay_journal  # only needed to replay

    key, _ = await caller.find_session(request.session)
    services = (await caller.runtime()).services
    return await replay_journal(await read_journal(services.store, key))


async def get_profile(caller: Caller, request: GetProfile) -> ProfileFields:
    lane = (await caller.runtime()).lanes.get(await caller.resolve_session_key(request.session))
    return ProfileFields(fields=dict((await lane.load_session()).profile))


async def set_profile(caller: Caller, request: SetProfile) -> ProfileFields:
    lane = (await caller.runtime()).lanes.get(await caller.resolve_session_key(request.session))
    changed = {name: _check_profile_field(name, value) for name, value in request.fields.items()}
    fields = {name: value for name, value in {**(await lane.load_session()).profile, **changed}.items() if value}
    if len(fields) > PROFILE_FIELDS_MAX:
        raise InputRefused(f"a profile has at most {PROFILE_FIELDS_MAX} fields")
    await lane.record_changes(SessionChanged(profile=fields))
    return ProfileFields(fields=fields)


def _check_profile_field(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InputRefused(f"the profile field {name!r} must be text, not {type(value).__name__}")
    if not name.strip() or len(name) > PROFILE_NAME_CHARS_MAX:
        raise InputRefused(f"the name of a profile field has 1 to {PROFILE_NAME_CHARS_MAX} characters")
    if len(value) > PROFILE_VALUE_CHARS_MAX:
        raise InputRefused(f"the profile field {name!r} has at most {PROFILE_VALUE_CHARS_MAX} characters")
    return " ".join(value.split())


async def clear_profile(caller: Caller, request: ClearProfile) -> None:
    lane = (await caller.runtime()).lanes.get(await caller.resolve_session_key(request.session))
    await lane.record_changes(SessionChanged(profile={}))


async def list_skills(caller: Caller, request: ListSkills) -> list[SkillInfo]:
    return (await caller.runtime()).list_skills(caller.session_key(request.session))


async def set_working_folder(caller: Caller, request: SetWorkingFolder) -> str:
    return await (await caller.runtime()).set_working_folder(
        await caller.resolve_session_key(request.session), request.folder
    )


async def export_session(caller: Caller, request: ExportSession) -> list[Path]:
    records = await _read_exported_journal(caller, request.session)
    from mainstay.observe.session_export import write_session  # rarely used

    return write_session(records, Path(request.folder), await _build_export_options(caller, request.session))


async def read_session_export(caller: Caller, request: ReadSessionExport) -> ExportPage:
    records = await _read_exported_journal(caller, request.session)
    options = await _build_export_options(caller, request.session)
    from mainstay.observe.session_export import export_lines  # rarely used

    def read_lines() -> ExportPage:
        lines: list[str] = []
        size = 0
        rest = islice(export_lines(records, request.file, options), request.after, None)
        for line in rest:
            lines.append(line.decode())
            size += len(line)
            if len(lines) == request.limit or size >= EXPORT_PAGE_BYTES:
                break
        return ExportPage(lines=lines, next=request.after + len(lines) if next(rest, None) is not None else None)

    return await run_in_thread(read_lines)


async def _read_exported_journal(caller: Caller, session: str) -> list[Record]:
    key, _ = await caller.find_session(session)
    return await read_journal((await caller.runtime()).services.store, key)


async def _build_export_options(caller: Caller, session: str) -> ExportOptions:
    """Return the options of an export: redacted as the guards redact output, and the messages that the model sees."""
    from mainstay.observe.session_export import ExportOptions  # rarely used

    key, _ = await caller.find_session(session)
    services = (await caller.runtime()).services
    guards, window = services.trust.guards, services.context_rules.active_window
    return ExportOptions(
        key,
        guards.redact_text if guards is not None else None,
        partial(newest_messages, count=window),
    )


_PATH_FIELDS = {"id": "session"}
_PATH = "/api/sessions/{id}"


def _session_entry(
    request: type[Operation[object]],
    run: RunFunction,
    method: str,
    verb: str = "",
    status: int = 200,
    access: Access = "chat",
) -> OperationEntry:
    """A row of an operation on one session; a session that it returns is shown as a `SessionView`."""
    returns_session = request.__orig_bases__ == (Operation[SessionInfo],)  # type: ignore[attr-defined]
    return OperationEntry(
        request=request,
        run=run,
        access=access,
        http=Route(method, f"{_PATH}/{verb}" if verb else _PATH, _PATH_FIELDS, status),
        to_view=show_session if returns_session else None,
        view_type=SessionView if returns_session else None,
    )


ENTRIES = (
    OperationEntry(
        request=ListSessions,
        run=list_sessions,
        interfaces=EVERYWHERE,
        http=Route("GET", "/api/sessions"),
        to_view=show_sessions,
        view_type=SessionList,
    ),
    _session_entry(GetSession, get_session, "GET"),
    _session_entry(DeleteSession, delete_session, "DELETE", status=204),
    _session_entry(ArchiveSession, archive_session, "POST", "archive"),
    _session_entry(ActivateSession, activate_session, "POST", "activate"),
    _session_entry(PauseSession, pause_session, "POST", "pause"),
    _session_entry(ReleaseSession, release_session, "POST", "release", access="admin"),
    _session_entry(RenameSession, rename_session, "POST", "rename"),
    _session_entry(ForkSession, fork_session, "POST", "fork", 201),
    _session_entry(CompactSession, compact_session, "POST", "compact"),
    _session_entry(SetModel, set_model, "PUT", "model", 204, "admin"),
    _session_entry(ShowContext, show_context, "GET", "context", access="admin"),  # it holds the owner's instructions
    _session_entry(ReplaySession, replay_session, "POST", "replay"),
    _session_entry(GetProfile, get_profile, "GET", "profile"),
    _session_entry(SetProfile, set_profile, "PATCH", "profile"),
    _session_entry(ClearProfile, clear_profile, "DELETE", "profile", 204),
    OperationEntry(
        request=ListSkills,
        run=list_skills,
        http=Route("GET", f"{_PATH}/skills", _PATH_FIELDS),
        to_view=show_skills,
        view_type=SkillList,
    ),
    OperationEntry(request=SetWorkingFolder, run=set_working_folder, access="admin", interfaces=LOCAL),
    OperationEntry(request=ExportSession, run=export_session, access="admin", interfaces=LOCAL),
    _session_entry(ReadSessionExport, read_session_export, "GET", "export", access="admin"),
)
