"""A model call on its way to a provider: what it weighs, whether it waits, and who is told of that."""

from __future__ import annotations

import asyncio
from typing import Protocol

from mainstay.core.allowance import Allowance, Kind
from mainstay.core.errors import ProviderError, RateLimited
from mainstay.core.messages import Text, ToolCall, ToolResult
from mainstay.core.ports import Clock, Context, Options

LOOK_S = 1.0  # what is believed is looked at again so often while somebody waits
TOLD_FROM_S = 0.9  # whoever waits less is told nothing
TOLD_MAX_S = 30.0  # then whoever waits is told anew
LEARNT = 0.1  # of the length of an answer
ANSWER_TOKENS_MAX = 100_000
CHARS_A_TOKEN = 4


class Governing(Protocol):
    who: str
    clock: Clock
    typical: float  # tokens of an answer

    def admit(self, seat: Seat, now: float) -> bool: ...
    def queue(self, seat: Seat, now: float) -> None: ...
    def heard(self, seat: Seat, allowance: Allowance) -> None: ...
    def refused(self, seat: Seat, error: ProviderError) -> bool: ...
    def forget(self, seat: Seat) -> None: ...


class Seat:
    """One call's place: in the line, then under way. `enter` before it is sent, `leave` in any case."""

    __slots__ = (
        "_context", "_future", "_governor", "_options", "_prompt", "asked_at", "begins", "deadline", "heard_by_then",
        "in_line", "marks", "not_before", "notice", "number", "refusals", "sent", "sent_at", "since", "test",
        "told_until",
    )  # fmt: skip

    def __init__(self, governor: Governing, number: int, context: Context, options: Options, patience_s: float) -> None:
        self._governor = governor
        self._context = context
        self._options = options
        self._prompt = 0
        self._future: asyncio.Future[None] | None = None
        self.number = number
        self.begins = options.step == 1
        self.notice = options.notice
        self.since = self.asked_at = governor.clock.monotonic()
        self.deadline = self.since + patience_s
        self.told_until = 0.0
        self.in_line = False
        self.test = False  # it goes out to see whether what the provider says is true
        self.sent = 0
        self.sent_at = 0.0
        self.not_before = 0.0  # what the provider asked of this call alone
        self.refusals = 0
        self.heard_by_then = 0  # so many calls had been answered when it was refused last
        self.marks: dict[str, float] = {}

    async def enter(self) -> None:
        """Returns when the call may be sent; mostly at once. Raises RateLimited when that cannot be in time."""
        clock = self._governor.clock
        now = self.asked_at = clock.monotonic()
        if (rest_s := self.not_before - now) > 0:
            if self.notice is not None and rest_s >= TOLD_FROM_S:
                self.tell(f"{self._governor.who} asks to slow down", rest_s, now)
            await clock.sleep(rest_s)
            now = clock.monotonic()
        if self._governor.admit(self, now):
            return
        self._future = asyncio.get_running_loop().create_future()
        self._governor.queue(self, now)
        try:
            await self._future
        except asyncio.CancelledError:  # also if it was called in the same moment
            self._governor.forget(self)
            raise

    def heard(self, allowance: Allowance) -> None:
        self._governor.heard(self, allowance)

    def refused(self, error: ProviderError) -> bool:
        """False if it makes no sense to come back. Raises ContextTooLong if it is this call that is too large."""
        return self._governor.refused(self, error)

    def learn(self, tokens: int) -> None:
        """So long was the answer."""
        governor = self._governor
        governor.typical += LEARNT * (min(max(tokens, 1), ANSWER_TOKENS_MAX) - governor.typical)

    def leave(self) -> None:
        self._governor.forget(self)

    def weigh(self, kind: Kind) -> float:
        """As most providers count: the prompt, and what the answer may have at most, where they are told."""
        if kind == "requests":
            return 1.0
        if kind == "output":
            return self._governor.typical
        if not self._prompt:
            weigh = self._options.weigh
            self._prompt = max(weigh() if weigh is not None else _about(self._context), 1)
        reserved = self._options.output_tokens if kind == "tokens" else None
        return float(self._prompt + (reserved or 0))

    def call(self, error: RateLimited | None = None) -> None:
        future = self._future
        if future is not None and not future.done():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

    def tell(self, sentence: str, seconds: float, now: float) -> None:
        """What was waited already is not the model's time either."""
        assert self.notice is not None
        seconds = min(max(seconds, 2 * LOOK_S), TOLD_MAX_S)
        begun = self.told_until or self.since
        self.told_until = now + seconds
        self.notice(sentence, self.told_until - begun)


def _about(context: Context) -> int:
    """Without anybody who counts."""
    chars = len(context.system) + len(context.profile)
    for message in context.messages:
        for part in message.parts:
            match part:
                case Text(text=text):
                    chars += len(text)
                case ToolCall(input=input):
                    chars += len(input)
                case ToolResult(content=content):
                    chars += len(content)
    return chars // CHARS_A_TOKEN
