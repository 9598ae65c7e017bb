"""HTTP for model APIs: one pool of connections, answers read as batches of events.

While a stream is dense its socket is left alone for a moment after each read, and the next read brings whatever
arrived meanwhile. The kernel keeps it; for how long is said in `holding`, and the first words never wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from mainstay.core.errors import ModelSilent, ProviderError, StreamBroken
from mainstay.core.limits import Limits
from mainstay.providers import trouble
from mainstay.providers.dial import Dialler, Route
from mainstay.providers.holding import Holding
from mainstay.providers.http1 import Broken, Connection, Head
from mainstay.providers.patience import Patience
from mainstay.providers.sse import EventCutter

DENSE = 1.5  # events that may be expected while a stream is left alone, for that to be worth it
BURST_GAP_S = 0.0002  # chunks this close are one burst in several reads: it is over in a moment
SMALL_BYTES = 16 * 1024
TAIL_S = 5.0  # what may follow the finish reason (usage, an end mark) comes at once or not at all
LINGER_S = 1.0  # how long a finished response may take to give its connection back
IDLE_MAX_S = 30.0  # how long a connection is kept for the next request
ERROR_BODY_BYTES_MAX = 64 * 1024


class Client:
    """Connections to one provider, in one event loop."""

    def __init__(self, who: str, limits: Limits) -> None:
        self._who = who
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._dialler = Dialler()
        self._routes: dict[str, Route] = {}
        self._idle: dict[Route, list[tuple[float, Connection]]] = {}
        self._open: set[Connection] = set()
        self._patience = Patience(self._loop, limits.model_idle_timeout_s)
        self.holding = Holding(self._loop)
        self._closed = False

    def usable(self) -> bool:
        """A client belongs to the loop it was made in; a script may run several, one after another."""
        return self._loop is asyncio.get_running_loop() and not self._closed

    async def close(self) -> None:
        self._closed = True
        if self._loop.is_closed():
            return
        self._patience.close()
        self.holding.close()
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._idle.clear()
        await asyncio.sleep(0)  # the transports' own goodbye

    async def open(
        self, url: str, headers: Mapping[str, str], body: bytes, cutter: Callable[[], EventCutter] = EventCutter
    ) -> Reply:
        """Send a request; returns when the status is known to be good."""
        route = self._routes.get(url)
        if route is None:
            route = self._routes[url] = self._dialler.route(url)
        request = route.request(headers, body)
        task = asyncio.current_task()
        assert task is not None
        self._patience.begin(task)
        try:
            connection, head = await self._ask(route, request)
            if head.status != 200:
                raise await self._refusal(connection, head)
        except asyncio.CancelledError:
            if self._patience.end(task):
                raise ModelSilent(f"{self._who} did not begin to answer within {self._patience.seconds:g} s") from None
            raise
        except ProviderError:
            raise
        except (Broken, OSError, ValueError) as error:
            raise trouble.unreachable(self._who, url, error) from None
        finally:
            self._patience.end(task)
        return Reply(self, connection, route, cutter(), head.headers)

    async def _ask(self, route: Route, request: bytes) -> tuple[Connection, Head]:
        """On a connection that is kept if there is one. If that turns out to be dead, once more on a new one."""
        connection = self._take(route)
        if connection is not None:
            try:
                return connection, await self._exchange(connection, request)
            except Broken:
                pass  # the server had closed it meanwhile, as servers do
        connection = await self._dialler.connect(route)
        self._open.add(connection)
        return connection, await self._exchange(connection, request)

    async def _exchange(self, connection: Connection, request: bytes) -> Head:
        try:
            connection.send(request)
            return await connection.head()
        except BaseException:
            self.drop(connection)
            raise

    async def _refusal(self, connection: Connection, head: Head) -> ProviderError:
        body = b""
        try:
            while len(body) < ERROR_BODY_BYTES_MAX and (more := await connection.read()):
                body += more
        except Broken:
            pass  # the status says enough
        self.drop(connection)
        return trouble.from_status(self._who, head.status, head.headers, body, now_s=time.time())

    # --- connections that are kept ---------------------------------------------------------------

    def _take(self, route: Route) -> Connection | None:
        idle = self._idle.get(route)
        while idle:
            since, connection = idle.pop()
            if connection.alive and self._loop.time() - since < IDLE_MAX_S:
                return connection
            self.drop(connection)
        return None

    def give_back(self, connection: Connection, route: Route) -> None:
        """The response is whole; or it will be in a moment, and nobody waits for that."""
        if connection.over:
            self._keep(connection, route)
            return
        timer = self._loop.call_later(LINGER_S, self.drop, connection)

        def came(connection: Connection) -> None:
            timer.cancel()
            self._keep(connection, route)

        connection.on_over = came
        connection.look()

    def _keep(self, connection: Connection, route: Route) -> None:
        if connection.keeps and connection.alive and not self._closed:
            self._idle.setdefault(route, []).append((self._loop.time(), connection))
        else:
            self.drop(connection)

    def drop(self, connection: Connection) -> None:
        self._open.discard(connection)
        connection.close()

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
        "_connection",
        "_cutter",
        "_dense",
        "_gap",
        "_held",
        "_idle_timer",
        "_last",
        "_loop",
        "_over",
        "_route",
        "_tail",
        "_waiting_since",
        "done",
        "headers",
        "spoken",
    )

    def __init__(
        self, client: Client, connection: Connection, route: Route, cutter: EventCutter, headers: Mapping[str, str]
    ) -> None:
        self.headers = headers
        self._client = client
        self._connection = connection
        self._route = route
        self._loop = asyncio.get_running_loop()
        self._cutter = cutter
        self._bytes = 0
        self._bytes_max = client.limits.response_bytes_max
        self._last = time.monotonic()
        self._dense = False
        self._gap = 0.0  # between two events, as it was lately
        self._held = False  # the socket is left alone
        self._idle_timer: asyncio.TimerHandle | None = None
        self._over = False
        self._tail = False
        self._waiting_since = 0.0
        self.spoken = False
        self.done = False

    async def read(self) -> list[bytes]:
        """The payloads that arrived together; an empty list at the end."""
        connection = self._connection
        while not self._over:
            if not connection.has_more and not connection.over:
                self._before_waiting()
            try:
                data = await connection.read()
            except (Broken, OSError) as error:
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
        self._resume()
        if self.done:
            self._client.give_back(self._connection, self._route)
        else:
            self._client.drop(self._connection)

    # --- leaving the socket alone ----------------------------------------------------------------

    def _before_waiting(self) -> None:
        self._waiting_since = time.monotonic()
        if self.done and not self._tail:
            self._tail = True
            self._watch(TAIL_S)
        elif self._idle_timer is None:
            self._watch(self._client.limits.model_idle_timeout_s)
        if self._dense and self.spoken and not self.done and not self._held:
            self._hold()

    def _hold(self) -> None:
        transport = self._connection.transport
        if transport.is_closing():
            return
        try:
            transport.pause_reading()
        except (RuntimeError, NotImplementedError):  # it is closing, or cannot
            return
        self._held = True
        self._client.holding.hold(self._resume)

    def _resume(self) -> None:
        if self._held:
            self._held = False
            if not self._connection.transport.is_closing():
                self._connection.transport.resume_reading()

    def _after_reading(self, size: int, events: int) -> None:
        now = time.monotonic()
        gap, self._last = now - self._last, now
        self._waiting_since = 0.0
        if gap <= BURST_GAP_S:
            self._dense = False
            return
        self._gap = (self._gap + gap / (events or 1)) / 2
        self._dense = self._gap * DENSE < self._client.holding.seconds and size < SMALL_BYTES

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
            self._connection.fail(ModelSilent(f"{self._client.who} fell silent for {idle_s:g} s"))
