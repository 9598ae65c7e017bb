"""Sends spans to an OpenTelemetry collector in batches, in the background, with retries and backoff.

Turns never wait for the collector. The queue is bounded in bytes; beyond that the oldest spans are dropped and counted.
There is one request at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from mainstay.core.supervision import start_supervised_task

log = logging.getLogger("mainstay.observe")

QUEUE_BYTES_MAX = 4 * 1024 * 1024
BATCH_BYTES_MAX = 512 * 1024
BATCH_DELAY_S = 1.0  # between the first span in the queue and the request with it
REQUEST_TIMEOUT_S = 10.0  # for a request, from connecting to its response
RETRY_MIN_S = 1.0
RETRY_MAX_S = 60.0
RETRY_AFTER_MAX_S = 300.0
CLOSE_TIMEOUT_S = 2.0  # for sending the queue in `close`
RETRYABLE_STATUSES = frozenset((0, 408, 429, 502, 503, 504))  # statuses that are retried
TOO_LARGE_STATUS = 413


class CollectorResponse(msgspec.Struct, frozen=True):
    """Response of a collector."""

    status: int  # of HTTP; 0: there was no response, and `error` says why
    retry_after_s: float | None = None
    error: str = ""


ExportRequestSender = Callable[[bytes], Awaitable[CollectorResponse]]  # sends one request; raises nothing
ExportRequestBuilder = Callable[[Sequence[bytes]], bytes]  # builds a request from encoded spans


class SpanExporter:
    """Queue of encoded spans and the task that sends them. It only has a task while there are spans in the queue."""

    def __init__(self, send: ExportRequestSender, build_request: ExportRequestBuilder) -> None:
        self.sent_count = 0  # spans that the collector accepted
        # spans, by reason: "full" (queue), "refused", "end" (closed before sent), "failed" (a bug)
        self.dropped_counts: dict[str, int] = {}
        self._send = send
        self._build_request = build_request
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._is_healthy = True  # the last request succeeded, or there was none

    @property
    def queued_bytes(self) -> int:
        return self._queued_bytes

    def enqueue(self, encoded_spans: Sequence[bytes]) -> None:
        if self._closing.is_set():
            self._count_dropped("end", len(encoded_spans))
            return
        for block in encoded_spans:
            self._queue.append(block)
            self._queued_bytes += len(block)
        while self._queued_bytes > QUEUE_BYTES_MAX:
            self._queued_bytes -= len(self._queue.popleft())
            self._count_dropped("full", 1)
        if (self._task is None or self._task.done()) and self._queue:
            self._task = start_supervised_task("trace exporter", self._run)

    async def close(self) -> None:
        """Send the queue if that takes at most `CLOSE_TIMEOUT_S`; drop the rest."""
        self._closing.set()
        if self._task is not None:
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._task
            except TimeoutError:
                pass  # this cancelled the task
        if self._queue:
            self._count_dropped("end", len(self._queue))
            self._queue.clear()
            self._queued_bytes = 0

    # --- the task --------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Send batches until the queue is empty."""
        while self._queue:
            await self._sleep(BATCH_DELAY_S)
            await self._send_batch(self._take_batch())

    def _take_batch(self) -> list[bytes]:
        batch: list[bytes] = []
        size = 0
        while self._queue and (not batch or size + len(self._queue[0]) <= BATCH_BYTES_MAX):
            batch.append(self._queue.popleft())
            size += len(batch[-1])
        self._queued_bytes -= size
        return batch

    async def _send_batch(self, batch: list[bytes]) -> None:
        delay = RETRY_MIN_S
        while batch:
            try:
                result = await self._request(batch)
            except BaseException as error:
                self._count_dropped("end" if isinstance(error, asyncio.CancelledError) else "failed", len(batch))
                raise
            if 200 <= result.status < 300:
                self._log_recovery()
                self.sent_count += len(batch)
                return
            if result.status == TOO_LARGE_STATUS and len(batch) > 1:
                half = len(batch) // 2
                await self._send_batch(batch[:half])
                batch = batch[half:]
                continue
            self._log_failure(result)
            if result.status not in RETRYABLE_STATUSES:
                self._count_dropped("refused", len(batch))
                return
            if self._closing.is_set():
                self._count_dropped("end", len(batch))
                return
            wait_s = delay if result.retry_after_s is None else min(result.retry_after_s, RETRY_AFTER_MAX_S)
            delay = min(delay * 2, RETRY_MAX_S)
            await self._sleep(wait_s)

    async def _request(self, batch: Sequence[bytes]) -> CollectorResponse:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                return await self._send(self._build_request(batch))
        except TimeoutError:
            return CollectorResponse(0, error=f"no response within {REQUEST_TIMEOUT_S:g} s")

    async def _sleep(self, seconds: float) -> None:
        """Sleep; return early when the exporter is closed."""
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            pass

    # --- counters and log ------------------------------------------------------------------------

    def _count_dropped(self, reason: str, count: int) -> None:
        self.dropped_counts[reason] = self.dropped_counts.get(reason, 0) + count

    def _log_failure(self, result: CollectorResponse) -> None:
        """Log a warning once until a request succeeds again: a collector may be down for a week."""
        reason = result.error or f"it responded with status {result.status}"
        log.log(
            logging.WARNING if self._is_healthy else logging.DEBUG, "the collector does not accept traces: %s", reason
        )
        self._is_healthy = False

    def _log_recovery(self) -> None:
        if not self._is_healthy:
            log.info("the collector accepts traces again")
        self._is_healthy = True
