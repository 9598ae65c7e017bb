"""People, their roles and their accounts, those of the configuration among them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.people_lab import HandClock, opened

from mainstay.core.errors import InputRefused, StoreFull
from mainstay.core.people import ROLE_SCOPES, ChannelIdentity, Person, Principal
from mainstay.gateway.people import People
from mainstay.gateway.people_validation import ROLES_MAX
from mainstay.store.memory.people_store import InMemoryPeopleStore
from mainstay.store.sqlite.people_store import SqlitePeopleStore

ANN = Person(name="ann", display_name="Ann Lee", roles={"team": "member", "lab": "admin"})
CONFIGURED = "declared in the configuration"


async def test_a_person_is_added_with_roles_and_may_enter_their_workspaces() -> None:
    async with opened() as people:
        await people.add_person(ANN)
        found = people.get_person("ann")
        assert found is not None
        assert (found.label, found.roles, found.created > 0) == ("Ann Lee", ANN.roles, True)
        token, key = await people.create_key("ann", "team", scopes=list(ROLE_SCOPES["member"]))
        assert people.authenticate_key(token) == Principal(
            person="ann", workspace="team", role="member", scopes=ROLE_SCOPES["member"], key=key.id
        )
        with pytest.raises(InputRefused, match="no role in the workspace 'default'"):
            await people.create_key("ann", "default", scopes=["read"])
        assert [one.name for one in people.list_people()] == ["ann"]


async def test_a_role_is_granted_changed_and_withdrawn() -> None:
    async with opened() as people:
        await people.add_person(ANN)
        await people.grant_role("ann", "default", "guest")
        held = await people.grant_role("ann", "team", "admin")
        assert list(held.roles.items()) == [("team", "admin"), ("lab", "admin"), ("default", "guest")]
        team, _ = await people.create_key("ann", "team", scopes=["admin"])
        lab, _ = await people.create_key("ann", "lab", scopes=["admin"])
        await people.withdraw_role("ann", "team")
        assert people.authenticate_key(team) is None, "the key is not withdrawn, and gives nothing"
        assert people.authenticate_key(lab) is not None
        with pytest.raises(InputRefused, match="no role in the workspace 'team'"):
            await people.withdraw_role("ann", "team")


async def test_a_removed_person_is_unknown_and_so_are_their_accounts() -> None:
    async with opened() as people:
        code = await people.issue_pairing_code("slack", "U1", "Ann")
        assert code is not None
        await people.pair_account(code, name="ann", workspace="team", role="member")
        assert people.find_by_account("slack", "U1") is not None
        token, _ = await people.create_key("ann", "team", scopes=["chat"])
        await people.remove_person("ann")
        assert people.find_by_account("slack", "U1") is None
        assert people.authenticate_key(token) is None
        assert (people.list_people(), people.list_accounts("ann")) == ([], [])
        with pytest.raises(InputRefused, match="no person 'ann'"):
            await people.remove_person("ann")


async def test_a_new_person_with_a_used_name_inherits_nothing() -> None:
    """Keys of a declared person survive the declaration, as they are stored; no other person may have them."""
    store = InMemoryPeopleStore()
    async with opened(store, declared=[ANN]) as people:
        token, _ = await people.create_key("ann", "lab", scopes=["admin"])
        assert people.authenticate_key(token) is not None
        people.set_declared([], [])
        assert people.authenticate_key(token) is None, "whose it is is gone"
        await people.add_person(Person(name="ann", roles={"lab": "admin"}))
        assert people.authenticate_key(token) is None
    async with opened(store) as people:
        assert people.get_person("ann") is not None
        assert people.authenticate_key(token) is None


async def test_an_account_is_unlinked_and_its_person_stays() -> None:
    async with opened() as people:
        code = await people.issue_pairing_code("slack", "U1", "Ann")
        assert code is not None
        await people.pair_account(code, name="ann", workspace="team", role="member")
        assert people.list_accounts("ann") == [ChannelIdentity(channel="slack", user="U1", person="ann")]
        assert await people.unpair_account("slack", "U1")
        assert not await people.unpair_account("slack", "U1")
        assert people.find_by_account("slack", "U1") is None
        assert people.get_person("ann") is not None


# --- of the configuration ------------------------------------------------------------------------


async def test_a_declared_person_overrides_a_stored_one_and_is_changed_only_in_the_configuration() -> None:
    store = InMemoryPeopleStore()
    async with opened(store) as people:
        await people.add_person(Person(name="ann", roles={"team": "admin"}))
    declared = Person(name="ann", roles={"team": "guest"})
    account = ChannelIdentity(channel="slack", user="U1", person="ann")
    async with opened(store, declared=[declared], accounts=[account]) as people:
        assert people.get_person("ann") == declared
        assert people.find_by_account("slack", "U1") == declared
        assert people.is_declared("ann")
        assert people.list_accounts("ann") == [account]
        changes = (
            people.add_person(Person(name="ann")),
            people.grant_role("ann", "lab", "admin"),
            people.withdraw_role("ann", "team"),
            people.remove_person("ann"),
        )
        for change in changes:
            with pytest.raises(InputRefused, match=CONFIGURED):
                await change
        with pytest.raises(InputRefused, match="gives this account to ann"):
            await people.unpair_account("slack", "U1")
        assert people.get_person("ann") == declared


async def test_a_declared_person_can_be_paired_and_what_the_configuration_gave_does_not_outlast_it() -> None:
    store = InMemoryPeopleStore()
    async with opened(store, declared=[ANN]) as people:
        code = await people.issue_pairing_code("slack", "U1", "")
        assert code is not None
        with pytest.raises(InputRefused, match=CONFIGURED):
            await people.pair_account(code, name="ann", workspace="elsewhere", role="admin")
        assert await people.pair_account(code, name="ann", workspace="lab", role="guest") == ANN
        assert people.find_by_account("slack", "U1") == ANN
        people.set_declared([], [])
        left = people.find_by_account("slack", "U1")
        assert left is not None
        assert left.roles == {}
    assert [one.roles for one in await _stored(store)] == [{}]


async def test_an_account_that_the_configuration_gives_to_one_is_not_paired_with_another() -> None:
    store = InMemoryPeopleStore()
    async with opened(store) as people:
        code = await people.issue_pairing_code("slack", "U1", "")
        assert code is not None
        people.set_declared([ANN], [ChannelIdentity(channel="slack", user="U1", person="ann")])
        with pytest.raises(InputRefused, match="gives this account to ann"):
            await people.pair_account(code, name="ben", workspace="team", role="admin")
        assert people.get_person("ben") is None


async def _stored(store: InMemoryPeopleStore) -> Any:
    await store.open()
    return await store.list_people()


# --- what is refused -----------------------------------------------------------------------------

BAD_NAMES: list[Any] = [
    "",
    "Ann",
    "-ann",
    "a" * 33,
    "ann lee",
    "../ann",
    "ann\n",
    "änn",
    "owner",
    "a:b",
    None,
    7,
    ["ann"],
]


@pytest.mark.parametrize("number", range(len(BAD_NAMES)))
async def test_an_invalid_name_is_refused_in_a_sentence(number: int) -> None:
    name = BAD_NAMES[number]
    async with opened() as people:
        tries = (
            people.add_person(Person(name=name)),
            people.grant_role(name, "team", "member"),
            people.withdraw_role(name, "team"),
            people.remove_person(name),
            people.create_key(name, "team", scopes=["chat"]),
            people.pair_account("K7QM-4XPA", name=name, workspace="team", role="member"),
        )
        for attempt in tries:
            with pytest.raises(InputRefused):
                await attempt
        assert people.list_people() == []


BAD_WORKSPACES: list[Any] = ["", "Team", "a b", "../team", "a" * 65, "tëam", "team\n", None, 3]


@pytest.mark.parametrize("number", range(len(BAD_WORKSPACES)))
async def test_an_invalid_workspace_is_refused_in_a_sentence(number: int) -> None:
    workspace = BAD_WORKSPACES[number]
    async with opened() as people:
        await people.add_person(ANN)
        tries = (
            people.add_person(Person(name="ben", roles={workspace: "member"})),
            people.grant_role("ann", workspace, "member"),
            people.withdraw_role("ann", workspace),
            people.create_key("ann", workspace, scopes=["chat"]),
            people.pair_account("K7QM-4XPA", name="ann", workspace=workspace, role="member"),
        )
        for attempt in tries:
            with pytest.raises(InputRefused, match="workspace"):
                await attempt


@pytest.mark.parametrize("role", ["", "root", "Admin", "['admin']"])
async def test_an_invalid_role_is_refused_in_a_sentence(role: Any) -> None:
    async with opened() as people:
        await people.add_person(ANN)
        for attempt in (
            people.add_person(Person(name="ben", roles={"team": role})),
            people.grant_role("ann", "team", role),
            people.pair_account("K7QM-4XPA", name="ann", workspace="team", role=role),
        ):
            with pytest.raises(InputRefused, match="a role is one of admin, member, guest"):
                await attempt
        assert [one.roles for one in people.list_people()] == [ANN.roles]


async def test_a_display_name_is_sanitised_and_bounded() -> None:
    async with opened() as people:
        for called in ("a" * 81, "two\nlines", "\x1b[31mred", "right\u202eleft", "half \ud800"):
            with pytest.raises(InputRefused, match="one line of at most 80"):
                await people.add_person(Person(name="ann", display_name=called))
        assert people.list_people() == []


async def test_a_name_is_given_once_and_roles_are_bounded() -> None:
    async with opened() as people:
        await people.add_person(ANN)
        with pytest.raises(InputRefused, match="a person ann already"):
            await people.add_person(Person(name="ann"))
        with pytest.raises(InputRefused, match=f"at most {ROLES_MAX}"):
            await people.add_person(Person(name="ben", roles={f"w{n}": "guest" for n in range(ROLES_MAX + 1)}))


# --- memory and disk -----------------------------------------------------------------------------


async def test_a_failed_write_changes_nothing() -> None:
    store = InMemoryPeopleStore()
    async with opened(store) as people:
        await people.add_person(ANN)
        token, key = await people.create_key("ann", "team", scopes=["chat"])
        store.fail = StoreFull("no space left")
        for attempt in (
            people.grant_role("ann", "team", "admin"),
            people.remove_person("ann"),
            people.revoke_key(key.id),
            people.create_key("ann", "team", scopes=["chat"]),
            people.issue_pairing_code("slack", "U1", ""),
        ):
            with pytest.raises(StoreFull):
                await attempt
        store.fail = None
        found = people.authenticate_key(token)
        assert found is not None
        assert (found.role, len(people.list_keys()), people.list_pairings()) == ("member", 1, [])


async def test_a_change_is_completed_after_its_caller_disconnects(tmp_path: Path) -> None:
    """A key whose revocation is on disk must not be good for another moment."""
    clock = HandClock()
    async with opened(SqlitePeopleStore(str(tmp_path / "gateway.db")), clock) as people:
        await people.add_person(ANN)
        token, key = await people.create_key("ann", "team", scopes=["chat"])
        wanted = asyncio.ensure_future(people.revoke_key(key.id))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        wanted.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wanted
        assert not await people.revoke_key(key.id), "it is done by now: changes are made one after another"
        assert people.authenticate_key(token) is None


async def test_everything_survives_a_restart_and_closing_waits_for_pending_changes(tmp_path: Path) -> None:
    path = str(tmp_path / "gateway.db")
    people = People(SqlitePeopleStore(path), HandClock())
    await people.open()
    await people.add_person(ANN)
    token, _ = await people.create_key("ann", "team", scopes=["chat"])
    wanted = asyncio.ensure_future(people.grant_role("ann", "team", "guest"))
    await asyncio.sleep(0)
    await people.close()
    await wanted
    async with opened(SqlitePeopleStore(path)) as again:
        found = again.authenticate_key(token)
        assert found is not None
        assert found.role == "guest"


async def test_many_changes_at_once_are_made_one_after_another(tmp_path: Path) -> None:
    async with opened(SqlitePeopleStore(str(tmp_path / "gateway.db"))) as people:
        await people.add_person(Person(name="ann"))
        await asyncio.gather(*(people.grant_role("ann", f"w{number}", "guest") for number in range(30)))
        found = people.get_person("ann")
        assert found is not None
        assert len(found.roles) == 30
