"""The routes below /v1: what the usual clients ask for, and how they are answered."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from mainstay.core.errors import MainstayError, SessionUnknown
from mainstay.gateway.visit import Visit
from mainstay.server.bounds import Receive, Scope, Send, check_content_type, read_body
from mainstay.server.entry import VISIT, doors_of, enter
from mainstay.server.openai.begin import Attempt, begin, response_unknown, who_of
from mainstay.server.openai.chat_answer import ChatVoice
from mainstay.server.openai.chat_request import chat_wish
from mainstay.server.openai.hearing import Hearing, recorded
from mainstay.server.openai.ids import Spot, response_id, spot_of
from mainstay.server.openai.memory import Begun, Memory
from mainstay.server.openai.models import HOUSE, check_model, model_of, models_of
from mainstay.server.openai.refusals import Refused, refuse
from mainstay.server.openai.responses_answer import Head, ResponsesVoice
from mainstay.server.openai.responses_request import responses_wish
from mainstay.server.openai.telling import problem_with, tell, tell_as_it_comes
from mainstay.server.openai.voices import Voice
from mainstay.server.openai.wishes import Wish
from mainstay.server.problems import Problem
from mainstay.server.troubles import asked_for, failure_of, trouble_for

KEY_CHARS_MAX = 255
NOTED = (400, 401, 403, 413, 415)  # what somebody may be trying

Do = Callable[[Request, Send], Awaitable[None]]
Read = Callable[[bytes], Wish]
Speak = Callable[[Visit, Wish, Begun], Voice]


def openai_routes() -> list[Route]:
    """They are below one roof: what one of them remembers, the others know."""
    desk = _Desk(Memory())
    return [
        Route("/v1/chat/completions", _Endpoint(desk.chat), methods=["POST"]),
        Route("/v1/responses", _Endpoint(desk.respond), methods=["POST"]),
        Route("/v1/responses/{id}", _Endpoint(desk.response), methods=["GET"]),
        Route("/v1/models", _Endpoint(desk.models), methods=["GET"]),
        Route("/v1/models/{model:path}", _Endpoint(desk.model), methods=["GET"]),
    ]


class _Endpoint:
    """Whatever is wrong is said in the shape that these clients know."""

    def __init__(self, do: Do) -> None:
        self._do = do

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        try:
            await self._do(request, send)
        except Problem as problem:
            await self._refuse(problem, request, send)
        except MainstayError as error:
            await self._refuse(trouble_for(error, asked_for(scope), scope.get(VISIT)), request, send)

    async def _refuse(self, problem: Problem, request: Request, send: Send) -> None:
        scope = request.scope
        if problem.status in NOTED:
            doors_of(request).refusals.note(f"{problem.status} {problem.kind}", scope.get("client"), scope["path"])
        await refuse(problem, send)


class _Desk:
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def models(self, request: Request, send: Send) -> None:
        await tell(models_of(await enter(request)), send)

    async def model(self, request: Request, send: Send) -> None:
        visit = await enter(request)
        await tell(model_of(visit, unquote(request.path_params["model"])), send)

    async def chat(self, request: Request, send: Send) -> None:
        await self._ask(request, send, chat_wish, _chat_voice)

    async def respond(self, request: Request, send: Send) -> None:
        await self._ask(request, send, responses_wish, _responses_voice)

    async def _ask(self, request: Request, send: Send, read: Read, speak: Speak) -> None:
        """A request that waits for its answer counts as a stream, whether it is told piece by piece or not."""
        visit = await enter(request, stream=True)
        check_content_type(request.scope)
        body = await read_body(request.receive)
        wish = _named(read(body), request)
        check_model(visit, wish.model)
        begun = await begin(visit, wish, self._memory, _attempt(request, body))
        hearing = Hearing(visit, begun, partial=wish.stream)
        voice = speak(visit, wish, begun)
        if wish.background and not wish.stream and isinstance(voice, ResponsesVoice):
            await hearing.close()
            await tell(voice.unfinished(), send, session=begun.session)
            return
        doors = doors_of(request)
        told = False
        if wish.stream:
            told = await tell_as_it_comes(hearing, voice, doors, request.receive, send)
        else:
            await hearing.run(doors, request.receive)
        self._remember(visit, wish, hearing)
        if told or hearing.gone:
            return
        if (problem := await problem_with(hearing)) is not None:
            raise problem
        trace = await visit.trace(begun.session, hearing.answer.turn)
        await tell(voice.whole(hearing.answer), send, session=begun.session, trace=trace)

    def _remember(self, visit: Visit, wish: Wish, hearing: Hearing) -> None:
        """Where a client that sends its history will go on from: only if it has seen all of the answer."""
        whole = not hearing.gone and hearing.trouble is None and hearing.answer.failure is None
        if whole and not wish.session and not wish.previous:
            said = (*wish.messages, hearing.answer.said)
            self._memory.keep(who_of(visit), said, hearing.begun.session)

    async def response(self, request: Request, send: Send) -> None:
        visit = await enter(request)
        id = unquote(request.path_params["id"])
        if request.query_params.get("stream", "").lower() in ("true", "1"):
            raise Refused("a response is streamed when it is asked for; its session can be followed", "stream")
        spot = spot_of(who_of(visit), id)
        if spot is None:
            raise response_unknown(id)
        try:
            answer = await recorded(visit, spot)
        except SessionUnknown:
            raise response_unknown(id) from None
        voice = ResponsesVoice(Head(id=id, model=HOUSE, created=spot.at))
        if answer.failure is not None:
            await tell(voice.failed(failure_of(answer.failure, spot.session), answer), send)
        elif answer.over or answer.end():
            await tell(voice.whole(answer), send)
        else:
            await tell(voice.unfinished(), send)


def _chat_voice(visit: Visit, wish: Wish, begun: Begun) -> Voice:
    return ChatVoice(wish.model, usage=wish.usage)


def _responses_voice(visit: Visit, wish: Wish, begun: Begun) -> Voice:
    now = int(time.time())
    head = Head(
        id=response_id(who_of(visit), Spot(begun.session, begun.ticket.seq, begun.call, now)),
        model=wish.model,
        created=now,
        previous=wish.previous,
        conversation=wish.session,
        metadata=wish.metadata,
        tools=wish.tools,
        background=wish.background,
    )
    return ResponsesVoice(head)


def _named(wish: Wish, request: Request) -> Wish:
    """A header says which session is meant, whatever else does."""
    given = request.headers.get("x-session", "")
    if not given:
        return wish
    try:
        name = given.encode("latin-1").decode()
    except UnicodeDecodeError:
        raise Refused("X-Session is not UTF-8", "X-Session") from None
    return msgspec.structs.replace(wish, session=name, previous="")


def _attempt(request: Request, body: bytes) -> Attempt:
    """The official clients try again by themselves, and say how often they did."""
    id = request.headers.get("idempotency-key", "")
    if len(id) > KEY_CHARS_MAX:
        raise Refused(f"an Idempotency-Key has at most {KEY_CHARS_MAX} characters", "Idempotency-Key")
    tries: Any = request.headers.get("x-stainless-retry-count")
    if not id and tries is None:
        return Attempt()
    seen = (request.url.path, id, request.headers.get("x-session", ""))
    digest = hashlib.sha256(msgspec.json.encode(seen) + body).digest()
    return Attempt(digest, id, again=tries not in (None, "0"))
