"""A provider that does not give up at once: it waits for its turn, asks again, and turns to the next one.

A provider that has a governor is asked when there is room. That it has none (429, 529) is the governor's business: such
a call goes back into the line, which is no retry and no failure.

All of that only until the first piece. What has been said cannot be taken back, so after it errors pass through, and
whoever asked decides.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from msgspec import structs

from mainstay.core.allowance import NOTHING
from mainstay.core.errors import (
    CircuitOpen,
    Overloaded,
    ProviderError,
    RateLimited,
    RequestRefused,
    Unauthorised,
    Unreachable,
)
from mainstay.core.limits import Limits
from mainstay.core.ports import Clock, Context, Finished, Ids, ModelInfo, Options, Piece, Provider
from mainstay.metering.backoff import delay_s
from mainstay.metering.breaker import Breaker
from mainstay.metering.governor import Governor
from mainstay.metering.prices import dearest
from mainstay.metering.seat import Seat

OUTPUT_PART = 4  # of what an account may use, at most one answer takes a quarter
OUTPUT_LEAST = 1024
PROBE_LOOK_S = 0.5  # whoever waits for another call looks so often

log = logging.getLogger("mainstay.metering")


class Resilient:
    """Several providers as one, the first being the one that is meant. `governors` are theirs, where they have one."""

    def __init__(
        self,
        providers: Sequence[Provider],
        *,
        clock: Clock,
        ids: Ids,
        limits: Limits,
        governors: Sequence[Governor | None] = (),
    ) -> None:
        assert providers, "there is nobody to ask"
        self._governors = tuple(governors) or (None,) * len(providers)
        self._providers = tuple(providers)
        self._breakers = tuple(Breaker(clock, limits) for _ in providers)
        self._clock = clock
        self._ids = ids
        self._limits = limits

    def model(self) -> ModelInfo:
        return self._providers[0].model()

    def dearest(self) -> ModelInfo:
        """At the highest prices of all that may answer. Providers count the longest answer against what the account
        may use, so where that is known, no call asks for more than a part of it unless somebody says so."""
        made = dearest([provider.model() for provider in self._providers])
        governor = self._governors[0]
        limit = governor.tokens_max() if governor is not None else None
        share = max(limit // OUTPUT_PART, OUTPUT_LEAST) if limit is not None else made.output
        return made if made.output <= share else structs.replace(made, output=share)

    def resting(self) -> list[tuple[str, float]]:
        """Each model of them, and for how many seconds it is left alone."""
        pairs = zip(self._providers, self._breakers, strict=True)
        return [(provider.model().name, breaker.closed_for_s()) for provider, breaker in pairs]

    async def close(self) -> None:
        for provider in self._providers:
            await provider.close()

    async def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        waiting: _Waiting | None = None
        last = len(self._providers) - 1
        earlier = ""
        for place, provider in enumerate(self._providers):
            breaker = self._breakers[place]
            asked = _within(provider, options)
            seat = self._seat(place, context, asked)
            if waiting is not None:
                waiting.attempt = 0
            while True:
                answer = _Attempt(provider, breaker, seat)
                try:
                    piece = await answer.begin(context, asked)
                    if piece is not None:
                        yield piece if place == 0 else _signed(piece, provider)
                        async for piece in answer.rest():
                            yield piece if place == 0 else _signed(piece, provider)
                    answer.succeeded(piece)
                    return
                except ProviderError as error:
                    answer.failed(error, again=waiting is not None and waiting.attempt > 0)
                    if answer.spoken or isinstance(error, RequestRefused):
                        raise
                    if seat is not None and _has_no_room(error):
                        if seat.refused(error):
                            continue
                        error.retry = False  # it would take longer than anybody may wait
                    if place < last and _is_hopeless(error):
                        earlier += f"; before that, {error}"
                        break
                    if waiting is None:
                        waiting = _Waiting(self._clock, self._ids, self._limits, options)
                    if isinstance(error, CircuitOpen) and await waiting.for_probe(error, breaker):
                        continue
                    if not await waiting.before_retry(error, breaker.closed_for_s()):
                        earlier, said = earlier + f"; before that, {error}", earlier
                        if place < last:
                            break
                        error.details += said
                        raise
                finally:
                    await answer.close()

    def _seat(self, place: int, context: Context, options: Options) -> Seat | None:
        """Where there is somebody else to ask, nobody waits longer for the first than it would take to try again."""
        governor = self._governors[place]
        if governor is None:
            return None
        last = place == len(self._providers) - 1
        return governor.seat(context, options, self._limits.queue_wait_max_s if last else self._limits.retry_wait_max_s)


def _within(provider: Provider, options: Options) -> Options:
    """Nobody is asked for more than it can say: a model that stands in may have less than the one that was meant."""
    most = provider.model().output
    wanted = options.output_tokens
    return options if wanted is None or wanted <= most else structs.replace(options, output_tokens=most)


def _signed(piece: Piece, provider: Provider) -> Piece:
    """Who stands in says so at the end: tokens are paid at its price."""
    return structs.replace(piece, by=provider.model()) if isinstance(piece, Finished) else piece


def _is_hopeless(error: ProviderError) -> bool:
    """Waiting for this one makes no sense while there is another to ask."""
    return isinstance(error, Unauthorised | Unreachable | CircuitOpen) or not error.retry


def _has_no_room(error: ProviderError) -> bool:
    """429 and 529: nothing is wrong with it, it has only too much to do."""
    return error.retry and isinstance(error, RateLimited | Overloaded) and not error.counts


class _Attempt:
    """One call of one provider: admitted by its governor, watched by its breaker."""

    __slots__ = ("_admitted", "_breaker", "_provider", "_seat", "_stream", "spoken")

    def __init__(self, provider: Provider, breaker: Breaker, seat: Seat | None) -> None:
        self._provider = provider
        self._breaker = breaker
        self._seat = seat
        self._admitted = False
        self._stream: AsyncIterator[Piece] | None = None
        self.spoken = False

    async def begin(self, context: Context, options: Options) -> Piece | None:
        """The first piece, or None for a stream that said nothing and did not complain."""
        seat = self._seat
        breaker = self._breaker
        shut = breaker.closed_for_s() > 0 or breaker.probed_for_s() > 0  # there is nothing to stand in line for
        if seat is not None and not shut:
            await seat.enter()
            options = structs.replace(options, heard=seat.heard)
        self._admitted = breaker.admit()
        if not self._admitted:
            raise self._left_alone()
        if options.sent is not None:
            options.sent()
        self._stream = self._provider.stream(context, options)
        try:
            first = await self._stream.__anext__()
        except StopAsyncIteration:
            return None
        self.spoken = True
        breaker.spoke()
        if seat is not None:
            seat.heard(NOTHING)  # of those who do not say what is left
        return first

    def _left_alone(self) -> CircuitOpen:
        name, closed_s = self._provider.model().name, self._breaker.closed_for_s()
        if closed_s > 0:
            sentence = f"{name} failed too often and is left alone for {max(closed_s, 1):.0f} s"
            return CircuitOpen(sentence, retry_after_s=closed_s)
        return CircuitOpen(f"{name} failed too often, and another call finds out whether it works again")

    def rest(self) -> AsyncIterator[Piece]:
        assert self._stream is not None, "begin comes first"
        return self._stream

    def succeeded(self, last: Piece | None) -> None:
        self._admitted = False
        self._breaker.succeeded()
        if self._seat is not None and isinstance(last, Finished):
            self._seat.learn(last.usage.completion)

    def failed(self, error: ProviderError, *, again: bool) -> None:
        if self._admitted:
            self._admitted = False
            if error.counts:
                self._breaker.failed(again=again)
            else:
                self._breaker.left()

    async def close(self) -> None:
        """Whatever happened, the stream is closed now, not when somebody collects the garbage."""
        if self._seat is not None:
            self._seat.leave()
        if self._admitted:
            self._breaker.left()
        stream, self._stream = self._stream, None
        if isinstance(stream, AsyncGenerator):  # a plain iterator has nothing to close
            await stream.aclose()


class _Waiting:
    """The patience of one call, over all providers that it asks."""

    __slots__ = ("_clock", "_ids", "_limits", "_options", "_waited_s", "attempt")

    def __init__(self, clock: Clock, ids: Ids, limits: Limits, options: Options) -> None:
        self._clock = clock
        self._ids = ids
        self._limits = limits
        self._options = options
        self._waited_s = 0.0
        self.attempt = 0

    async def for_probe(self, error: ProviderError, breaker: Breaker) -> bool:
        """Waits for what becomes of the call that finds out; False if there is none, or when patience is at an end."""
        if breaker.probed_for_s() == 0 or self._waited_s >= self._limits.retry_wait_max_s:
            return False
        if self._options.notice is not None:
            self._options.notice(str(error), breaker.probed_for_s())
        while (rest_s := breaker.probed_for_s()) > 0:
            seconds = min(rest_s, PROBE_LOOK_S)
            self._waited_s += seconds
            await self._clock.sleep(seconds)
        return True

    async def before_retry(self, error: ProviderError, closed_for_s: float) -> bool:
        """Waits as long as it takes and says so; False when patience is at an end."""
        if not error.retry and not (isinstance(error, CircuitOpen) and self.attempt):
            return False
        self.attempt += 1
        seconds = delay_s(
            self._limits,
            attempt=self.attempt,
            asked_s=max(error.retry_after_s or 0.0, closed_for_s) or None,
            waited_s=self._waited_s,
            chance=self._ids.random(),
        )
        if seconds is None:
            return False
        log.warning("%s; asking again in %.0f s", error, seconds)
        if self._options.notice is not None:
            self._options.notice(f"{error}; asking again in {seconds:.0f} s", seconds)
        self._waited_s += seconds
        await self._clock.sleep(seconds)
        return True
