"""Routes of the OpenAI-compatible API, below /v1."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from mainstay.core.asgi import Receive, Scope, Send
from mainstay.core.errors import MainstayError, SessionUnknown
from mainstay.operations.caller import Caller
from mainstay.operations.event_feed import find_trace_id
from mainstay.operations.execute import authorise
from mainstay.operations.turns import Prompt, ReadEvents
from mainstay.server.authentication import CALLER_KEY, authenticate_request, get_state
from mainstay.server.error_reporting import describe_request, problem_from_failure, report_error
from mainstay.server.http_request import check_content_type, read_body
from mainstay.server.openai.chat_encoder import ChatCompletionEncoder
from mainstay.server.openai.chat_request import parse_chat_request
from mainstay.server.openai.common_request import CompletionRequest, require_session_name
from mainstay.server.openai.conversation_cache import ConversationCache, StartedTurn
from mainstay.server.openai.encoder_protocol import AnswerEncoder
from mainstay.server.openai.errors import OpenAIProblem, send_problem
from mainstay.server.openai.http_response import find_problem, send_json_response, stream_response
from mainstay.server.openai.ids import ResponsePosition, format_response_id, parse_response_id
from mainstay.server.openai.models_endpoint import MODEL_OWNER, check_model, describe_model, describe_models
from mainstay.server.openai.responses_encoder import ResponseFields, ResponsesEncoder
from mainstay.server.openai.responses_request import parse_responses_request
from mainstay.server.openai.turn_follower import TurnFollower, load_recorded_answer
from mainstay.server.openai.turn_start import RequestFingerprint, owner_of, response_unknown, start_turn
from mainstay.server.problems import Problem

IDEMPOTENCY_KEY_CHARS_MAX = 255
LOGGED_STATUSES = (400, 401, 403, 413, 415)  # may be an attack: logged

RouteHandler = Callable[[Request, Send], Awaitable[None]]
RequestParser = Callable[[bytes], CompletionRequest]
EncoderFactory = Callable[[Caller, CompletionRequest, StartedTurn], AnswerEncoder]


def create_openai_routes() -> list[Route]:
    """Return the routes, which share one conversation cache."""
    handlers = _OpenAIHandlers(ConversationCache())
    return [
        Route("/v1/chat/completions", _OpenAIEndpoint(handlers.create_chat_completion), methods=["POST"]),
        Route("/v1/responses", _OpenAIEndpoint(handlers.create_response), methods=["POST"]),
        Route("/v1/responses/{id}", _OpenAIEndpoint(handlers.get_response), methods=["GET"]),
        Route("/v1/models", _OpenAIEndpoint(handlers.list_models), methods=["GET"]),
        Route("/v1/models/{model:path}", _OpenAIEndpoint(handlers.get_model), methods=["GET"]),
    ]


class _OpenAIEndpoint:
    """ASGI endpoint that sends errors in the shape of the OpenAI API."""

    def __init__(self, handler: RouteHandler) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        try:
            await self._handler(request, send)
        except Problem as problem:
            await self._send_problem(problem, request, send)
        except MainstayError as error:
            await self._send_problem(report_error(error, describe_request(scope), scope.get(CALLER_KEY)), request, send)

    async def _send_problem(self, problem: Problem, request: Request, send: Send) -> None:
        scope = request.scope
        if problem.status in LOGGED_STATUSES:
            get_state(request).rejection_log.record(
                f"{problem.status} {problem.kind}", scope.get("client"), scope["path"]
            )
        await send_problem(problem, send)


class _OpenAIHandlers:
    """Handlers of the routes."""

    def __init__(self, cache: ConversationCache) -> None:
        self._cache = cache

    async def list_models(self, request: Request, send: Send) -> None:
        await send_json_response(describe_models(await authenticate_request(request)), send)

    async def get_model(self, request: Request, send: Send) -> None:
        caller = await authenticate_request(request)
        await send_json_response(describe_model(caller, unquote(request.path_params["model"])), send)

    async def create_chat_completion(self, request: Request, send: Send) -> None:
        await self._answer_request(request, send, parse_chat_request, _create_chat_encoder)

    async def create_response(self, request: Request, send: Send) -> None:
        await self._answer_request(request, send, parse_responses_request, _create_responses_encoder)

    async def _answer_request(
        self, request: Request, send: Send, parse: RequestParser, create_encoder: EncoderFactory
    ) -> None:
        """Answer a request of either API. It counts as an open stream while it waits, whether it is streamed or not."""
        caller = await authenticate_request(request, stream=True)
        authorise(caller, Prompt)  # before the body is read
        check_content_type(request.scope)
        body = await read_body(request.receive)
        completion = _apply_session_header(parse(body), request)
        check_model(caller, completion.model)
        started = await start_turn(caller, completion, self._cache, _identify_request(request, body))
        follower = TurnFollower(caller, started, partial=completion.stream)
        encoder = create_encoder(caller, completion, started)
        if completion.background and not completion.stream and isinstance(encoder, ResponsesEncoder):
            await follower.close()
            await send_json_response(encoder.build_unfinished(), send, session=started.session)
            return
        state = get_state(request)
        sent = False
        if completion.stream:
            sent = await stream_response(follower, encoder, state, request.receive, send)
        else:
            await follower.run(state, request.receive)
        self._save_history(caller, completion, follower)
        if sent or follower.is_disconnected:
            return
        if (problem := await find_problem(follower)) is not None:
            raise problem
        trace = await find_trace_id(await caller.runtime(), caller.session_key(started.session), follower.answer.turn)
        await send_json_response(encoder.build_response(follower.answer), send, session=started.session, trace=trace)

    def _save_history(self, caller: Caller, completion: CompletionRequest, follower: TurnFollower) -> None:
        """Store the history with which the client will continue, if it has received the whole answer."""
        complete = not follower.is_disconnected and follower.error is None and follower.answer.failure is None
        if complete and not completion.session and not completion.previous_response_id:
            history = (*completion.messages, follower.answer.message)
            self._cache.save_session(owner_of(caller), history, follower.started.session)

    async def get_response(self, request: Request, send: Send) -> None:
        caller = await authenticate_request(request)
        authorise(caller, ReadEvents)
        id = unquote(request.path_params["id"])
        if request.query_params.get("stream", "").lower() in ("true", "1"):
            raise OpenAIProblem("an earlier response cannot be streamed; follow its session instead", "stream")
        position = parse_response_id(owner_of(caller), id)
        if position is None:
            raise response_unknown(id)
        try:
            answer = await load_recorded_answer(caller, position)
        except SessionUnknown:
            raise response_unknown(id) from None
        encoder = ResponsesEncoder(ResponseFields(id=id, model=MODEL_OWNER, created=position.at))
        if answer.failure is not None:
            await send_json_response(
                encoder.build_failed(problem_from_failure(answer.failure, position.session), answer), send
            )
        elif answer.is_complete or answer.finish():
            await send_json_response(encoder.build_response(answer), send)
        else:
            await send_json_response(encoder.build_unfinished(), send)


def _create_chat_encoder(caller: Caller, completion: CompletionRequest, started: StartedTurn) -> AnswerEncoder:
    return ChatCompletionEncoder(completion.model, include_usage=completion.include_usage)


def _create_responses_encoder(caller: Caller, completion: CompletionRequest, started: StartedTurn) -> AnswerEncoder:
    now = int(time.time())
    head = ResponseFields(
        id=format_response_id(
            owner_of(caller), ResponsePosition(started.session, started.pending.seq, started.call_id, now)
        ),
        model=completion.model,
        created=now,
        previous_response_id=completion.previous_response_id,
        conversation=completion.session,
        metadata=completion.metadata,
        tools=completion.tools,
        background=completion.background,
    )
    return ResponsesEncoder(head)


def _apply_session_header(completion: CompletionRequest, request: Request) -> CompletionRequest:
    """Apply the header `X-Session`, which has precedence over other ways to name the session."""
    value = request.headers.get("x-session")
    if value is None:
        return completion
    try:
        name = value.encode("latin-1").decode()
    except UnicodeDecodeError:
        raise OpenAIProblem("X-Session is not UTF-8", "X-Session") from None
    return msgspec.structs.replace(completion, session=require_session_name(name, "X-Session"), previous_response_id="")


def _identify_request(request: Request, body: bytes) -> RequestFingerprint:
    """Return the identity of a request. The official clients retry by themselves, and send the number of retries."""
    id = request.headers.get("idempotency-key", "")
    if len(id) > IDEMPOTENCY_KEY_CHARS_MAX:
        raise OpenAIProblem(
            f"the Idempotency-Key is longer than {IDEMPOTENCY_KEY_CHARS_MAX} characters", "Idempotency-Key"
        )
    retries = request.headers.get("x-stainless-retry-count")
    if not id and retries is None:
        return RequestFingerprint()
    head = (request.url.path, id, request.headers.get("x-session", ""))
    digest = hashlib.sha256(msgspec.json.encode(head) + body).digest()
    return RequestFingerprint(digest, id, is_retry=retries not in (None, "0"))
