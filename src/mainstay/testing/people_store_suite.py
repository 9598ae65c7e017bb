"""Conformance suite of the PeopleStore port. Subclass it and override `make`:

class TestMyStore(PeopleStoreSuite):
    def make(self, folder: Path) -> PeopleStore: ...
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from mainstay.core.errors import InputRefused, StoreFailed
from mainstay.core.people import REVOKED_KEYS_MAX, ApiKey, ChannelIdentity, PendingPairing, PeopleStore, Person
from mainstay.testing.store_writer import expect_error

ANN = Person(name="ann", display_name="Ann Lee", roles={"team": "member", "default": "admin"}, created=1)
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


def build_identity(user: str, person: str = "ann", channel: str = "slack") -> ChannelIdentity:
    return ChannelIdentity(channel=channel, user=user, person=person)


def build_pairing(number: int, user: str = "", *, expires: int = 1_000) -> PendingPairing:
    user = user or f"u{number}"
    return PendingPairing(
        digest=f"d{number}", channel="slack", user=user, display_name="A. Stranger", created=number, expires=expires
    )


def build_key(number: int, person: str = "ann") -> ApiKey:
    return ApiKey(
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


class PeopleStoreSuite:
    """All tests of a gateway's store; a subclass overrides `make`, which returns a store that is not open."""

    def make(self, folder: Path) -> PeopleStore:
        raise NotImplementedError("override `make`: it creates the store")

    @asynccontextmanager
    async def open_store(self, folder: Path) -> AsyncIterator[PeopleStore]:
        store = self.make(folder)
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    async def test_a_person_is_stored_replaced_and_read_back(self, tmp_path: Path) -> None:
        async with self.open_store(tmp_path) as store:
            assert await store.list_people() == []
            await store.put_person(BEN)
            await store.put_person(ANN)
            assert await store.list_people() == [ANN, BEN]
            assert list((await store.list_people())[0].roles) == ["team", "default"], (
                "the first is where they are by default"
            )
            changed = msgspec.structs.replace(ANN, display_name="", roles={})
            await store.put_person(changed)
            assert await store.list_people() == [changed, BEN]

    async def test_removing_a_person_removes_identities_and_revokes_keys(self, tmp_path: Path) -> None:
        async with self.open_store(tmp_path) as store:
            for person in (ANN, BEN):
                await store.put_person(person)
                await store.put_identity(build_identity(f"u-{person.name}", person.name))
            await store.put_key(build_key(1))
            await store.put_key(build_key(2, "ben"))
            assert await store.remove_person("ann")
            assert await store.list_people() == [BEN]
            assert await store.list_identities() == [build_identity("u-ben", "ben")]
            assert [(key.id, key.revoked > 0) for key in await store.list_keys()] == [
                ("k00001", True),
                ("k00002", False),
            ]
            assert not await store.remove_person("ann"), "nothing of hers is left"

    async def test_identities_and_keys_without_a_person_can_be_removed(self, tmp_path: Path) -> None:
        async with self.open_store(tmp_path) as store:
            await store.put_identity(build_identity("u1"))
            assert await store.remove_person("ann")
            await store.put_key(build_key(1))
            assert await store.remove_person("ann")
            assert not await store.remove_person("ann")

    async def test_an_identity_belongs_to_one_person(self, tmp_path: Path) -> None:
        async with self.open_store(tmp_path) as store:
            await store.put_identity(build_identity("u1", "ann"))
            await store.put_identity(build_identity("u1", "ben"))
            await store.put_identity(build_identity("u1", "ann", "matrix"))
            assert await store.list_identities() == [build_identity("u1", "ann", "matrix"), build_identity("u1", "ben")]
            assert await store.remove_identity("slack", "u1")
            assert not await store.remove_identity("slack", "u1")
            assert await store.list_identities() == [build_identity("u1", "ann", "matrix")]

    async def test_user_ids_may_be_any_text(self, tmp_path: Path) -> None:
        async with self.open_store(tmp_path) as store:
            for user in ODD_USERS:
                await store.put_identity(build_identity(user))
            assert {identity.user for identity in await store.list_identities()} == set(ODD_USERS)
            for user in ODD_USERS:
                assert await store.remove_identity("slack", user)

    async def test_only_the_newest_pairing_of_an_identity_is_valid(self, tmp_path: Path) -> None:
        async with self.open_store(tmp_path) as store:
            await store.put_pairing(build_pairing(1, "a"))
            await store.put_pairing(build_pairing(3, "b"))
            await store.put_pairing(build_pairing(2, "a"))
            assert await store.list_pairings() == [build_pairing(2, "a"), build_pairing(3, "b")]
            assert not await store.complete_pairing("d1", build_identity("a"), ANN, 500)

    async def test_a_pairing_code_is_valid_once_and_only_for_its_identity(self, tmp_path: Path) -> None:
        async with self.open_store(tmp_path) as store:
            await store.put_pairing(build_pairing(1, "a"))
            for digest, user, now in (("other", "a", 500), ("d1", "b", 500), ("d1", "a", 1_000)):
                assert not await store.complete_pairing(digest, build_identity(user), ANN, now)
            assert (await store.list_people(), await store.list_identities()) == ([], [])
            assert await store.list_pairings() == [build_pairing(1, "a")]
            assert await store.complete_pairing("d1", build_identity("a"), ANN, 999)
            assert (await store.list_people(), await store.list_identities()) == ([ANN], [build_identity("a")])
            assert await store.list_pairings() == []
            assert not await store.complete_pairing("d1", build_identity("a", "ben"), BEN, 999)
            assert await store.list_people() == [ANN]

    async def test_of_concurrent_uses_of_a_code_one_succeeds(self, tmp_path: Path) -> None:
        async with self.open_store(tmp_path) as store:
            await store.put_pairing(build_pairing(1, "a"))
            people = [Person(name=f"p{number}") for number in range(20)]
            results = await asyncio.gather(
                *(store.complete_pairing("d1", build_identity("a", person.name), person, 1) for person in people)
            )
            assert sorted(results) == [False] * 19 + [True]
            winner = people[results.index(True)]
            assert (await store.list_people(), await store.list_identities()) == (
                [winner],
                [build_identity("a", winner.name)],
            )

    async def test_expired_pairings_are_deleted(self, tmp_path: Path) -> None:
        async with self.open_store(tmp_path) as store:
            for number in range(5):
                await store.put_pairing(build_pairing(number, expires=100 + number))
            await store.delete_expired_pairings(102)
            assert [pairing.expires for pairing in await store.list_pairings()] == [103, 104]

    async def test_a_key_is_stored_and_revoked_once(self, tmp_path: Path) -> None:
        async with self.open_store(tmp_path) as store:
            await store.put_key(build_key(2))
            await store.put_key(build_key(1))
            assert await store.list_keys() == [build_key(1), build_key(2)]
            assert await store.revoke_key("k00001", 77)
            assert not await store.revoke_key("k00001", 78), "it is revoked already"
            assert not await store.revoke_key("k00009", 78)
            assert await store.list_keys() == [msgspec.structs.replace(build_key(1), revoked=77), build_key(2)]

    async def test_the_newest_revoked_keys_and_all_valid_keys_are_kept(self, tmp_path: Path) -> None:
        async with self.open_store(tmp_path) as store:
            old = [msgspec.structs.replace(build_key(n), revoked=n) for n in range(1, REVOKED_KEYS_MAX + 1)]
            await asyncio.gather(*(store.put_key(key) for key in old))
            for number in (90_001, 90_002, 90_003):
                await store.put_key(build_key(number))
            assert await store.revoke_key("k90001", 90_000)
            assert await store.revoke_key("k90002", 90_000)
            remaining = {key.id for key in await store.list_keys()}
            assert len(remaining) == REVOKED_KEYS_MAX + 1
            assert not remaining & {"k00001", "k00002"}
            assert remaining >= {"k00003", "k90001", "k90002", "k90003"}

    async def test_invalid_text_is_refused_and_changes_nothing(self, tmp_path: Path) -> None:
        async with self.open_store(tmp_path) as store:
            lone_surrogate = "half a character: \ud800"
            await store.put_pairing(build_pairing(1, "a"))
            await expect_error(InputRefused, store.put_person(Person(name="ann", display_name=lone_surrogate)))
            await expect_error(InputRefused, store.put_identity(build_identity(lone_surrogate)))
            await expect_error(InputRefused, store.put_pairing(build_pairing(2, lone_surrogate)))
            await expect_error(InputRefused, store.put_key(msgspec.structs.replace(build_key(1), note=lone_surrogate)))
            await expect_error(
                InputRefused,
                store.complete_pairing("d1", build_identity("a"), Person(name="ann", display_name=lone_surrogate), 1),
            )
            assert await store.list_pairings() == [build_pairing(1, "a")]
            assert (await store.list_people(), await store.list_identities(), await store.list_keys()) == ([], [], [])

    async def test_a_closed_store_raises_store_failed(self, tmp_path: Path) -> None:
        async with self.open_store(tmp_path) as store:
            await store.put_person(ANN)
        await expect_error(StoreFailed, store.list_people())
        await expect_error(StoreFailed, store.put_person(BEN))
