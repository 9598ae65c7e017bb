"""Sending traces on, beside everything else: nothing waits for a collector, and what it does not take is not kept long.

What waits has a bound, in bytes; beyond it the oldest goes, and is counted. One request is under way at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import msgspec

log = logging.getLogger("mainstay.observe")

QUEUE_BYTES_MAX = 4 * 1024 * 1024
BATCH_BYTES_MAX = 512 * 1024
GATHER_S = 1.0  # between the first span that waits and the request that takes it
SEND_S = 10.0  # for a request, from connecting to its answer
RETRY_S = 1.0
RETRY_MAX_S = 60.0
RETRY_AFTER_MAX_S = 300.0
FLUSH_S = 2.0  # at the end
AGAIN = frozenset((0, 408, 429, 502, 503, 504))  # what may go better later; anything else will not
TOO_LARGE = 413


class Sent(msgspec.Struct, frozen=True):
    """What a collector said. `status` 0: nothing, and `trouble` says why."""

    status: int
    retry_after_s: float | None = None
    trouble: str = ""


Send = Callable[[bytes], Awaitable[Sent]]  # one request; raises nothing
Wrap = Callable[[Sequence[bytes]], bytes]  # from spans to a request


class Exporter:
    def __init__(self, send: Send, wrap: Wrap) -> None:
        self.sent = 0  # spans that a collector has taken
        self.dropped: dict[str, int] = {}  # and others, by why: "full", "refused", "end"
        self._send = send
        self._wrap = wrap
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._well = True

    @property
    def waiting_bytes(self) -> int:
        return self._bytes

    def put(self, blocks: Sequence[bytes]) -> None:
        if self._closing.is_set():
            self._drop("end", len(blocks))
            return
        for block in blocks:
            self._waiting.append(block)
            self._bytes += len(block)
        while self._bytes > QUEUE_BYTES_MAX:
            self._bytes -= len(self._waiting.popleft())
            self._drop("full", 1)
        if self._task is None and self._waiting:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="mainstay-traces")

    async def close(self) -> None:
        """What waits is sent, if that is soon done."""
        self._closing.set()
        if self._task is not None:
            try:
                async with asyncio.timeout(FLUSH_S):
                    await self._task
            except TimeoutError:
                pass  # cancelled by it
            except Exception as error:  # a bug of ours must not keep a home from being closed
                log.error("traces are not sent any more: %s", error)
        if self._waiting:
            self._drop("end", len(self._waiting))
            self._waiting.clear()
            self._bytes = 0

    # --- the task --------------------------------------------------------------------------------

    async def _run(self) -> None:
        """For as long as something waits: an agent that is idle has no task."""
        try:
            while self._waiting:
                await self._rest(GATHER_S)
                await self._deliver(self._take())
        finally:
            self._task = None

    def _take(self) -> list[bytes]:
        batch: list[bytes] = []
        size = 0
        while self._waiting and (not batch or size + len(self._waiting[0]) <= BATCH_BYTES_MAX):
            batch.append(self._waiting.popleft())
            size += len(batch[-1])
        self._bytes -= size
        return batch

    async def _deliver(self, batch: list[bytes]) -> None:
        delay = RETRY_S
        while batch:
            try:
                answer = await self._ask(batch)
            except asyncio.CancelledError:
                self._drop("end", len(batch))
                raise
            if 200 <= answer.status < 300:
                self._say_well()
                self.sent += len(batch)
                return
            if answer.status == TOO_LARGE and len(batch) > 1:
                half = len(batch) // 2
                await self._deliver(batch[:half])
                batch = batch[half:]
                continue
            self._say_trouble(answer)
            if answer.status not in AGAIN:
                self._drop("refused", len(batch))
                return
            if self._closing.is_set():
                self._drop("end", len(batch))
                return
            wait = delay if answer.retry_after_s is None else min(answer.retry_after_s, RETRY_AFTER_MAX_S)
            delay = min(delay * 2, RETRY_MAX_S)
            await self._rest(wait)

    async def _ask(self, batch: Sequence[bytes]) -> Sent:
        try:
            async with asyncio.timeout(SEND_S):
                return await self._send(self._wrap(batch))
        except TimeoutError:
            return Sent(0, trouble=f"no answer within {SEND_S:g} s")

    async def _rest(self, seconds: float) -> None:
        """Unless this ends."""
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            pass

    # --- what is told of it ----------------------------------------------------------------------

    def _drop(self, why: str, count: int) -> None:
        self.dropped[why] = self.dropped.get(why, 0) + count

    def _say_trouble(self, answer: Sent) -> None:
        """Once, until it goes well again: a collector may be down for a week."""
        said = answer.trouble or f"it answered {answer.status}"
        log.log(logging.WARNING if self._well else logging.DEBUG, "traces are not taken by the collector: %s", said)
        self._well = False

    def _say_well(self) -> None:
        if not self._well:
            log.info("traces are taken by the collector again")
        self._well = True
