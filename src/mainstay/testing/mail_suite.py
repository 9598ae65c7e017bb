"""What every Mail must do. Subclass it, say how to make one, and let your test runner find the tests.

class TestMyMail(MailSuite):
    def make(self, where: Path) -> AbstractAsyncContextManager[Mail]: ...
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from msgspec.structs import replace

from mainstay.core.addresses import Address
from mainstay.core.channels import Arrival, Attached, Delivery, DeliveryState, Incoming, Mail
from mainstay.core.errors import InputRefused
from mainstay.testing.writing import expect

ODD = ("../up", "a%b_c:d", "'; DROP TABLE mail_deliveries; --", "käse", "\U0001f511", " ", "a" * 3000)
OPEN: tuple[DeliveryState, ...] = ("pending", "sending")
FINISHED: tuple[DeliveryState, ...] = ("sent", "unknown", "failed")


def arrival_of(id: str) -> Arrival:
    files = (Attached(ref="https://example.org/1", name="cat.png", mime="image/png", size=3),)
    address = Address("chat", "room", "thread")
    message = Incoming(id=id, address=address, user="U1", name="Ann", text="look", at=5, mentioned=True, files=files)
    return Arrival(id=f"chat:room:{id}", session=str(address), person="ann", message=message, at=7)


def delivery_of(key: str, state: DeliveryState = "pending", at: int = 1) -> Delivery:
    return Delivery(
        key=key,
        to=Address("chat", "room", "thread"),
        session="chat:room:thread",
        turn=3,
        text="an *answer*",
        files=(("/tmp/a", "a.txt"),),
        state=state,
        at=at,
    )


class MailSuite:
    """Everything that mail promises; `make` is the one thing a subclass must say."""

    def make(self, where: Path) -> AbstractAsyncContextManager[Mail]:
        raise NotImplementedError("say how to make yours")

    async def test_an_arrival_is_kept_once_until_it_has_become_a_prompt(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as mail:
            first, second = arrival_of("1"), arrival_of("2")
            assert await mail.arrive(first)
            assert await mail.arrive(second)
            assert not await mail.arrive(replace(first, person="eve")), "it was there before"
            assert list(await mail.arrivals()) == [first, second]
            await mail.arrived(first.id)
            await mail.arrived(first.id)
            assert list(await mail.arrivals()) == [second]

    async def test_under_a_key_there_is_one_delivery(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as mail:
            first = delivery_of("k")
            assert await mail.find("k") is None
            assert await mail.put(first) == first
            posted = replace(
                first, state="sending", part=1, ids=("m1",), draft=True, attempts=2, next_at=9, note="slow"
            )
            await mail.update(posted)
            assert await mail.put(replace(first, text="another")) == posted, "as it was before"
            assert await mail.find("k") == posted

    async def test_an_update_of_what_is_not_there_makes_nothing(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as mail:
            await mail.update(delivery_of("nobody"))
            assert await mail.find("nobody") is None

    async def test_what_is_not_finished_is_due_in_the_order_it_was_put(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as mail:
            for number, state in enumerate((*OPEN, *FINISHED, *OPEN)):
                await mail.put(delivery_of(f"{9 - number}", state, at=100 - number))
            assert [one.key for one in await mail.due()] == ["9", "8", "4", "3"]
            await mail.update(delivery_of("9", "sent"))
            assert [one.key for one in await mail.due()] == ["8", "4", "3"]
            assert [one.key for one in await mail.recent(2)] == ["3", "4"]

    async def test_only_what_is_finished_and_old_is_forgotten(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as mail:
            for state in (*OPEN, *FINISHED):
                await mail.put(delivery_of(f"old {state}", state, at=10))
                await mail.put(delivery_of(f"new {state}", state, at=20))
            await mail.prune(20)
            left = {one.key for one in await mail.recent()}
            assert left == {"old pending", "old sending", *(f"new {state}" for state in (*OPEN, *FINISHED))}

    async def test_odd_names_and_texts_are_kept_as_they_are(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as mail:
            for odd in ODD:
                await mail.put(replace(delivery_of(odd), text=odd, to=Address(odd, odd, odd)))
                await mail.arrive(replace(arrival_of("1"), id=odd, session=odd))
            for odd in ODD:
                found = await mail.find(odd)
                assert found is not None
                assert (found.text, found.to) == (odd, Address(odd, odd, odd))
            assert [one.session for one in await mail.arrivals()] == list(ODD)

    async def test_half_characters_are_refused_and_nothing_is_kept(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as mail:
            await expect(InputRefused, mail.put(replace(delivery_of("k"), text="\ud800")))
            await expect(InputRefused, mail.arrive(replace(arrival_of("1"), person="\udfff")))
            assert not await mail.recent()
            assert not await mail.arrivals()

    async def test_of_many_at_once_one_is_first(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as mail:
            came = await asyncio.gather(*(mail.arrive(arrival_of("same")) for _ in range(20)))
            assert sum(came) == 1
            put = await asyncio.gather(*(mail.put(replace(delivery_of("k"), text=f"{n}")) for n in range(20)))
            assert len({one.text for one in put}) == 1
