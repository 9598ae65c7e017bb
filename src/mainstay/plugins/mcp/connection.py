"""Connection to one MCP server: session, requests with deadlines, changes of the tool list. Imports the SDK.

The SDK's client lives in a task of its own, so that its cancel scopes and exception groups do not affect the callers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from typing import TypeVar

import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.session import ClientSession
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from mainstay import __version__
from mainstay.core.errors import MainstayError
from mainstay.core.future_types import AnyFuture
from mainstay.core.supervision import start_supervised_task
from mainstay.guards.line_escaping import one_line
from mainstay.plugins.mcp.data_types import ServerListing
from mainstay.plugins.mcp.errors import CallFailed, McpSessionExpired, ServerUnavailable
from mainstay.plugins.mcp.flood_guard import FloodGuard
from mainstay.plugins.mcp.server_config import McpLimits
from mainstay.plugins.mcp.streams import ReceiveStream, SendStream
from mainstay.plugins.mcp.tool_listing import read_listing

log = logging.getLogger("mainstay.plugins.mcp")

MESSAGE_CHARS_MAX = 500
CLOSE_TIMEOUT_S = 10.0  # bound on closing
RELIST_MAX_S = 60.0  # longest delay before the tool list is read again
SESSION_TERMINATED = "Session terminated"  # the SDK's message for 404: the session is unknown, and nothing was done

T = TypeVar("T")
OpenTransport = Callable[[], AbstractAsyncContextManager[tuple[ReceiveStream, SendStream]]]


class McpConnection:
    """`listing` is what the server offers; it is read again when the server announces a change."""

    def __init__(
        self,
        name: str,
        open_transport: OpenTransport,
        limits: McpLimits,
        flood_guard: FloodGuard,
        last_output: Callable[[], str],
    ) -> None:
        self._name = name
        self._open_transport = open_transport
        self._limits = limits
        self._flood_guard = flood_guard
        self._last_output = last_output
        loop = asyncio.get_running_loop()
        self._client: Client | None = None
        self._receive_stream: ReceiveStream | None = None
        self._ready: asyncio.Future[None] = loop.create_future()
        self._closed: asyncio.Future[str] = loop.create_future()  # result: the reason why it ended
        self._stop_event = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[object]] = set()
        self._relist_task: asyncio.Task[None] | None = None
        self._is_relisting = False
        self._relisted_at = float("-inf")
        self._relist_interval_s = limits.relist_s
        self.startup_hint: Callable[[bool], str] = lambda late: ""  # advice for a server that does not start
        self.listing = ServerListing()
        self.legacy = False  # it speaks a protocol version with the initialize handshake
        self.ignored_changes = 0  # announced changes of the tool list that did not cause another read
        self.on_listing: Callable[[ServerListing], None] = lambda listing: None

    @property
    def alive(self) -> bool:
        """True if it accepts requests."""
        if self._client is None or self._receive_stream is None:
            return False
        return not (self._receive_stream.closed.done() or self._closed.done() or self._stop_event.is_set())

    @property
    def stopped(self) -> bool:
        """True if it was closed on purpose: by `close`, or after the server ended the session."""
        return self._stop_event.is_set()

    @property
    def closed(self) -> asyncio.Future[str]:
        """Done when the connection has ended; the result is the reason."""
        return self._closed

    # --- start and close --------------------------------------------------------------------------

    async def start(self, *, legacy: bool = False) -> None:
        """Connect and read the listing. Raises ServerUnavailable after cleaning up."""
        self._task = asyncio.create_task(self._run(legacy), name=f"mcp {self._name}")
        try:
            outcomes: set[AnyFuture] = {self._ready, self._closed}
            await asyncio.wait(outcomes, timeout=self._limits.start_s, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        if self._ready.done():
            return
        late = not self._closed.done()
        await self.close()
        reason = f"it was not ready within {self._limits.start_s:g} s" if late else self._closed.result()
        hint = f" ({hint})" if (hint := self.startup_hint(late)) else ""
        raise ServerUnavailable(f"The MCP server {self._name} cannot be used: {self._with_details(reason)}.{hint}")

    async def close(self) -> None:
        """Close the connection and stop the server's process. Bounded, and never raises."""
        self._stop_event.set()
        if self._task is None:
            return
        if not self._ready.done():
            self._task.cancel()
        for force in (False, True):
            if force:
                self._task.cancel()
            done, _ = await asyncio.wait({self._task}, timeout=CLOSE_TIMEOUT_S / 2)
            if done:
                return
        log.error("the MCP server %s could not be closed within %g s", self._name, CLOSE_TIMEOUT_S)

    async def _run(self, legacy: bool) -> None:
        reason = "it was ended"
        try:
            async with AsyncExitStack() as stack:
                receive_stream, send_stream = await stack.enter_async_context(self._open_transport())
                self._receive_stream = receive_stream
                client = Client(
                    nullcontext((receive_stream, send_stream)),
                    cache=None,  # an announced change of the list is read, not served from a cache
                    message_handler=self._on_message,
                    client_info=types.Implementation(name="mainstay", version=__version__),
                    mode="legacy" if legacy else "auto",
                )
                await stack.enter_async_context(client)
                self.legacy = client.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS
                self.listing = await read_listing(client.session, self._limits)
                self._client = client
                self._ready.set_result(None)
                stack.push_async_callback(self._cancel_tasks)
                self._subscribe(client)
                reason = await self._wait_until_closed(receive_stream)
        except asyncio.CancelledError:
            pass  # by `close`, which waits for this task
        except Exception as error:  # third-party server through a third-party library: any error ends the connection
            log.debug("the MCP server %s ended", self._name, exc_info=error)
            reason = describe_error(error)
        finally:
            self._closed.set_result(reason)

    async def _wait_until_closed(self, receive_stream: ReceiveStream) -> str:
        stop = asyncio.create_task(self._stop_event.wait())
        outcomes: set[AnyFuture] = {stop, receive_stream.closed}
        try:
            await asyncio.wait(outcomes, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
        if self._flood_guard.flooded:
            return f"it sent too many messages: {self._flood_guard.dropped} were dropped"
        return "it was ended" if self._stop_event.is_set() else "it ended"

    async def _cancel_tasks(self) -> None:
        """Cancel what still uses the client, before it is closed."""
        running = [task for task in (*self._tasks, self._relist_task) if task is not None and not task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=1.0)

    def _with_details(self, reason: str) -> str:
        """Return the reason with the transport's problem and the server's last output, if there are any."""
        output = self._last_output()
        problem = self._receive_stream.problem if self._receive_stream is not None else ""
        details = (problem, f"the end of its output: {output}" if output else "")
        return "; ".join((reason.rstrip("."), *(detail for detail in details if detail)))

    # --- notifications from the server ------------------------------------------------------------

    async def _on_message(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._schedule_relist()

    def _subscribe(self, client: Client) -> None:
        """Subscribe to changes of the tool list, which newer protocol versions require."""
        tools = client.server_capabilities.tools
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS and tools is not None and tools.list_changed:
            name = f"subscription to the tools of the MCP server {self._name}"
            self._track_task(start_supervised_task(name, lambda: self._watch_changes(client), is_isolated=True))

    async def _watch_changes(self, client: Client) -> None:
        try:
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._schedule_relist()
        except MCPError as error:
            log.info("the MCP server %s announces no changes: %s", self._name, describe_error(error))
        except Exception:
            if self.alive:
                raise

    def _schedule_relist(self) -> None:
        """Read the tool list again: at once, or after a delay that doubles if the server announces changes often."""
        if self._relist_task is not None and not self._relist_task.done():
            self.ignored_changes += 1
        elif self._client is not None:
            self._relist_task = asyncio.create_task(self._relist(self._client.session))
            self._relist_task.add_done_callback(_retrieve_exception)

    async def _relist(self, session: ClientSession) -> None:
        loop = asyncio.get_running_loop()
        quiet_s = loop.time() - self._relisted_at
        self._relist_interval_s = (
            self._limits.relist_s if quiet_s > RELIST_MAX_S else min(self._relist_interval_s * 2, RELIST_MAX_S)
        )
        await asyncio.sleep(max(self._relist_interval_s - quiet_s, 0))
        self._relisted_at, self._is_relisting = loop.time(), True
        try:
            async with asyncio.timeout(self._limits.start_s):
                self.listing = await read_listing(session, self._limits)
        finally:
            self._is_relisting = False
        self.on_listing(self.listing)

    async def wait_for_listing(self) -> None:
        """Wait, within a bound, if the tool list is being read at this moment."""
        if self._is_relisting and self._relist_task is not None:
            await asyncio.wait({self._relist_task}, timeout=self._limits.start_s)

    # --- requests ---------------------------------------------------------------------------------

    async def request(self, send: Callable[[ClientSession], Awaitable[T]], timeout_s: float) -> T:
        """Run a request on the session and return its result. Raises CallFailed, ServerUnavailable or
        McpSessionExpired. On timeout or cancellation the request is cancelled, and the server notified."""
        if self._client is None or not self.alive:
            raise ServerUnavailable(f"The MCP server {self._name} has ended.")
        task: asyncio.Task[T] = asyncio.create_task(_await(send(self._client.session)))
        self._track_task(task)
        try:
            outcomes: set[AnyFuture] = {task, self._closed}
            await asyncio.wait(outcomes, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                task.cancel()
        if not task.done() and not self._closed.done():
            raise CallFailed(f"The MCP server {self._name} did not answer within {timeout_s:g} s.")
        return await self._get_result(task)

    async def _get_result(self, task: asyncio.Task[T]) -> T:
        error = task.exception() if task.done() and not task.cancelled() else None
        if task.done() and not task.cancelled() and error is None:
            return task.result()
        if isinstance(error, MainstayError):
            raise error
        if isinstance(error, MCPError) and error.code != types.CONNECTION_CLOSED:
            if error.message == SESSION_TERMINATED:
                self._stop_event.set()
                raise McpSessionExpired(f"The MCP server {self._name} has ended the session.")
            raise CallFailed(f"The MCP server {self._name} refuses: {shorten_message(error.message)}")
        if isinstance(error, ValueError):  # pydantic's: the answer has the wrong shape
            raise CallFailed(f"The MCP server {self._name} answered with something that is not a result.")
        if error is not None and not isinstance(error, MCPError):
            raise CallFailed(f"The MCP server {self._name} could not be called: {describe_error(error)}.")
        await asyncio.wait({self._closed}, timeout=1.0)  # the reason is known a moment later
        reason = self._closed.result() if self._closed.done() else "it ended"
        raise ServerUnavailable(
            f"The MCP server {self._name} was lost during the call, which was not repeated: "
            f"{self._with_details(reason)}."
        )

    def _track_task(self, task: asyncio.Task[object]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_retrieve_exception)


def silence_sdk_logging() -> None:
    """Keep the SDK's log messages off the terminal: they go to configured log handlers, or nowhere."""
    for name in ("client", "mcp"):
        if not logging.getLogger(name).handlers:
            logging.getLogger(name).addHandler(logging.NullHandler())


def _retrieve_exception(task: asyncio.Task[object]) -> None:
    if not task.cancelled():
        task.exception()  # retrieved, to silence asyncio: the caller, if any, has got it


async def _await(work: Awaitable[T]) -> T:
    return await work


def shorten_message(text: str) -> str:
    """Return a server's text on one line, cut to a length."""
    return one_line(text)[:MESSAGE_CHARS_MAX]


def describe_error(error: BaseException) -> str:
    """Return a short reason for an error, which may be an exception group."""
    match next(_iter_leaves(error)):
        case MainstayError() as ours:
            return shorten_message(str(ours))
        case MCPError(message=message) if "validation error" in message:  # pydantic's, one line for each union member
            return "its answers are not valid MCP"
        case MCPError(message=message):
            return shorten_message(f"it says {message!r}" if message else "it refused")
        case httpx2.ConnectError() | httpx2.ConnectTimeout():
            return "it cannot be reached"
        case httpx2.HTTPError() as error:
            return shorten_message(f"the connection was lost ({error})" if str(error) else "the connection was lost")
        case ValueError():
            return "it answered with something that is not a result"
        case other:
            return shorten_message(f"{type(other).__name__}: {other}")


def _iter_leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of an exception group, our own errors first."""
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    leaves = [leaf for inner in error.exceptions for leaf in _iter_leaves(inner)]
    yield from sorted(leaves, key=lambda leaf: not isinstance(leaf, MainstayError))
