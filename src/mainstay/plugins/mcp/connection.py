"""A server that is connected. A task of its own holds the SDK's client from its beginning to its end, so that whoever
asks something is touched neither by its cancel scopes nor by its groups of errors. Imports the SDK.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from typing import Any, TypeVar

import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.session import ClientSession
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from mainstay import __version__
from mainstay.core.errors import MainstayError
from mainstay.plugins.mcp.gate import Gate
from mainstay.plugins.mcp.listing import read_listing
from mainstay.plugins.mcp.nouns import Listing
from mainstay.plugins.mcp.server import McpLimits
from mainstay.plugins.mcp.streams import Heard
from mainstay.plugins.mcp.trouble import CallFailed, ServerUnavailable, SessionOver
from mainstay.trust.guards.lines import one_line

log = logging.getLogger("mainstay.plugins.mcp")

REASON_CHARS_MAX = 500
CLOSE_S = 10.0  # for all of it, however it goes
RELIST_MAX_S = 60.0
FORGOTTEN = "Session terminated"  # the SDK's word for 404: the session is unknown, and nothing was done

T = TypeVar("T")
Dial = Callable[[], AbstractAsyncContextManager[tuple[Heard, Any]]]


class Connection:
    """`listing` is what it offers, looked at again when it says that this has changed."""

    def __init__(self, name: str, dial: Dial, limits: McpLimits, gate: Gate, last_words: Callable[[], str]) -> None:
        self._name = name
        self._dial = dial
        self._limits = limits
        self._gate = gate
        self._last_words = last_words
        loop = asyncio.get_running_loop()
        self._client: Client | None = None
        self._heard: Heard | None = None
        self._ready: asyncio.Future[None] = loop.create_future()
        self._over: asyncio.Future[str] = loop.create_future()  # why
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._asked: set[asyncio.Task[Any]] = set()
        self._relisting: asyncio.Task[None] | None = None
        self._looking = False
        self._looked_at = float("-inf")
        self._gap_s = limits.relist_s
        self.hint: Callable[[bool], str] = lambda late: ""  # what may be the matter if it does not come up
        self.listing = Listing()
        self.legacy = False
        self.ignored = 0  # times that it said its list had changed, and nobody looked
        self.on_listing: Callable[[Listing], None] = lambda listing: None

    @property
    def alive(self) -> bool:
        """Something can be asked of it."""
        if self._client is None or self._heard is None:
            return False
        return not (self._heard.over.done() or self._over.done() or self._stop.is_set())

    @property
    def stopped(self) -> bool:
        """It was we who ended it, or agreed to."""
        return self._stop.is_set()

    @property
    def over(self) -> asyncio.Future[str]:
        """Done with the reason."""
        return self._over

    # --- its life ---------------------------------------------------------------------------------

    async def start(self, *, legacy: bool = False) -> None:
        """Connected, and its listing read; raises ServerUnavailable, and nothing of it is left then."""
        self._task = asyncio.create_task(self._run(legacy), name=f"mcp {self._name}")
        try:
            ends: set[asyncio.Future[Any]] = {self._ready, self._over}
            await asyncio.wait(ends, timeout=self._limits.start_s, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        if self._ready.done():
            return
        late = not self._over.done()
        await self.close()
        reason = f"it was not ready within {self._limits.start_s:g} s" if late else self._over.result()
        hint = f" ({hint})" if (hint := self.hint(late)) else ""
        raise ServerUnavailable(f"The MCP server {self._name} cannot be used: {self._told(reason)}.{hint}")

    async def close(self) -> None:
        """Ended, with all that it started, whatever it thinks of that."""
        self._stop.set()
        if self._task is None:
            return
        if not self._ready.done():
            self._task.cancel()
        for firmly in (False, True):
            if firmly:
                self._task.cancel()
            done, _ = await asyncio.wait({self._task}, timeout=CLOSE_S / 2)
            if done:
                return
        log.error("the MCP server %s could not be closed within %g s", self._name, CLOSE_S)

    async def _run(self, legacy: bool) -> None:
        reason = "it was ended"
        try:
            async with AsyncExitStack() as stack:
                heard, told = await stack.enter_async_context(self._dial())
                self._heard = heard
                client = Client(
                    nullcontext((heard, told)),
                    cache=None,  # a list that is said to have changed is looked at, and not remembered
                    message_handler=self._on_message,
                    client_info=types.Implementation(name="mainstay", version=__version__),
                    mode="legacy" if legacy else "auto",
                )
                await stack.enter_async_context(client)
                self.legacy = client.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS
                self.listing = await read_listing(client.session, self._limits)
                self._client = client
                self._ready.set_result(None)
                stack.push_async_callback(self._let_go)
                self._listen(client)
                reason = await self._until_over(heard)
        except asyncio.CancelledError:
            pass  # by `close`, which waits for us
        except Exception as error:  # another's program through another's library: whatever it raises is its end
            log.debug("the MCP server %s ended", self._name, exc_info=error)
            reason = reason_of(error)
        finally:
            self._over.set_result(reason)

    async def _until_over(self, heard: Heard) -> str:
        stop = asyncio.create_task(self._stop.wait())
        ends: set[asyncio.Future[Any]] = {stop, heard.over}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
        if self._gate.flooded:
            return f"it flooded us: {self._gate.dropped} messages were dropped"
        return "it was ended" if self._stop.is_set() else "it ended"

    async def _let_go(self) -> None:
        """Whatever still runs on the client, before it is gone."""
        running = [task for task in (*self._asked, self._relisting) if task is not None and not task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=1.0)

    def _told(self, reason: str) -> str:
        """And what else is known of it."""
        words = self._last_words()
        trouble = self._heard.trouble if self._heard is not None else ""
        more = (trouble, f"its last words: {words}" if words else "")
        return "; ".join((reason.rstrip("."), *(one for one in more if one)))

    # --- what it says unasked ---------------------------------------------------------------------

    async def _on_message(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._look_again()

    def _listen(self, client: Client) -> None:
        """Servers of the newer kind tell of changes only to those who ask for it."""
        can = client.server_capabilities.tools
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS and can is not None and can.list_changed:
            self._keep(asyncio.create_task(self._heed(client)))

    async def _heed(self, client: Client) -> None:
        async with client.listen(tools_list_changed=True) as changes:
            async for _ in changes:
                self._look_again()

    def _look_again(self) -> None:
        """At once; if that was only just done, in a while, which grows for those who keep crying wolf."""
        if self._relisting is not None and not self._relisting.done():
            self.ignored += 1
        elif self._client is not None:
            self._relisting = asyncio.create_task(self._relist(self._client.session))
            self._relisting.add_done_callback(_seen)

    async def _relist(self, session: ClientSession) -> None:
        loop = asyncio.get_running_loop()
        quiet_s = loop.time() - self._looked_at
        self._gap_s = self._limits.relist_s if quiet_s > RELIST_MAX_S else min(self._gap_s * 2, RELIST_MAX_S)
        await asyncio.sleep(max(self._gap_s - quiet_s, 0))
        self._looked_at, self._looking = loop.time(), True
        try:
            async with asyncio.timeout(self._limits.start_s):
                self.listing = await read_listing(session, self._limits)
        finally:
            self._looking = False
        self.on_listing(self.listing)

    async def settle(self) -> None:
        """Waits, but not for long, if its list is being looked at just now."""
        if self._looking and self._relisting is not None:
            await asyncio.wait({self._relisting}, timeout=self._limits.start_s)

    # --- what it is asked -------------------------------------------------------------------------

    async def ask(self, work: Callable[[ClientSession], Awaitable[T]], within_s: float) -> T:
        """What came of it; raises CallFailed, ServerUnavailable or SessionOver. Whoever stops waiting need not care
        what becomes of the request: it is cancelled, and the server is told."""
        if self._client is None or not self.alive:
            raise ServerUnavailable(f"The MCP server {self._name} is gone.")
        task: asyncio.Task[T] = asyncio.create_task(_coroutine(work(self._client.session)))
        self._keep(task)
        try:
            ends: set[asyncio.Future[Any]] = {task, self._over}
            await asyncio.wait(ends, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                task.cancel()
        if not task.done() and not self._over.done():
            raise CallFailed(f"The MCP server {self._name} did not answer within {within_s:g} s.")
        return await self._answer(task)

    async def _answer(self, task: asyncio.Task[T]) -> T:
        error = task.exception() if task.done() and not task.cancelled() else None
        if task.done() and not task.cancelled() and error is None:
            return task.result()
        if isinstance(error, MainstayError):
            raise error
        if isinstance(error, MCPError) and error.code != types.CONNECTION_CLOSED:
            if error.message == FORGOTTEN:
                self._stop.set()
                raise SessionOver(f"The MCP server {self._name} has ended the session.")
            raise CallFailed(f"The MCP server {self._name} refuses: {told(error.message)}")
        if isinstance(error, ValueError):  # pydantic's: it is no answer to what was asked
            raise CallFailed(f"The MCP server {self._name} answered with something that is no result.")
        if error is not None and not isinstance(error, MCPError):
            raise CallFailed(f"The MCP server {self._name} could not be asked: {reason_of(error)}.")
        await asyncio.wait({self._over}, timeout=1.0)  # the reason comes a moment later
        reason = self._over.result() if self._over.done() else "it ended"
        raise ServerUnavailable(
            f"The MCP server {self._name} was lost during the call, which was not repeated: {self._told(reason)}."
        )

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)
        task.add_done_callback(_seen)


def quieten() -> None:
    """What the SDK has to say goes where logs go, or nowhere; never to a person's screen."""
    for name in ("client", "mcp"):
        if not logging.getLogger(name).handlers:
            logging.getLogger(name).addHandler(logging.NullHandler())


def _seen(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # whoever waited was told; and if nobody did, it is nobody's


async def _coroutine(work: Awaitable[T]) -> T:
    return await work


def told(text: str) -> str:
    """Somebody else's sentence, on one line and not too long."""
    return one_line(text)[:REASON_CHARS_MAX]


def reason_of(error: BaseException) -> str:
    """Why, in a few words, out of all that was raised."""
    match next(_leaves(error)):
        case MainstayError() as ours:
            return told(str(ours))
        case MCPError(message=message) if "validation error" in message:  # pydantic's, of all that it could have been
            return "what it answers is no MCP"
        case MCPError(message=message):
            return told(f"it says {message!r}" if message else "it refused")
        case httpx2.ConnectError() | httpx2.ConnectTimeout():
            return "it cannot be reached"
        case httpx2.HTTPError() as error:
            return told(f"the connection was lost ({error})" if str(error) else "the connection was lost")
        case ValueError():
            return "it answered with something that is no result"
        case other:
            return told(f"{type(other).__name__}: {other}")


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """What is in a group of errors, what is worth telling first."""
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    inner = [leaf for one in error.exceptions for leaf in _leaves(one)]
    yield from sorted(inner, key=lambda one: not isinstance(one, MainstayError))
