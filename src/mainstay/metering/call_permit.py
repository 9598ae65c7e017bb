"""Permit of one model call: waits for the rate limiter, weighs the call, and reports waiting."""

from __future__ import annotations

import asyncio
from typing import Protocol

from mainstay.core.errors import ProviderError, RateLimited
from mainstay.core.messages import Text, ToolCall, ToolResult
from mainstay.core.ports import Clock, Context, Options
from mainstay.core.rate_limits import QuotaKind, RateLimitStatus

POLL_S = 1.0  # how often waiting calls are checked again
NOTIFY_AFTER_S = 0.9  # a shorter wait is not reported
NOTIFY_MAX_S = 30.0  # a longer wait is reported again
LEARNING_RATE = 0.1  # weight of a new answer in the typical length
ANSWER_TOKENS_MAX = 100_000
CHARS_PER_TOKEN = 4


class PermitIssuer(Protocol):
    """The rate limiter, as a permit uses it."""

    provider_name: str
    clock: Clock
    typical_output_tokens: float  # tokens of an answer
    backing_off: dict[int, CallPermit]  # by number: calls that wait for a time that is only a guess

    def try_admit(self, permit: CallPermit, now: float) -> bool: ...
    def enqueue(self, permit: CallPermit, now: float) -> None: ...
    def record_accepted(self, permit: CallPermit, status: RateLimitStatus) -> None: ...
    def record_refused(self, permit: CallPermit, error: ProviderError, backoff_s: float) -> bool: ...
    def release(self, permit: CallPermit) -> None: ...


class CallPermit:
    """One call in the queue, then in flight. `acquire` before it is sent, `release` in any case."""

    __slots__ = (
        "_context",
        "_future",
        "_limiter",
        "_options",
        "_prompt_tokens",
        "answered_at_refusal",
        "backed_off_s",
        "created_at",
        "deadline",
        "is_backing_off",
        "is_limit_test",
        "is_queued",
        "marks",
        "may_test",
        "not_before",
        "notified_until",
        "number",
        "on_wait",
        "refusals",
        "refused_requests",
        "requested_at",
        "send_number",
        "sent_at",
        "starts_turn",
    )  # fmt: skip

    def __init__(
        self, limiter: PermitIssuer, number: int, context: Context, options: Options, patience_s: float
    ) -> None:
        self._limiter = limiter
        self._context = context
        self._options = options
        self._prompt_tokens = 0
        self._future: asyncio.Future[None] | None = None
        self.number = number
        self.starts_turn = options.step == 1
        self.on_wait = options.on_wait
        self.created_at = self.requested_at = limiter.clock.monotonic()
        self.deadline = self.created_at + patience_s
        self.notified_until = 0.0
        self.is_queued = False
        self.is_backing_off = False  # waits for a time that is only guessed
        self.is_limit_test = False  # sent to test whether reported quotas are true
        self.send_number = 0
        self.sent_at = 0.0
        self.not_before = 0.0  # Retry-After of this call alone
        self.refusals = 0  # without those of limit tests, which were expected
        self.refused_requests = 0  # all of them
        self.backed_off_s = 0.0  # waits after refusals without a hint, together
        self.may_test = True  # may be sent although it will probably be refused
        self.answered_at_refusal = 0  # responses the limiter had counted at its last refusal
        self.marks: dict[str, float] = {}

    async def acquire(self) -> None:
        """Wait until the call may be sent, mostly not at all. Raises RateLimited if the wait exceeds its patience."""
        clock = self._limiter.clock
        now = self.requested_at = clock.monotonic()
        if (wait_s := self.not_before - now) > 0:
            if self.on_wait is not None and wait_s >= NOTIFY_AFTER_S:
                self.notify_waiting(f"{self._limiter.provider_name} asks to slow down", wait_s, now)
            await self._wait_alone(wait_s)
            now = clock.monotonic()
        if self._limiter.try_admit(self, now):
            return
        self._future = asyncio.get_running_loop().create_future()
        self._limiter.enqueue(self, now)
        try:
            await self._future
        except asyncio.CancelledError:  # also if it was admitted in the same moment
            self._limiter.release(self)
            raise

    def record_accepted(self, status: RateLimitStatus) -> None:
        self._limiter.record_accepted(self, status)

    def record_refused(self, error: ProviderError, backoff_s: float = 0.0) -> bool:
        """Record a refusal; return False if a retry is useless. Raises ContextTooLong if the call never fits.

        `backoff_s` is how long the call waits if neither the provider nor the rate limiter knows a time.
        """
        self.refused_requests += 1
        return self._limiter.record_refused(self, error, backoff_s)

    async def _wait_alone(self, seconds: float) -> None:
        """Wait outside of the queue; a wait whose length is only a guess ends with `end_backoff`."""
        if not self.is_backing_off:
            await self._limiter.clock.sleep(seconds)
            return
        loop = asyncio.get_running_loop()
        self._future = loop.create_future()
        timer = loop.call_later(seconds, self.wake)
        self._limiter.backing_off[self.number] = self
        try:
            await self._future
        finally:
            timer.cancel()
            del self._limiter.backing_off[self.number]
            self.is_backing_off = False

    def end_backoff(self) -> None:
        """End the wait after a refusal without a hint: another call was answered."""
        self.not_before = 0.0
        self.wake()

    def back_off(self, now: float, asked_s: float, backoff_s: float) -> None:
        """Let this call wait for `backoff_s` if the provider asked for no time; an answer to another ends the wait."""
        if not asked_s and backoff_s:
            self.backed_off_s += backoff_s
            self.is_backing_off = True
            self.not_before = max(self.not_before, now + backoff_s)

    def learn_output_tokens(self, tokens: int) -> None:
        """Update the account's typical answer length."""
        limiter = self._limiter
        limiter.typical_output_tokens += LEARNING_RATE * (
            min(max(tokens, 1), ANSWER_TOKENS_MAX) - limiter.typical_output_tokens
        )

    def release(self) -> None:
        self._limiter.release(self)

    def weigh(self, kind: QuotaKind) -> float:
        """Return the call's size as most providers count it: the prompt plus the requested maximum output."""
        if kind == "requests":
            return 1.0
        if kind == "output":
            return self._limiter.typical_output_tokens
        if not self._prompt_tokens:
            weigh = self._options.count_context_tokens
            self._prompt_tokens = max(weigh() if weigh is not None else _approximate_tokens(self._context), 1)
        reserved = self._options.output_tokens_max if kind == "tokens" else None
        return float(self._prompt_tokens + (reserved or 0))

    def wake(self, error: RateLimited | None = None) -> None:
        """Wake the waiting call: admitted, or failed with `error`."""
        future = self._future
        if future is not None and not future.done():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

    def notify_waiting(self, sentence: str, seconds: float, now: float) -> None:
        """Report waiting, with the time waited so far: neither counts against the model timeout."""
        assert self.on_wait is not None
        seconds = min(max(seconds, 2 * POLL_S), NOTIFY_MAX_S)
        reported_until = self.notified_until or self.created_at
        self.notified_until = now + seconds
        self.on_wait(sentence, self.notified_until - reported_until)


def _approximate_tokens(context: Context) -> int:
    """Estimate the tokens of a context without a tokenizer."""
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
    return chars // CHARS_PER_TOKEN
