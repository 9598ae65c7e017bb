"""Rate limiter for the model calls of one provider account, shared by all lanes and workspaces of a process.

Calls are admitted by the quota that the provider's headers report (`reported_limits`); without headers, or if it
refuses nevertheless, by the rate that it was observed to sustain (`adaptive_rate`). Other calls wait in a queue
(`call_queue`). A refused call (429, 529) keeps its place and is sent again when there is capacity.
Everything runs in one event loop, and only `CallPermit.acquire` ever waits.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import count

import msgspec

from mainstay.core.errors import ContextTooLong, ProviderError, RateLimited
from mainstay.core.ports import Clock, Context, Options
from mainstay.core.rate_limits import WAIT_MAX_S, RateLimitStatus
from mainstay.metering.adaptive_rate import RATE_MIN, AdaptiveRate
from mainstay.metering.call_permit import NOTIFY_AFTER_S, POLL_S, CallPermit
from mainstay.metering.call_queue import CallQueue
from mainstay.metering.quota_estimator import ReportedLimits
from mainstay.metering.refusal_monitor import RefusalMonitor

log = logging.getLogger("mainstay.metering")

WINDOW = 128  # calls that may be unanswered before the first response
WINDOW_STEP = 256  # added per second while the window is full
WINDOW_MAX = 65536
BACKOFF_S, BACKOFF_MAX_S = 0.25, 5.0  # pause after a refusal without Retry-After
FIRST_CALL_S = 0.25  # after a pause one call is sent first; if it is not refused in this time, the others follow
BACKOFF_SHARE = 0.25  # of the time since the streak of refusals began
# in a streak of refusals one call is sent alone; without a response, the next one after 2, 4, 8, … s
PROBE_S, PROBE_MAX_S = 2.0, 60.0
REPEATED_REFUSALS = 4  # of one call: from then on it yields to others, and waits alone if they are answered
REPEATED_WAIT_S, REPEATED_WAIT_MAX_S = 2.0, 60.0
PAUSE_MAX_S = 60.0  # if the provider asks for more, one call a minute probes it
QUIET_CALLS, QUIET_MAX_S = 3.0, 10.0  # calls that are not sent before one that has used up half of its retries
SCATTERED_WAIT_S = 0.05  # of a call after its first refusal, if our load did not cause that
UNCONFIRMED_PAUSE_S = 1.0  # instead of a longer pause that only one refusal asked for
UNFORESEEN_MAX, UNFORESEEN_DECAY = 3, 0.05  # tolerated at a time; twenty answers make up for one
ACCOUNTS_MAX = 1000
OUTPUT_TOKENS_START = 256.0  # assumed length of an answer before any is known


class RateLimiterState(msgspec.Struct, frozen=True, kw_only=True):
    """Snapshot of a rate limiter, for status pages and metrics."""

    provider_name: str
    model: str = ""
    waiting: int = 0
    unheard: int = 0  # sent and without a response
    admitted: int = 0
    refused: int = 0  # 429 and 529
    waited_s: float = 0.0  # sum over all calls
    rate: float | None = None  # calls per second; None: unlimited
    paused_s: float = 0.0
    remaining: dict[str, tuple[float, float]] = {}  # by name: remaining, and the limit
    trusts_reports: bool = True  # False: reported quotas are ignored for now


class RateLimiter:
    """Rate limiter of one account and model; not thread-safe."""

    def __init__(self, provider_name: str, clock: Clock, model: str = "") -> None:
        self.provider_name = provider_name
        self.model = model
        self.clock = clock
        self.queue: CallQueue[CallPermit] = CallQueue()
        self.reported_limits = ReportedLimits()
        self.rate = AdaptiveRate()
        self._refusals = RefusalMonitor()
        self.typical_output_tokens = OUTPUT_TOKENS_START
        self._permit_numbers = count(1)
        self._sent_count = 0
        self._sent_at = 0.0  # of the last call
        self._unanswered: dict[int, CallPermit] = {}  # by send number, in order
        self._window = WINDOW
        self._widened_at = 0.0
        self._paused_until = 0.0
        self._blocked_until = 0.0  # until when the provider asked for no calls, without the cap of `PAUSE_MAX_S`
        self._slowed_at = -1.0
        self._has_answer_since = True  # a call was answered since the last slow-down
        self._first_sent = 0  # number of the first call after it; 0: none
        self._unforeseen = 0.0  # refusals that the reported quotas did not predict; decays with answers
        self._streak = 0  # slow-downs in a row without an answer in between
        self._streak_at = 0.0
        self._probes = 0  # calls sent in the streak since the last refusal
        self._probe_at = 0.0
        self._answered_count = 0  # responses so far
        self.backing_off: dict[int, CallPermit] = {}  # by number: calls that wait for a time that is only guessed
        self._timer: asyncio.TimerHandle | None = None
        self._notify_timer: asyncio.TimerHandle | None = None
        self._admitted = self._refused = 0
        self._waited_s = 0.0

    def create_permit(self, context: Context, options: Options, patience_s: float) -> CallPermit:
        """Create the permit of one call; it may wait for at most `patience_s`."""
        return CallPermit(self, next(self._permit_numbers), context, options, patience_s)

    def snapshot_state(self) -> RateLimiterState:
        now = self.clock.monotonic()
        return RateLimiterState(
            provider_name=self.provider_name,
            model=self.model,
            waiting=len(self.queue),
            unheard=len(self._unanswered),
            admitted=self._admitted,
            refused=self._refused,
            waited_s=self._waited_s,
            rate=self.rate.rate,
            paused_s=max(0.0, self._paused_until - now),
            remaining={
                name: (max(0.0, bucket.level_at(now)), bucket.limit)
                for name, bucket in self.reported_limits.buckets.items()
            },
            trusts_reports=self.reported_limits.is_trusted(now),
        )

    # --- admission -------------------------------------------------------------------------------

    def tokens_max(self) -> int | None:
        """Return the account's smallest token limit; None if the provider reports none."""
        limits = [
            bucket.limit for bucket in self.reported_limits.buckets.values() if bucket.kind in ("tokens", "output")
        ]
        return int(min(limits)) if limits else None

    def try_admit(self, permit: CallPermit, now: float) -> bool:
        """Admit the call at once if the queue is empty and no limit applies; False if it must wait."""
        if self.queue or self._wait_s(permit, now) > 0:
            return False
        self._mark_sent(permit, now)
        return True

    def enqueue(self, permit: CallPermit, now: float) -> None:
        """Add the call to the queue. Raises RateLimited if it cannot be sent before its deadline."""
        if (refusal := self._find_deadline_error(permit, now)) is not None:
            raise refusal
        self.queue.add(permit)
        loop = asyncio.get_running_loop()
        if self._notify_timer is None:
            self._notify_timer = loop.call_later(POLL_S, self._notify_waiting)
        self.dispatch()

    def release(self, permit: CallPermit) -> None:
        """Remove a call that was cancelled or has ended, from the queue or from the unanswered calls."""
        if permit.is_queued or permit.send_number in self._unanswered:
            self.queue.remove(permit)
            self._unanswered.pop(permit.send_number, None)
            self.dispatch()

    def _mark_sent(self, permit: CallPermit, now: float) -> None:
        self._sent_count += 1
        self._sent_at = now
        permit.send_number = self._sent_count
        permit.sent_at = now
        self._unanswered[permit.send_number] = permit
        if not self._has_answer_since and not self._first_sent:
            self._first_sent = permit.send_number
        if self._streak or now < self._blocked_until:
            self._probes += 1
            self._probe_at = now
        self._admitted += 1
        self._waited_s += now - permit.requested_at
        if permit.is_limit_test:
            self.reported_limits.start_test(now)
        if self.reported_limits:
            permit.marks = self.reported_limits.consume(permit.weigh, now)
        self.rate.consume(now)

    def dispatch(self) -> None:
        """Send queued calls as far as limits allow; called whenever something has changed, and by a timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.queue:
            if self._notify_timer is not None:
                self._notify_timer.cancel()
                self._notify_timer = None
            return
        now = self.clock.monotonic()
        self.rate.expire(now)
        while (permit := self._peek_next(now)) is not None:
            wait_s = self._wait_s(permit, now)
            if wait_s > 0:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(max(min(wait_s, POLL_S), 0.001), self.dispatch)
                return
            self.queue.pop_next(permit)
            self._mark_sent(permit, now)
            permit.wake()

    def _peek_next(self, now: float) -> CallPermit | None:
        """Return the call to send next; while the provider asks for no calls, one that may be refused once more."""
        permit = self.queue.peek_next(now)
        if permit is None or permit.may_test or now >= self._blocked_until:
            return permit
        return next((call for call in self.queue.list_in_order() if call.may_test), permit)

    def _wait_s(self, permit: CallPermit, now: float) -> float:
        """Return for how many seconds the call must wait, as far as known; 0: it may be sent."""
        permit.is_limit_test = False
        if now < self._paused_until:
            return self._paused_until - now
        if not permit.may_test and (wait_s := self._quiet_wait_s(now)) > 0:
            return wait_s
        if (self._streak or now < self._blocked_until) and (wait_s := self._probe_wait_s(now)) > 0:
            return wait_s
        first = self._unanswered.get(self._first_sent) if not self._has_answer_since else None
        # refusals are quick, answers are not
        if first is not None and (left_s := first.sent_at + FIRST_CALL_S - now) > 0:
            return left_s
        if len(self._unanswered) >= self._window:
            return self._widen_window(now)
        if (wait_s := self.rate.wait_s(now)) > 0:
            self.rate.increase(now, self._refusals.refused_share(self._sent_count))
            return wait_s
        if self.reported_limits and (wait_s := self.reported_limits.wait_s(permit.weigh, now)) > 0:
            permit.is_limit_test = (
                permit.may_test
                and now - permit.created_at >= POLL_S
                and self.reported_limits.should_test(permit.weigh, now)
            )
            return (
                0.0
                if permit.is_limit_test
                else max(min(wait_s, self.reported_limits.until_test_s(now) or wait_s), 0.001)
            )
        return 0.0

    def _quiet_wait_s(self, now: float) -> float:
        """Return how long to wait with a call that must not be refused again, while no other call is sent: for as long
        as the provider asked, and until there is capacity for more than this call."""
        if now < self._blocked_until:
            return self._blocked_until - now
        rate = self.rate.rate or self.rate.meter.rate(now, 0.0)
        return self._sent_at + min(QUIET_CALLS / max(rate, RATE_MIN), QUIET_MAX_S) - now

    def _probe_wait_s(self, now: float) -> float:
        """Return how long to wait for the probe of a refusal streak; bounded, because a probe may hang."""
        if (
            not self._probes
            or not self._unanswered
            or next(reversed(self._unanswered.values())).sent_at <= self._slowed_at
        ):
            return 0.0
        return self._probe_at + min(PROBE_S * 2.0 ** (self._probes - 1), PROBE_MAX_S) - now

    def _widen_window(self, now: float) -> float:
        """Widen the window once per second: a slow provider is not an overloaded one."""
        if now - self._widened_at >= 1.0:
            self._widened_at = now
            self._window = min(self._window + WINDOW_STEP, WINDOW_MAX)
        return POLL_S

    # --- responses -------------------------------------------------------------------------------

    def record_accepted(self, permit: CallPermit, status: RateLimitStatus) -> None:
        """Record that the provider accepted the call, and apply the quota it reported."""
        if self._unanswered.pop(permit.send_number, None) is None:
            return
        now = self.clock.monotonic()
        self._answered_count += 1
        if status.quotas:
            self.reported_limits.apply_report(status.quotas, permit, self._unanswered.values(), now)
        self.rate.record_answer(now)
        self._unforeseen = max(0.0, self._unforeseen - UNFORESEEN_DECAY)
        if permit.sent_at > self._slowed_at:
            if self._streak:  # the provider answers again: what the others wait for is over
                for waiting in self.backing_off.values():
                    waiting.end_backoff()
            self._has_answer_since = True
            self._streak = self._probes = 0
            self._paused_until = self._blocked_until = 0.0
        if self._window < WINDOW_MAX:
            self._window += 1
        if permit.is_limit_test and self.reported_limits.record_test_answered(now):
            log.info("%s reports less quota than it has; its reports are ignored for a while", self.provider_name)
            self.rate.start_limiting(now)
        if self.queue:
            self.dispatch()

    def record_refused(self, permit: CallPermit, error: ProviderError, backoff_s: float = 0.0) -> bool:
        """Record a refusal (429, 529); return False if the call should not be sent again.

        Without a hint, and unless the reported quota says when there is capacity, the call waits for `backoff_s`.

        Raises ContextTooLong if the call is larger than the account's whole limit.
        """
        self._unanswered.pop(permit.send_number, None)
        self._refused += 1
        permit.refusals += not permit.is_limit_test  # a refused limit test was expected
        now = self.clock.monotonic()
        # answered since its last refusal
        others, permit.answered_at_refusal = (self._answered_count > permit.answered_at_refusal, self._answered_count)
        status = error.rate_limits
        if status is not None and status.quotas:
            self.reported_limits.refund_oversize(permit)
            tries = permit.refusals if others else 0
            if (
                isinstance(error, RateLimited)
                and (refusal := self._find_oversize_error(permit, status, tries, now)) is not None
            ):
                raise refusal from error
            self.reported_limits.apply_report(status.quotas, permit, self._unanswered.values(), now)
        # the error's own retry time may be when the whole quota is restored, which is later than enough for one call
        asked_s = self._limit_wait(
            status.retry_after_s if status is not None and status.quotas else error.retry_after_s, permit
        )
        expected = self._is_explained(permit, status, now)
        if permit.is_limit_test:
            self.reported_limits.record_test_refused(now)
            expected = True
        expected_max = self._refusals.expect_refusals(self._sent_count)
        is_repeated = permit.refusals >= max(REPEATED_REFUSALS, expected_max)
        if is_repeated and others:  # others are answered meanwhile: the cause is this call, not the rate
            tries = min(permit.refusals - max(REPEATED_REFUSALS, expected_max), 16)
            permit.not_before = now + min(max(asked_s, REPEATED_WAIT_S * 2.0**tries), REPEATED_WAIT_MAX_S)
        elif expected and asked_s <= BACKOFF_MAX_S and not self._is_in_streak(permit):
            # only this call waits: the quota for others is known
            permit.not_before = max(permit.not_before, now + asked_s)
        elif permit.sent_at <= self._slowed_at:  # sent before the last slow-down, which accounts for it
            self._pause(now, asked_s)
            permit.back_off(now, asked_s, backoff_s)
        elif self._is_in_streak(permit):
            self._slow_down(now, asked_s, in_streak=True)
            permit.back_off(now, asked_s, backoff_s)
        elif self._refusals.record_refusal(permit.send_number, now) or (permit.refusals > 1 and not others):
            self._slow_down(now, asked_s, in_streak=False)
            permit.back_off(now, asked_s, backoff_s)
        elif permit.refusals > 1:  # not caused by our load: only this call waits
            permit.not_before = now + min(max(BACKOFF_S * permit.refusals, asked_s), PAUSE_MAX_S)
            permit.back_off(now, asked_s, backoff_s)
        else:  # and the first time not for long, as others are accepted
            permit.not_before = now + SCATTERED_WAIT_S
        if is_repeated and self.queue:  # another call is tried before this one is sent again
            permit.not_before = max(permit.not_before, self._paused_until + FIRST_CALL_S)
        self.dispatch()
        return self._find_deadline_error(permit, now) is None and permit.not_before < permit.deadline

    def _limit_wait(self, requested_s: float | None, permit: CallPermit) -> float:
        """Return for how long a refusal asks to wait. A pause of more than a minute is not believed at once: a call
        tests it after a second, and a second refusal in a row confirms it."""
        if requested_s is None or not requested_s > 0:  # nor NaN
            return 0.0
        if requested_s > PAUSE_MAX_S and not self._is_in_streak(permit) and permit.refusals < 2:
            return UNCONFIRMED_PAUSE_S
        return min(requested_s, WAIT_MAX_S)

    def _find_oversize_error(
        self, permit: CallPermit, status: RateLimitStatus, tries: int, now: float
    ) -> ContextTooLong | None:
        """Return the error for a call that is larger than the account's whole limit, else None."""
        left = (
            self.reported_limits.find_oversize(status.quotas, permit, tries)
            if self.reported_limits.is_trusted(now)
            else None
        )
        if left is None:
            return None
        self.reported_limits.apply_report(status.quotas, permit, self._unanswered.values(), now)
        self.reported_limits.remember_oversize(left, permit)
        self.dispatch()
        limit, weight = round(left.limit), round(permit.weigh(left.kind))
        return ContextTooLong(
            f"{self.provider_name} accepts at most {limit} tokens at once from this account, "
            f"and this call has about {weight}",
            window=limit,
        )

    def _is_in_streak(self, permit: CallPermit) -> bool:
        """Return True if no call since the last slow-down was answered, and no earlier one of them is still open."""
        if self._has_answer_since or permit.sent_at <= self._slowed_at:
            return False
        older = next((other for other in self._unanswered.values() if other.sent_at > self._slowed_at), None)
        return older is None or older.send_number > permit.send_number

    def _is_explained(self, permit: CallPermit, status: RateLimitStatus | None, now: float) -> bool:
        """Return True if the reported quota was too small for this call and thus explains the refusal.

        False if too many refusals were unforeseen lately: then the reports are no sufficient explanation.
        """
        if status is None or not self.reported_limits.is_trusted(now):
            return False
        if permit.sent_at > self.reported_limits.first_report_at:  # else no quota was known when it was sent
            self._unforeseen = min(self._unforeseen + 1, 2 * UNFORESEEN_MAX)
        return self._unforeseen <= UNFORESEEN_MAX and any(
            quota.remaining < permit.weigh(quota.kind) for quota in status.quotas
        )

    def _slow_down(self, now: float, requested_s: float, *, in_streak: bool) -> None:
        """Pause all calls and lower the rate; `in_streak`: nothing was answered since the last slow-down.

        If the rate was lowered before and the refusals did not become fewer, it is restored instead.
        """
        answered_rate = self.rate.meter.rate(now, 0.0)
        rate = self.rate.rate or answered_rate
        if not in_streak and (higher := self._refusals.find_higher_rate(rate, answered_rate, self._sent_count, now)):
            self._refusals.restart(self._sent_count)
            self.rate.restore(higher, now)
            return
        accepted_share = self._refusals.accepted_share()
        self._refusals.restart(self._sent_count)
        self._streak = self._streak + 1 if in_streak else 0
        self._slowed_at, self._has_answer_since, self._first_sent, self._probes = now, False, 0, 0
        if not in_streak:
            self._streak_at = now
        pause_s = max(requested_s, BACKOFF_S, min(BACKOFF_SHARE * (now - self._streak_at), BACKOFF_MAX_S))
        self._pause(now, pause_s)
        self.rate.slow_down(now, min(pause_s, PAUSE_MAX_S), in_streak=in_streak, accepted_share=accepted_share)
        log.info("%s is rate limiting; %d calls are waiting", self.provider_name, len(self.queue))

    def _pause(self, now: float, seconds: float) -> None:
        self._paused_until = max(self._paused_until, now + min(seconds, PAUSE_MAX_S))
        self._blocked_until = max(self._blocked_until, now + seconds)

    def _find_deadline_error(self, permit: CallPermit, now: float) -> RateLimited | None:
        """Return an error if the provider is blocked for longer than the call may wait; one call a minute probes it."""
        if now >= self._paused_until or self._blocked_until <= permit.deadline:
            return None
        return _build_final_error(
            f"{self.provider_name} accepts no calls for {format_span(self._blocked_until - now)}",
            self._blocked_until - now,
        )

    # --- notices to waiting calls ----------------------------------------------------------------

    def _notify_waiting(self) -> None:
        """Once per second: tell waiting calls why they wait, and fail those that are past their deadline."""
        self._notify_timer = None
        if not self.queue:
            return
        self._notify_timer = asyncio.get_running_loop().call_later(POLL_S, self._notify_waiting)
        now = self.clock.monotonic()
        per_second = max(self.rate.meter.rate(now, 0.0), 0.1)
        paused_s = max(0.0, self._paused_until - now)
        for ahead, permit in enumerate(self.queue.list_in_order()):
            if (error := self._find_deadline_error(permit, now)) is not None:
                self.queue.remove(permit)
                permit.wake(error)
            elif now >= permit.deadline:
                self.queue.remove(permit)
                waited = format_span(now - permit.created_at)
                message = f"the rate limit of {self.provider_name} did not allow this call within {waited}"
                permit.wake(_build_final_error(message, None))
            elif (
                permit.on_wait is not None
                and permit.notified_until < now + POLL_S
                and now - permit.created_at >= NOTIFY_AFTER_S
                and (ahead or not self._paused_until <= now < self._paused_until + POLL_S)  # else it is sent at once
            ):
                # the first call is sent when the pause ends
                estimate_s = paused_s + ahead / per_second if paused_s else (ahead + 1) / per_second
                permit.notify_waiting(_describe_wait(self.provider_name, ahead, paused_s), estimate_s, now)
        self.dispatch()


def _describe_wait(provider_name: str, ahead: int, paused_s: float) -> str:
    others = f"{ahead} call{'s are' if ahead > 1 else ' is'} ahead" if ahead else ""
    if paused_s > 0:
        return f"{provider_name} asks to slow down{f'; {others}' if others else ''}"
    return f"the rate limit of {provider_name} is reached at the moment{f': {others}' if others else ''}"


def _build_final_error(sentence: str, retry_after_s: float | None) -> RateLimited:
    error = RateLimited(sentence, retry_after_s=retry_after_s)
    error.retryable = False  # the call has waited already
    return error


class RateLimiterRegistry:
    """The rate limiters of this process, one per account and model."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._limiters: dict[tuple[str, str], RateLimiter] = {}

    def get_limiter(self, account: str, provider_name: str, model: str) -> RateLimiter:
        """Return the limiter of an account and model; `account` is a digest of address and API key."""
        limiter = self._limiters.get((account, model))
        if limiter is None:
            if len(self._limiters) >= ACCOUNTS_MAX:
                self._limiters.clear()  # providers keep the limiters they have
            limiter = self._limiters[account, model] = RateLimiter(provider_name, self._clock, model)
        return limiter

    def snapshot_states(self) -> list[RateLimiterState]:
        return [limiter.snapshot_state() for limiter in self._limiters.values()]


def format_span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
