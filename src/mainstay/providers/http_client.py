"""HTTP for model APIs: one pool of connections, answers read as batches of events.

Imported on the first request, because aiohttp takes longer to import than all the rest.

A model sends a chunk every few milliseconds, and waking up for each costs more than reading it. So while a
stream is dense the socket is left alone for a moment after each read, and the next read brings whatever
arrived meanwhile. The kernel keeps it; nothing is delayed by more than `HOLD_S`, the first words not at all.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Mapping
from typing import Any
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from mainstay.core.errors import ModelSilent, ProviderError, StreamBroken
from mainstay.core.limits import Limits
from mainstay.providers import trouble
from mainstay.providers.patience import Patience
from mainstay.providers.sse import EventCutter

HOLD_S = 0.018  # with the timer's own slack, text waits 20 ms at most
DENSE_GAP_S = 0.008  # chunks further apart than this are read as they come
BURST_GAP_S = 0.0002  # and chunks this close are one burst in several reads: it is over in a moment
DENSE_EVENTS_MIN = 2  # what a held read must bring to be worth the next
SMALL_BYTES = 16 * 1024
TAIL_S = 5.0  # what may follow the finish reason (usage, an end mark) comes at once or not at all
LINGER_S = 1.0  # how long a finished response may take to give its connection back
CONNECT_S = 30.0
ERROR_BODY_BYTES_MAX = 64 * 1024
_LARGE_BODY_BYTES = 1024 * 1024


class Client:
    """Connections to one provider, in one event loop."""

    def __init__(self, who: str, limits: Limits) -> None:
        self._who = who
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            auto_decompress=True,
        )
        self._patience = Patience(self._loop, limits.model_idle_timeout_s)
        self._routes: dict[str, tuple[URL, str | None]] = {}
        self._lingering: set[aiohttp.ClientResponse] = set()

    def usable(self) -> bool:
        """A client belongs to the loop it was made in; a script may run several, one after another."""
        return self._loop is asyncio.get_running_loop() and not self._session.closed

    async def close(self) -> None:
        self._patience.close()
        for response in tuple(self._lingering):
            response.close()
        if not self._loop.is_closed():
            await self._session.close()

    async def open(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Send a request; returns when the status is known to be good."""
        target, proxy = self._routes.get(url) or self._route(url)
        data = body if len(body) < _LARGE_BODY_BYTES else io.BytesIO(body)
        task = asyncio.current_task()
        assert task is not None, "only a task can wait for an answer"
        self._patience.begin(task)
        try:
            response = await self._session.post(target, data=data, headers=headers, proxy=proxy, allow_redirects=False)
            if response.status != 200:
                raise await self._refusal(response)
        except asyncio.CancelledError:
            if self._patience.end(task):
                seconds = self._patience.seconds
                raise ModelSilent(f"{self._who} did not begin to answer within {seconds:g} s") from None
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise trouble.unreachable(self._who, url, error) from None
        finally:
            self._patience.end(task)
        return Reply(self, response)

    def _route(self, url: str) -> tuple[URL, str | None]:
        """The parsed address and the proxy that the environment names for it, found once."""
        target = URL(url)
        proxy = getproxies().get(target.scheme)
        if proxy is not None and target.host is not None and proxy_bypass(target.host):
            proxy = None
        self._routes[url] = (target, proxy)
        return target, proxy

    async def _refusal(self, response: aiohttp.ClientResponse) -> ProviderError:
        body = b""
        try:
            while len(body) < ERROR_BODY_BYTES_MAX and (more := await response.content.readany()):
                body += more
        except aiohttp.ClientError:
            pass  # the status says enough
        response.release()
        return trouble.from_status(self._who, response.status, response.headers, body, now_s=time.time())

    def linger(self, response: aiohttp.ClientResponse) -> None:
        """The answer is whole but the transfer's end mark is not here: let it come while nobody waits."""
        if response.content.is_eof() or response.connection is None:
            response.release()
            return
        self._lingering.add(response)
        timer = self._loop.call_later(LINGER_S, self._drop, response)

        def came() -> None:
            timer.cancel()
            self._lingering.discard(response)

        response.content.on_eof(came)

    def _drop(self, response: aiohttp.ClientResponse) -> None:
        self._lingering.discard(response)
        response.close()

    @property
    def who(self) -> str:
        return self._who

    @property
    def limits(self) -> Limits:
        return self._limits


class Reply:
    """A streamed answer. Whoever reads says `spoken` once words came and `done` once the rest is only form."""

    __slots__ = (
        "_bytes",
        "_bytes_max",
        "_client",
        "_content",
        "_cutter",
        "_dense",
        "_held",
        "_hold_timer",
        "_idle_timer",
        "_last",
        "_loop",
        "_over",
        "_response",
        "_tail",
        "_transport",
        "_waiting_since",
        "done",
        "spoken",
    )

    def __init__(self, client: Client, response: aiohttp.ClientResponse) -> None:
        self._client = client
        self._response = response
        self._content = response.content
        self._loop = asyncio.get_running_loop()
        self._cutter = EventCutter()
        self._bytes = 0
        self._bytes_max = client.limits.response_bytes_max
        self._last = time.monotonic()
        self._dense = False
        self._held = False
        self._hold_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._transport: Any = None
        self._over = False
        self._tail = False
        self._waiting_since = 0.0
        self.spoken = False
        self.done = False

    async def read(self) -> list[bytes]:
        """The payloads that arrived together; an empty list at the end."""
        content = self._content
        while not self._over:
            if content.total_bytes == self._bytes and not content.is_eof():
                self._before_waiting()
            try:
                data = await everything(content)
            except (aiohttp.ClientError, OSError, RuntimeError, ValueError) as error:
                sentence = f"the connection to {self._client.who} broke in the middle of the answer"
                raise StreamBroken(sentence, details=f"{type(error).__name__}: {error}"[:300]) from None
            if not data:
                self._over = True
                return self._cutter.end()
            self._bytes += len(data)
            if self._bytes > self._bytes_max:
                raise StreamBroken(f"the answer of {self._client.who} is larger than response_bytes_max allows")
            payloads = self._cutter.feed(data)
            self._after_reading(len(data), len(payloads))
            if payloads:
                return payloads
        return []

    @property
    def stray(self) -> bytes:
        """What came that was no event."""
        return self._cutter.stray

    def close(self) -> None:
        """Give the connection back if the answer is whole, else close it at once."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        if self._hold_timer is not None:
            self._hold_timer.cancel()
            self._resume()
        if self.done:
            self._client.linger(self._response)
        else:
            self._response.close()

    # --- leaving the socket alone ----------------------------------------------------------------

    def _before_waiting(self) -> None:
        self._waiting_since = time.monotonic()
        if self.done and not self._tail:
            self._tail = True
            self._watch(TAIL_S)
        elif self._idle_timer is None:
            self._watch(self._client.limits.model_idle_timeout_s)
        if self._dense and self.spoken and not self.done and self._hold_timer is None:
            self._hold()

    def _hold(self) -> None:
        connection = self._response.connection
        transport = connection.transport if connection is not None else None
        if transport is None or transport.is_closing():
            return
        try:
            transport.pause_reading()
        except (RuntimeError, NotImplementedError):  # it is closing, or cannot
            return
        self._transport = transport
        self._held = True
        self._hold_timer = self._loop.call_later(HOLD_S, self._resume)

    def _resume(self) -> None:
        self._hold_timer = None
        transport, self._transport = self._transport, None
        if not transport.is_closing():
            transport.resume_reading()

    def _after_reading(self, size: int, events: int) -> None:
        now = time.monotonic()
        self._waiting_since = 0.0
        if self._held:
            self._held = False
            self._dense = events >= DENSE_EVENTS_MIN and size < SMALL_BYTES
        else:
            self._dense = BURST_GAP_S < now - self._last < DENSE_GAP_S and size < SMALL_BYTES
        self._last = now

    # --- silence -------------------------------------------------------------------------------

    def _watch(self, seconds: float) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._idle_timer = self._loop.call_later(seconds, self._look_for_silence)

    def _look_for_silence(self) -> None:
        """One timer for the whole stream: when it fires early it is set again for what is left."""
        idle_s = TAIL_S if self._tail else self._client.limits.model_idle_timeout_s
        waited_s = time.monotonic() - self._waiting_since if self._waiting_since else 0.0
        if waited_s < idle_s - 0.001:
            self._idle_timer = self._loop.call_later(idle_s - waited_s, self._look_for_silence)
        else:
            self._content.set_exception(ModelSilent(f"{self._client.who} fell silent for {idle_s:g} s"))


async def everything(content: aiohttp.StreamReader) -> bytes:
    """What `readany` returns, for a fraction of its price.

    A model server sends each event as an HTTP chunk of its own; aiohttp keeps them apart and takes them out one
    by one, looking after its flow control each time: for a short answer that costs as much as everything else
    together. Here all but the last are taken at once. It touches what aiohttp keeps to itself, so where that
    looks different its own way is used.
    """
    try:
        buffer = content._buffer
        while not buffer and not content._eof and content._exception is None:
            await content._wait("readany")
        if content._exception is not None:
            return await content.readany()
        if len(buffer) < 3 or content._buffer_offset:
            return content.read_nowait()
        last = buffer.pop()
        data = b"".join(buffer)
        buffer.clear()
        buffer.append(last)
        content._size -= len(data)
        content._cursor += len(data)
    except AttributeError:
        return await content.readany()
    return data + content.read_nowait()
