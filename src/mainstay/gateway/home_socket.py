"""The Unix socket of a home: one process owns the home, and other processes run operations through it.

A connection carries one operation: a request on one line, then events as they happen, then one line with the result
or the error. Closing it early stops the stream, never the turn. The socket is in the home, which only its owner can
enter, so its principal is the owner.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import UnionType
from typing import Any, Protocol, TypeVar, get_args

import msgspec

from mainstay.agent.client import AgentClient
from mainstay.agent.home_paths import connectable_path
from mainstay.core import errors
from mainstay.core.errors import HomeTaken, MainstayError
from mainstay.core.events import DurableEvent, Event, PartialEvent
from mainstay.core.outcome import Failed
from mainstay.core.surrogates import refuse_surrogates
from mainstay.core.turn_location import TurnLocation
from mainstay.operations.caller import OWNER, Caller
from mainstay.operations.execute import execute, find_entry, open_stream
from mainstay.operations.operation import Operation
from mainstay.operations.runtime_protocols import RuntimeSource
from mainstay.store.home import is_home_locked

log = logging.getLogger("mainstay.owner")

R = TypeVar("R")
SOCKET_NAME = "socket"
LINE_BYTES_MAX = 64 * 1024 * 1024
OWNER_WAIT_S = 3.0  # how long to wait for a command that owns the home only for a moment
OWNER_POLL_S = 0.1


class SocketRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The line that a client sends. `request` is one of the operations, by its tag."""

    request: Any
    workspace: str = ""  # "" for the one that the owner works in
    stream: bool = False


class SocketResponseLine(msgspec.Struct, frozen=True, omit_defaults=True, rename={"location": "where"}):
    """A line of the answer: an event, the result, or the error."""

    event: DurableEvent | PartialEvent | Failed | None = None
    done: Any = None
    error: tuple[str, str] | None = None  # the error's class and its message
    location: TurnLocation | None = None  # the session, turn and step in which the error arose


_encode = msgspec.json.Encoder(enc_hook=str).encode  # paths
_decode_line = msgspec.json.Decoder(SocketResponseLine).decode


# --- in the process that owns the home -----------------------------------------------------------


class CallerFactory(Protocol):
    """Gives the owner's caller for a workspace; "" is the one that the process works in. Raises HomeTaken for a
    workspace that this process does not serve."""

    async def __call__(self, workspace: str) -> Caller: ...


def single_workspace_callers(source: RuntimeSource, name: str = "default") -> CallerFactory:
    """Return callers for a process that works in one workspace only."""

    async def caller(workspace: str) -> Caller:
        if workspace not in ("", name):
            serves = f"works in the workspace {name!r}, not in {workspace!r}"
            raise HomeTaken(f"the process that owns this home {serves}; stop it, or wait")
        return Caller(OWNER, source)

    return caller


@asynccontextmanager
async def serve_socket(callers: CallerFactory, home: Path) -> AsyncIterator[None]:
    """Serve operations on the home's socket for as long as the block runs."""
    path = home / SOCKET_NAME
    path.unlink(missing_ok=True)  # left by an owner that died: this process holds the home's lock
    try:
        server = await asyncio.start_unix_server(
            lambda reader, writer: _serve_connection(callers, reader, writer),
            connectable_path(path),
            limit=LINE_BYTES_MAX,
        )
        path.chmod(0o600)
    except OSError as error:  # the path is too long, or the disk has no sockets: the home works without
        log.warning("%s cannot be served to other commands: %s", path, error)
        yield
        return
    try:
        yield
    finally:
        server.close()
        path.unlink(missing_ok=True)


async def _serve_connection(callers: CallerFactory, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request, until it is done or the client disconnects."""
    raw = await reader.readline()
    work = asyncio.ensure_future(_handle_request(callers, raw, writer))
    disconnected = asyncio.ensure_future(reader.read(1))  # a client sends nothing more
    try:
        await asyncio.wait((work, disconnected), return_when=asyncio.FIRST_COMPLETED)
    finally:
        work.cancel()
        disconnected.cancel()
        await asyncio.gather(work, disconnected, return_exceptions=True)
        writer.close()


async def _handle_request(callers: CallerFactory, raw: bytes, writer: asyncio.StreamWriter) -> None:
    def write(line: SocketResponseLine) -> None:
        writer.write(_encode(line) + b"\n")

    try:
        workspace, operation, as_stream = decode_request(raw)
        caller = await callers(workspace)
        if as_stream:
            stream = await open_stream(caller, operation)
            try:
                async for event in stream:
                    write(SocketResponseLine(event=event))  # type: ignore[arg-type]  # a stream has no other events
                    await writer.drain()
            finally:
                await stream.aclose()
            write(SocketResponseLine(done=True))
        else:
            write(SocketResponseLine(done=await execute(caller, operation)))
    except MainstayError as error:
        write(SocketResponseLine(error=(type(error).__name__, str(error)), location=error.location))
    except msgspec.DecodeError as error:
        write(SocketResponseLine(error=("InputRefused", f"the request cannot be read: {error}")))
    except ConnectionError:
        return  # the client is gone
    await writer.drain()


def decode_request(raw: bytes) -> tuple[str, Operation[Any], bool]:
    """Return workspace, operation, and whether a stream is wanted. Raises msgspec.DecodeError."""
    from mainstay.operations.table import ANY_OPERATION, entries_for  # all operations, for the first client only

    envelope = msgspec.json.decode(raw, type=SocketRequest)
    operation = msgspec.convert(envelope.request, ANY_OPERATION)
    if type(operation) not in {entry.request for entry in entries_for("socket")}:
        raise msgspec.DecodeError(f"{type(operation).__name__} is not offered here")
    return envelope.workspace, operation, envelope.stream


# --- in every other process ----------------------------------------------------------------------


class RemoteAgent(AgentClient):
    """An agent in the process that owns the home, through the home's socket."""

    def __init__(self, home: Path, workspace: str = "") -> None:
        self._home = home
        self._workspace = workspace

    async def execute(self, operation: Operation[R]) -> R:
        async with self._connect(operation) as read:
            result: R = _decode_result((await read()).done, find_entry(type(operation)).result_type)
            return result

    async def open_stream(self, operation: Operation[Any]) -> AsyncIterator[Event]:
        async with self._connect(operation, stream=True) as read:
            while (line := await read()).event is not None:
                yield line.event

    async def settled(self) -> None:
        """Return at once: the owner of the home waits for its turns itself."""

    async def aclose(self) -> None:
        """Nothing is held between two requests."""

    @asynccontextmanager
    async def _connect(
        self, operation: Operation[Any], *, stream: bool = False
    ) -> AsyncIterator[Callable[[], Awaitable[SocketResponseLine]]]:
        try:
            reader, writer = await asyncio.open_unix_connection(
                connectable_path(self._home / SOCKET_NAME), limit=LINE_BYTES_MAX
            )
        except OSError:
            if is_home_locked(self._home):
                raise HomeTaken(f"{self._home} is owned by a process that does not answer; stop it, or wait") from None
            raise HomeTaken(f"the process that owned {self._home} has ended; start again to go on") from None

        async def read() -> SocketResponseLine:
            raw = await reader.readline()
            if not raw:
                raise HomeTaken(f"the process that owns {self._home} went away; what it accepted is not lost")
            line = _decode_line(raw)
            if line.error is not None:
                raise _rebuild_error(*line.error, line.location)
            return line

        try:
            writer.write(_encode_request(SocketRequest(operation, self._workspace, stream)))
            yield read
        finally:
            writer.close()


def _encode_request(request: SocketRequest) -> bytes:
    """Raises InputRefused for text that UTF-8 cannot encode."""
    try:
        return _encode(request) + b"\n"
    except UnicodeEncodeError as error:
        refuse_surrogates(error.object)
        raise


def find_home_owner(data_folder: Path, workspace: str = "") -> RemoteAgent | None:
    """Return a client of the process that owns this home, if there is one and it has a socket."""
    owned = is_home_locked(data_folder) and (data_folder / SOCKET_NAME).exists()
    return RemoteAgent(data_folder, workspace) if owned else None


def _decode_result(value: Any, result_type: Any) -> Any:
    """Return a result as its type; of a union, as the first member that it fits."""
    *others, last = get_args(result_type) if isinstance(result_type, UnionType) else (result_type,)
    for member in others:
        try:
            return msgspec.convert(value, member, dec_hook=_decode_path)
        except msgspec.ValidationError:
            continue
    return msgspec.convert(value, last, dec_hook=_decode_path)


def _decode_path(kind: type, value: Any) -> Any:
    return Path(value) if kind is Path else value


def _rebuild_error(class_name: str, message: str, location: TurnLocation | None) -> MainstayError:
    """Return the error that the owner reported, as an exception of this process."""
    cls = getattr(errors, class_name, None)
    plain = isinstance(cls, type) and issubclass(cls, MainstayError) and cls is not errors.DuplicateInput
    error: MainstayError = cls(message) if cls is not None and plain else MainstayError(message)
    error.location = location
    return error
