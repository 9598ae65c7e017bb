"""Supervises one MCP server: starts it on demand, reconnects with backoff, stops it when idle, checks tool pins."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from mainstay.core.errors import AgentClosed, ConfigError
from mainstay.core.json_types import JsonObject
from mainstay.core.tool_ports import Sandbox
from mainstay.core.worker_threads import run_in_thread
from mainstay.plugins.mcp.data_types import (
    ListedTool,
    McpAnswer,
    McpProgressCallback,
    McpPrompt,
    McpResourcePage,
    ServerListing,
    ToolChange,
)
from mainstay.plugins.mcp.errors import McpSessionExpired, ServerUnavailable, ToolChanged
from mainstay.plugins.mcp.server_config import McpLimits, McpServerConfig
from mainstay.plugins.mcp.tool_pins import PinnedServer, compare_tools
from mainstay.plugins.output_log import PluginLog

if TYPE_CHECKING:
    from mcp.client.session import ClientSession

log = logging.getLogger("mainstay.plugins.mcp")

T = TypeVar("T")
SessionRequest: TypeAlias = "Callable[[ClientSession], Awaitable[T]]"


class SupervisedConnection(Protocol):
    """The part of McpConnection (connection.py, which imports the SDK) that a supervisor uses."""

    listing: ServerListing
    legacy: bool
    on_listing: Callable[[ServerListing], None]

    @property
    def alive(self) -> bool: ...
    @property
    def stopped(self) -> bool: ...
    @property
    def closed(self) -> asyncio.Future[str]: ...
    async def start(self, *, legacy: bool = False) -> None: ...
    async def close(self) -> None: ...
    async def wait_for_listing(self) -> None: ...
    async def request(self, send: SessionRequest[T], timeout_s: float) -> T: ...


class SdkRequests(Protocol):
    """The functions of sdk_requests.py, which imports the SDK."""

    def build_connection(
        self, server: McpServerConfig, sandbox: Sandbox | None, folder: Path, limits: McpLimits, log: PluginLog
    ) -> SupervisedConnection: ...
    def build_tool_call(
        self, name: str, arguments: JsonObject, on_progress: McpProgressCallback, limits: McpLimits
    ) -> SessionRequest[McpAnswer]: ...
    def build_resource_read(self, uri: str, limits: McpLimits) -> SessionRequest[McpAnswer]: ...
    def build_resource_list(self, cursor: str, limits: McpLimits) -> SessionRequest[McpResourcePage]: ...
    def build_prompt_get(
        self, name: str, arguments: dict[str, str], limits: McpLimits
    ) -> SessionRequest[list[tuple[str, str]]]: ...
    def build_prompt_list(self, limits: McpLimits) -> SessionRequest[list[McpPrompt]]: ...


class McpServerEnvironment:
    """Where a server runs: its sandbox, its home folder, and the log of its output."""

    def __init__(self, sandbox: Sandbox | None, folder: Path, log: PluginLog) -> None:
        self.sandbox = sandbox  # None: no sandbox is allowed for this server
        self.folder = folder
        self.log = log


class ServerSupervisor:
    """One configured server: `pinned` is what was approved, `last_listing` what it offers now. Starts nothing before
    the first request."""

    def __init__(
        self, server: McpServerConfig, environment: McpServerEnvironment, limits: McpLimits, pinned: PinnedServer | None
    ) -> None:
        self.server = server
        self.pinned = pinned
        self.last_listing: ServerListing | None = None  # as last read
        # reads the pin again: another process may approve
        self.reload_pin: Callable[[], PinnedServer | None] = lambda: None
        self.start_count = 0
        self._environment = environment
        self._limits = limits
        self._connection: SupervisedConnection | None = None
        self._starting: asyncio.Task[SupervisedConnection] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._permits = asyncio.Semaphore(limits.calls_max)
        self._active_requests = 0
        self._failures: deque[tuple[float, str]] = deque(maxlen=limits.failures_max)  # time on the loop's clock, reason
        self._legacy = False
        self._closed = False

    @property
    def running(self) -> bool:
        return self._connection is not None and self._connection.alive

    # --- requests ----------------------------------------------------------------------------------

    async def request(self, build: Callable[[SdkRequests], SessionRequest[T]], *, tool: ListedTool | None = None) -> T:
        """Send a request and return its result. `build` gets the module with the request builders, and returns the
        request. With a `tool`, it is sent only if the tool is still as approved. Raises the errors of errors.py."""
        remote = await load_sdk_module()
        async with self._permits:
            try:
                return await self._send_request(build(remote), tool)
            except McpSessionExpired:  # the request was not executed, so a second try repeats nothing
                return await self._send_request(build(remote), tool)

    async def _send_request(self, request: SessionRequest[T], tool: ListedTool | None) -> T:
        connection = await self.connect()
        self._active_requests += 1
        try:
            if tool is not None:
                await connection.wait_for_listing()
                await self._check_tool(tool, connection.listing)
            return await connection.request(request, self.server.timeout_s)
        finally:
            self._active_requests -= 1
            self._restart_idle_timer()

    async def _check_tool(self, tool: ListedTool, listing: ServerListing) -> None:
        now = next((listed for listed in listing.tools if listed.name == tool.name), None)
        if now is None:
            reason = listing.left_out.get(tool.name)
            why = f" ({reason})" if reason else ""
            raise ToolChanged(f"The MCP server {self.server.name} does not offer this tool any more{why}.")
        if now.hash != tool.hash and not await self._is_approved(tool, now):
            raise ToolChanged(
                "This tool is not called: its description has changed since it was approved; the owner can review it "
                f"with `mainstay mcp approve {self.server.name}`."
            )

    async def _is_approved(self, tool: ListedTool, current: ListedTool) -> bool:
        """True if the owner has approved the current definition since the tool was offered. With other hints it counts
        as another tool, because policy decided about the call by the old ones."""
        if (pinned := await run_in_thread(self.reload_pin)) is not None:
            self.pinned = pinned
        approved = self.pinned.tools if self.pinned is not None else ()
        return current.hints == tool.hints and any(
            (old.name, old.hash) == (current.name, current.hash) for old in approved
        )

    def changes(self) -> list[ToolChange]:
        """Return the differences between the approved and the last listing."""
        if self.pinned is None or self.last_listing is None:
            return []
        return compare_tools(self.pinned.tools, self.last_listing.tools)

    # --- start and close ---------------------------------------------------------------------------

    async def connect(self) -> SupervisedConnection:
        if self._closed:
            raise AgentClosed("the MCP servers are closed")
        if self._connection is not None and self._connection.alive:
            return self._connection
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(self._on_started)
        starting = self._starting
        try:
            return await asyncio.shield(starting)  # other requests may wait for it too
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if starting.cancelled() and (task is None or not task.cancelling()):  # by `close`: not this task itself
                raise AgentClosed("the MCP servers are closed") from None
            raise

    def _on_started(self, task: asyncio.Task[SupervisedConnection]) -> None:
        self._starting = None
        if not task.cancelled():
            task.exception()  # retrieved, to silence asyncio: the waiting requests get it

    async def _start(self) -> SupervisedConnection:
        server, environment = self.server, self._environment
        if server.is_local:
            _check_confinement(server, environment.sandbox)
        remote = await load_sdk_module()
        if self._connection is not None:
            await self._connection.close()  # the previous one, which was lost
            self._connection = None
        await self._wait_for_backoff()
        environment.log.begin_process()
        connection = remote.build_connection(
            server, environment.sandbox, environment.folder, self._limits, environment.log
        )
        self.start_count += 1
        try:
            await connection.start(legacy=self._legacy)
        except ServerUnavailable as error:
            self._legacy = False  # the server may have been replaced
            self._record_failure(str(error))
            raise
        except asyncio.CancelledError:
            await connection.close()
            raise
        self._legacy = connection.legacy
        self._connection = connection
        connection.closed.add_done_callback(lambda _: self._on_lost(connection))
        connection.on_listing = self._on_listing
        self._on_listing(connection.listing)
        self._restart_idle_timer()
        return connection

    def _on_listing(self, listing: ServerListing) -> None:
        self.last_listing = listing
        if self.pinned is not None and (changes := self.changes()):
            names = ", ".join(repr(change.name) for change in changes[:10])
            log.warning("the MCP server %s is not as it was approved: %s", self.server.name, names)

    async def _wait_for_backoff(self) -> None:
        """Wait before a restart, longer after each failure. Raises ServerUnavailable after too many failures."""
        now, window = asyncio.get_running_loop().time(), self._limits.failures_within_s
        while self._failures and now - self._failures[0][0] > window:
            self._failures.popleft()
        count = len(self._failures)
        if count >= self._limits.failures_max:
            left_s = self._failures[0][0] + window - now
            raise ServerUnavailable(
                f"The MCP server {self.server.name} failed {count} times within {window:g} s and is not started for "
                f"another {max(left_s, 1):.0f} s. The last time: {self._failures[-1][1]}"
            )
        if count:
            waits = self._limits.backoff_s
            due = self._failures[-1][0] + waits[min(count, len(waits)) - 1]
            await asyncio.sleep(max(due - now, 0))

    def _record_failure(self, reason: str) -> None:
        self._failures.append((asyncio.get_running_loop().time(), reason))
        self._environment.log.append_note(reason)
        log.info("%s", reason)

    def _on_lost(self, connection: SupervisedConnection) -> None:
        if not connection.stopped:
            self._record_failure(f"The connection was lost: {connection.closed.result()}.")

    def _restart_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        if not self._active_requests and not self._closed:
            self._idle_timer = asyncio.get_running_loop().call_later(self._limits.idle_s, self._close_idle)

    def _close_idle(self) -> None:
        if self._connection is not None and not self._active_requests:
            closing = asyncio.create_task(self._connection.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Stop the server for good. Bounded, because closing the connection is."""
        self._closed = True
        self._restart_idle_timer()
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
        if self._connection is not None:
            await self._connection.close()
        if self._closing:
            await asyncio.wait(self._closing)
        self._environment.log.flush()


def _check_confinement(server: McpServerConfig, sandbox: Sandbox | None) -> None:
    """Raise ServerUnavailable if no sandbox can confine the server and its owner has not allowed that."""
    if sandbox is None:
        raise ServerUnavailable(f"The MCP server {server.name} is not started: no program runs without a sandbox here.")
    if server.confined and not sandbox.is_confined:
        raise ServerUnavailable(
            f"The MCP server {server.name} is not started: the sandbox {sandbox.name!r} cannot confine it. "
            "Its owner can allow that with `confined: false`."
        )


async def load_sdk_module() -> SdkRequests:
    """Return the module of request builders, imported in a thread: the SDK takes a second to import."""
    return await run_in_thread(_import_sdk_module)


def _import_sdk_module() -> SdkRequests:
    try:
        from mainstay.plugins.mcp import sdk_requests
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("mainstay"):
            raise
        raise ConfigError("MCP servers need the mcp library: pip install -e '.[mcp]'") from None
    return sdk_requests
