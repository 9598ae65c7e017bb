"""Starts the turn of a request: finds its session, imports missing history, accepts the prompt or tool results."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence

import msgspec

from mainstay.core.errors import InputRefused, SessionUnknown
from mainstay.core.events import Steered, TurnEnded, TurnStarted
from mainstay.core.memory_tiers import RUNTIME
from mainstay.core.messages import AnyPart, Text
from mainstay.operations import turns
from mainstay.operations.caller import Caller
from mainstay.operations.event_feed import Subscription, follow_session
from mainstay.operations.execute import authorise, execute
from mainstay.operations.input_submission import accept_prompt, offer_client_tools
from mainstay.operations.sessions import ForkSession
from mainstay.operations.turns import ImportHistory, Prompt, SubmitToolResult
from mainstay.server.openai.common_request import ClientMessage, CompletionRequest, to_import_history
from mainstay.server.openai.conversation_cache import ConversationCache, StartedTurn
from mainstay.server.openai.errors import OpenAIProblem
from mainstay.server.openai.ids import ResponsePosition, WorkspacePerson, from_client_call_id, parse_response_id
from mainstay.server.openai.turn_answer import closing_events

CLIENT_ORIGIN = "client"  # the origin of a client program's system message, unlike that of the user's messages
SYSTEM_PREFIX = "The program that this conversation is held with says:\n\n"
CONTINUE_TEXT = "The results of your calls are above; go on."


class RequestFingerprint(msgspec.Struct, frozen=True):
    """Identity of a request, which distinguishes a retry from a new request with the same content."""

    digest: bytes = b""  # of the request; empty: retries cannot be recognised
    idempotency_key: str = ""  # the Idempotency-Key
    is_retry: bool = False  # the client says that it is a retry


class _TargetSession(msgspec.Struct, frozen=True):
    """The session that a request continues."""

    session: str
    missing_history: tuple[ClientMessage, ...] = ()  # messages that the session does not have yet
    is_new: bool = False  # the session has no messages
    is_matched: bool = False  # matched by the history that the client sent


def owner_of(caller: Caller) -> WorkspacePerson:
    return caller.workspace, caller.person


async def start_turn(
    caller: Caller, completion: CompletionRequest, cache: ConversationCache, identity: RequestFingerprint
) -> StartedTurn:
    """Start or rejoin the turn of a request; its input is durable when this returns. Nothing is awaited between
    accepting the input and returning, so no event is lost if the caller follows the turn at once."""
    owner = owner_of(caller)
    if identity.digest and (identity.is_retry or identity.idempotency_key):
        earlier = cache.find_request(owner, identity.digest)
        if earlier is not None:
            return msgspec.structs.replace(earlier, is_retry=True)
    target = await _find_session(caller, completion, cache, identity)
    try:
        async with cache.session_lock(owner, target.session):
            started = await _submit_messages(caller, completion, cache, target, identity)
    except BaseException:
        if target.is_matched:  # the session is unchanged: a retry finds it again
            cache.save_session(owner, completion.history, target.session)
        raise
    if identity.digest:  # a retry only follows the turn
        cache.save_request(
            owner, identity.digest, msgspec.structs.replace(started, results={}, user_parts=(), subscription=None)
        )
    return started


# --- the session ---------------------------------------------------------------------------------


async def _find_session(
    caller: Caller, completion: CompletionRequest, cache: ConversationCache, identity: RequestFingerprint
) -> _TargetSession:
    if completion.session:
        return await _with_missing_history(caller, completion.session, completion.history)
    if completion.previous_response_id:
        return _TargetSession(await _continue_response(caller, completion.previous_response_id))
    match = cache.take_session(owner_of(caller), completion.history)
    if match is not None and not (await _with_missing_history(caller, match, completion.history)).is_new:
        return _TargetSession(match, is_matched=True)
    return await _with_missing_history(caller, _create_session_name(caller, identity), completion.history)


async def _with_missing_history(caller: Caller, session: str, history: tuple[ClientMessage, ...]) -> _TargetSession:
    """Return the session with the client's history only if it is new: otherwise the journal has the history."""
    try:
        _, info = await caller.find_session(session)
    except SessionUnknown:
        return _TargetSession(session, history, is_new=True)
    return _TargetSession(session) if info.turns or info.messages else _TargetSession(session, history, is_new=True)


def _create_session_name(caller: Caller, identity: RequestFingerprint) -> str:
    """Return the name of a new session. A request with an Idempotency-Key always gets the same name, so that a retry
    after a crash of the server is the same turn."""
    if not identity.idempotency_key:
        return f"chat-{secrets.token_hex(8)}"
    seed = "\0".join((*owner_of(caller), identity.idempotency_key))
    return f"chat-{hashlib.sha256(seed.encode(errors='replace')).hexdigest()[:16]}"


async def _continue_response(caller: Caller, previous: str) -> str:
    """Return the session of an earlier response, or a fork that ends with it if the session has continued since."""
    position = parse_response_id(owner_of(caller), previous)
    if position is None:
        raise response_unknown(previous)
    try:
        key, info = await caller.find_session(position.session)
    except (SessionUnknown, InputRefused):
        raise response_unknown(previous) from None
    end = await _find_turn_end(caller, position, key, info.head)
    if end is None:
        return position.session
    branch = f"chat-{secrets.token_hex(8)}"
    await execute(caller, ForkSession(session=position.session, to=branch, upto=end))
    return branch


def response_unknown(id: str) -> OpenAIProblem:
    """Return the 404 for a response that does not exist or belongs to another person: both get the same sentence."""
    return OpenAIProblem(
        f"there is no response {id[:80]!r}", "previous_response_id", code="response_not_found", status=404
    )


async def _find_turn_end(caller: Caller, position: ResponsePosition, key: str, head: int) -> int | None:
    """Return the sequence at which the turn of a response ended, if another turn has started after it, else None."""
    turn, end = 0, 0
    async with closing_events(follow_session(caller, key, position.seq - 1, last_sequence=head)) as events:
        async for event in events:
            match event:
                case TurnStarted(inputs=inputs) | Steered(inputs=inputs) if position.seq in inputs:
                    turn = event.turn
                case TurnStarted() if end:
                    return end
                case TurnEnded() if event.turn == turn:
                    end = event.sequence
            if event.sequence >= head:
                return None
    return None


# --- new messages ---------------------------------------------------------------------------------


async def _submit_messages(
    caller: Caller,
    completion: CompletionRequest,
    cache: ConversationCache,
    target: _TargetSession,
    identity: RequestFingerprint,
) -> StartedTurn:
    """Import missing history, offer the client's tools, and submit the new messages."""
    results = [message for message in completion.new_messages if message.role == "tool"]
    user_parts = [part for message in completion.new_messages if message.role == "user" for part in message.parts]
    history = (*target.missing_history, *results) if target.is_new else target.missing_history
    if history:
        await execute(caller, ImportHistory(session=target.session, messages=to_import_history(history)))
    await offer_client_tools(await caller.runtime(), caller.session_key(target.session), completion.tools)
    if results and not target.is_new:
        return await _submit_results(caller, target.session, results, tuple(user_parts))
    if results and not user_parts:
        user_parts = [Text(CONTINUE_TEXT, origin=RUNTIME)]
    return await _submit_prompt(caller, completion, cache, target.session, user_parts, identity.idempotency_key)


async def _submit_results(
    caller: Caller, session: str, results: Sequence[ClientMessage], parts: tuple[AnyPart, ...]
) -> StartedTurn:
    """Submit the first tool result; the others follow when the model waits for them."""
    (call, text), *rest = ((from_client_call_id(session, result.call_id), result.text) for result in results)
    started = await submit_result(caller, session, call, text)
    return msgspec.structs.replace(started, call_id=call, results=dict(rest), user_parts=parts)


async def _submit_prompt(
    caller: Caller,
    completion: CompletionRequest,
    cache: ConversationCache,
    session: str,
    user_parts: Sequence[AnyPart],
    id: str,
) -> StartedTurn:
    """Submit a prompt, preceded by the client's system message if the session does not have it."""
    owner, system = owner_of(caller), hashlib.sha256(completion.system.encode(errors="replace")).digest()
    if not completion.system or cache.has_system(owner, session, system):
        return await submit_parts(caller, session, user_parts, id)
    parts = (Text(SYSTEM_PREFIX + completion.system, origin=CLIENT_ORIGIN), *user_parts)
    try:
        started = await submit_parts(caller, session, parts, id)
    except InputRefused:
        if not id:
            raise
        # accepted before a restart, without the system message
        return await submit_parts(caller, session, user_parts, id)
    cache.save_system(owner, session, system)
    return started


async def submit_parts(caller: Caller, session: str, parts: Sequence[AnyPart], id: str) -> StartedTurn:
    """Accept a prompt whose parts carry origins of their own, which the operation `Prompt` cannot; live events are
    subscribed to before."""
    authorise(caller, Prompt)
    runtime, key = await caller.runtime(), caller.session_key(session)
    subscription = Subscription(runtime.services.hub, key)
    try:
        pending = await accept_prompt(runtime, key, parts, id=id, sender=caller.person)
    except BaseException:
        subscription.close()
        raise
    return StartedTurn(session=session, pending=pending, subscription=subscription)


async def submit_result(caller: Caller, session: str, call_id: str, content: str) -> StartedTurn:
    """Return the result of a tool call that the client ran; live events are subscribed to before."""
    authorise(caller, SubmitToolResult)
    request = SubmitToolResult(session=session, call_id=call_id, content=content)
    _, pending, subscription = await turns.submit_result(caller, request)
    return StartedTurn(session=session, pending=pending, subscription=subscription)
