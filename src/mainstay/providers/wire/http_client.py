"""HTTP client for model APIs: a connection pool, and streamed responses read as batches of events.

Reading from the socket of a dense stream is paused briefly after each read, and the next read brings everything that
arrived meanwhile. The kernel buffers it; `read_coalescer` decides how long. The first words of a response never wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from mainstay.core.errors import ModelSilent, ProviderError, StreamBroken
from mainstay.core.http_response_parser import ConnectionBroken, ResponseHead
from mainstay.core.limits import Limits
from mainstay.providers.wire import errors
from mainstay.providers.wire.connector import Connector, HttpRoute
from mainstay.providers.wire.http1 import HttpConnection
from mainstay.providers.wire.read_coalescer import ReadCoalescer
from mainstay.providers.wire.sse import SseDecoder

COALESCED_EVENTS_MIN = 1.5  # events expected during a pause, for the pause to be worth it
BURST_GAP_MAX_S = 0.0002  # reads this close belong to one burst, which needs no pause
COALESCED_BYTES_MAX = 16 * 1024  # reads of this size and more need no pause
TAIL_TIMEOUT_S = 5.0  # what follows the finish reason (usage, an end mark) comes at once or not at all
LINGER_TIMEOUT_S = 1.0  # for the rest of a finished response, before its connection is closed
KEEP_ALIVE_MAX_S = 30.0  # an idle connection is reused for this long
ERROR_BODY_BYTES_MAX = 64 * 1024
ROUTES_MAX = 64  # parsed URLs that are kept
Task = asyncio.Task[Any]


class HttpClient:
    """Connection pool for one provider, in one event loop. `label` is the provider's name in error messages."""

    def __init__(self, label: str, limits: Limits, connector: Connector | None = None) -> None:
        self._label = label
        self.limits = limits
        self._loop = asyncio.get_running_loop()
        self._connector = connector or Connector()
        self._find_route = lru_cache(maxsize=ROUTES_MAX)(self._connector.find_route)
        self._idle_connections: dict[HttpRoute, list[tuple[float, HttpConnection]]] = {}
        self._open_connections: set[HttpConnection] = set()
        self._timeouts = SharedTimerTimeouts(self._loop, limits.model_idle_timeout_s)
        self.coalescer = ReadCoalescer(self._loop)
        self._is_closed = False

    def is_usable(self) -> bool:
        """Return whether the client is open and belongs to the running loop. A script may run several in a row."""
        return self._loop is asyncio.get_running_loop() and not self._is_closed

    async def close(self) -> None:
        self._is_closed = True
        if self._loop.is_closed():
            return
        self._timeouts.close()
        self.coalescer.close()
        for connection in self._open_connections:
            connection.close()
        self._open_connections.clear()
        self._idle_connections.clear()
        await asyncio.sleep(0)  # lets the transports close

    async def open_stream(
        self, url: str, headers: Mapping[str, str], body: bytes, decoder_factory: Callable[[], SseDecoder] = SseDecoder
    ) -> HttpPayloadStream:
        """Send a request and return the stream of its response once the status is 200. Raises only `ProviderError`s."""
        route = self._find_route(url)
        request = route.build_request(headers, body)
        task = asyncio.current_task()
        assert task is not None
        self._timeouts.start(task)
        try:
            connection, head = await self._send_request(route, request)
            if head.status != 200:
                raise await self._read_error(connection, head)
        except asyncio.CancelledError:
            if self._timeouts.stop(task):
                raise ModelSilent(
                    f"{self._label} did not begin to answer within {self._timeouts.timeout_s:g} s"
                ) from None
            raise
        except ProviderError:
            raise
        except (ConnectionBroken, OSError, ValueError) as error:
            raise errors.error_for_unreachable(self._label, url, error) from None
        finally:
            self._timeouts.stop(task)
        return HttpPayloadStream(self, connection, route, decoder_factory(), head.headers)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> bytes:
        """Return the whole body of a response with status 200. Raises only `ProviderError`s."""
        try:
            async with asyncio.timeout(self.limits.model_idle_timeout_s):
                return await self._read_whole_body(self._find_route(url), headers, body)
        except TimeoutError:
            raise ModelSilent(f"{self._label} did not answer within {self.limits.model_idle_timeout_s:g} s") from None
        except (ConnectionBroken, OSError, ValueError) as error:
            raise errors.error_for_unreachable(self._label, url, error) from None

    async def _read_whole_body(self, route: HttpRoute, headers: Mapping[str, str], body: bytes) -> bytes:
        connection, head = await self._send_request(route, route.build_request(headers, body))
        if head.status != 200:
            raise await self._read_error(connection, head)
        chunks: list[bytes] = []
        bytes_left = self.limits.response_bytes_max
        try:
            while chunk := await connection.read():
                bytes_left -= len(chunk)
                if bytes_left < 0:
                    sentence = f"the answer of {self._label} is larger than response_bytes_max allows"
                    raise StreamBroken(sentence, retryable=False)
                chunks.append(chunk)
        except BaseException:
            self.drop(connection)
            raise
        self.release(connection, route)
        return b"".join(chunks)

    async def _send_request(self, route: HttpRoute, request: bytes) -> tuple[HttpConnection, ResponseHead]:
        """Send the request on an idle connection if there is one; if that one is dead, again on a new connection."""
        connection = self._take_idle(route)
        if connection is not None:
            try:
                return connection, await self._exchange(connection, request)
            except ConnectionBroken:
                pass  # the server had closed it meanwhile
        connection = await self._connector.connect(route)
        self._open_connections.add(connection)
        return connection, await self._exchange(connection, request)

    async def _exchange(self, connection: HttpConnection, request: bytes) -> ResponseHead:
        try:
            connection.send(request)
            return await connection.read_head()
        except BaseException:
            self.drop(connection)
            raise

    async def _read_error(self, connection: HttpConnection, head: ResponseHead) -> ProviderError:
        body = b""
        try:
            while len(body) < ERROR_BODY_BYTES_MAX and (data := await connection.read()):
                body += data
        except ConnectionBroken:
            pass  # the status is enough
        self.drop(connection)
        return errors.error_from_status(self._label, head.status, head.headers, body, now_s=time.time())

    # --- idle connections ------------------------------------------------------------------------

    def _take_idle(self, route: HttpRoute) -> HttpConnection | None:
        idle = self._idle_connections.get(route)
        while idle:
            since, connection = idle.pop()
            if connection.is_alive and self._loop.time() - since < KEEP_ALIVE_MAX_S:
                return connection
            self.drop(connection)
        return None

    def release(self, connection: HttpConnection, route: HttpRoute) -> None:
        """Return the connection to the pool. If the response is not complete yet, its rest is discarded in the
        background first, within `LINGER_TIMEOUT_S`."""
        if connection.is_complete:
            self._keep_idle(connection, route)
            return
        timer = self._loop.call_later(LINGER_TIMEOUT_S, self.drop, connection)

        def on_complete(connection: HttpConnection) -> None:
            timer.cancel()
            self._keep_idle(connection, route)

        connection.on_complete = on_complete
        connection.check_complete()

    def _keep_idle(self, connection: HttpConnection, route: HttpRoute) -> None:
        if connection.keep_alive and connection.is_alive and not self._is_closed:
            self._idle_connections.setdefault(route, []).append((self._loop.time(), connection))
        else:
            self.drop(connection)

    def drop(self, connection: HttpConnection) -> None:
        self._open_connections.discard(connection)
        connection.close()

    @property
    def label(self) -> str:
        return self._label


class HttpPayloadStream:
    """A streamed response. The reader sets `has_output` after the first piece and `is_done` after the last."""

    __slots__ = (
        "_bytes_max",
        "_bytes_read",
        "_client",
        "_connection",
        "_decoder",
        "_event_gap_s",
        "_idle_timer",
        "_is_dense",
        "_is_in_tail",
        "_is_over",
        "_is_paused",
        "_last_read_at",
        "_loop",
        "_route",
        "_waiting_since",
        "has_output",
        "headers",
        "is_done",
    )

    def __init__(
        self,
        client: HttpClient,
        connection: HttpConnection,
        route: HttpRoute,
        decoder: SseDecoder,
        headers: Mapping[str, str],
    ) -> None:
        self.headers = headers
        self._client = client
        self._connection = connection
        self._route = route
        self._loop = asyncio.get_running_loop()
        self._decoder = decoder
        self._bytes_read = 0
        self._bytes_max = client.limits.response_bytes_max
        self._last_read_at = time.monotonic()
        self._is_dense = False
        self._event_gap_s = 0.0  # seconds between two events, moving average
        self._is_paused = False  # reading from the socket is paused
        self._idle_timer: asyncio.TimerHandle | None = None
        self._is_over = False
        self._is_in_tail = False
        self._waiting_since = 0.0
        self.has_output = False
        self.is_done = False

    async def read(self) -> list[bytes]:
        """Return the payloads that arrived together; an empty list at the end. Raises StreamBroken, ModelSilent."""
        connection = self._connection
        while not self._is_over:
            if not connection.has_unread and not connection.is_complete:
                self._prepare_wait()
            try:
                data = await connection.read()
            except (ConnectionBroken, OSError) as error:
                when = "in the middle of the answer" if self.has_output else "before the answer began"
                sentence = f"the connection to {self._client.label} broke {when}"
                raise StreamBroken(sentence, details=f"{type(error).__name__}: {error}"[:300]) from None
            if not data:
                self._is_over = True
                return self._decoder.flush()
            self._bytes_read += len(data)
            if self._bytes_read > self._bytes_max:
                sentence = f"the answer of {self._client.label} is larger than response_bytes_max allows"
                raise StreamBroken(sentence, retryable=False)
            payloads = self._decoder.feed(data)
            self._measure_density(len(data), len(payloads))
            if payloads:
                return payloads
        return []

    @property
    def non_event_data(self) -> bytes:
        """The beginning of data that is no event, such as an HTML page."""
        return self._decoder.non_event_data

    def close(self) -> None:
        """Return the connection to the pool if the response is done, else close it at once."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        self._resume_reading()
        if self.is_done:
            self._client.release(self._connection, self._route)
        else:
            self._client.drop(self._connection)

    # --- read coalescing -------------------------------------------------------------------------

    def _prepare_wait(self) -> None:
        self._waiting_since = time.monotonic()
        if self.is_done and not self._is_in_tail:
            self._is_in_tail = True
            self._start_idle_timer(TAIL_TIMEOUT_S)
        elif self._idle_timer is None:
            self._start_idle_timer(self._client.limits.model_idle_timeout_s)
        if self._is_dense and self.has_output and not self.is_done and not self._is_paused:
            self._pause_reading()

    def _pause_reading(self) -> None:
        transport = self._connection.transport
        if transport.is_closing():
            return
        try:
            transport.pause_reading()
        except (RuntimeError, NotImplementedError):  # it is closing, or does not support it
            return
        self._is_paused = True
        self._client.coalescer.schedule_resume(self._resume_reading)

    def _resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            if not self._connection.transport.is_closing():
                self._connection.transport.resume_reading()

    def _measure_density(self, size: int, events: int) -> None:
        now = time.monotonic()
        gap, self._last_read_at = now - self._last_read_at, now
        self._waiting_since = 0.0
        if gap <= BURST_GAP_MAX_S:
            self._is_dense = False
            return
        self._event_gap_s = (self._event_gap_s + gap / (events or 1)) / 2
        self._is_dense = (
            self._event_gap_s * COALESCED_EVENTS_MIN < self._client.coalescer.hold_s and size < COALESCED_BYTES_MAX
        )

    # --- idle timeout --------------------------------------------------------------------------

    def _start_idle_timer(self, seconds: float) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._idle_timer = self._loop.call_later(seconds, self._check_idle)

    def _check_idle(self) -> None:
        """Fail the stream if it was idle too long. One timer serves the whole stream: when it fires early, it is set
        again for the time left."""
        idle_s = TAIL_TIMEOUT_S if self._is_in_tail else self._client.limits.model_idle_timeout_s
        waited_s = time.monotonic() - self._waiting_since if self._waiting_since else 0.0
        if waited_s < idle_s - 0.001:
            self._idle_timer = self._loop.call_later(idle_s - waited_s, self._check_idle)
        else:
            self._connection.fail(ModelSilent(f"{self._client.label} sent nothing for {idle_s:g} s"))


class SharedTimerTimeouts:
    """Cancels tasks that wait longer than `timeout_s`. Call `start` before a wait and `stop` after it.

    `asyncio.timeout` sets a timer for every wait and cancels it again, which costs more than reading a short response.
    Here all timeouts have the same length, so they expire in the order in which they started, and one timer, set again
    only when it fires, serves them all.
    """

    __slots__ = ("_deadlines", "_loop", "_timed_out", "_timer", "timeout_s")

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._deadlines: dict[Task, float] = {}  # in order of expiry
        self._timed_out: set[Task] = set()

    def start(self, task: Task) -> None:
        self._deadlines[task] = self._loop.time() + self.timeout_s
        if self._timer is None:
            self._timer = self._loop.call_later(self.timeout_s, self._cancel_expired)

    def stop(self, task: Task) -> bool:
        """End a wait. Return True if it was cancelled by its timeout and by nothing else."""
        self._deadlines.pop(task, None)
        if task not in self._timed_out:
            return False
        self._timed_out.discard(task)
        return task.uncancel() == 0

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cancel_expired(self) -> None:
        self._timer = None
        now = self._loop.time()
        for task, deadline in list(self._deadlines.items()):
            if deadline > now + 0.001:
                self._timer = self._loop.call_later(deadline - now, self._cancel_expired)
                return
            del self._deadlines[task]
            self._timed_out.add(task)
            task.cancel()
