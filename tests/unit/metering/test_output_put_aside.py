"""How long an answer may be for which nobody said so: it is put aside, and providers count it too."""

from __future__ import annotations

import msgspec
import pytest

from mainstay.core.accounts import Wish
from mainstay.core.allowance import Allowance, Left
from mainstay.core.events import Reserved
from mainstay.core.limits import Limits
from mainstay.core.messages import Usage
from mainstay.core.ports import Context, ModelInfo, Options
from mainstay.core.session import Session
from mainstay.metering.books import Books
from mainstay.metering.budgets import Budget, Budgets
from mainstay.metering.governor import Governor
from mainstay.metering.purses import Purses
from mainstay.metering.resilient import Resilient
from mainstay.testing import CountingIds, MemoryStore, ScriptedProvider, VirtualClock, virtual_run

INFO = ModelInfo(name="m", output=64_000, price_prompt=1.0, price_completion=2.0)


def purses() -> Purses:
    books = Books(VirtualClock())
    books.load(())
    return Purses(books, Budgets((Budget("home", "day", "tokens", 10**9),)), MemoryStore(), "w")


@pytest.mark.parametrize(
    ("model", "wished", "granted"),
    [
        (INFO, None, 8192),
        (msgspec.structs.replace(INFO, output=4096), None, 4096),
        (msgspec.structs.replace(INFO, thinking=True), None, 16_384),
        (INFO, 30_000, 30_000),
    ],
    ids=["long", "short", "thinks", "wished"],
)
def test_an_answer_is_as_long_as_was_wished_or_of_moderate_length(
    model: ModelInfo, wished: int | None, granted: int
) -> None:
    async def story() -> Reserved:
        purse = await purses().purse(Session("s"))
        return await purse.reserve(Wish("1.1", model, 10, wished))

    assert virtual_run(story()).output == granted


@pytest.mark.parametrize(("limit", "output"), [(30_000, 7500), (2000, 1024), (10**6, 64_000)])
def test_no_answer_takes_more_than_a_quarter_of_what_the_account_may_use(limit: int, output: int) -> None:
    async def story() -> ModelInfo:
        clock = VirtualClock()
        governor = Governor("account", clock)
        made = Resilient(
            [ScriptedProvider(["never"], info=INFO)],
            clock=clock,
            ids=CountingIds(),
            limits=Limits(),
            governors=[governor],
        )
        assert made.dearest() is INFO
        seat = governor.seat(Context("", []), Options(), 60.0)
        await seat.enter()
        seat.heard(Allowance((Left("tokens", "tokens", limit, limit, 0.0),)))
        seat.leave()
        return made.dearest()

    assert virtual_run(story()).output == output


def test_what_a_turn_had_settled_is_known_also_if_a_fold_ended_after_it() -> None:
    async def story() -> None:
        made, session = purses(), Session("s")
        turn, fold = await made.purse(session), await made.purse(session)
        for purse, id in ((turn, "1.1"), (fold, "fold:1")):
            purse.settle(await purse.reserve(Wish(id, INFO, 10)), Usage(1), 0.001)
            purse.close()
        home = made.books.tally("home", "")
        assert home.spent(0).money == 2_000_000
        session.reserved = {"1.1": Reserved("1.1", "m", 10, 20, 5_000_000)}  # the disk never heard how it ended
        (await made.purse(session)).close()
        assert home.spent(0).money == 6_000_000

    virtual_run(story())
