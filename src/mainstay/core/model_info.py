"""Model descriptions: context window, output limit, abilities and prices."""

from __future__ import annotations

import math

import msgspec

from mainstay.core.messages import Usage
from mainstay.core.usage_bounds import format_count

WINDOW_FACTOR_MAX = 8  # how far a report may exceed the model's window: tokenizers differ, windows may be unknown
WINDOW_TOKENS_ASSUMED = 128_000  # the least window that reports are compared with
CORRECTION_CHARS_MAX = 300


class LongPromptPrices(msgspec.Struct, frozen=True, gc=False):
    """Prices of calls whose prompt is longer than `above` tokens, in dollars per million tokens."""

    above: int
    prompt: float
    completion: float
    cached: float | None = None
    written: float | None = None


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A model's limits (in tokens), abilities and prices (in dollars per million tokens)."""

    name: str
    window: int = 128_000  # context window
    output: int = 16_384  # maximal output
    images: bool = True
    thinking: bool = False
    price_prompt: float = 0.0
    price_completion: float = 0.0
    price_cached: float | None = None  # of prompt tokens read from the provider's cache; None: as `price_prompt`
    price_written: float | None = None  # of prompt tokens written to that cache; None: as `price_prompt`
    long: LongPromptPrices | None = None
    guessed: bool = False  # the prices are not published: these are estimated, or 0
    terse: bool = False  # small and slow to read: it gets few tools and short instructions

    def prices_for(self, prompt_tokens: int) -> LongPromptPrices:
        """Return the prices of a call whose prompt has this many tokens."""
        if self.long is not None and prompt_tokens > self.long.above:
            return self.long
        return LongPromptPrices(0, self.price_prompt, self.price_completion, self.price_cached, self.price_written)

    def check_usage(self, usage: Usage) -> Usage:
        """Return the usage if a call of this model can have it, else an empty one with the reason in `correction`.

        The counts may have any type: a provider's code is not believed either.
        """
        most = WINDOW_FACTOR_MAX * max(self.window, self.output, WINDOW_TOKENS_ASSUMED)
        counts = (usage.prompt, usage.completion, usage.cached, usage.reasoning, usage.written)
        if (
            all(type(count) is int and 0 <= count <= most for count in counts)
            and usage.cached + usage.written <= usage.prompt
            and usage.reasoning <= usage.completion
        ):
            correction = usage.correction
            if isinstance(correction, str) and len(correction) <= CORRECTION_CHARS_MAX:
                return usage
            return msgspec.structs.replace(usage, correction=str(correction)[:CORRECTION_CHARS_MAX])
        prompt, completion, cached, reasoning, written = map(format_count, counts)
        parts = f"{cached} cached, {written} written, {reasoning} reasoning"
        sentence = f"the provider reported {prompt} prompt and {completion} completion tokens, {parts}"
        return Usage(correction=f"not believed: {sentence}")

    def cost(self, usage: Usage) -> float:
        """Return the cost in dollars, rounded up to whole nanodollars."""
        prices = self.prices_for(usage.prompt)
        cached = prices.prompt if prices.cached is None else prices.cached
        written = prices.prompt if prices.written is None else prices.written
        fresh = max(usage.prompt - usage.cached - usage.written, 0)
        total = fresh * prices.prompt + usage.completion * prices.completion
        total += usage.cached * cached + usage.written * written
        return math.ceil(round(total * 1000, 3)) / 1_000_000_000


def find_description_problem(info: object) -> str:
    """Return what is wrong with a model's description that a provider in code gives, as a clause; "" if nothing is.

    A name that is no text would be in records that cannot be read back; other values would fail every turn.
    """
    if not isinstance(info, ModelInfo):
        return f"it is of the type {type(info).__name__}, not ModelInfo"
    try:
        msgspec.convert(msgspec.structs.asdict(info), ModelInfo)
        info.name.encode()
    except (msgspec.ValidationError, UnicodeEncodeError, OverflowError) as error:
        return str(error)
    long = info.long or LongPromptPrices(0, 0.0, 0.0)
    usual = (info.price_prompt, info.price_completion, info.price_cached, info.price_written)
    for number in (info.window, info.output, *usual, *msgspec.structs.astuple(long)):
        if number is not None and not (isinstance(number, int | float) and 0 <= number < math.inf):
            return f"its numbers must be finite and at least 0, and one is {format_count(number)}"
    return ""
