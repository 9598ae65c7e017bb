"""What every GatewayStore must do. Subclass it, say how to make one, and let your test runner find the tests.

class TestMyStore(GatewaySuite):
    def make(self, where: Path) -> GatewayStore: ...
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from mainstay.core.errors import InputRefused, StoreFailed
from mainstay.core.people import REVOKED_MAX, GatewayStore, Identity, Key, Pairing, Person
from mainstay.testing.writing import expect

ANN = Person(name="ann", called="Ann Lee", roles={"team": "member", "default": "admin"}, created=1)
BEN = Person(name="ben", roles={"default": "guest"}, created=2)
ODD_USERS = (
    "U012AB3CD",
    "@ann:example.org",
    "+41 79 000",
    "a%b_c",
    "'; DROP TABLE people; --",
    "käse",
    "\U0001f511",
    " ",
)


def account(user: str, person: str = "ann", channel: str = "slack") -> Identity:
    return Identity(channel=channel, user=user, person=person)


def waiting(number: int, user: str = "", *, expires: int = 1_000) -> Pairing:
    user = user or f"u{number}"
    return Pairing(
        digest=f"d{number}", channel="slack", user=user, called="A. Stranger", created=number, expires=expires
    )


def key_of(number: int, person: str = "ann") -> Key:
    return Key(
        id=f"k{number:05}",
        digest=f"digest {number}",
        person=person,
        workspace="team",
        scopes=("chat", "approve"),
        note="for the bot",
        rate_per_min=7,
        streams_max=2,
        created=number,
        expires=9_000,
    )


class GatewaySuite:
    """Everything that the store of a gateway promises; `make` is the one thing a subclass must say."""

    def make(self, where: Path) -> GatewayStore:
        raise NotImplementedError("say how to make yours")

    @asynccontextmanager
    async def opened(self, where: Path) -> AsyncIterator[GatewayStore]:
        store = self.make(where)
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    async def test_a_person_is_put_replaced_and_found_as_they_were(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            assert await store.people() == []
            await store.put_person(BEN)
            await store.put_person(ANN)
            assert await store.people() == [ANN, BEN]
            assert list((await store.people())[0].roles) == ["team", "default"], (
                "the first is where they are by default"
            )
            changed = msgspec.structs.replace(ANN, called="", roles={})
            await store.put_person(changed)
            assert await store.people() == [changed, BEN]

    async def test_who_is_removed_takes_their_accounts_along_and_their_keys_are_revoked(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            for person in (ANN, BEN):
                await store.put_person(person)
                await store.put_identity(account(f"u-{person.name}", person.name))
            await store.put_key(key_of(1))
            await store.put_key(key_of(2, "ben"))
            assert await store.remove_person("ann")
            assert await store.people() == [BEN]
            assert await store.identities() == [account("u-ben", "ben")]
            assert [(one.id, one.revoked > 0) for one in await store.keys()] == [("k00001", True), ("k00002", False)]
            assert not await store.remove_person("ann"), "nothing of hers is left"

    async def test_what_somebody_left_behind_can_be_removed_too(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            await store.put_identity(account("u1"))
            assert await store.remove_person("ann")
            await store.put_key(key_of(1))
            assert await store.remove_person("ann")
            assert not await store.remove_person("ann")

    async def test_an_account_is_one_persons(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            await store.put_identity(account("u1", "ann"))
            await store.put_identity(account("u1", "ben"))
            await store.put_identity(account("u1", "ann", "matrix"))
            assert await store.identities() == [account("u1", "ann", "matrix"), account("u1", "ben")]
            assert await store.remove_identity("slack", "u1")
            assert not await store.remove_identity("slack", "u1")
            assert await store.identities() == [account("u1", "ann", "matrix")]

    async def test_a_platform_may_call_its_users_anything(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            for user in ODD_USERS:
                await store.put_identity(account(user))
            assert {one.user for one in await store.identities()} == set(ODD_USERS)
            for user in ODD_USERS:
                assert await store.remove_identity("slack", user)

    async def test_an_account_waits_under_its_newest_code(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            await store.put_pairing(waiting(1, "a"))
            await store.put_pairing(waiting(3, "b"))
            await store.put_pairing(waiting(2, "a"))
            assert await store.pairings() == [waiting(2, "a"), waiting(3, "b")]
            assert not await store.pair("d1", account("a"), ANN, 500)

    async def test_a_code_is_used_up_once_and_for_the_account_that_was_told_it(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            await store.put_pairing(waiting(1, "a"))
            for digest, user, now in (("other", "a", 500), ("d1", "b", 500), ("d1", "a", 1_000)):
                assert not await store.pair(digest, account(user), ANN, now)
            assert (await store.people(), await store.identities()) == ([], [])
            assert await store.pairings() == [waiting(1, "a")]
            assert await store.pair("d1", account("a"), ANN, 999)
            assert (await store.people(), await store.identities()) == ([ANN], [account("a")])
            assert await store.pairings() == []
            assert not await store.pair("d1", account("a", "ben"), BEN, 999)
            assert await store.people() == [ANN]

    async def test_of_many_that_use_one_code_at_once_one_wins(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            await store.put_pairing(waiting(1, "a"))
            people = [Person(name=f"p{number}") for number in range(20)]
            won = await asyncio.gather(*(store.pair("d1", account("a", one.name), one, 1) for one in people))
            assert sorted(won) == [False] * 19 + [True]
            winner = people[won.index(True)]
            assert (await store.people(), await store.identities()) == ([winner], [account("a", winner.name)])

    async def test_pairings_that_expired_are_dropped(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            for number in range(5):
                await store.put_pairing(waiting(number, expires=100 + number))
            await store.drop_pairings(102)
            assert [one.expires for one in await store.pairings()] == [103, 104]

    async def test_a_key_is_kept_as_it_was_and_revoked_once(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            await store.put_key(key_of(2))
            await store.put_key(key_of(1))
            assert await store.keys() == [key_of(1), key_of(2)]
            assert await store.revoke_key("k00001", 77)
            assert not await store.revoke_key("k00001", 78), "it was revoked before"
            assert not await store.revoke_key("k00009", 78)
            assert await store.keys() == [msgspec.structs.replace(key_of(1), revoked=77), key_of(2)]

    async def test_of_revoked_keys_the_last_are_kept_and_of_others_all(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            old = [msgspec.structs.replace(key_of(n), revoked=n) for n in range(1, REVOKED_MAX + 1)]
            await asyncio.gather(*(store.put_key(key) for key in old))
            for number in (90_001, 90_002, 90_003):
                await store.put_key(key_of(number))
            assert await store.revoke_key("k90001", 90_000)
            assert await store.revoke_key("k90002", 90_000)
            kept = {key.id for key in await store.keys()}
            assert len(kept) == REVOKED_MAX + 1
            assert not kept & {"k00001", "k00002"}
            assert kept >= {"k00003", "k90001", "k90002", "k90003"}

    async def test_what_cannot_be_kept_changes_nothing(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            half = "half a character: \ud800"
            await store.put_pairing(waiting(1, "a"))
            await expect(InputRefused, store.put_person(Person(name="ann", called=half)))
            await expect(InputRefused, store.put_identity(account(half)))
            await expect(InputRefused, store.put_pairing(waiting(2, half)))
            await expect(InputRefused, store.put_key(msgspec.structs.replace(key_of(1), note=half)))
            await expect(InputRefused, store.pair("d1", account("a"), Person(name="ann", called=half), 1))
            assert await store.pairings() == [waiting(1, "a")]
            assert (await store.people(), await store.identities(), await store.keys()) == ([], [], [])

    async def test_one_that_is_closed_says_so(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            await store.put_person(ANN)
        await expect(StoreFailed, store.people())
        await expect(StoreFailed, store.put_person(BEN))
