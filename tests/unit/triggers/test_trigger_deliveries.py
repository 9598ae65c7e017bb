"""A delivery is taken once, under what was signed and under what its sender calls it (F42)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable
from typing import Any

import msgspec
import pytest

from mainstay.core.errors import LaneFull, StoreFull
from mainstay.core.outcome import Reply
from mainstay.core.trigger_log import TRIM_EVERY, MemoryTriggerLog
from mainstay.core.triggers import Hook, Name, Prompted, Run, Target, Trigger
from mainstay.testing.virtual import BEGINNING_MS
from mainstay.triggers.deliveries import KEPT_MS, Deliveries
from mainstay.triggers.hooks import WINDOW_S_MAX, Delivered, Delivery

HOOK = Hook(name="ci", secret="a secret of some length", target=Target(session="s"), text="Look at this:")


class StandingClock:
    def now_ms(self) -> int:
        return BEGINNING_MS

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Stopped(BaseException):
    """The process ended here."""


class House:
    """A door that takes each key once, and a log; `stop_at` ends the process at the nth thing that is asked of them.

    As with lanes, whoever comes while it is being answered is given the same reply; later there is none."""

    def __init__(self) -> None:
        self.taken: dict[str, Trigger] = {}
        self.replies: dict[str, Awaitable[Reply]] = {}  # of those that are being answered
        self.log = MemoryTriggerLog(runs_max=10)
        self.names: list[Name] = []
        self.followed: list[Run] = []
        self.full = False
        self.stop_at = 0
        self.asked = 0
        self.deliveries = Deliveries(self, self, StandingClock(), self._follow)

    def _follow(self, run: Run, reply: Awaitable[Reply]) -> None:
        assert reply is not None
        self.followed.append(run)

    async def _step(self) -> None:
        await asyncio.sleep(0)
        self.asked += 1
        if self.asked == self.stop_at:
            raise Stopped

    async def accept(self, trigger: Trigger, key: str) -> Prompted:
        await self._step()
        if self.full:
            raise LaneFull("5 prompts wait already")
        if key not in self.taken:
            self.taken[key] = trigger
            self.replies[key] = asyncio.get_running_loop().create_future()
        await self._step()
        return Prompted(trigger.target.session, list(self.taken).index(key) + 1, self.replies.get(key))

    async def named(self, hook: str, name: str) -> str | None:
        await self._step()
        return await self.log.named(hook, name)

    async def name(self, name: Name) -> str:
        await self._step()
        self.names.append(name)
        key = await self.log.name(name)
        await self._step()
        return key

    async def record(self, run: Run, mark: Any = None, name: Name | None = None) -> bool:
        await self._step()
        self.names += [name] if name is not None else []
        fresh = await self.log.record(run, mark, name)
        await self._step()
        return fresh

    async def send(self, nonce: str, given: str = "", shown: str = "data", hook: Hook = HOOK) -> Delivered:
        return await self.deliveries.deliver(Delivery(hook=hook, nonce=nonce, given=given, shown=shown))


@pytest.fixture
def house() -> House:
    return House()


async def test_a_delivery_becomes_a_prompt_of_the_owners_words_with_what_came_as_data(house: House) -> None:
    assert await house.send("n1", "", "what came") == Delivered("n1")
    (trigger,) = house.taken.values()
    assert (trigger.kind, trigger.name, trigger.text, trigger.data) == ("webhook", "ci", "Look at this:", "what came")
    assert trigger.target == HOOK.target
    (run,) = await house.log.runs("ci")
    assert (run.key, run.came, run.session, run.seq, run.at) == ("n1", "fired", "s", 1, BEGINNING_MS)
    assert house.followed == [run]


async def test_f42_the_same_signed_bytes_under_any_other_name_are_a_repeat(house: House) -> None:
    assert await house.send("n1", "a") == Delivered("n1")
    for given in ("a", "", "b", "c"):
        assert await house.send("n1", given) == Delivered("n1", duplicate=True)
    assert list(house.taken) == ["n1"]
    assert len(house.followed) == 1
    assert await house.send("n2", "b") == Delivered("n2")  # a repeat gives its name to nothing


async def test_f42_what_is_signed_again_under_the_same_name_is_a_repeat_and_so_is_what_was_signed_then(
    house: House,
) -> None:
    assert await house.send("n1", "a") == Delivered("n1")
    assert await house.send("n2", "a") == Delivered("n1", duplicate=True)
    assert await house.send("n2") == Delivered("n1", duplicate=True)  # without the name that nobody signed
    assert await house.send("n2", "z") == Delivered("n1", duplicate=True)
    assert list(house.taken) == ["n1"]


async def test_names_of_one_hook_are_not_those_of_another(house: House) -> None:
    other = Hook(name="other", secret="another one, as long", target=Target(session="t"))
    assert await house.send("n1", "a") == Delivered("n1")
    made = await house.deliveries.deliver(Delivery(hook=other, nonce="n2", given="a"))
    assert made == Delivered("n2")


async def test_f42_fifty_at_once_are_taken_once_whatever_they_are_called(house: House) -> None:
    same = await asyncio.gather(*(house.send("n1", "a") for _ in range(50)))
    assert sum(not one.duplicate for one in same) == 1
    named = await asyncio.gather(*(house.send("n2", f"g{n}") for n in range(50)))
    assert sum(not one.duplicate for one in named) == 1
    signed = await asyncio.gather(*(house.send(f"m{n}", "b") for n in range(50)))
    assert sum(not one.duplicate for one in signed) == 1
    assert len(house.taken) == len(house.followed) == 3
    assert len({one.id for one in (*same, *named, *signed)}) == 3


async def test_what_was_not_taken_is_taken_when_it_is_sent_again(house: House) -> None:
    house.full = True
    for _ in range(3):
        with pytest.raises(LaneFull):
            await house.send("n1", "a")
    with pytest.raises(LaneFull):
        await house.send("n2", "a")  # signed again, as senders do
    house.full = False
    assert await house.send("n2") == Delivered("n1")  # they were the same once: they stay the same
    assert await house.send("n1", "a") == Delivered("n1", duplicate=True)
    assert len(house.taken) == 1


@pytest.mark.parametrize("retry", [("n1", "a"), ("n2", "a"), ("n1", ""), ("n1", "b")], ids=str)
async def test_f42_a_crash_at_any_point_loses_nothing_and_takes_nothing_twice(retry: tuple[str, str]) -> None:
    for at in itertools.count(1):
        house = House()
        house.stop_at = at
        try:
            await house.send("n1", "a")
        except Stopped:
            pass
        else:
            break
        house.replies.clear()  # another process
        await house.send(*retry)
        for nonce, given in itertools.product(("n1", retry[0]), ("a", "", retry[1])):
            assert (await house.send(nonce, given)).duplicate
        assert len(house.taken) == 1, at
        assert len(await house.log.runs("ci")) == 1
    assert at > 6


async def test_trouble_of_the_store_is_for_the_sender_to_hear(house: House) -> None:
    async def full(name: Name) -> str:
        raise StoreFull("no space left")

    house.log.name = full  # type: ignore[method-assign]
    with pytest.raises(StoreFull):
        await house.send("n1", "a")
    assert house.taken == {}


async def test_names_are_no_runs_and_what_others_call_it_is_kept_as_a_hash(house: House) -> None:
    await house.send("n1", "a")
    assert [run.key for run in await house.log.runs()] == ["n1"]
    assert all(len(one.name) == len("given:") + 40 for one in house.names if one.name != "n1")
    assert len(house.names) == 2


async def test_f42_a_replay_is_known_when_its_run_is_history_and_the_hook_speaks_to_another_session(
    house: House,
) -> None:
    await house.send("n1", "a")
    await house.send("n2", "a")
    for number in range(TRIM_EVERY * 2):
        await house.send(f"later-{number}")
    assert await house.log.find("ci", "n1") is None
    house.taken.clear()  # a door that looks in the new session, where none of them was
    house.replies.clear()
    for nonce, given in (("n1", ""), ("n1", "b"), ("n2", ""), ("n3", "a")):
        assert await house.send(nonce, given) == Delivered("n1", duplicate=True)
    assert house.taken == {}


async def test_f42_what_is_signed_without_a_time_is_known_for_ever_and_all_else_far_longer_than_its_window(
    house: House,
) -> None:
    await house.send("n1", "a")
    assert {one.until for one in house.names} == {BEGINNING_MS + KEPT_MS}
    assert KEPT_MS > 2 * WINDOW_S_MAX * 1000
    house.names.clear()
    await house.send("n1", "a", hook=msgspec.structs.replace(HOOK, name="github", scheme="github"))
    assert {one.until for one in house.names} == {0}
