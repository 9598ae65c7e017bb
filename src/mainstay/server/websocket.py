"""The native API over a WebSocket: several conversations on one connection.

A client sends commands, `{"do": "prompt", "session": "s", "text": "hi"}`, and receives events, each with its session
and, if it is durable, its sequence. No buffer lies between a session and the connection: a client that reads too slowly
gets durable events from the journal, and is disconnected if it does not read at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import msgspec
from starlette.requests import HTTPConnection

from mainstay.core.asgi import AsgiMessage, Receive, Scope, Send
from mainstay.core.errors import MainstayError
from mainstay.operations import sessions, turns
from mainstay.operations.caller import Caller
from mainstay.operations.event_feed import EventStream
from mainstay.operations.execute import execute, open_stream
from mainstay.operations.operation import Count, Name
from mainstay.server.authentication import (
    BEARER_SUBPROTOCOL_PREFIX,
    KEY_CHECK_S,
    authenticate_request,
    check_rate_limit,
    get_state,
    is_still_authorised,
)
from mainstay.server.error_reporting import report_error
from mainstay.server.http_request import ClientDisconnected, decode_body
from mainstay.server.http_state import HttpServerState
from mainstay.server.problems import RETRY_AFTER_S, ErrorBody, Problem, build_error_body
from mainstay.server.server_sent_events import encode_event

TaskCallback = Callable[[asyncio.Task[None]], None]

STREAMS_PER_CONNECTION_MAX = 32  # turns and followed sessions of one connection
CLOSE_SERVICE_RESTART, CLOSE_POLICY_VIOLATION, CLOSE_INTERNAL_ERROR = 1012, 1008, 1011  # WebSocket close codes


class PromptCommand(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="prompt", forbid_unknown_fields=True
):
    session: str
    text: str | None = None
    parts: turns.InputParts | None = None
    id: Name = ""


class SteerCommand(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="steer", forbid_unknown_fields=True):
    session: str
    text: str | None = None
    parts: turns.InputParts | None = None
    id: Name = ""


class AbortCommand(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="abort", forbid_unknown_fields=True):
    session: str


class FollowCommand(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="follow", forbid_unknown_fields=True
):
    session: str
    after: Count = 0


class UnfollowCommand(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="unfollow", forbid_unknown_fields=True
):
    session: str


WebSocketCommand = PromptCommand | SteerCommand | AbortCommand | FollowCommand | UnfollowCommand
_decode_command: Callable[[bytes], WebSocketCommand] = msgspec.json.Decoder(WebSocketCommand).decode


class CommandDone(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="Done", omit_defaults=True):
    """A command was executed, or its turn has been accepted."""

    do: str
    session: str
    id: str = ""
    sequence: int = 0
    aborted: bool = False


class CommandProblem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="Problem", omit_defaults=True):
    """A command failed, or the stream of a session did."""

    error: ErrorBody
    session: str = ""
    id: str = ""
    retry_after_s: float = 0.0


class ServerStopping(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="Bye"):
    """The server is being stopped: reconnect after `retry_ms`."""

    retry_ms: int = 1000


async def serve_websocket(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one connection. Raises Problem before it is accepted, if authentication fails, and ClientDisconnected."""
    request = HTTPConnection(scope)
    caller = await authenticate_request(request, stream=True)
    offered = scope.get("subprotocols", [])
    chosen = next(
        (name for name in offered if not name.startswith(BEARER_SUBPROTOCOL_PREFIX)), offered[0] if offered else None
    )
    try:
        await send({"type": "websocket.accept", "subprotocol": chosen})
    except OSError:
        raise ClientDisconnected from None
    await WebSocketConnection(caller, get_state(request), receive, send).run()


class WebSocketConnection:
    """One connection of an authenticated client."""

    def __init__(self, caller: Caller, state: HttpServerState, receive: Receive, send: Send) -> None:
        self._caller = caller
        self._state = state
        self._receive = receive
        self._send = send
        self._task: asyncio.Task[object] | None = None
        self._follow_tasks: dict[str, asyncio.Task[None]] = {}
        self._turn_tasks: set[asyncio.Task[None]] = set()
        self._close_code = 0  # close code; 0 while open
        self._task_error: BaseException | None = None

    @property
    def ends_with_turn(self) -> bool:
        """True while a turn is being streamed."""
        return bool(self._turn_tasks)

    async def run(self) -> None:
        self._task = task = asyncio.current_task()
        assert task is not None
        self._state.add_stream(self, KEY_CHECK_S)
        try:
            await self._receive_messages()
        except asyncio.CancelledError:
            if not self._close_code or task.uncancel():
                raise
        except OSError:
            return  # the client is gone
        finally:
            self._state.remove_stream(self)
            await self._cancel_tasks((*self._follow_tasks.values(), *self._turn_tasks))
        if self._task_error is not None:
            raise self._task_error
        if self._close_code:
            await self._send_close()

    async def _send_close(self) -> None:
        try:
            if self._close_code == CLOSE_SERVICE_RESTART:
                await self._send_message(ServerStopping())
            await self._send({"type": "websocket.close", "code": self._close_code})
        except OSError:
            pass  # the client was faster

    async def _receive_messages(self) -> None:
        while True:
            message = await self._receive()
            match message["type"]:
                case "websocket.receive":
                    await self._handle_message(message)
                case "websocket.disconnect":
                    return

    async def _handle_message(self, message: AsgiMessage) -> None:
        if not is_still_authorised(self._state, self._caller.principal):
            self._end_with_code(CLOSE_POLICY_VIOLATION)
            return
        wanted: WebSocketCommand | None = None
        try:
            text = message.get("text")
            if text is None:
                raise Problem(400, "invalid_request", "send messages as JSON in text frames")
            wanted = decode_body(text.encode(errors="replace"), _decode_command)
            check_rate_limit(self._state, self._caller.principal)
            await self._send_message(await self._run_command(wanted))
        except Problem as problem:
            await self._send_message(build_command_problem(problem, wanted))
        except MainstayError as error:
            await self._send_message(build_command_problem(report_error(error, "WS /api/ws", self._caller), wanted))

    async def _run_command(self, command: WebSocketCommand) -> CommandDone:
        caller, session = self._caller, command.session
        match command:
            case PromptCommand(id=id):
                self._check_stream_limit()
                request = turns.Prompt(session=session, text=command.text, parts=command.parts, id=id, wait=False)
                if session in self._follow_tasks:
                    accepted = await execute(caller, request)
                    assert isinstance(accepted, turns.Accepted), "a prompt with wait=False is only accepted"
                    sequence = accepted.sequence
                else:
                    stream = await open_stream(caller, request)
                    sequence = stream.sequence
                    self._start_task(
                        self._turn_tasks.add, self._forward_events(session, stream), self._turn_tasks.discard
                    )
                return CommandDone(do="prompt", session=session, id=id, sequence=sequence)
            case SteerCommand(id=id):
                steered = await execute(
                    caller, turns.Steer(session=session, text=command.text, parts=command.parts, id=id)
                )
                return CommandDone(do="steer", session=session, id=id, sequence=steered.sequence)
            case AbortCommand():
                result = await execute(caller, turns.Abort(session=session))
                return CommandDone(do="abort", session=session, aborted=result.aborted)
            case FollowCommand(after=after):
                await execute(caller, sessions.GetSession(session=session))  # before the stream that runs now is ended
                await self._stop_following(session)
                self._check_stream_limit()
                self._start_following(
                    session, await open_stream(caller, turns.ReadEvents(session=session, after=after))
                )
                return CommandDone(do="follow", session=session)
            case UnfollowCommand():
                await self._stop_following(session)
                return CommandDone(do="unfollow", session=session)

    def _check_stream_limit(self) -> None:
        if self._state.draining:
            raise Problem(503, "stopping", "the server is being stopped; try again in a moment", RETRY_AFTER_S)
        if len(self._follow_tasks) + len(self._turn_tasks) >= STREAMS_PER_CONNECTION_MAX:
            raise Problem(
                429,
                "too_many_streams",
                f"this connection follows {STREAMS_PER_CONNECTION_MAX} conversations already",
                RETRY_AFTER_S,
            )

    def _start_following(self, session: str, stream: EventStream) -> None:
        def add(task: asyncio.Task[None]) -> None:
            self._follow_tasks[session] = task

        def remove(task: asyncio.Task[None]) -> None:
            if self._follow_tasks.get(session) is task:
                del self._follow_tasks[session]

        self._start_task(add, self._forward_events(session, stream), remove)

    async def _stop_following(self, session: str) -> None:
        task = self._follow_tasks.pop(session, None)
        if task is not None:
            await self._cancel_tasks((task,))

    def _start_task(self, add: TaskCallback, work: Coroutine[object, None, None], remove: TaskCallback) -> None:
        task = asyncio.create_task(work)
        add(task)
        task.add_done_callback(remove)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        """Close the connection if a task failed: its client would wait in vain for events."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._task_error = self._task_error or error
            self._end_with_code(CLOSE_INTERNAL_ERROR)

    async def _cancel_tasks(self, tasks: tuple[asyncio.Task[None], ...]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _forward_events(self, session: str, stream: EventStream) -> None:
        try:
            async for event in stream:
                await self._send({"type": "websocket.send", "text": encode_event(event).decode()})
        except MainstayError as error:
            await self._send_message(
                build_command_problem(report_error(error, "WS /api/ws", self._caller), None, session)
            )
        except OSError:
            pass  # the client is gone; `_receive_messages` ends the connection
        finally:
            await stream.aclose()

    async def _send_message(self, message: CommandDone | CommandProblem | ServerStopping) -> None:
        await self._send({"type": "websocket.send", "text": msgspec.json.encode(message).decode()})

    # --- OpenStream ------------------------------------------------------------------------------

    def end_for_shutdown(self) -> None:
        self._end_with_code(CLOSE_SERVICE_RESTART)

    def keep_alive(self, now: float) -> None:
        """Close the connection if the key is not valid any more. Pings are sent by uvicorn."""
        if not is_still_authorised(self._state, self._caller.principal):
            self._end_with_code(CLOSE_POLICY_VIOLATION)

    def _end_with_code(self, code: int) -> None:
        if not self._close_code and self._task is not None and self in self._state.open_streams:
            self._close_code = code
            self._task.cancel()


def build_command_problem(problem: Problem, command: WebSocketCommand | None, session: str = "") -> CommandProblem:
    return CommandProblem(
        error=build_error_body(problem),
        session=command.session if command is not None else session,
        id=command.id if isinstance(command, PromptCommand | SteerCommand) else "",
        retry_after_s=problem.retry_after_s or 0.0,
    )
