"""Admits the calls of one provider account, over all lanes and workspaces of a process.

What the provider says is left decides (`claims`); where it says nothing, or refuses all the same, the pace that it was
seen to bear (`pace`). Who has to wait stands in a line (`line`). A refusal is no error: the call keeps its place, and
is sent again when there is room. Everything here happens in one event loop, and only whoever has a seat ever waits.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import count

import msgspec

from mainstay.core.allowance import Allowance
from mainstay.core.errors import ContextTooLong, ProviderError, RateLimited
from mainstay.core.ports import Clock, Context, Options
from mainstay.metering.claims import Claims
from mainstay.metering.line import Line
from mainstay.metering.pace import Pace
from mainstay.metering.seat import LOOK_S, TOLD_FROM_S, Seat

log = logging.getLogger("mainstay.metering")

WINDOW = 128  # calls that may be under way before the provider has said a word about one
WINDOW_STEP = 256  # and so many more with every second
WINDOW_MAX = 65536
BACK_S, BACK_MAX_S = 0.25, 5.0  # after a refusal that does not say for how long
SOUND_S = 0.25  # after it one goes first; if it is not refused within this time, so do the others
BACK_PART = 0.25  # of the time that everybody was refused already
PROBE_S, PROBE_MAX_S = 2.0, 60.0  # in a storm one goes alone; if it says nothing, the next after 2, 4, 8 s
STUBBORN = 4  # refusals of one call: from there on it lets others go ahead, and waits by itself if they are answered
STUBBORN_S, STUBBORN_MAX_S = 2.0, 60.0
PAUSE_MAX_S = 60.0  # whoever asks for more is asked again by one call a minute
SURPRISES, SURPRISE_ANSWERED = 3, 0.05  # so many at a time; every twentieth answer makes up for one
ACCOUNTS_MAX = 1000
TYPICAL_TOKENS = 256.0  # of an answer


class State(msgspec.Struct, frozen=True, kw_only=True):
    """How an account stands, for people and for metrics."""

    who: str
    model: str = ""
    waiting: int = 0
    unheard: int = 0  # sent, and the provider has not said a word yet
    admitted: int = 0
    refused: int = 0  # 429 and 529; all of them were sent again
    waited_s: float = 0.0  # of all calls together
    pace: float | None = None  # calls a second; None: as many as come
    paused_s: float = 0.0
    left: dict[str, tuple[float, float]] = {}  # by name: what is left, and the limit
    believed: bool = True  # what the provider says is left is taken for true


class Governor:
    def __init__(self, who: str, clock: Clock, model: str = "") -> None:
        self.who = who
        self.model = model
        self.clock = clock
        self.line: Line[Seat] = Line()
        self.claims = Claims()
        self.pace = Pace()
        self.typical = TYPICAL_TOKENS
        self._numbers = count(1)
        self._sent = count(1)
        self._unheard: dict[int, Seat] = {}  # in the order in which they were sent
        self._window = WINDOW
        self._window_at = 0.0
        self._paused_until = 0.0
        self._closed_until = 0.0  # it asked for so long, whether anybody waits for that or not
        self._cut_at = -1.0
        self._answered = True  # somebody, since the last refusal
        self._sounding = 0  # the first call after it
        self._surprises = 0.0  # refusals that were not foreseen, less the more is answered
        self._storm = 0  # refusals in a row without an answer in between
        self._storm_at = 0.0
        self._probes = 0  # sent in the storm since the last refusal
        self._probe_at = 0.0
        self._heard = 0  # of all calls
        self._timer: asyncio.TimerHandle | None = None
        self._telling: asyncio.TimerHandle | None = None
        self._admitted = self._refused = 0
        self._waited_s = 0.0

    def seat(self, context: Context, options: Options, patience_s: float) -> Seat:
        """For one call: it enters, and leaves whatever becomes of it."""
        return Seat(self, next(self._numbers), context, options, patience_s)

    def state(self) -> State:
        now = self.clock.monotonic()
        return State(
            who=self.who,
            model=self.model,
            waiting=len(self.line),
            unheard=len(self._unheard),
            admitted=self._admitted,
            refused=self._refused,
            waited_s=self._waited_s,
            pace=self.pace.rate,
            paused_s=max(0.0, self._paused_until - now),
            left={name: (max(0.0, one.at(now)), one.limit) for name, one in self.claims.buckets.items()},
            believed=self.claims.believed(now),
        )

    # --- coming and going ------------------------------------------------------------------------

    def tokens_max(self) -> int | None:
        """That the account may use at once, answers with them; None if its provider never said so."""
        limits = [one.limit for one in self.claims.buckets.values() if one.kind in ("tokens", "output")]
        return int(min(limits)) if limits else None

    def admit(self, seat: Seat, now: float) -> bool:
        """At once, if nobody waits and nothing is in the way."""
        if self.line or self._wait_s(seat, now) > 0:
            return False
        self._send(seat, now)
        return True

    def queue(self, seat: Seat, now: float) -> None:
        if (refusal := self._hopeless(seat, now)) is not None:
            raise refusal
        self.line.join(seat)
        loop = asyncio.get_running_loop()
        if self._telling is None:
            self._telling = loop.call_later(LOOK_S, self._tell)
        self.look()

    def forget(self, seat: Seat) -> None:
        """It went away, in the line or under way; or it was over long ago."""
        if seat.in_line or seat.sent in self._unheard:
            self.line.leave(seat)
            self._unheard.pop(seat.sent, None)
            self.look()

    def _send(self, seat: Seat, now: float) -> None:
        seat.sent = next(self._sent)
        seat.sent_at = now
        self._unheard[seat.sent] = seat
        if not self._answered and not self._sounding:
            self._sounding = seat.sent
        if self._storm or now < self._closed_until:
            self._probes += 1
            self._probe_at = now
        self._admitted += 1
        self._waited_s += now - seat.asked_at
        if seat.test:
            self.claims.test(now)
        if self.claims:
            seat.marks = self.claims.take(seat.weigh, now)
        self.pace.take(now)

    def look(self) -> None:
        """Whose turn is it? Called whenever something has changed, and when the time has come."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.line:
            if self._telling is not None:
                self._telling.cancel()
                self._telling = None
            return
        now = self.clock.monotonic()
        self.pace.forget(now)
        while (seat := self.line.first(now)) is not None:
            wait_s = self._wait_s(seat, now)
            if wait_s > 0:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(max(min(wait_s, LOOK_S), 0.001), self.look)
                return
            self.line.take(seat)
            self._send(seat, now)
            seat.call()

    def _wait_s(self, seat: Seat, now: float) -> float:
        """For how long this call cannot go, for all that is known."""
        seat.test = False
        if now < self._paused_until:
            return self._paused_until - now
        if (self._storm or now < self._closed_until) and (wait_s := self._probing_s(now)) > 0:
            return wait_s
        first = self._unheard.get(self._sounding) if not self._answered else None
        if first is not None and (rest_s := first.sent_at + SOUND_S - now) > 0:  # refusals are quick, answers are not
            return rest_s
        if len(self._unheard) >= self._window:
            return self._widen(now)
        if (wait_s := self.pace.wait_s(now)) > 0:
            self.pace.grow(now)
            return wait_s
        if self.claims and (wait_s := self.claims.wait_s(seat.weigh, now)) > 0:
            seat.test = now - seat.since >= LOOK_S and self.claims.may_test(seat.weigh, now)
            return 0.0 if seat.test else max(min(wait_s, self.claims.until_test_s(now) or wait_s), 0.001)
        return 0.0

    def _probing_s(self, now: float) -> float:
        """One alone finds out whether it is over; but not for ever, for it may hang."""
        if not self._probes or not self._unheard or next(reversed(self._unheard.values())).sent_at <= self._cut_at:
            return 0.0
        return self._probe_at + min(PROBE_S * 2.0 ** (self._probes - 1), PROBE_MAX_S) - now

    def _widen(self, now: float) -> float:
        """A provider that takes its time is not one that is full."""
        if now - self._window_at >= 1.0:
            self._window_at = now
            self._window = min(self._window + WINDOW_STEP, WINDOW_MAX)
        return LOOK_S

    # --- what the provider says ------------------------------------------------------------------

    def heard(self, seat: Seat, allowance: Allowance) -> None:
        """It has taken the call."""
        if self._unheard.pop(seat.sent, None) is None:
            return
        now = self.clock.monotonic()
        self._heard += 1
        if allowance.lefts:
            self.claims.hear(allowance.lefts, seat, self._unheard.values(), now)
        self.pace.answered(now)
        self._surprises = max(0.0, self._surprises - SURPRISE_ANSWERED)
        if seat.sent_at > self._cut_at:
            self._answered = True
            self._storm = self._probes = 0
            self._paused_until = self._closed_until = 0.0
        if self._window < WINDOW_MAX:
            self._window += 1
        if seat.test and self.claims.was_answered(now):
            log.info("%s says that less is left than there is: it is not believed for a while", self.who)
            self.pace.begin(now)
        if self.line:
            self.look()

    def refused(self, seat: Seat, error: ProviderError) -> bool:
        """It has not: 429, or 529. False if it makes no sense to come back. Raises ContextTooLong if it never will."""
        self._unheard.pop(seat.sent, None)
        self._refused += 1
        seat.refusals += not seat.test  # that one was to be expected
        now = self.clock.monotonic()
        others, seat.heard_by_then = self._heard > seat.heard_by_then, self._heard  # were answered since the last time
        said = error.allowance
        if said is not None and said.lefts:
            self.claims.give_back(seat)
            tries = seat.refusals if others else 0
            if isinstance(error, RateLimited) and (refusal := self._outweighed(seat, said, tries, now)) is not None:
                raise refusal from error
            self.claims.hear(said.lefts, seat, self._unheard.values(), now)
        # without a word of its own, the time until all of it is there again is not when there is enough for one call
        asked_s = said.asked_s if said is not None and said.lefts else error.retry_after_s
        asked_s = max(asked_s or 0.0, 0.0)
        expected = self._explained(seat, said, now)
        if seat.test:
            self.claims.was_refused(now)
            expected = True
        stubborn = seat.refusals >= STUBBORN
        if stubborn and others:  # they are answered meanwhile: it is this call, and says nothing about the pace
            tries = min(seat.refusals - STUBBORN, 16)
            seat.not_before = now + min(max(asked_s, STUBBORN_S * 2.0**tries), STUBBORN_MAX_S)
        elif expected and asked_s <= BACK_MAX_S and not self._storms(seat):
            seat.not_before = max(seat.not_before, now + asked_s)  # it alone: what is left for others is known
        elif seat.sent_at <= self._cut_at:  # others who went out with it have been refused before
            self._pause(now, asked_s)
        else:
            self._slow_down(now, asked_s, storm=self._storms(seat))
        if stubborn and self.line:  # another one finds out how it is before this one comes back
            seat.not_before = max(seat.not_before, self._paused_until + SOUND_S)
        self.look()
        return self._hopeless(seat, now) is None and seat.not_before < seat.deadline

    def _outweighed(self, seat: Seat, said: Allowance, tries: int, now: float) -> ContextTooLong | None:
        """It is larger than what the account has when it has all of it."""
        left = self.claims.outweighed(said.lefts, seat, tries) if self.claims.believed(now) else None
        if left is None:
            return None
        self.claims.hear(said.lefts, seat, self._unheard.values(), now)
        self.claims.remember(left, seat)
        self.look()
        limit, weight = round(left.limit), round(seat.weigh(left.kind))
        return ContextTooLong(
            f"{self.who} takes at most {limit} tokens at once from this account, and this call has about {weight}",
            window=limit,
        )

    def _storms(self, seat: Seat) -> bool:
        """Of those who were sent since the last refusal nobody was answered, and nobody before this one may yet be."""
        if self._answered or seat.sent_at <= self._cut_at:
            return False
        older = next((one for one in self._unheard.values() if one.sent_at > self._cut_at), None)
        return older is None or older.sent > seat.sent

    def _explained(self, seat: Seat, said: Allowance | None, now: float) -> bool:
        """It says itself that there is too little left for this call, and that is not what it says all the time: then
        it is enough to know so."""
        if said is None or not self.claims.believed(now):
            return False
        if seat.sent_at > self.claims.since:  # else nothing was known when it was sent
            self._surprises = min(self._surprises + 1, 2 * SURPRISES)
        return self._surprises <= SURPRISES and any(one.left < seat.weigh(one.kind) for one in said.lefts)

    def _slow_down(self, now: float, asked_s: float, *, storm: bool) -> None:
        self._storm = self._storm + 1 if storm else 0
        self._cut_at, self._answered, self._sounding, self._probes = now, False, 0, 0
        if not storm:
            self._storm_at = now
        pause_s = max(asked_s, BACK_S, min(BACK_PART * (now - self._storm_at), BACK_MAX_S))
        self._pause(now, pause_s)
        self.pace.cut(now, min(pause_s, PAUSE_MAX_S), storm=storm)
        log.info("%s asks to slow down; %d calls wait", self.who, len(self.line))

    def _pause(self, now: float, seconds: float) -> None:
        self._paused_until = max(self._paused_until, now + min(seconds, PAUSE_MAX_S))
        self._closed_until = max(self._closed_until, now + seconds)

    def _hopeless(self, seat: Seat, now: float) -> RateLimited | None:
        """The provider asked for more time than this call has. Once a minute one finds out whether that is still so."""
        if now >= self._paused_until or self._closed_until <= seat.deadline:
            return None
        return _given_up(f"{self.who} takes no calls for {_span(self._closed_until - now)}", self._closed_until - now)

    # --- whoever waits is told -------------------------------------------------------------------

    def _tell(self) -> None:
        self._telling = None
        if not self.line:
            return
        self._telling = asyncio.get_running_loop().call_later(LOOK_S, self._tell)
        now = self.clock.monotonic()
        a_second = max(self.pace.meter.rate(now, 0.0), 0.1)
        paused_s = max(0.0, self._paused_until - now)
        for ahead, seat in enumerate(self.line.order()):
            if (hopeless := self._hopeless(seat, now)) is not None:
                self.line.leave(seat)
                seat.call(hopeless)
            elif now >= seat.deadline:
                self.line.leave(seat)
                seat.call(_given_up(f"{self.who} had no room for this call within {_span(now - seat.since)}", None))
            elif seat.notice is not None and seat.told_until < now + LOOK_S and now - seat.since >= TOLD_FROM_S:
                seat.tell(_why(self.who, ahead, paused_s), max(paused_s, (ahead + 1) / a_second), now)
        self.look()


def _why(who: str, ahead: int, paused_s: float) -> str:
    others = f"{ahead} call{'s are' if ahead > 1 else ' is'} ahead" if ahead else ""
    if paused_s >= 1:
        return f"{who} asks to slow down, for {_span(paused_s)} more{f'; {others}' if others else ''}"
    return f"{who} has no room for more at the moment{f': {others}' if others else ''}"


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _given_up(sentence: str, after_s: float | None) -> RateLimited:
    error = RateLimited(sentence, retry_after_s=after_s)
    error.retry = False  # whoever asked has waited already
    return error


class Governors:
    """One for each account and model that this process asks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._made: dict[tuple[str, str], Governor] = {}

    def of(self, account: str, who: str, model: str) -> Governor:
        """`account` tells addresses and keys apart, and says neither."""
        made = self._made.get((account, model))
        if made is None:
            if len(self._made) >= ACCOUNTS_MAX:
                self._made.clear()  # whoever has one goes on with it
            made = self._made[account, model] = Governor(who, self._clock, model)
        return made

    def states(self) -> list[State]:
        return [one.state() for one in self._made.values()]
