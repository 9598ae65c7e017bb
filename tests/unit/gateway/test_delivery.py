"""Deliveries: in order, at least once, and exactly once where the platform can deduplicate. On virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from mainstay.core.channels import ChannelCapabilities, Delivery, DeliveryDeferred, SentMessage
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import StoreFull
from mainstay.gateway.delivery import Deliverer
from mainstay.store.memory.channel_queue import InMemoryChannelQueue
from mainstay.testing.loopback_channel import ALL_CAPABILITIES, LoopbackRig
from mainstay.testing.virtual_time import VirtualClock, virtual_run

ROOM = ChatAddress("chat", "C1", "t")
OTHER = ChatAddress("chat", "C2", "t")
DAY_S = 24 * 3600


class DeliveryRig:
    """A courier and what it works with."""

    def __init__(self, shows: ChannelCapabilities = ALL_CAPABILITIES) -> None:
        self.rig = LoopbackRig(shows)
        self.platform = self.rig.platform
        self.clock = VirtualClock()
        self.mail = InMemoryChannelQueue()
        self.courier = Deliverer(self.clock)
        self.receipts: list[Delivery] = []

    async def send(self, key: str, text: str, to: ChatAddress = ROOM, **more: Any) -> asyncio.Future[Delivery]:
        made = Delivery(key=key, to=to, text=text, at=self.clock.now_ms(), session="s", **more)
        return self.courier.deliver(await self.mail.add_delivery(made), self.rig.channel, self.mail, self._record)

    async def _record(self, delivery: Delivery) -> None:
        self.receipts.append(delivery)

    def texts(self, room: str = "C1") -> list[str]:
        return [one.text for one in self.platform.bot_messages(room)]


def run(work: Callable[[DeliveryRig], Awaitable[None]], shows: ChannelCapabilities = ALL_CAPABILITIES) -> None:
    async def main() -> None:
        office = DeliveryRig(shows)
        await office.rig.channel.start(_ignore_message)
        await work(office)
        await office.courier.close()
        await office.rig.channel.close()

    virtual_run(main())


async def _ignore_message(message: object) -> None:
    """No messages are expected here."""


def test_a_long_answer_is_posted_in_pieces_in_order() -> None:
    async def work(office: DeliveryRig) -> None:
        text = "\n\n".join(f"Paragraph {number} " + "x" * 40 for number in range(10))
        done = await (await office.send("k", text))
        assert done.state == "sent"
        assert len(done.ids) == len(office.texts()) > 3
        assert " ".join(" ".join(office.texts()).split()) == " ".join(text.split())
        assert office.receipts == [done]
        kept = await office.mail.find_delivery("k")
        assert kept is not None
        assert (kept.state, kept.text) == ("sent", ""), "the words are the journal's to keep, and to forget"

    run(work, replace(ALL_CAPABILITIES, length_max=100))


def test_posts_of_a_room_stay_in_order_through_any_failure() -> None:
    async def work(office: DeliveryRig) -> None:
        office.platform.rate_limits_s["C1"] = 30
        sending = [await office.send(f"k{number}", f"number {number}") for number in range(5)]
        await asyncio.gather(*sending)
        assert office.texts() == [f"number {number}" for number in range(5)]

    run(work)


def test_a_rate_limited_room_blocks_no_other_and_is_not_retried_too_early() -> None:
    async def work(office: DeliveryRig) -> None:
        office.platform.rate_limits_s["C1"] = 120
        slow = await office.send("k1", "slow")
        begun = office.clock.monotonic()
        await (await office.send("k2", "quick", OTHER))
        assert office.clock.monotonic() - begun < 1
        assert not slow.done()
        assert (await slow).state == "sent"
        assert 120 <= office.clock.monotonic() - begun < 130
        assert office.platform.request_counts["C1"] == 2

    run(work)


def test_a_failed_post_is_retried_with_growing_waits_for_a_day() -> None:
    async def work(office: DeliveryRig) -> None:
        office.platform.refusals_left["C1"] = 10**9
        begun = office.clock.monotonic()
        done = await (await office.send("k", "hello?"))
        assert done.state == "failed"
        assert "cannot be reached" in done.note
        assert DAY_S <= office.clock.monotonic() - begun < DAY_S + 120
        assert office.platform.request_counts["C1"] < 3000
        assert [one.state for one in office.receipts] == ["failed"]

    run(work)


def test_a_post_that_succeeds_late_is_sent_once() -> None:
    async def work(office: DeliveryRig) -> None:
        office.platform.refusals_left["C1"] = 7
        done = await (await office.send("k", "hello?"))
        assert (done.state, office.texts()) == ("sent", ["hello?"])

    run(work)


def test_a_deleted_room_is_a_failure_at_once() -> None:
    async def work(office: DeliveryRig) -> None:
        done = await (await office.send("k", "hello?", ChatAddress("chat", "nowhere")))
        assert done.state == "failed"
        assert office.platform.request_counts["nowhere"] == 1

    run(work)


@pytest.mark.parametrize("once", ["key", "look"])
def test_accepted_and_dropped_it_is_shown_once_where_the_platform_can_tell(once: Any) -> None:
    """F45"""

    async def work(office: DeliveryRig) -> None:
        office.platform.lost_responses_left = 3
        done = await (await office.send("k", "just once"))
        assert done.state == "sent"
        assert office.texts() == ["just once"]
        assert done.ids == (office.platform.bot_messages("C1")[0].id,)

    run(work, replace(ALL_CAPABILITIES, idempotency=once))


def test_an_accepted_and_dropped_post_is_unknown_without_a_lookup_and_never_sent_again() -> None:
    """F45"""

    async def work(office: DeliveryRig) -> None:
        office.platform.lost_responses_left = 1
        done = await (await office.send("k", "just once"))
        assert done.state == "unknown"
        assert office.texts() == ["just once"]
        assert [one.state for one in office.receipts] == ["unknown"]
        await office.clock.sleep(2 * DAY_S)
        again = await office.mail.add_delivery(Delivery(key="k", to=ROOM, text="just once"))
        assert again.state == "unknown"
        assert office.texts() == ["just once"]

    run(work, replace(ALL_CAPABILITIES, idempotency="none"))


@pytest.mark.parametrize("once", ["key", "look", "none"])
def test_a_post_that_another_process_started_is_finished_as_the_platform_allows(once: Any) -> None:
    """F45: the process was killed while it posted the second part, or just before or after."""

    async def work(office: DeliveryRig) -> None:
        text = "first part of it\n\nsecond part of it"
        begun = Delivery(key="k", to=ROOM, text=text, state="sending", part=1, ids=("m0",), at=office.clock.now_ms())
        await office.mail.add_delivery(begun)
        done = await office.courier.deliver(begun, office.rig.channel, office.mail, office._record)
        if once == "none":
            assert (done.state, office.texts()) == ("unknown", [])
        else:
            assert (done.state, office.texts()) == ("sent", ["second part of it"])

    run(work, replace(ALL_CAPABILITIES, idempotency=once, length_max=20))


def test_a_platform_that_cannot_be_asked_is_asked_again_before_anything_is_posted_twice() -> None:
    async def work(office: DeliveryRig) -> None:
        office.platform.lost_responses_left = 1
        plain, fails = office.rig.channel.find_posted, [3]

        async def find(to: ChatAddress, key: str) -> SentMessage | None:
            if fails[0]:
                fails[0] -= 1
                raise DeliveryDeferred("the platform cannot be reached")
            return await plain(to, key)

        office.rig.channel.find_posted = find  # type: ignore[method-assign]
        done = await (await office.send("k", "just once"))
        assert (done.state, office.texts(), fails) == ("sent", ["just once"], [0])

    run(work, replace(ALL_CAPABILITIES, idempotency="look"))


@pytest.mark.parametrize(
    "wait_s", [float("nan"), float("inf"), -5.0, 10**400, "30", None], ids=lambda wait: str(wait)[:9]
)
def test_a_pause_of_any_type_and_size_delays_a_message_and_ends_no_task(
    wait_s: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(office: DeliveryRig) -> None:
        plain, fails = office.rig.channel.post, [2]

        async def post(*arguments: Any, **more: Any) -> SentMessage:
            if fails[0]:
                fails[0] -= 1
                raise DeliveryDeferred("slow down", retry_after_s=wait_s)
            return await plain(*arguments, **more)

        office.rig.channel.post = post  # type: ignore[method-assign]
        done = await (await office.send("k", "just once"))
        assert (done.state, fails, office.texts()) == ("sent", [0], ["just once"])
        assert office.clock.monotonic() < DAY_S

    run(work)
    assert not caplog.records, "the room's task failed and was restarted"


def test_a_full_disk_neither_loses_nor_repeats_anything() -> None:
    async def work(office: DeliveryRig) -> None:
        plain, fails = office.mail.update_delivery, [0]

        async def update(delivery: Delivery) -> None:
            fails[0] += 1
            if fails[0] % 3:
                raise StoreFull("no space left")
            await plain(delivery)

        office.mail.update_delivery = update  # type: ignore[method-assign]
        done = await (await office.send("k", "first part of it\n\nsecond part of it"))
        assert done.state == "sent"
        assert office.texts() == ["first part of it", "second part of it"]

    run(work, replace(ALL_CAPABILITIES, idempotency="none", length_max=20))


def test_files_follow_the_text(tmp_path: Any) -> None:
    (tmp_path / "a.txt").write_bytes(b"content")

    async def work(office: DeliveryRig) -> None:
        done = await (await office.send("k", "see here", files=((str(tmp_path / "a.txt"), "a.txt"),)))
        assert done.state == "sent"
        assert [(one.text, one.files) for one in office.platform.bot_messages("C1")] == [
            ("see here", ()),
            ("", (("a.txt", b"content"),)),
        ]

    run(work)


def test_a_key_is_delivered_by_one_task_at_a_time() -> None:
    async def work(office: DeliveryRig) -> None:
        first, second = await office.send("k", "one"), await office.send("k", "one")
        assert first is second
        await first
        assert office.texts() == ["one"]

    run(work)


def test_a_hanging_post_is_given_up_and_its_result_is_unknown() -> None:
    async def work(office: DeliveryRig) -> None:
        async def post(to: ChatAddress, text: str, *, key: str) -> SentMessage:
            await asyncio.Event().wait()
            raise AssertionError

        office.rig.channel.post = post  # type: ignore[method-assign]
        assert (await (await office.send("k", "one"))).state == "unknown"

    run(work, replace(ALL_CAPABILITIES, idempotency="none"))


def test_idle_rooms_are_forgotten() -> None:
    async def work(office: DeliveryRig) -> None:
        for number in range(50):
            room = f"R{number}"
            office.platform.rooms.add(room)
            await (await office.send(room, "hi", ChatAddress("chat", room)))
        await asyncio.sleep(1)
        assert len(office.courier._room_queues) < 5

    run(work)


@pytest.mark.parametrize(("age_s", "state", "shown"), [(60, "sent", 1), (600, "unknown", 0)])
def test_f45_a_key_that_the_platform_may_have_forgotten_is_not_trusted(age_s: float, state: str, shown: int) -> None:
    async def work(office: DeliveryRig) -> None:
        at = office.clock.now_ms()
        kept = await office.mail.add_delivery(
            Delivery(key="k", to=ROOM, text="hello", state="sending", session="s", at=at)
        )
        await office.clock.sleep(age_s)
        done = await office.courier.deliver(kept, office.rig.channel, office.mail, office._record)
        assert done.state == state
        assert len(office.texts()) == shown

    run(work, replace(ALL_CAPABILITIES, idempotency="key", idempotency_window_s=300.0))


def test_a_paused_room_is_retried_soon_after_a_new_message_there() -> None:
    async def work(office: DeliveryRig) -> None:
        office.platform.refusals_left["C1"] = 8
        waiting = await office.send("k", "hello?")
        while office.platform.refusals_left["C1"]:
            await office.clock.sleep(1)
        begun = office.clock.monotonic()
        office.courier.retry_soon("elsewhere")
        await office.clock.sleep(5)
        assert not waiting.done()
        office.courier.retry_soon("chat")
        assert (await waiting).state == "sent"
        assert office.clock.monotonic() - begun < 7

    run(work)


def test_a_platforms_retry_time_holds_despite_new_messages() -> None:
    async def work(office: DeliveryRig) -> None:
        office.platform.rate_limits_s["C1"] = 120
        begun = office.clock.monotonic()
        waiting = await office.send("k", "slow")
        await office.clock.sleep(1)
        office.courier.retry_soon("chat")
        await waiting
        assert office.clock.monotonic() - begun >= 120
        assert office.platform.request_counts["C1"] == 2

    run(work)


@pytest.mark.parametrize(("dropping", "state"), [(0, "sent"), (1, "unknown")])
def test_an_outdated_post_is_not_posted(dropping: int, state: str) -> None:
    async def work(office: DeliveryRig) -> None:
        office.platform.lost_responses_left = dropping
        office.platform.refusals_left["C1"] = 1 - dropping
        needed = ["", "it was answered"]

        async def outdated(delivery: Delivery) -> str:
            return needed.pop(0)

        made = await office.mail.add_delivery(
            Delivery(key="k", to=ROOM, text="May I?", at=office.clock.now_ms(), session="s")
        )
        done = await office.courier.deliver(made, office.rig.channel, office.mail, office._record, outdated)
        assert (done.state, done.note, done.ids) == (state, "it was answered", ())
        assert office.platform.request_counts["C1"] == 1
        assert office.receipts == [done]
        kept = await office.mail.find_delivery("k")
        assert kept is not None
        assert (kept.state, kept.note) == (state, "it was answered")

    run(work)
