"""Rate limits per API key: requests a minute (token bucket), and streams that are open at a time."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mainstay.core.errors import MainstayError
from mainstay.core.ports import Clock

WINDOW_S = 60.0
STREAM_RETRY_AFTER_S = 2.0  # suggested wait before the next attempt: it is unknown when a stream ends
KEYS_MAX = 20_000
_ROUNDING_S = 1e-6  # tolerance for the rounding errors of many additions


class TooManyStreams(MainstayError):
    """The maximal number of streams is open for this key."""

    def __init__(self, sentence: str, *, retry_after_s: float) -> None:
        super().__init__(sentence)
        self.retry_after_s = retry_after_s


class ApiRateLimiter:
    """A token bucket for each key: it holds as many tokens as are allowed a minute, and fills evenly.

    A bucket is stored as the time at which it will be full again, and dropped when it is.
    """

    def __init__(self, clock: Clock | None = None, *, keys_max: int = KEYS_MAX) -> None:
        self._monotonic: Callable[[], float] = clock.monotonic if clock is not None else time.monotonic
        self._keys_max = keys_max
        self._full_at: OrderedDict[str, float] = OrderedDict()  # by key, the least recently used first
        self._open_streams: dict[str, int] = {}  # by key: open streams; keys without any are absent

    def count_request(self, key: str, per_min: int) -> float | None:
        """Count a request and return None if it is allowed; else count nothing and return the seconds to wait."""
        now = self._monotonic()
        full_at = max(self._full_at.get(key, now), now) + WINDOW_S / max(per_min, 1)
        wait = full_at - now - WINDOW_S
        if wait > _ROUNDING_S:
            return wait
        self._full_at[key] = full_at
        self._full_at.move_to_end(key)
        self._drop_full(now)
        return None

    def _drop_full(self, now: float) -> None:
        """Drop buckets that are full again, and the least recently used ones beyond `keys_max`."""
        while len(self._full_at) > 1:
            oldest = next(iter(self._full_at))
            if self._full_at[oldest] > now and len(self._full_at) <= self._keys_max:
                return
            del self._full_at[oldest]

    @contextmanager
    def hold_stream(self, key: str, streams_max: int) -> Iterator[None]:
        """Count a stream as open for as long as the block runs. Raises TooManyStreams."""
        count = self._open_streams.get(key, 0)
        if count >= streams_max:
            raise TooManyStreams(
                f"{count} streams are open with this key, which is the maximum; close one or wait for one to end",
                retry_after_s=STREAM_RETRY_AFTER_S,
            )
        self._open_streams[key] = count + 1
        try:
            yield
        finally:
            left = self._open_streams[key] - 1
            if left:
                self._open_streams[key] = left
            else:
                del self._open_streams[key]
