"""The maximum cost of a call, in whole numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mainstay.core.budget_reservation_ids import to_nanodollars
from mainstay.core.messages import Usage
from mainstay.core.model_info import LongPromptPrices, ModelInfo
from mainstay.metering.spending_counters import SpendingRequest
from mainstay.metering.worst_case_prices import combine_highest_prices, convert_price

prices = st.integers(0, 200_000).map(lambda units: units / 1000)
maybe = st.none() | prices
tokens = st.integers(0, 2_000_000)
longs = st.none() | st.builds(LongPromptPrices, st.integers(1, 300_000), prices, prices, maybe, maybe)
models = st.builds(
    ModelInfo,
    name=st.just("m"),
    price_prompt=prices,
    price_completion=prices,
    price_cached=maybe,
    price_written=maybe,
    long=longs,
)


def most(model: ModelInfo, prompt: int, output: int) -> int:
    return SpendingRequest(model, prompt, output, (), ()).cost(output)


@given(models, tokens, tokens, st.floats(0, 1), st.floats(0, 1))
def test_no_use_of_so_many_tokens_costs_more_than_the_most(
    model: ModelInfo, prompt: int, output: int, read: float, wrote: float
) -> None:
    cached = int(prompt * read)
    usage = Usage(prompt, output, cached, 0, int((prompt - cached) * wrote))
    assert to_nanodollars(model.cost(usage)) <= most(model, prompt, output)


@given(models, st.integers(0, 200_000), st.integers(-(10**9), 10**13))
def test_an_affordable_number_of_tokens_can_be_paid_and_one_more_cannot(
    model: ModelInfo, prompt: int, money: int
) -> None:
    ask = SpendingRequest(model, prompt, 1000, (), ())
    output = ask.output_affordable("money", money)
    if output is None:
        assert most(model, prompt, 10**9) == most(model, prompt, 0) <= max(money, 0)
    elif output < 0:
        assert most(model, prompt, 0) > money
    else:
        assert ask.cost(output) <= money < most(model, prompt, output + 1)


@given(st.lists(models, min_size=1, max_size=4), tokens, tokens)
def test_the_highest_price_is_never_below_the_price_of_the_model_that_answers(
    some: list[ModelInfo], prompt: int, output: int
) -> None:
    assert most(combine_highest_prices(some), prompt, output) >= max(most(one, prompt, output) for one in some)


def test_prices_are_whole_numbers_of_picodollars_a_token() -> None:
    assert convert_price(1.0) == 1_000_000
    assert convert_price(0.0375) == 37_500
    assert convert_price(0.000001) == 1


def test_a_model_without_a_price_is_called_with_any_remaining_budget() -> None:
    assert SpendingRequest(ModelInfo(name="m"), 10**6, 1000, (), ()).output_affordable("money", -5) is None
    assert SpendingRequest(ModelInfo(name="m"), 10**6, 1000, (), ()).output_affordable("tokens", 5) == 5 - 10**6


def test_estimated_prices_stay_marked() -> None:
    known, guessed = ModelInfo(name="a", price_prompt=1.0), ModelInfo(name="b", price_prompt=2.0, guessed=True)
    made = combine_highest_prices([known, guessed])
    assert (made.name, made.price_prompt, made.guessed) == ("a", 2.0, True)
    assert combine_highest_prices([known]) is known
