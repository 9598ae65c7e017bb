"""The garbage collector, in a process that stays."""

from __future__ import annotations

import gc

YOUNG = 10_000  # objects that are made before those are looked through; Python's 700 are a few milliseconds of traffic
OLDER, OLDEST = 20, 20


def settle() -> None:
    """What has been loaded by now stays until the end. To look through it again and again, for a tenth of a second
    each time, is to make everybody wait for nothing."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, OLDER, OLDEST)
