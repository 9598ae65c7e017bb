"""How much one key may ask for: requests a minute, and streams that are open at a time."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mainstay.core.errors import MainstayError
from mainstay.core.ports import Clock

WINDOW_S = 60.0
STREAM_WAIT_S = 2.0  # when to come again: nobody knows when a stream ends
KEYS_MAX = 20_000
_SLACK_S = 1e-6  # what many additions of fractions may be off by


class TooMany(MainstayError):
    """As many streams are open as may be."""

    def __init__(self, sentence: str, *, retry_after_s: float) -> None:
        super().__init__(sentence)
        self.retry_after_s = retry_after_s


class Rates:
    """A bucket of tokens for each key: it holds as many as are allowed a minute, and fills evenly.

    A bucket is kept as the time at which it will be full again, and is forgotten when it is.
    """

    def __init__(self, clock: Clock | None = None, *, keys_max: int = KEYS_MAX) -> None:
        self._now: Callable[[], float] = clock.monotonic if clock is not None else time.monotonic
        self._keys_max = keys_max
        self._full_at: OrderedDict[str, float] = OrderedDict()  # the longest unused first
        self._open: dict[str, int] = {}  # only those that have some

    def check(self, key: str, per_min: int) -> float | None:
        """None: go on, and that is counted; else the seconds until it may, and nothing is."""
        now = self._now()
        full_at = max(self._full_at.get(key, now), now) + WINDOW_S / max(per_min, 1)
        wait = full_at - now - WINDOW_S
        if wait > _SLACK_S:
            return wait
        self._full_at[key] = full_at
        self._full_at.move_to_end(key)
        self._forget(now)
        return None

    def _forget(self, now: float) -> None:
        """Those that are full are as if they had never been; of too many, the one that was not used for longest."""
        while len(self._full_at) > 1:
            oldest = next(iter(self._full_at))
            if self._full_at[oldest] > now and len(self._full_at) <= self._keys_max:
                return
            del self._full_at[oldest]

    @contextmanager
    def stream(self, key: str, most: int) -> Iterator[None]:
        """Open for as long as the block runs. Raises TooMany."""
        count = self._open.get(key, 0)
        if count >= most:
            raise TooMany(
                f"{count} streams are open with this key, and no more may be; close one, or wait for it to end",
                retry_after_s=STREAM_WAIT_S,
            )
        self._open[key] = count + 1
        try:
            yield
        finally:
            left = self._open[key] - 1
            if left:
                self._open[key] = left
            else:
                del self._open[key]
