"""Resilient provider: rate limiting, retries with backoff, circuit breakers and failover around other providers.

A provider with a rate limiter is called when there is capacity. A 429 or 529 is handled by the rate limiter: the call
goes back into the queue, which is neither a retry nor a failure.

All of this applies only until the first piece of output. Output cannot be taken back, so later errors pass through to
the caller.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from msgspec import structs

from mainstay.core.errors import (
    CircuitOpen,
    MainstayError,
    Overloaded,
    ProviderBroken,
    ProviderError,
    RateLimited,
    RequestRefused,
    StreamBroken,
    Unauthorised,
    Unreachable,
)
from mainstay.core.limits import Limits
from mainstay.core.ports import Clock, Context, IdGenerator, ModelInfo, Options, Piece, Provider, StreamFinished
from mainstay.core.rate_limits import NO_RATE_LIMITS
from mainstay.core.supervision import must_end_task
from mainstay.metering.call_permit import CallPermit
from mainstay.metering.circuit_breaker import CircuitBreaker
from mainstay.metering.rate_limiter import PAUSE_MAX_S, RateLimiter, format_span
from mainstay.metering.worst_case_prices import combine_highest_prices

OUTPUT_DIVISOR = 4  # one answer takes at most a quarter of the account's token limit
OUTPUT_TOKENS_MIN = 1024  # and is never limited to less
NOT_RUNNING_RETRIES_MAX = 3  # 0.5, 1 and 2 s: less than 5 s with the connections and the jitter
PROBE_POLL_S = 0.5  # how often a call that waits for another's probe checks it

log = logging.getLogger("mainstay.metering")


class ResilientProvider:
    """Several providers as one: the first is preferred, the others are failover. `limiters` has one per provider."""

    def __init__(
        self,
        providers: Sequence[Provider],
        *,
        clock: Clock,
        ids: IdGenerator,
        limits: Limits,
        limiters: Sequence[RateLimiter | None] = (),
    ) -> None:
        assert providers, "at least one provider is needed"
        self._limiters = tuple(limiters) or (None,) * len(providers)
        self._providers = tuple(providers)
        self._breakers = tuple(CircuitBreaker(clock, limits) for _ in providers)
        self._clock = clock
        self._ids = ids
        self._limits = limits

    def model(self) -> ModelInfo:
        return self._providers[0].model()

    def dearest(self) -> ModelInfo:
        """Return the model info for cost estimates: the highest prices of all providers that may answer.

        Providers count the maximum output against the account's limit, so where that limit is known, the default
        output is at most a part of it.
        """
        model = combine_highest_prices([provider.model() for provider in self._providers])
        limiter = self._limiters[0]
        limit = limiter.tokens_max() if limiter is not None else None
        share = max(limit // OUTPUT_DIVISOR, OUTPUT_TOKENS_MIN) if limit is not None else model.output
        return model if model.output <= share else structs.replace(model, output=share)

    def list_breaker_waits(self) -> list[tuple[str, float]]:
        """Return each model's name and for how many seconds its circuit breaker stays open."""
        pairs = zip(self._providers, self._breakers, strict=True)
        return [(provider.model().name, breaker.open_for_s()) for provider, breaker in pairs]

    async def close(self) -> None:
        for provider in self._providers:
            await provider.close()

    async def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        """Stream from the first provider that answers. Raises the last provider's error."""
        retry_wait: _RetryWait | None = None
        last = len(self._providers) - 1
        earlier = ""
        for index, provider in enumerate(self._providers):
            breaker = self._breakers[index]
            capped = _cap_output(provider, options)
            permit = self._create_permit(index, context, capped)
            if retry_wait is not None:
                retry_wait.attempt = 0
            while True:
                attempt = _ProviderAttempt(provider, breaker, permit)
                try:
                    piece = await attempt.start_stream(context, capped)
                    if piece is not None:
                        yield attempt.complete_piece(piece, is_failover=index > 0)
                        async for piece in attempt.remaining_pieces():
                            yield attempt.complete_piece(piece, is_failover=index > 0)
                    return
                except ProviderError as error:
                    attempt.record_failure(error, is_retry=retry_wait is not None and retry_wait.attempt > 0)
                    if attempt.has_output or isinstance(error, RequestRefused):
                        raise
                    if permit is not None and _is_out_of_capacity(error):
                        failed = retry_wait.attempt if retry_wait is not None else 0
                        if self._record_refused(permit, error, failed):
                            continue
                        error.retryable = False
                    if index < last and _should_fail_over(error):
                        earlier += f"; before that, {error}"
                        break
                    if retry_wait is None:
                        retry_wait = _RetryWait(self._clock, self._ids, self._limits, options)
                    if isinstance(error, CircuitOpen) and await retry_wait.wait_for_probe(error, breaker):
                        continue
                    refused = permit.refused_requests if permit is not None else 0
                    if not await retry_wait.wait_before_retry(error, breaker.open_for_s(), refused):
                        earlier, before = earlier + f"; before that, {error}", earlier
                        if index < last:
                            break
                        error.details += before
                        raise
                except MainstayError:  # of a callback
                    raise
                except BaseException as error:  # a bug in the provider's code, which may come with another distribution
                    if must_end_task(error):
                        raise
                    raise self._describe_bug(index, error) from error
                finally:
                    await attempt.close()

    def _record_refused(self, permit: CallPermit, error: ProviderError, failed: int) -> bool:
        """Record a 429 or 529; return True if the call goes back into the rate limiter's queue. `failed`: retries after
        other errors, which `retries_max` bounds together with these."""
        limits, refused = self._limits, permit.refused_requests + 1
        if 2 * refused > limits.retries_max:  # half of them are used up: from now on it goes before new turns
            permit.may_test = permit.starts_turn = False
        backoff_s = compute_delay_s(
            limits, attempt=refused, retry_after_s=None, waited_s=permit.backed_off_s, chance=self._ids.random()
        )
        if failed + refused > limits.retries_max:
            backoff_s = None
        may_wait = permit.record_refused(error, backoff_s or 0.0)
        if may_wait and backoff_s is not None:
            return True
        if not may_wait:  # it would take longer than the call may wait
            name_pause(error)
        elif refused > 1:
            error.args = (f"{error}; this call was refused {refused} times",)
        return False

    def _describe_bug(self, index: int, error: BaseException) -> ProviderBroken:
        limiter, model = self._limiters[index], self._providers[index].model().name
        name = f"{limiter.provider_name} (model {model})" if limiter is not None else f"of the model {model}"
        return ProviderBroken(f"The code of the provider {name} failed with {type(error).__name__}.")

    def _create_permit(self, index: int, context: Context, options: Options) -> CallPermit | None:
        """Create the call's permit; with a failover provider left, it waits no longer than retries would."""
        limiter = self._limiters[index]
        if limiter is None:
            return None
        last = index == len(self._providers) - 1
        return limiter.create_permit(
            context, options, self._limits.queue_wait_max_s if last else self._limits.retry_wait_max_s
        )


def _cap_output(provider: Provider, options: Options) -> Options:
    """Cap the requested output at the provider's maximum, which may be smaller for a failover model."""
    most = provider.model().output
    requested = options.output_tokens_max
    return options if requested is None or requested <= most else structs.replace(options, output_tokens_max=most)


def _should_fail_over(error: ProviderError) -> bool:
    """Return True if the next provider should be called at once instead of retrying this one."""
    return isinstance(error, Unauthorised | Unreachable | StreamBroken | CircuitOpen) or not error.retryable


def _is_out_of_capacity(error: ProviderError) -> bool:
    """Return True for 429 and 529: the provider works, but has no capacity."""
    return error.retryable and isinstance(error, RateLimited | Overloaded) and not error.counts_as_failure


class _ProviderAttempt:
    """One call to one provider, admitted by its rate limiter and its circuit breaker."""

    __slots__ = ("_breaker", "_failures_before", "_is_admitted", "_permit", "_provider", "_stream", "has_output")

    def __init__(self, provider: Provider, breaker: CircuitBreaker, permit: CallPermit | None) -> None:
        self._provider = provider
        self._breaker = breaker
        self._permit = permit
        self._is_admitted = False
        self._failures_before = 0
        self._stream: AsyncIterator[Piece] | None = None
        self.has_output = False

    async def start_stream(self, context: Context, options: Options) -> Piece | None:
        """Return the first piece, or None for a stream that ended without output or error. Raises CircuitOpen."""
        permit = self._permit
        breaker = self._breaker
        is_open = breaker.open_for_s() > 0 or breaker.probe_wait_s() > 0  # queueing would be useless
        if permit is not None and not is_open:
            await permit.acquire()
            options = structs.replace(options, on_rate_limits=permit.record_accepted)
        self._is_admitted = breaker.admit()
        if not self._is_admitted:
            raise self._build_circuit_open()
        self._failures_before = breaker.failures_total
        if options.on_sent is not None:
            options.on_sent()
        self._stream = self._provider.stream(context, options)
        try:
            first = await self._stream.__anext__()
        except StopAsyncIteration:
            return None
        self.has_output = True
        breaker.record_first_output()
        if permit is not None:
            permit.record_accepted(NO_RATE_LIMITS)  # for providers that report no quota
        return first

    def _build_circuit_open(self) -> CircuitOpen:
        name, closed_s = self._provider.model().name, self._breaker.open_for_s()
        if closed_s > 0:
            sentence = f"{name} failed too often and is not called for {max(closed_s, 1):.0f} s"
            return CircuitOpen(sentence, retry_after_s=closed_s)
        return CircuitOpen(f"{name} failed too often; another call is testing whether it works again")

    def remaining_pieces(self) -> AsyncIterator[Piece]:
        assert self._stream is not None, "start_stream comes first"
        return self._stream

    def complete_piece(self, piece: Piece, *, is_failover: bool) -> Piece:
        """Return the piece to yield. The last one is the call's success, recorded here: consumers leave after it.

        On the last piece of a failover answer the answering model is set, so that its prices apply.
        """
        if not isinstance(piece, StreamFinished):
            return piece
        self._is_admitted = False
        self._breaker.record_success()
        if self._permit is not None:
            self._permit.learn_output_tokens(self._provider.model().check_usage(piece.usage).completion)
        return structs.replace(piece, model=self._provider.model()) if is_failover else piece

    def record_failure(self, error: ProviderError, *, is_retry: bool) -> None:
        if self._is_admitted:
            self._is_admitted = False
            if error.counts_as_failure:
                self._breaker.record_failure(is_retry=is_retry, failures_before=self._failures_before)
            else:
                self._breaker.record_ignored()

    async def close(self) -> None:
        """Release the permit and close the stream now, not at garbage collection."""
        if self._permit is not None:
            self._permit.release()
        if self._is_admitted:
            self._breaker.record_ignored()
        stream, self._stream = self._stream, None
        if isinstance(stream, AsyncGenerator):  # a plain iterator has nothing to close
            await stream.aclose()


class _RetryWait:
    """Retry waits of one call, over all providers that it tries."""

    __slots__ = ("_clock", "_has_long_pause", "_ids", "_limits", "_options", "_waited_s", "attempt")

    def __init__(self, clock: Clock, ids: IdGenerator, limits: Limits, options: Options) -> None:
        self._clock = clock
        self._ids = ids
        self._limits = limits
        self._options = options
        self._waited_s = 0.0
        self._has_long_pause = False  # an error asked for more than `PAUSE_MAX_S`
        self.attempt = 0

    async def wait_for_probe(self, error: ProviderError, breaker: CircuitBreaker) -> bool:
        """Wait for another call's probe of the breaker; False if there is none, or the retry time is used up."""
        if breaker.probe_wait_s() == 0 or self._waited_s >= self._limits.retry_wait_max_s:
            return False
        if self._options.on_wait is not None:
            self._options.on_wait(str(error), breaker.probe_wait_s())
        while (left_s := breaker.probe_wait_s()) > 0:
            seconds = min(left_s, PROBE_POLL_S)
            self._waited_s += seconds
            await self._clock.sleep(seconds)
        return True

    async def wait_before_retry(self, error: ProviderError, open_for_s: float, refused: int) -> bool:
        """Wait before the next retry and report it; False if no retry is left. `refused`: retries by the rate limiter,
        which `retries_max` bounds together with these."""
        if not error.retryable and not (isinstance(error, CircuitOpen) and self.attempt):
            return False
        self.attempt += 1
        limits = choose_retry_limits(self._limits, error)
        seconds = compute_delay_s(
            limits,
            attempt=self.attempt,
            retry_after_s=max(self._find_requested_s(error), open_for_s) or None,
            waited_s=self._waited_s,
            chance=self._ids.random(),
        )
        if self.attempt + refused > self._limits.retries_max:
            return False
        if seconds is None:
            if self.attempt <= limits.retries_max and not isinstance(error, CircuitOpen):
                name_pause(error)
            return False
        log.warning("%s; retrying in %.0f s", error, seconds)
        if self._options.on_wait is not None:
            self._options.on_wait(f"{error}; retrying in {seconds:.0f} s", seconds)
        self._waited_s += seconds
        await self._clock.sleep(seconds)
        return True

    def _find_requested_s(self, error: ProviderError) -> float:
        """Return for how long an error asks to wait. A pause of more than a minute may be a mistake: it is believed
        when a second error asks for one."""
        requested_s = error.retry_after_s or 0.0
        if requested_s <= PAUSE_MAX_S or isinstance(error, CircuitOpen):
            return requested_s
        is_confirmed, self._has_long_pause = self._has_long_pause, True
        return requested_s if is_confirmed else 0.0


def name_pause(error: ProviderError) -> None:
    """Add to the error's sentence how long the provider takes no calls: it is raised because that is too long."""
    if error.retry_after_s:
        error.args = (f"{error}; it accepts no calls for {format_span(error.retry_after_s)}",)


def choose_retry_limits(limits: Limits, error: ProviderError) -> Limits:
    """Return the limits with the retries and the first delay for this error: a provider that has no capacity gets more
    time than one that fails, and a server that does not run on this machine hardly any."""
    if _is_out_of_capacity(error):
        return limits
    retries_max = min(limits.retries_max, limits.failure_retries_max)
    if isinstance(error, Unreachable) and error.is_not_running:
        retries_max = min(retries_max, NOT_RUNNING_RETRIES_MAX)
    base_s = min(limits.retry_base_s, limits.failure_retry_base_s)
    return structs.replace(limits, retries_max=retries_max, retry_base_s=base_s)


def compute_delay_s(
    limits: Limits, *, attempt: int, retry_after_s: float | None, waited_s: float, chance: float
) -> float | None:
    """Return the seconds to wait before retry number `attempt` (from 1); None: give up.

    The provider's `retry_after_s` is never undercut: an early retry is only refused again. Without it the delay doubles
    from `retry_base_s`. `chance` (0 to 1) spreads callers that were refused together. All waits of a call together stay
    within `retry_wait_max_s`.
    """
    left_s = limits.retry_wait_max_s - waited_s
    if attempt > limits.retries_max or left_s <= 0:
        return None
    own_s = limits.retry_base_s * 2.0 ** (attempt - 1)
    if retry_after_s is not None and retry_after_s > 0:
        if retry_after_s > left_s:
            return None
        return min(left_s, retry_after_s + min(retry_after_s, own_s) * limits.retry_jitter * chance)
    return min(left_s, own_s * (1 + limits.retry_jitter * (2 * chance - 1)))
