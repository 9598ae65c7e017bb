"""Socket mode: a WebSocket that Slack tells us things over, kept open for as long as the channel is.

The client library's connection is used and its way of making it again is not: that waits the same few seconds for
ever, tells nobody, and writes addresses that are secrets into the log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from slack_sdk.socket_mode.aiohttp import SocketModeClient

from mainstay.channels.slack.bounds import Bounds
from mainstay.channels.slack.web import Refused, TokenRefused, Web, proxy_for, quiet
from mainstay.channels.telling import growing
from mainstay.core.channels import ChannelError, NotSent
from mainstay.core.errors import ConfigError

log = logging.getLogger("mainstay.channels.slack")

Take = Callable[[str, Any], Awaitable[None]]  # the kind of an envelope and its payload; returns once it is durable

_RENEWED = ("warning", "refresh_requested")  # it goes on for a few seconds: the next is opened before this is closed
END_S = 2.0


class Line(SocketModeClient):
    """One connection. It ends once, and says so."""

    def __init__(self, url: str, web: Web, bounds: Bounds, told: Callable[[Line, dict[str, Any]], None]) -> None:
        super().__init__("", logger=quiet(), web_client=web.client, ping_interval=bounds.ping_s)
        self.proxy = proxy_for(url)
        self.wss_uri = url
        self.greeted = asyncio.Event()
        self.lost = asyncio.Event()
        self.why = ""  # in Slack's word, where it has one
        self._told = told

    async def connect_to_new_endpoint(self, force: bool = False) -> None:
        """The library has found that this connection is over."""
        self.lost.set()

    async def run_message_listeners(self, message: dict[str, Any], raw_message: str) -> None:
        """Everything that comes is handed in here, in its order."""
        match message.get("type"):
            case "hello":
                self.greeted.set()
            case "disconnect":
                self.why = str(message.get("reason") or "")[:60]
                self.lost.set()
            case _:
                self._told(self, message)

    async def acknowledge(self, envelope_id: str) -> None:
        """If that is not possible any more, Slack will tell of it again, and hear it then."""
        try:
            await self.send_socket_mode_response({"envelope_id": envelope_id})
        except (ConnectionError, RuntimeError, aiohttp.ClientError):
            pass

    async def end(self) -> None:
        try:
            async with asyncio.timeout(END_S):
                await self.close()  # type: ignore[no-untyped-call]
        except (TimeoutError, aiohttp.ClientError, OSError):  # it is over in any case
            pass
        tasks = [t for t in (self.message_processor, self.current_session_monitor, self.message_receiver) if t]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.aiohttp_client_session.close()


class Socket:
    """The connection, whichever it is at the moment."""

    def __init__(self, web: Web, app_token: str, take: Take, bounds: Bounds) -> None:
        self._web = web
        self._app_token = app_token
        self._take = take
        self._bounds = bounds
        self._keeper: asyncio.Task[None] | None = None
        self._lines: set[Line] = set()
        self._taking: set[asyncio.Task[None]] = set()
        self.state = "not started"

    async def start(self) -> None:
        """Raises ConfigError if it will never be connected, another ChannelError if it is not now."""
        try:
            line = await self._dial()
        except (TokenRefused, Refused) as error:
            raise ConfigError(f"the app token cannot be used. {error}") from None
        self._keeper = asyncio.create_task(self._keep(line), name="slack socket")
        self._keeper.add_done_callback(self._kept)

    def _kept(self, keeper: asyncio.Task[None]) -> None:
        if not keeper.cancelled() and (error := keeper.exception()) is not None:  # which must not happen unseen
            self.state = "not connected: a fault of ours has ended it"
            log.error("slack: %s", self.state, exc_info=error)

    async def close(self) -> None:
        self.state = "closed"
        tasks = [*([self._keeper] if self._keeper else []), *self._taking]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for line in list(self._lines):
            await self._hang_up(line)

    # --- the connection --------------------------------------------------------------------------

    async def _dial(self) -> Line:
        line = Line(await self._web.open_socket(self._app_token), self._web, self._bounds, self._told)
        self._lines.add(line)
        try:
            async with asyncio.timeout(self._bounds.connect_s):
                await line.connect()  # type: ignore[no-untyped-call]
                await line.greeted.wait()
        except TimeoutError:
            await self._hang_up(line)
            raise NotSent("Slack did not open a connection in time.") from None
        except BaseException:
            await self._hang_up(line)
            raise
        self.state = "connected"
        return line

    async def _hang_up(self, line: Line) -> None:
        await line.end()
        self._lines.discard(line)

    async def _keep(self, line: Line) -> None:
        tries = 0
        while True:
            since = time.monotonic()
            await line.lost.wait()
            if time.monotonic() - since >= self._bounds.steady_s:
                tries = 0
            renewed = line.why in _RENEWED
            if not renewed:
                self.state = f"the connection was lost{f' ({line.why})' if line.why else ''}; it is made again"
                log.info("slack: %s", self.state)
                await self._hang_up(line)
            fresh, tries = await self._dial_again(tries, at_once=renewed and not tries)
            if renewed:
                await self._hang_up(line)
            line = fresh

    async def _dial_again(self, tries: int, *, at_once: bool) -> tuple[Line, int]:
        """For as long as it takes."""
        wait_s = 0.0 if at_once else growing(tries, self._bounds.wait_s)
        while True:
            await asyncio.sleep(wait_s)
            tries += 1
            try:
                return await self._dial(), tries
            except ChannelError as error:
                asked_s = error.retry_after_s if isinstance(error, NotSent) else None
                wait_s = max(growing(tries, self._bounds.wait_s), asked_s or 0.0)
                self.state = f"not connected: {str(error).rstrip('.')}; tried again in {wait_s:.0f} s"
                log.warning("slack: %s", self.state)

    # --- what comes over it ----------------------------------------------------------------------

    def _told(self, line: Line, message: dict[str, Any]) -> None:
        if len(self._taking) >= self._bounds.pending_max:
            return  # not acknowledged: Slack will tell of it again
        task = asyncio.create_task(self._answer(line, message), name="slack envelope")
        self._taking.add(task)
        task.add_done_callback(self._taken)

    def _taken(self, task: asyncio.Task[None]) -> None:
        self._taking.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:  # not acknowledged, so not lost
            log.error("slack: something could not be taken in: %s", type(error).__name__, exc_info=error)

    async def _answer(self, line: Line, message: dict[str, Any]) -> None:
        id, kind = message.get("envelope_id"), message.get("type")
        if not isinstance(id, str) or not isinstance(kind, str):
            return
        try:
            await self._take(kind, message.get("payload"))
        except TimeoutError:  # not acknowledged: Slack may tell of it once more
            log.error("slack: a message could not be kept within %g s, and is let go", self._bounds.hold_s)
            return
        await line.acknowledge(id)
