"""Conformance suite of the ChannelQueue port. Subclass it and override `make`:

class TestMyQueue(ChannelQueueSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelQueue]: ...
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from msgspec.structs import replace

from mainstay.core.channels import ChannelQueue, Delivery, DeliveryState, IncomingFile, IncomingMessage, PendingMessage
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import InputRefused
from mainstay.testing.store_writer import expect_error

ODD_NAMES = ("../up", "a%b_c:d", "'; DROP TABLE mail_deliveries; --", "käse", "\U0001f511", " ", "a" * 3000)
OPEN_STATES: tuple[DeliveryState, ...] = ("pending", "sending")
FINISHED_STATES: tuple[DeliveryState, ...] = ("sent", "unknown", "failed")


def build_pending_message(id: str) -> PendingMessage:
    files = (IncomingFile(ref="https://example.org/1", name="cat.png", mime="image/png", size=3),)
    address = ChatAddress("chat", "room", "thread")
    message = IncomingMessage(
        id=id, address=address, user="U1", name="Ann", text="look", at=5, mentioned=True, files=files
    )
    return PendingMessage(id=f"chat:room:{id}", session=str(address), person="ann", message=message, at=7)


def build_delivery(key: str, state: DeliveryState = "pending", at: int = 1) -> Delivery:
    return Delivery(
        key=key,
        to=ChatAddress("chat", "room", "thread"),
        session="chat:room:thread",
        turn=3,
        text="an *answer*",
        files=(("/tmp/a", "a.txt"),),
        state=state,
        at=at,
    )


class ChannelQueueSuite:
    """All tests of a channel queue; a subclass overrides `make`."""

    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelQueue]:
        raise NotImplementedError("override `make`: it creates the queue")

    async def test_a_pending_message_is_stored_once_until_it_is_removed(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as queue:
            first, second = build_pending_message("1"), build_pending_message("2")
            assert await queue.add_pending(first)
            assert await queue.add_pending(second)
            assert not await queue.add_pending(replace(first, person="eve")), "its id exists already"
            assert list(await queue.list_pending()) == [first, second]
            await queue.remove_pending(first.id)
            await queue.remove_pending(first.id)
            assert list(await queue.list_pending()) == [second]

    async def test_under_a_key_there_is_one_delivery(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as queue:
            first = build_delivery("k")
            assert await queue.find_delivery("k") is None
            assert await queue.add_delivery(first) == first
            posted = replace(
                first, state="sending", part=1, ids=("m1",), draft=True, attempts=2, next_at=9, note="slow"
            )
            await queue.update_delivery(posted)
            assert await queue.add_delivery(replace(first, text="another")) == posted, "the existing delivery"
            assert await queue.find_delivery("k") == posted

    async def test_updating_a_missing_delivery_creates_nothing(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as queue:
            await queue.update_delivery(build_delivery("nobody"))
            assert await queue.find_delivery("nobody") is None

    async def test_unfinished_deliveries_are_due_in_the_order_of_insertion(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as queue:
            for number, state in enumerate((*OPEN_STATES, *FINISHED_STATES, *OPEN_STATES)):
                await queue.add_delivery(build_delivery(f"{9 - number}", state, at=100 - number))
            assert [delivery.key for delivery in await queue.list_due()] == ["9", "8", "4", "3"]
            await queue.update_delivery(build_delivery("9", "sent"))
            assert [delivery.key for delivery in await queue.list_due()] == ["8", "4", "3"]
            assert [delivery.key for delivery in await queue.list_recent(2)] == ["3", "4"]

    async def test_only_old_finished_deliveries_are_pruned(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as queue:
            for state in (*OPEN_STATES, *FINISHED_STATES):
                await queue.add_delivery(build_delivery(f"old {state}", state, at=10))
                await queue.add_delivery(build_delivery(f"new {state}", state, at=20))
            await queue.prune(20)
            remaining = {delivery.key for delivery in await queue.list_recent()}
            assert remaining == {
                "old pending",
                "old sending",
                *(f"new {state}" for state in (*OPEN_STATES, *FINISHED_STATES)),
            }

    async def test_odd_names_and_texts_are_stored_unchanged(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as queue:
            for odd in ODD_NAMES:
                await queue.add_delivery(replace(build_delivery(odd), text=odd, to=ChatAddress(odd, odd, odd)))
                await queue.add_pending(replace(build_pending_message("1"), id=odd, session=odd))
            for odd in ODD_NAMES:
                delivery = await queue.find_delivery(odd)
                assert delivery is not None
                assert (delivery.text, delivery.to) == (odd, ChatAddress(odd, odd, odd))
            assert [message.session for message in await queue.list_pending()] == list(ODD_NAMES)

    async def test_lone_surrogates_are_refused_and_nothing_is_stored(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as queue:
            await expect_error(InputRefused, queue.add_delivery(replace(build_delivery("k"), text="\ud800")))
            await expect_error(InputRefused, queue.add_pending(replace(build_pending_message("1"), person="\udfff")))
            assert not await queue.list_recent()
            assert not await queue.list_pending()

    async def test_of_concurrent_inserts_of_one_key_one_succeeds(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as queue:
            added = await asyncio.gather(*(queue.add_pending(build_pending_message("same")) for _ in range(20)))
            assert sum(added) == 1
            deliveries = await asyncio.gather(
                *(queue.add_delivery(replace(build_delivery("k"), text=f"{n}")) for n in range(20))
            )
            assert len({delivery.text for delivery in deliveries}) == 1
