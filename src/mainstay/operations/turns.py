"""Operations on turns: prompt, steer, abort, tool results of clients, events of a session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, cast

import msgspec
from msgspec import Meta

from mainstay.core.client_tools import ClientTool
from mainstay.core.errors import InputRefused, SessionArchived, SessionUnknown
from mainstay.core.events import DurableEvent, Event, SessionChanged
from mainstay.core.json_types import JsonObject
from mainstay.core.memory_tiers import format_origin
from mainstay.core.messages import AnyPart, Binary, Text, ToolResult, Usage
from mainstay.core.outcome import Failed, Outcome, Reply
from mainstay.lane.replies import PendingReply
from mainstay.operations.caller import Caller, NotAllowed, quote_name
from mainstay.operations.event_feed import (
    PAGE_RECORDS,
    EventStream,
    Subscription,
    find_trace_id,
    follow_session,
    follow_turn,
    read_page,
    watch_live,
)
from mainstay.operations.input_submission import (
    abort_turn,
    accept_prompt,
    accept_shared_prompt,
    offer_client_tools,
    redact_part,
    steer_turn,
    submit_client_result,
)
from mainstay.operations.operation import EVERYWHERE, Count, Name, Operation, PageSize, SessionName
from mainstay.operations.operation_entry import OperationEntry, Route
from mainstay.operations.runtime_protocols import Runtime
from mainstay.operations.secret_visibility import SecretVisibility, redact_event_stream, redact_reply

IMPORT_BATCH = 5_000
IMPORT_MAX = 100_000
RESULT_CHARS_MAX = 4_000_000


# --- results -------------------------------------------------------------------------------------


class Accepted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The input is on disk and will be answered."""

    session: str
    sequence: int
    turn: int  # 0: its turn has not started
    trace: str = ""  # the trace id of its turn


class AbortResult(msgspec.Struct, frozen=True, kw_only=True):
    aborted: bool  # False: nothing was running


class JournalEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event with its position in the journal."""

    sequence: int
    at: int  # ms
    event: DurableEvent


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    events: list[JournalEvent]
    next: int | None  # `after` for the next page; None: there is no more yet


class ReplyView(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a turn."""

    session: str
    turn: int
    text: str
    outcome: Outcome
    usage: Usage
    cost: float
    results: tuple[ToolResult, ...] = ()  # of its tool calls, in their order
    trace: str = ""  # the turn's trace id in logs, traces and the list of errors
    cut: bool = False  # the answer's end is missing, because of the length limit or the provider's content filter
    sequence: int | msgspec.UnsetType = msgspec.UNSET  # gRPC with `wait: false`: of the accepted input; no reply yet


# --- requests ------------------------------------------------------------------------------------


class TextInput(msgspec.Struct, frozen=True, tag="text", tag_field="type", forbid_unknown_fields=True):
    """Text of a prompt. `origin` says where text comes from that the user did not write (`stdin`, `paste`, `mail`):
    such text is untrusted, names no destination and taints the session. Without it, the text is the user's own."""

    text: str
    origin: Annotated[str, Meta(max_length=40, pattern=r"^[a-z0-9-]*$")] = ""


class FileInput(msgspec.Struct, frozen=True, tag="binary", tag_field="type", forbid_unknown_fields=True):
    """A file of a prompt: its bytes, as base64."""

    mime: Annotated[str, Meta(max_length=100, pattern=r"^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+$")]
    data: bytes


InputParts = Annotated[tuple[TextInput | FileInput, ...], Meta(max_length=100)]


class Prompt(Operation[Reply | Accepted], frozen=True, kw_only=True):
    """Send a prompt; returns the reply, or streams the turn's events."""

    session: SessionName
    text: str | None = None
    parts: InputParts | None = None
    id: Name = ""  # the client's idempotency key: a prompt with the same key is accepted once
    wait: bool = True  # False: return as soon as the prompt is on disk
    tools: Annotated[tuple[ClientTool, ...], Meta(max_length=128)] | None = None  # tools that the client runs itself
    sender: Name = ""  # the speaker's name; only the owner may choose it
    shared: bool = False  # not only the sender reads the answer: it contains no secret, even if asked for one


class Steer(Operation[Accepted], frozen=True, kw_only=True):
    """Put a message into the running turn; with nothing running it is a prompt."""

    session: SessionName
    text: str | None = None
    parts: InputParts | None = None
    id: Name = ""
    sender: Name = ""
    shared: bool = False  # as for a prompt


class Abort(Operation[AbortResult], frozen=True, kw_only=True):
    """Stop the running turn."""

    session: SessionName
    sender: Name = ""


class SubmitToolResult(Operation[Reply | Accepted], frozen=True, kw_only=True):
    """Return the result of a tool call that the client runs; the turn goes on."""

    session: SessionName
    call_id: Name
    content: Annotated[str, Meta(max_length=RESULT_CHARS_MAX)]
    wait: bool = True


class ImportHistory(Operation[None], frozen=True, kw_only=True):
    """Add messages of an earlier conversation to a session."""

    session: SessionName
    messages: Annotated[list[JsonObject], Meta(max_length=IMPORT_MAX)]  # as OpenAI's chat API writes them
    metadata: dict[str, str] = {}


class ReadEvents(Operation[EventPage], frozen=True, kw_only=True):
    """Read the events of a session: a page of the journal, or a stream that continues live."""

    session: SessionName
    after: Count = 0  # the sequence of the last event that the client has
    limit: PageSize = PAGE_RECORDS


class WatchEvents(Operation[None], frozen=True, kw_only=True):
    """Stream live events of one session, or of all sessions of the workspace, which needs the right to see them all."""

    session: Annotated[str, Meta(max_length=512)] = ""


# --- what network clients see -----------------------------------------------------------------------


def show_reply(caller: Caller, request: Prompt | SubmitToolResult, result: Reply | Accepted) -> ReplyView | Accepted:
    return result if isinstance(result, Accepted) else reply_view(caller, request.session, result)


def reply_view(caller: Caller, session: str, reply: Reply) -> ReplyView:
    """Return a reply as network clients see it, in a session that they know by this name."""
    outcome = reply.outcome
    if isinstance(outcome, Failed):
        outcome = msgspec.structs.replace(outcome, session=session)
        if caller.principal.role != "admin":
            outcome = msgspec.structs.replace(outcome, details="")
    return ReplyView(
        session=session,
        turn=reply.turn,
        text=reply.text,
        outcome=outcome,
        usage=reply.usage,
        cost=reply.cost,
        results=reply.results,
        trace=reply.trace,
        cut=reply.cut,
    )


# --- functions -----------------------------------------------------------------------------------


def build_input_parts(request: Prompt | Steer) -> tuple[AnyPart, ...]:
    """Return the message of a request as parts. Raises InputRefused unless it has either `text` or `parts`."""
    if (request.text is None) == (request.parts is None):
        raise InputRefused("give either `text` or `parts`")
    inputs: Sequence[TextInput | FileInput] = (
        (TextInput(request.text),) if request.text is not None else request.parts or ()
    )
    return tuple(
        Text(part.text, origin=format_origin(part.origin, untrusted=True) if part.origin else "")
        if isinstance(part, TextInput)
        else Binary(part.mime, part.data)
        for part in inputs
    )


def resolve_sender(caller: Caller, request: Prompt | Steer | Abort) -> str:
    """Return the name of the speaker: the person, or the name that the owner chose."""
    if caller.person and request.sender not in ("", caller.person):
        raise NotAllowed("only the owner chooses a sender")
    return caller.person or request.sender


async def submit_prompt(caller: Caller, request: Prompt) -> tuple[str, PendingReply, Subscription]:
    """Accept a prompt; live events are subscribed to before, so that none of its turn is missed."""
    parts, sender = build_input_parts(request), resolve_sender(caller, request)
    runtime = await caller.runtime()
    key = caller.session_key(request.session, sender)
    if request.tools is not None:
        await offer_client_tools(runtime, key, request.tools)
    subscription = Subscription(runtime.services.hub, key)
    try:
        accept = accept_shared_prompt if request.shared else accept_prompt
        return key, await accept(runtime, key, parts, id=request.id, sender=sender), subscription
    except BaseException:
        subscription.close()
        raise


async def prompt(caller: Caller, request: Prompt) -> Reply | Accepted:
    parts, sender = build_input_parts(request), resolve_sender(caller, request)
    runtime = await caller.runtime()
    key = caller.session_key(request.session, sender)
    if request.tools is not None:
        await offer_client_tools(runtime, key, request.tools)
    accept = accept_shared_prompt if request.shared else accept_prompt
    pending = await accept(runtime, key, parts, id=request.id, sender=sender)
    if not request.wait:
        return await _build_accepted(runtime, key, request.session, pending)
    reply = await asyncio.shield(pending.reply)  # others may wait for the same reply, and the turn goes on anyway
    if not caller.principal.person:
        return reply
    return await redact_reply(caller, await runtime.lanes.get(key).load_session(), reply)


async def stream_prompt(caller: Caller, request: Prompt, *, include_drafts: bool = True) -> EventStream:
    key, pending, subscription = await submit_prompt(caller, request)
    return await open_turn_stream(caller, key, pending, subscription, include_drafts=include_drafts)


async def open_turn_stream(
    caller: Caller, key: str, pending_reply: PendingReply, subscription: Subscription, *, include_drafts: bool = True
) -> EventStream:
    """Return the stream of the turn that answers an accepted input."""
    try:
        trace = await find_trace_id(await caller.runtime(), key, pending_reply.turn)
    except BaseException:
        subscription.close()
        raise
    events = follow_turn(caller, key, pending_reply, subscription, include_drafts=include_drafts)
    return EventStream(events, pending_reply, trace, subscription)


async def steer(caller: Caller, request: Steer) -> Accepted:
    parts, sender = build_input_parts(request), resolve_sender(caller, request)
    runtime = await caller.runtime()
    key = caller.session_key(request.session, sender)
    pending = await steer_turn(runtime, key, parts, id=request.id, sender=sender, shared=request.shared)
    return await _build_accepted(runtime, key, request.session, pending)


async def _build_accepted(runtime: Runtime, key: str, session: str, pending_reply: PendingReply) -> Accepted:
    trace = await find_trace_id(runtime, key, pending_reply.turn)
    return Accepted(session=session, sequence=pending_reply.seq, turn=pending_reply.turn, trace=trace)


async def abort(caller: Caller, request: Abort) -> AbortResult:
    """Raises SessionUnknown if there is no such session."""
    runtime = caller.current  # a running turn can be stopped also while the agent is being replaced
    key = caller.session_key(request.session, resolve_sender(caller, request))
    info = await runtime.services.store.get_session(key)
    if info is None or info.status == "deleted":
        raise SessionUnknown(f"there is no session {quote_name(request.session)}")
    return AbortResult(aborted=await abort_turn(runtime, key))


async def submit_tool_result(caller: Caller, request: SubmitToolResult) -> Reply | Accepted:
    pending = await _record_result(caller, request)
    if not request.wait:
        return await _build_accepted(
            await caller.runtime(), caller.session_key(request.session), request.session, pending
        )
    session = await (await caller.runtime()).lanes.get(caller.session_key(request.session)).load_session()
    return await redact_reply(caller, session, await asyncio.shield(pending.reply))


async def stream_tool_result(caller: Caller, request: SubmitToolResult, *, include_drafts: bool = True) -> EventStream:
    key, pending, subscription = await submit_result(caller, request)
    return await open_turn_stream(caller, key, pending, subscription, include_drafts=include_drafts)


async def submit_result(caller: Caller, request: SubmitToolResult) -> tuple[str, PendingReply, Subscription]:
    """Give the turn the result of a tool call; live events are subscribed to before, so that none of it is missed."""
    key = caller.session_key(request.session)
    subscription = Subscription((await caller.runtime()).services.hub, key)
    try:
        return key, await _record_result(caller, request), subscription
    except BaseException:
        subscription.close()
        raise


async def _record_result(caller: Caller, request: SubmitToolResult) -> PendingReply:
    runtime = await caller.runtime()
    return await submit_client_result(runtime, caller.session_key(request.session), request.call_id, request.content)


async def import_history(caller: Caller, request: ImportHistory) -> None:
    runtime = await caller.runtime()
    await import_messages(runtime, caller.session_key(request.session), request.messages, request.metadata)


async def import_messages(
    runtime: Runtime, key: str, messages: Sequence[Mapping[str, object]], metadata: Mapping[str, str]
) -> None:
    """Append messages of an earlier conversation to a session that is between turns."""
    from mainstay.operations.history_converter import build_import_events  # rarely used
    from mainstay.operations.session_settings import merge_metadata

    events = build_import_events(messages, lambda part: redact_part(runtime, part))
    if not events and not metadata:
        return
    lane = runtime.lanes.get(key)
    session = await lane.load_session()
    if session.status == "archived":
        raise SessionArchived(f"session {key!r} is archived; activate it, or import into another")
    if session.is_unfinished:
        raise InputRefused(f"session {key!r} is in the middle of a turn; import before or after it")
    is_deleted = session.status == "deleted"
    merge_metadata({} if is_deleted else session.metadata, metadata)  # refused before anything is stored
    if is_deleted:
        await lane.record_changes(SessionChanged(status="active"))
    for start in range(0, len(events), IMPORT_BATCH):
        await lane.record_changes(*events[start : start + IMPORT_BATCH])
    if metadata:
        await lane.record_changes(
            SessionChanged(metadata=merge_metadata((await lane.load_session()).metadata, metadata))
        )
    if runtime.has_model:
        await (await lane.load_context_compiler()).fold_imported_history()


async def read_events(caller: Caller, request: ReadEvents) -> EventPage:
    key, _ = await caller.find_session(request.session)
    page = await read_page(caller, key, request.after, request.limit)
    visibility = SecretVisibility(caller)
    events = [
        JournalEvent(
            sequence=record.seq,
            at=record.at,
            event=cast(DurableEvent, await visibility.redact_others(record.event, key)),
        )
        for record in page
    ]
    return EventPage(events=events, next=page[-1].seq if len(page) == request.limit else None)


async def stream_events(caller: Caller, request: ReadEvents) -> EventStream:
    key, _ = await caller.find_session(request.session)
    return EventStream(follow_session(caller, key, request.after))


async def watch_events(caller: Caller, request: WatchEvents) -> None:
    raise InputRefused("WatchEvents is a stream")


async def stream_live_events(caller: Caller, request: WatchEvents) -> EventStream:
    if not request.session and not caller.can_see_all:
        raise NotAllowed("events of all sessions are for administrators of the workspace, with the scope 'read'")
    key = caller.session_key(request.session) if request.session else None
    events = watch_live(caller.source, key)
    return EventStream(redact_event_stream(caller, events) if caller.can_see_all else _show_events(caller, events))


async def _show_events(caller: Caller, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
    async with aclosing(events):
        async for event in events:
            yield caller.visible_event(event)


_PATH_FIELDS = {"id": "session"}
_PATH = "/api/sessions/{id}"

ENTRIES = (
    OperationEntry(
        request=Prompt,
        run=prompt,
        stream=stream_prompt,
        to_view=show_reply,
        view_type=ReplyView,
        interfaces=EVERYWHERE,
        http=Route("POST", f"{_PATH}/prompt", _PATH_FIELDS),
    ),
    OperationEntry(request=Steer, run=steer, interfaces=EVERYWHERE, http=Route("POST", f"{_PATH}/steer", _PATH_FIELDS)),
    OperationEntry(request=Abort, run=abort, interfaces=EVERYWHERE, http=Route("POST", f"{_PATH}/abort", _PATH_FIELDS)),
    OperationEntry(
        request=SubmitToolResult,
        run=submit_tool_result,
        stream=stream_tool_result,
        to_view=show_reply,
        view_type=ReplyView,
        http=Route("POST", f"{_PATH}/tool-results", _PATH_FIELDS),
    ),
    OperationEntry(
        request=ImportHistory,
        run=import_history,
        http=Route("POST", f"{_PATH}/import", _PATH_FIELDS, 204),
    ),
    OperationEntry(
        request=ReadEvents,
        run=read_events,
        stream=stream_events,
        streams_by_default=True,
        streams_live=True,
        http=Route("GET", f"{_PATH}/events", _PATH_FIELDS),
    ),
    OperationEntry(
        request=WatchEvents,
        run=watch_events,
        stream=stream_live_events,
        streams_by_default=True,
        streams_live=True,
        http=Route("GET", "/api/events"),
    ),
)
