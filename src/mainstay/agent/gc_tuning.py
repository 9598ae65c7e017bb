"""Garbage-collector and thread settings for long-running servers."""

from __future__ import annotations

import gc
import sys

YOUNG_THRESHOLD = 10_000  # new objects between two collections; Python's 700 are a few milliseconds of traffic
MIDDLE_THRESHOLD, OLD_THRESHOLD = 20, 20  # thresholds of the two older generations
THREAD_SWITCH_S = 0.0005  # thread switch interval; Python's is ten times as long


def tune_interpreter() -> None:
    """Tune the interpreter for a server; call it once everything is loaded.

    What is loaded by now lives until the process ends: scanning it in every full collection would stop all turns for a
    tenth of a second each time. A prompt is accepted once it is on disk, and the writer thread returns from the kernel
    several times per write: a short switch interval keeps it from waiting long each time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_THRESHOLD, MIDDLE_THRESHOLD, OLD_THRESHOLD)
    sys.setswitchinterval(THREAD_SWITCH_S)
