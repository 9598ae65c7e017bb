"""The interpreter, in a process that stays and has many to answer."""

from __future__ import annotations

import gc
import sys

YOUNG = 10_000  # objects that are made before those are looked through; Python's 700 are a few milliseconds of traffic
OLDER, OLDEST = 20, 20
SWITCH_S = 0.0005  # for a thread to let another one go on, which has the disk to see to; Python's is ten times as long


def settle() -> None:
    """What has been loaded by now stays until the end. To look through it again and again, for a tenth of a second
    each time, is to make everybody wait for nothing. And what somebody says is taken when it is on disk: the thread
    that writes comes back from the system several times a write, and is not to wait for long each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, OLDER, OLDEST)
    sys.setswitchinterval(SWITCH_S)
