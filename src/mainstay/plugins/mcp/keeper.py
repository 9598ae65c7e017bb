"""One server, kept: started when it is wanted, again when it was lost, not too often, and ended when nobody asks."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from mainstay.core.errors import AgentClosed, ConfigError
from mainstay.core.outside import Sandbox
from mainstay.core.workers import in_thread
from mainstay.plugins.logs import PluginLog
from mainstay.plugins.mcp.nouns import Change, Listed, Listing
from mainstay.plugins.mcp.pins import Pinned, compare
from mainstay.plugins.mcp.server import McpLimits, McpServer
from mainstay.plugins.mcp.trouble import ServerUnavailable, SessionOver, ToolChanged

log = logging.getLogger("mainstay.plugins.mcp")

REMOTE = "mainstay.plugins.mcp.remote"


class Connection(Protocol):
    """What a keeper needs of one (connection.py, which knows the SDK)."""

    listing: Listing
    legacy: bool
    on_listing: Callable[[Listing], None]

    @property
    def alive(self) -> bool: ...
    @property
    def stopped(self) -> bool: ...
    @property
    def over(self) -> asyncio.Future[str]: ...
    async def start(self, *, legacy: bool = False) -> None: ...
    async def close(self) -> None: ...
    async def settle(self) -> None: ...
    async def ask(self, work: Any, within_s: float) -> Any: ...


class Place:
    """Where a server's own things are: a folder that it may write, and beside it the log of what it said."""

    def __init__(self, sandbox: Sandbox | None, folder: Path, log: PluginLog) -> None:
        self.sandbox = sandbox  # None: there is none for this server
        self.folder = folder
        self.log = log


class Keeper:
    def __init__(self, server: McpServer, place: Place, limits: McpLimits, pinned: Pinned | None) -> None:
        self.server = server
        self.pinned = pinned
        self.seen: Listing | None = None  # when it was last looked at
        self.again: Callable[[], Pinned | None] = lambda: None  # what is approved now, wherever that was done
        self.starts = 0
        self._place = place
        self._limits = limits
        self._connection: Connection | None = None
        self._starting: asyncio.Task[Connection] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._idle: asyncio.TimerHandle | None = None
        self._seats = asyncio.Semaphore(limits.calls_max)
        self._asking = 0
        self._failures: deque[tuple[float, str]] = deque(maxlen=limits.failures_max)
        self._legacy = False
        self._closed = False

    @property
    def running(self) -> bool:
        return self._connection is not None and self._connection.alive

    # --- asking ------------------------------------------------------------------------------------

    async def ask(self, make: Callable[[Any], Any], *, tool: Listed | None = None) -> Any:
        """`make` is handed the module `remote`, and gives what is to be done. With a tool it is done only if that is
        still what was approved. Raises the errors of trouble.py."""
        remote = await library()
        async with self._seats:
            try:
                return await self._ask(make(remote), tool)
            except SessionOver:  # it was not done: nothing is done twice by asking again
                return await self._ask(make(remote), tool)

    async def _ask(self, work: Any, tool: Listed | None) -> Any:
        connection = await self.connected()
        self._asking += 1
        try:
            if tool is not None:
                await connection.settle()
                await self._check(tool, connection.listing)
            return await connection.ask(work, self.server.timeout_s)
        finally:
            self._asking -= 1
            self._wait_for_more()

    async def _check(self, tool: Listed, listing: Listing) -> None:
        now = next((one for one in listing.tools if one.name == tool.name), None)
        if now is None:
            reason = listing.left_out.get(tool.name)
            why = f" ({reason})" if reason else ""
            raise ToolChanged(f"The MCP server {self.server.name} does not offer this tool any more{why}.")
        if now.hash != tool.hash and not await self._approved(tool, now):
            raise ToolChanged(
                "This tool is not called: its description has changed since it was approved; the owner can look at it "
                f"with `mainstay mcp approve {self.server.name}`."
            )

    async def _approved(self, tool: Listed, now: Listed) -> bool:
        """The owner has agreed to what it says now, since it was offered. What a call of it may do goes by its hints
        as they were: with others it is another tool."""
        if (pinned := await in_thread(self.again)) is not None:
            self.pinned = pinned
        agreed = self.pinned.tools if self.pinned is not None else ()
        return now.hints == tool.hints and any((one.name, one.hash) == (now.name, now.hash) for one in agreed)

    def changes(self) -> list[Change]:
        """Between what was approved and what was last seen."""
        if self.pinned is None or self.seen is None:
            return []
        return compare(self.pinned.tools, self.seen.tools)

    # --- its life ----------------------------------------------------------------------------------

    async def connected(self) -> Connection:
        if self._closed:
            raise AgentClosed("the MCP servers are closed")
        if self._connection is not None and self._connection.alive:
            return self._connection
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(self._started)
        starting = self._starting
        try:
            return await asyncio.shield(starting)  # whoever else waits for it goes on waiting
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if starting.cancelled() and (task is None or not task.cancelling()):  # it was not we who were cancelled
                raise AgentClosed("the MCP servers are closed") from None
            raise

    def _started(self, task: asyncio.Task[Connection]) -> None:
        self._starting = None
        if not task.cancelled():
            task.exception()  # seen: whoever waits is told

    async def _start(self) -> Connection:
        server, place = self.server, self._place
        if server.local:
            _confine(server, place.sandbox)
        remote = await library()
        if self._connection is not None:
            await self._connection.close()  # what is left of the one before
            self._connection = None
        await self._patience()
        place.log.begin()
        connection: Connection = remote.connect(server, place.sandbox, place.folder, self._limits, place.log)
        self.starts += 1
        try:
            await connection.start(legacy=self._legacy)
        except ServerUnavailable as error:
            self._legacy = False  # it may have become another
            self._failed(str(error))
            raise
        except asyncio.CancelledError:
            await connection.close()
            raise
        self._legacy = connection.legacy
        self._connection = connection
        connection.over.add_done_callback(lambda _: self._lost(connection))
        connection.on_listing = self._look
        self._look(connection.listing)
        self._wait_for_more()
        return connection

    def _look(self, listing: Listing) -> None:
        self.seen = listing
        if self.pinned is not None and (changes := self.changes()):
            names = ", ".join(repr(change.name) for change in changes[:10])
            log.warning("the MCP server %s is not as it was approved: %s", self.server.name, names)

    async def _patience(self) -> None:
        """The longer, the more often it failed; and none at all where that is no use."""
        now, window = asyncio.get_running_loop().time(), self._limits.failures_within_s
        while self._failures and now - self._failures[0][0] > window:
            self._failures.popleft()
        count = len(self._failures)
        if count >= self._limits.failures_max:
            left = self._failures[0][0] + window - now
            raise ServerUnavailable(
                f"The MCP server {self.server.name} failed {count} times within {window:g} s and rests for another "
                f"{max(left, 1):.0f} s. The last time: {self._failures[-1][1]}"
            )
        if count:
            waits = self._limits.backoff_s
            due = self._failures[-1][0] + waits[min(count, len(waits)) - 1]
            await asyncio.sleep(max(due - now, 0))

    def _failed(self, reason: str) -> None:
        self._failures.append((asyncio.get_running_loop().time(), reason))
        self._place.log.note(reason)
        log.info("%s", reason)

    def _lost(self, connection: Connection) -> None:
        if not connection.stopped:
            self._failed(f"It was lost: {connection.over.result()}.")

    def _wait_for_more(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if not self._asking and not self._closed:
            self._idle = asyncio.get_running_loop().call_later(self._limits.idle_s, self._end_idle)

    def _end_idle(self) -> None:
        if self._connection is not None and not self._asking:
            closing = asyncio.create_task(self._connection.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Ended for good; bounded, for the connection's own end is."""
        self._closed = True
        self._wait_for_more()
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
        if self._connection is not None:
            await self._connection.close()
        if self._closing:
            await asyncio.wait(self._closing)
        self._place.log.finish()


def _confine(server: McpServer, sandbox: Sandbox | None) -> None:
    """Raises ServerUnavailable if nothing here can hold it."""
    if sandbox is None:
        raise ServerUnavailable(f"The MCP server {server.name} is not started: nothing runs unconfined here.")
    if server.confined and not sandbox.confined:
        raise ServerUnavailable(
            f"The MCP server {server.name} is not started: the sandbox {sandbox.name!r} cannot confine it. "
            "Its owner can allow that with `confined: false`."
        )


async def library() -> Any:
    """The module `remote`. The SDK takes a second to import, and others go on meanwhile."""
    return await in_thread(_import)


def _import() -> Any:
    try:
        return importlib.import_module(REMOTE)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("mainstay"):
            raise
        raise ConfigError("MCP servers need the mcp library: pip install -e '.[mcp]'") from None
