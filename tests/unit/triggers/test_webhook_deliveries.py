"""A delivery is accepted once, by its signature and by its sender's id (F42)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable
from typing import Any

import msgspec
import pytest

from mainstay.core.errors import LaneFull, StoreFull
from mainstay.core.outcome import Reply
from mainstay.core.triggers import (
    RUNS_TRIM_EVERY,
    SubmittedPrompt,
    Trigger,
    TriggerRun,
    TriggerTarget,
    Webhook,
    WebhookDeliveryId,
)
from mainstay.store.memory.trigger_log import InMemoryTriggerLog
from mainstay.testing.virtual_time import START_MS
from mainstay.triggers.webhook_app import WINDOW_S_MAX, DeliveryReceipt, WebhookDelivery
from mainstay.triggers.webhook_delivery_handler import ALIAS_LIFETIME_MS, WebhookDeliveryHandler

HOOK = Webhook(name="ci", secret="a secret of some length", target=TriggerTarget(session="s"), text="Look at this:")


class StandingClock:
    def now_ms(self) -> int:
        return START_MS

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Stopped(BaseException):
    """The process ended here."""


class DeliveryRig:
    """Lanes that accept each key once, and a log; `stop_at` ends the process at the nth thing that is asked of them.

    As with lanes, a submission during the turn is given the same reply; later there is none."""

    def __init__(self) -> None:
        self.taken: dict[str, Trigger] = {}
        self.replies: dict[str, Awaitable[Reply]] = {}  # of those that are being answered
        self.log = InMemoryTriggerLog(runs_max=10)
        self.names: list[WebhookDeliveryId] = []
        self.followed: list[TriggerRun] = []
        self.full = False
        self.stop_at = 0
        self.asked = 0
        self.deliveries = WebhookDeliveryHandler(self, self, StandingClock(), self._follow)

    def _follow(self, run: TriggerRun, reply: Awaitable[Reply] | None) -> None:
        self.followed.append(run)

    async def _step(self) -> None:
        await asyncio.sleep(0)
        self.asked += 1
        if self.asked == self.stop_at:
            raise Stopped

    async def submit(self, trigger: Trigger, key: str) -> SubmittedPrompt:
        await self._step()
        if self.full:
            raise LaneFull("5 prompts wait already")
        if key not in self.taken:
            self.taken[key] = trigger
            self.replies[key] = asyncio.get_running_loop().create_future()
        await self._step()
        return SubmittedPrompt(trigger.target.session, list(self.taken).index(key) + 1, self.replies.get(key))

    async def resolve_alias(self, hook: str, name: str) -> str | None:
        await self._step()
        return await self.log.resolve_alias(hook, name)

    async def add_alias(self, alias: WebhookDeliveryId) -> str:
        await self._step()
        self.names.append(alias)
        key = await self.log.add_alias(alias)
        await self._step()
        return key

    async def record_run(self, run: TriggerRun, cursor: Any = None, alias: WebhookDeliveryId | None = None) -> bool:
        await self._step()
        self.names += [alias] if alias is not None else []
        fresh = await self.log.record_run(run, cursor, alias)
        await self._step()
        return fresh

    async def send(self, nonce: str, given: str = "", shown: str = "data", hook: Webhook = HOOK) -> DeliveryReceipt:
        return await self.deliveries.deliver(
            WebhookDelivery(webhook=hook, nonce=nonce, delivery_id=given, payload_text=shown)
        )


@pytest.fixture
def rig() -> DeliveryRig:
    return DeliveryRig()


async def test_a_delivery_becomes_a_prompt_of_the_owners_words_with_what_came_as_data(rig: DeliveryRig) -> None:
    assert await rig.send("n1", "", "what came") == DeliveryReceipt("n1")
    (trigger,) = rig.taken.values()
    assert (trigger.kind, trigger.name, trigger.text, trigger.data) == ("webhook", "ci", "Look at this:", "what came")
    assert trigger.target == HOOK.target
    (run,) = await rig.log.list_runs("ci")
    assert (run.key, run.result, run.session, run.seq, run.at) == ("n1", "fired", "s", 1, START_MS)
    assert rig.followed == [run]


async def test_f42_the_same_signed_bytes_under_any_other_name_are_a_repeat(rig: DeliveryRig) -> None:
    assert await rig.send("n1", "a") == DeliveryReceipt("n1")
    for given in ("a", "", "b", "c"):
        assert await rig.send("n1", given) == DeliveryReceipt("n1", duplicate=True)
    assert list(rig.taken) == ["n1"]
    assert len(rig.followed) == 1
    assert await rig.send("n2", "b") == DeliveryReceipt("n2")  # a repeat gives its name to nothing


async def test_f42_a_delivery_signed_again_under_the_same_id_is_a_repeat_and_so_is_the_first_one(
    rig: DeliveryRig,
) -> None:
    assert await rig.send("n1", "a") == DeliveryReceipt("n1")
    assert await rig.send("n2", "a") == DeliveryReceipt("n1", duplicate=True)
    assert await rig.send("n2") == DeliveryReceipt("n1", duplicate=True)  # without the unsigned name
    assert await rig.send("n2", "z") == DeliveryReceipt("n1", duplicate=True)
    assert list(rig.taken) == ["n1"]


async def test_names_of_one_hook_are_not_those_of_another(rig: DeliveryRig) -> None:
    other = Webhook(name="other", secret="another one, as long", target=TriggerTarget(session="t"))
    assert await rig.send("n1", "a") == DeliveryReceipt("n1")
    made = await rig.deliveries.deliver(WebhookDelivery(webhook=other, nonce="n2", delivery_id="a"))
    assert made == DeliveryReceipt("n2")


async def test_f42_fifty_concurrent_copies_are_accepted_once_under_any_id(rig: DeliveryRig) -> None:
    same = await asyncio.gather(*(rig.send("n1", "a") for _ in range(50)))
    assert sum(not one.duplicate for one in same) == 1
    named = await asyncio.gather(*(rig.send("n2", f"g{n}") for n in range(50)))
    assert sum(not one.duplicate for one in named) == 1
    signed = await asyncio.gather(*(rig.send(f"m{n}", "b") for n in range(50)))
    assert sum(not one.duplicate for one in signed) == 1
    assert len(rig.taken) == len(rig.followed) == 3
    assert len({one.id for one in (*same, *named, *signed)}) == 3


async def test_a_refused_delivery_is_accepted_when_it_is_sent_again(rig: DeliveryRig) -> None:
    rig.full = True
    for _ in range(3):
        with pytest.raises(LaneFull):
            await rig.send("n1", "a")
    with pytest.raises(LaneFull):
        await rig.send("n2", "a")  # signed again, as senders do
    rig.full = False
    assert await rig.send("n2") == DeliveryReceipt("n1")  # they were the same once: they stay the same
    assert await rig.send("n1", "a") == DeliveryReceipt("n1", duplicate=True)
    assert len(rig.taken) == 1


@pytest.mark.parametrize("retry", [("n1", "a"), ("n2", "a"), ("n1", ""), ("n1", "b")], ids=str)
async def test_f42_a_crash_at_any_point_loses_nothing_and_takes_nothing_twice(retry: tuple[str, str]) -> None:
    for at in itertools.count(1):
        rig = DeliveryRig()
        rig.stop_at = at
        try:
            await rig.send("n1", "a")
        except Stopped:
            pass
        else:
            break
        rig.replies.clear()  # another process
        recorded = await rig.log.list_runs("ci")
        await rig.send(*retry)
        assert rig.followed == ([] if recorded else await rig.log.list_runs("ci")), at
        for nonce, given in itertools.product(("n1", retry[0]), ("a", "", retry[1])):
            assert (await rig.send(nonce, given)).duplicate
        assert len(rig.taken) == 1, at
        assert len(await rig.log.list_runs("ci")) == 1
    assert at > 6


async def test_an_error_of_the_store_is_reported_to_the_sender(rig: DeliveryRig) -> None:
    async def full(name: WebhookDeliveryId) -> str:
        raise StoreFull("no space left")

    rig.log.add_alias = full  # type: ignore[method-assign]
    with pytest.raises(StoreFull):
        await rig.send("n1", "a")
    assert rig.taken == {}


async def test_aliases_are_no_runs_and_sender_ids_are_stored_as_a_hash(rig: DeliveryRig) -> None:
    await rig.send("n1", "a")
    assert [run.key for run in await rig.log.list_runs()] == ["n1"]
    assert all(len(one.name) == len("given:") + 40 for one in rig.names if one.name != "n1")
    assert len(rig.names) == 2


async def test_f42_a_replay_is_known_after_its_run_is_pruned_and_the_hook_targets_another_session(
    rig: DeliveryRig,
) -> None:
    await rig.send("n1", "a")
    await rig.send("n2", "a")
    for number in range(RUNS_TRIM_EVERY * 2):
        await rig.send(f"later-{number}")
    assert await rig.log.find_run("ci", "n1") is None
    rig.taken.clear()  # lanes that look in the new session, where none of them was
    rig.replies.clear()
    for nonce, given in (("n1", ""), ("n1", "b"), ("n2", ""), ("n3", "a")):
        assert await rig.send(nonce, given) == DeliveryReceipt("n1", duplicate=True)
    assert rig.taken == {}


async def test_f42_deliveries_signed_without_a_time_are_known_for_ever_and_others_longer_than_their_window(
    rig: DeliveryRig,
) -> None:
    await rig.send("n1", "a")
    assert {one.until for one in rig.names} == {START_MS + ALIAS_LIFETIME_MS}
    assert ALIAS_LIFETIME_MS > 2 * WINDOW_S_MAX * 1000
    rig.names.clear()
    await rig.send("n1", "a", hook=msgspec.structs.replace(HOOK, name="github", scheme="github"))
    assert {one.until for one in rig.names} == {0}
