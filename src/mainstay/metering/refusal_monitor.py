"""Tells refusals (429, 529) that are caused by our own load from those that are not.

A limit that is exceeded refuses calls in runs, and more than a few. Refusals that are few and scattered come from a
provider that refuses at random, or from other clients of the account; a lower rate would not avoid them. The test is a
cumulative sum (CUSUM) over calls in the order in which they were sent: a refusal raises the score, a call that was not
refused lowers it, and the refusals count as caused by our load once it exceeds a threshold.
"""

from __future__ import annotations

import math

TOLERATED_SHARE = 0.15  # of calls that may be refused before the rate is lowered
TOLERATED_SHARE_MAX = 0.6
TOLERATED_MARGIN = 0.1  # added to a share of refusals that did not depend on the rate
EXCESS_SHARE = 0.3  # beyond the tolerated share: refusals that an exceeded limit causes
SCORE_MAX = 8.0  # natural logarithm of the odds
COMPARED_CALLS_MIN = 20
RECENT_WEIGHT = 0.99  # of a call, relative to the next one
REPEATED_CHANCE = 0.005  # of as many refusals of one call as are taken for chance
TOLERANCE_S = 120.0  # how long a raised tolerance applies
ANSWERED_SHARE = 0.65  # of the answered rate: if more is left at half the rate, the rate was beyond a limit
RATE_SHARE = 0.5  # a rate lowered to this share shows whether it matters
ACCEPTED_GAIN = 1.4  # of the share of calls that are accepted: by less, the lower rate did not help


class RefusalMonitor:
    """Counts calls and refusals since the last slow-down; all times are monotonic seconds."""

    __slots__ = (
        "_calls_before",
        "_experiment",
        "_last_refused",
        "_refused_recently",
        "_score",
        "_share_before",
        "_tolerated_share",
        "_tolerated_until",
    )

    def __init__(self) -> None:
        self._score = SCORE_MAX  # a refusal among the first calls counts as caused by our load
        self._calls_before = 0  # sent before the last slow-down
        self._last_refused = 0  # send number of the last refused call
        self._refused_recently = 0.0  # since the last slow-down; older ones weigh less
        self._share_before = 0.0  # of refusals, before the last run of them
        self._tolerated_share = TOLERATED_SHARE
        self._tolerated_until = 0.0
        self._experiment: tuple[float, float, float] | None = None  # rate, answered rate, accepted share before

    def record_refusal(self, send_number: int, now: float) -> bool:
        """Record a refusal of a call sent since the last slow-down; return True if our load is the cause."""
        if now >= self._tolerated_until:
            self._tolerated_share = TOLERATED_SHARE
        tolerated = self._tolerated_share
        excess = tolerated + EXCESS_SHARE
        # calls between two refusals were accepted: refusals are quick, and come in about the order of sending
        accepted = max(send_number - max(self._last_refused, self._calls_before) - 1, 0)
        self._score = max(0.0, self._score - accepted * math.log((1 - tolerated) / (1 - excess)))
        self._score += math.log(excess / tolerated)
        if accepted:
            self._share_before = self.refused_share(send_number - 1)
        self._refused_recently = 1.0 + self._refused_recently * RECENT_WEIGHT ** (accepted + 1)
        self._last_refused = max(send_number, self._last_refused)
        return self._score > SCORE_MAX

    def refused_share(self, sent_count: int) -> float:
        """Return the share of refusals among the last calls since the last slow-down; `sent_count` is of all calls."""
        if not self._refused_recently:
            return 0.0
        refused = self._refused_recently * RECENT_WEIGHT ** max(sent_count - self._last_refused, 0)
        known = 1.0 - RECENT_WEIGHT ** max(sent_count - self._calls_before, 1)  # of the calls that have a weight
        return min(refused * (1.0 - RECENT_WEIGHT) / known, 1.0)

    def expect_refusals(self, sent_count: int) -> int:
        """Return how often one call may be refused in a row by chance, with as many refusals as there are."""
        share = min(max(self.refused_share(sent_count), 0.01), 0.9)
        return math.ceil(math.log(REPEATED_CHANCE) / math.log(share))

    def accepted_share(self) -> float:
        """Return the share of accepted calls before the last run of refusals: a run may be an outage, which is no
        measure of the rate that the provider sustains."""
        return 1.0 - self._share_before

    def find_higher_rate(self, rate: float, answered_rate: float, sent_count: int, now: float) -> float:
        """Return the rate at which refusals were as rare as at `rate`, which is less than half of it; 0 if none.

        Called before the rate is lowered again. At half the rate, a limit would accept twice the share of calls, and
        answer as many as before. If neither is so, the refusals are not caused by our load, and more of them are
        tolerated from now on.
        """
        accepted = self.accepted_share()
        is_known = sent_count - self._calls_before >= COMPARED_CALLS_MIN
        if not is_known or accepted > 1.0 - self._tolerated_share:
            return 0.0
        if self._experiment is None or rate > self._experiment[0]:
            self._experiment = (rate, answered_rate, accepted)
            return 0.0
        higher, answered_before, accepted_before = self._experiment
        if rate > RATE_SHARE * higher:
            return 0.0
        self._experiment = None
        if accepted >= ACCEPTED_GAIN * accepted_before or answered_rate > ANSWERED_SHARE * answered_before:
            self._tolerated_until = 0.0
            return 0.0
        self._tolerated_share = min(1.0 - accepted + TOLERATED_MARGIN, TOLERATED_SHARE_MAX)
        self._tolerated_until = now + TOLERANCE_S
        return higher

    def restart(self, sent_count: int) -> None:
        """Count anew after a slow-down: what was sent before says nothing about the new rate."""
        self._score, self._refused_recently, self._share_before, self._calls_before = 0.0, 0.0, 0.0, sent_count
