"""Model calls beside the turn's own steps (judges, summaries) within a budget.

The maximal cost is reserved and on disk before the call is sent, and settled afterwards, however the call ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Self

from msgspec import structs

from mainstay.core.budget_ports import CallEstimate, TurnBudget
from mainstay.core.budget_reservation_ids import FOLD_ID_PREFIX, full_usage
from mainstay.core.errors import ModelSilent, StreamBroken
from mainstay.core.events import Reserved, Settled
from mainstay.core.messages import Usage
from mainstay.core.ports import (
    EventRecorder,
    ModelInfo,
    Options,
    Piece,
    Provider,
    StreamFinished,
    SummaryRequest,
    TextPiece,
    ThinkingPiece,
    ToolCallPiece,
)

FRAME_TOKENS = 64  # prompt tokens that a provider may add itself
FRAME_TOKENS_TOOLS = 512  # the same for a request with tools
OVERRUN_FACTOR_MAX = 2  # an answer that exceeds its granted tokens by this factor is cut
CHARS_PER_TOKEN = 4  # to measure such an answer by its length: more than most texts have


TokenCounter = Callable[[str, ModelInfo], int]  # returns the tokens of a text, for a model


def estimate_tokens(text: str, model: ModelInfo | None = None) -> int:
    """Estimate a text's tokens without a tokenizer, rather too high: three tokens for four bytes, as in numbers and
    encoded data."""
    return -(-len(text.encode(errors="replace")) * 3 // 4)


class AnswerMeter:
    """Measures a streamed answer against its token limit."""

    __slots__ = ("_chars_max", "_texts", "chars", "has_thinking_text")

    def __init__(self, output_tokens_max: int | None) -> None:
        self._chars_max = (
            output_tokens_max * OVERRUN_FACTOR_MAX * CHARS_PER_TOKEN if output_tokens_max is not None else None
        )
        self._texts: list[str] = []
        self.chars = 0
        self.has_thinking_text = False  # thinking text was streamed

    def add(self, piece: Piece) -> bool:
        """Add a piece; returns True if the answer far exceeds its limit."""
        match piece:
            case TextPiece(text=text):
                pass
            case ThinkingPiece(text=text):
                self.has_thinking_text = self.has_thinking_text or bool(text)
            case ToolCallPiece(name=name, input=input):
                text = name + input
            case _:
                return False
        self._texts.append(text)
        self.chars += len(text)
        return self.is_over_limit

    @property
    def is_over_limit(self) -> bool:
        return self._chars_max is not None and self.chars > self._chars_max

    @property
    def text(self) -> str:
        return "".join(self._texts)


def estimate_usage(
    reserved: Reserved, answer: AnswerMeter, count: Callable[[str], int], *, may_have_hidden_thinking: bool
) -> Usage:
    """Estimate the usage of a call whose provider did not report it: the prompt, and the answer as far as it came.

    `may_have_hidden_thinking`: the call broke off and may have used thinking tokens up to its limit. The result never
    exceeds the reservation, except for an answer that far exceeded its limit.
    """
    if may_have_hidden_thinking and not answer.has_thinking_text:
        return full_usage(reserved)
    tokens = count(answer.text)
    return Usage(
        reserved.prompt, max(tokens, reserved.output) if answer.is_over_limit else min(tokens, reserved.output)
    )


def fill_missing_counts(reported: Usage, answer: AnswerMeter, estimate: Callable[[], Usage]) -> Usage:
    """Return the usage with an estimate for a count that is 0 and cannot be: every call has a prompt, and output has
    tokens. A provider may omit a count, or report 0 for all calls, which would make a budget useless."""
    has_prompt, has_completion = reported.prompt > 0, reported.completion > 0 or not answer.chars
    if has_prompt and has_completion:
        return reported
    usage = estimate()
    missing = [name for name, known in (("prompt", has_prompt), ("completion", has_completion)) if not known]
    return structs.replace(
        reported,
        prompt=reported.prompt or usage.prompt,
        completion=reported.completion or usage.completion,
        correction=reported.correction or f"no {' and '.join(missing)} tokens were reported; they were estimated",
    )


def most_expensive_model(provider: Provider) -> ModelInfo:
    """Return the provider's model, or for a provider with failover (it has `dearest()`) the most expensive of its
    models."""
    model: ModelInfo = getattr(provider, "dearest", provider.model)()
    return model


def reports_sending(provider: Provider) -> bool:
    """Return whether the provider calls `Options.on_sent`: one with failover may delay a call, any other sends at
    once."""
    return hasattr(provider, "dearest")


class PausableTimeout:
    """A timeout that excludes time spent waiting for a budget or a rate limit."""

    __slots__ = ("_on_wait", "scope")

    def __init__(self, seconds: float, on_wait: Callable[[str, float], None] | None = None) -> None:
        self.scope = asyncio.timeout(seconds)
        self._on_wait = on_wait

    def extend(self, sentence: str, seconds: float) -> None:
        """Extend the timeout by a wait that was announced, and pass the notice on."""
        if (when := self.scope.when()) is not None and not self.scope.expired():
            self.scope.reschedule(when + seconds)
        if self._on_wait is not None:
            self._on_wait(sentence, seconds)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Stop the timeout while the block runs."""
        loop, when = asyncio.get_running_loop(), self.scope.when()
        if when is None or self.scope.expired():
            yield
            return
        left_s = when - loop.time()
        self.scope.reschedule(None)
        yield
        self.scope.reschedule(loop.time() + left_s)


class BudgetedCall:
    """A model call whose cost is reserved on entry and settled on exit of `async with`.

    Send it with `call.apply_grant(options)` and pass every piece to `observe`. Afterwards `usage` and `cost` are for
    the record that reports the call. A cancelled call has no such record: it is settled in the journal here, and both
    are empty.
    """

    def __init__(
        self,
        estimate: CallEstimate,
        provider: Provider,
        turn_budget: TurnBudget | None,
        recorder: EventRecorder | None,
        *,
        count_tokens: TokenCounter = estimate_tokens,
        timeout: PausableTimeout | None = None,
    ) -> None:
        self.usage: Usage | None = None
        self.cost = 0.0
        self.output_tokens_max = estimate.output_tokens_max
        self._estimate = estimate
        self._model = provider.model()
        self._turn_budget = turn_budget
        self._recorder = recorder
        self._count_for_model = count_tokens
        self._timeout = timeout
        self._reserved: Reserved | None = None
        self._answer = AnswerMeter(None)
        self._was_sent = not reports_sending(provider)
        self.is_open = False  # there is a reservation that no record has closed

    async def __aenter__(self) -> Self:
        """Reserve the cost and record the reservation; raises BudgetExhausted."""
        if self._turn_budget is not None:
            if self._timeout is None:
                reserved = await self._turn_budget.reserve(self._estimate)
            else:
                with self._timeout.pause():
                    reserved = await self._turn_budget.reserve(self._estimate)
            self._reserved, self._answer = reserved, AnswerMeter(reserved.output)
            self.output_tokens_max, self.is_open = reserved.output, True
            try:
                if self._recorder is not None:
                    await self._recorder.record(reserved)
            except BaseException:
                self._turn_budget.settle(reserved, None, 0.0)
                self.is_open = False
                raise
        return self

    def apply_grant(self, options: Options) -> Options:
        """Return the options with the granted output limit and the callbacks of this call."""
        notice = self._timeout.extend if self._timeout is not None else options.on_wait
        return structs.replace(
            options, output_tokens_max=self.output_tokens_max, on_sent=self._mark_sent, on_wait=notice
        )

    def _mark_sent(self) -> None:
        self._was_sent = True

    def observe(self, piece: Piece) -> None:
        """Measure a piece of the answer; raises StreamBroken if the answer far exceeds its limit."""
        self._was_sent = True
        if isinstance(piece, StreamFinished):
            model = piece.model or self._model
            usage = model.check_usage(piece.usage)
            if self._reserved is not None and usage.correction and not usage.prompt:
                usage = full_usage(self._reserved, usage.correction)
            if usage.prompt or usage.completion:
                if self._reserved is not None:
                    usage = fill_missing_counts(usage, self._answer, partial(self._estimate_usage, self._reserved))
                self._set_cost(usage, model)
        elif self._answer.add(piece):
            raise StreamBroken(f"the answer was cut: it far exceeded its limit of {self.output_tokens_max} tokens")

    def _count_tokens(self, text: str) -> int:
        return self._count_for_model(text, self._estimate.model)

    def _estimate_usage(self, reserved: Reserved, *, may_have_hidden_thinking: bool = False) -> Usage:
        return estimate_usage(
            reserved, self._answer, self._count_tokens, may_have_hidden_thinking=may_have_hidden_thinking
        )

    def _set_cost(self, usage: Usage, model: ModelInfo) -> None:
        self.usage, self.cost = usage, model.cost(usage)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        reserved, turn_budget = self._reserved, self._turn_budget
        if reserved is None or turn_budget is None:
            return
        cancelled = isinstance(error, asyncio.CancelledError)
        begun = error is None or self._answer.chars > 0 or isinstance(error, ModelSilent | StreamBroken)
        if self.usage is None and self._was_sent and (begun or cancelled):
            dearest = self._estimate.model
            usage = self._estimate_usage(reserved, may_have_hidden_thinking=error is not None and dearest.thinking)
            self._set_cost(usage, self._model if error is None else dearest)  # which model broke off is not known
        turn_budget.settle(reserved, self.usage, self.cost)
        if cancelled and self._recorder is not None:
            self._recorder.record_nowait(Settled(reserved.id, self.usage, self.cost), flush_soon=True)
            self.usage, self.cost, self.is_open = None, 0.0, False


class FoldBilling:
    """The budgeted calls of one fold. The `Folded` record closes them all; without it each is settled on its own."""

    def __init__(
        self, turn_budget: TurnBudget, recorder: EventRecorder, count_tokens: TokenCounter = estimate_tokens
    ) -> None:
        self._turn_budget = turn_budget
        self._recorder = recorder
        self._count_tokens = count_tokens
        self._calls: list[tuple[str, BudgetedCall]] = []
        self._reported: tuple[Usage, float] | None = None

    def open_call(
        self, provider: Provider, prompt: str, output_tokens_max: int | None, timeout: PausableTimeout
    ) -> BudgetedCall:
        """Return a new call with this prompt text."""
        id, model = f"{FOLD_ID_PREFIX}{len(self._calls) + 1}", most_expensive_model(provider)
        estimated = CallEstimate(
            id, model, self._count_tokens(prompt, model) + FRAME_TOKENS, output_tokens_max, timeout.extend
        )
        call = BudgetedCall(
            estimated, provider, self._turn_budget, self._recorder, count_tokens=self._count_tokens, timeout=timeout
        )
        self._calls.append((id, call))
        return call

    def total(self, usage: Usage, cost: float) -> tuple[Usage | None, float]:
        """Return the usage and cost of all calls. If the summariser called a model by itself, what it reports is
        charged instead."""
        if not self._calls:
            self._reported = usage, cost
            return usage, cost
        usages = [call.usage for _, call in self._calls if call.usage is not None]
        return sum(usages[1:], usages[0]) if usages else None, sum(call.cost for _, call in self._calls)

    def close(self, *, recorded: bool) -> None:
        """End billing. `recorded`: the fold's record is written and closes all calls."""
        if not recorded:
            settled = [Settled(id, call.usage, call.cost) for id, call in self._calls if call.is_open]
            self._recorder.record_nowait(*settled, flush_soon=True)
        if self._reported is not None:
            self._turn_budget.charge(*self._reported)
            if not recorded:
                self._recorder.record_nowait(Settled(FOLD_ID_PREFIX, *self._reported), flush_soon=True)
        self._turn_budget.close()


class BudgetedSummaryRequest(SummaryRequest, frozen=True, kw_only=True):
    """A summary request whose model calls are charged to a budget."""

    billing: FoldBilling
