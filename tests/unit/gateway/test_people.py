"""People, their roles and their accounts, those of the configuration among them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.people_lab import HandClock, opened

from mainstay.core.errors import InputRefused, StoreFull
from mainstay.core.people import SCOPES, Identity, Person, Principal
from mainstay.gateway.named import ROLES_MAX
from mainstay.gateway.people import People
from mainstay.store.sqlite.gateway import SqliteGateway
from mainstay.testing.memory_gateway import MemoryGateway

ANN = Person(name="ann", called="Ann Lee", roles={"team": "member", "lab": "admin"})
CONFIGURED = "declared in the configuration"


async def test_somebody_is_added_with_roles_and_may_enter_where_they_have_one() -> None:
    async with opened() as people:
        await people.add(ANN)
        found = people.person("ann")
        assert found is not None
        assert (found.shown, found.roles, found.created > 0) == ("Ann Lee", ANN.roles, True)
        assert people.principal_of(found, "team") == Principal(
            person="ann", workspace="team", role="member", scopes=SCOPES["member"]
        )
        assert people.principal_of(found, "default") is None
        assert [one.name for one in people.everybody()] == ["ann"]


async def test_a_role_is_granted_changed_and_withdrawn() -> None:
    async with opened() as people:
        await people.add(ANN)
        await people.grant("ann", "default", "guest")
        held = await people.grant("ann", "team", "admin")
        assert list(held.roles.items()) == [("team", "admin"), ("lab", "admin"), ("default", "guest")]
        await people.withdraw("ann", "team")
        assert people.principal_of(held, "team") is None, "though whoever asks still holds what they were"
        assert people.principal_of(held, "lab") is not None
        with pytest.raises(InputRefused, match="no role in the workspace 'team'"):
            await people.withdraw("ann", "team")


async def test_who_is_removed_is_nobody_and_neither_are_their_accounts() -> None:
    async with opened() as people:
        code = await people.ask("slack", "U1", "Ann")
        assert code is not None
        await people.pair(code, name="ann", workspace="team", role="member")
        known = people.who("slack", "U1")
        assert known is not None
        await people.remove("ann")
        assert people.who("slack", "U1") is None
        assert people.principal_of(known, "team") is None
        assert (people.everybody(), people.accounts_of("ann")) == ([], [])
        with pytest.raises(InputRefused, match="nobody called 'ann'"):
            await people.remove("ann")


async def test_whoever_gets_a_name_next_gets_nothing_of_who_had_it_before() -> None:
    """Keys of somebody who was declared outlive the declaration, as they are stored; nobody else is to have them."""
    store = MemoryGateway()
    async with opened(store, declared=[ANN]) as people:
        token, _ = await people.make_key("ann", "lab", scopes=["admin"])
        assert people.principal(token) is not None
        people.declare([], [])
        assert people.principal(token) is None, "whose it is is gone"
        await people.add(Person(name="ann", roles={"lab": "admin"}))
        assert people.principal(token) is None
    async with opened(store) as people:
        assert people.person("ann") is not None
        assert people.principal(token) is None


async def test_an_account_is_taken_back_and_its_person_stays() -> None:
    async with opened() as people:
        code = await people.ask("slack", "U1", "Ann")
        assert code is not None
        await people.pair(code, name="ann", workspace="team", role="member")
        assert people.accounts_of("ann") == [Identity(channel="slack", user="U1", person="ann")]
        assert await people.unpair("slack", "U1")
        assert not await people.unpair("slack", "U1")
        assert people.who("slack", "U1") is None
        assert people.person("ann") is not None


# --- of the configuration ------------------------------------------------------------------------


async def test_who_is_declared_wins_over_who_is_stored_and_is_changed_only_there() -> None:
    store = MemoryGateway()
    async with opened(store) as people:
        await people.add(Person(name="ann", roles={"team": "admin"}))
    declared = Person(name="ann", roles={"team": "guest"})
    account = Identity(channel="slack", user="U1", person="ann")
    async with opened(store, declared=[declared], accounts=[account]) as people:
        assert people.person("ann") == declared
        assert people.who("slack", "U1") == declared
        assert people.is_declared("ann")
        assert people.accounts_of("ann") == [account]
        changes = (
            people.add(Person(name="ann")),
            people.grant("ann", "lab", "admin"),
            people.withdraw("ann", "team"),
            people.remove("ann"),
        )
        for change in changes:
            with pytest.raises(InputRefused, match=CONFIGURED):
                await change
        with pytest.raises(InputRefused, match="ann's by the configuration"):
            await people.unpair("slack", "U1")
        assert people.person("ann") == declared


async def test_a_declared_person_can_be_paired_and_what_the_configuration_gave_does_not_outlast_it() -> None:
    store = MemoryGateway()
    async with opened(store, declared=[ANN]) as people:
        code = await people.ask("slack", "U1", "")
        assert code is not None
        with pytest.raises(InputRefused, match=CONFIGURED):
            await people.pair(code, name="ann", workspace="elsewhere", role="admin")
        assert await people.pair(code, name="ann", workspace="lab", role="guest") == ANN
        assert people.who("slack", "U1") == ANN
        people.declare([], [])
        left = people.who("slack", "U1")
        assert left is not None
        assert left.roles == {}
    assert [one.roles for one in await _stored(store)] == [{}]


async def test_an_account_that_the_configuration_gives_to_one_is_not_paired_with_another() -> None:
    store = MemoryGateway()
    async with opened(store) as people:
        code = await people.ask("slack", "U1", "")
        assert code is not None
        people.declare([ANN], [Identity(channel="slack", user="U1", person="ann")])
        with pytest.raises(InputRefused, match="ann's by the configuration"):
            await people.pair(code, name="ben", workspace="team", role="admin")
        assert people.person("ben") is None


async def _stored(store: MemoryGateway) -> Any:
    await store.open()
    return await store.people()


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
async def test_a_name_that_cannot_be_one_is_refused_in_a_sentence(number: int) -> None:
    name = BAD_NAMES[number]
    async with opened() as people:
        tries = (
            people.add(Person(name=name)),
            people.grant(name, "team", "member"),
            people.withdraw(name, "team"),
            people.remove(name),
            people.make_key(name, "team", scopes=["chat"]),
            people.pair("K7QM-4XPA", name=name, workspace="team", role="member"),
        )
        for attempt in tries:
            with pytest.raises(InputRefused):
                await attempt
        assert people.everybody() == []


BAD_WORKSPACES: list[Any] = ["", "Team", "a b", "../team", "a" * 65, "tëam", "team\n", None, 3]


@pytest.mark.parametrize("number", range(len(BAD_WORKSPACES)))
async def test_a_workspace_that_cannot_be_one_is_refused_in_a_sentence(number: int) -> None:
    workspace = BAD_WORKSPACES[number]
    async with opened() as people:
        await people.add(ANN)
        tries = (
            people.add(Person(name="ben", roles={workspace: "member"})),
            people.grant("ann", workspace, "member"),
            people.withdraw("ann", workspace),
            people.make_key("ann", workspace, scopes=["chat"]),
            people.pair("K7QM-4XPA", name="ann", workspace=workspace, role="member"),
        )
        for attempt in tries:
            with pytest.raises(InputRefused, match="workspace"):
                await attempt


@pytest.mark.parametrize("role", ["", "root", "Admin", "['admin']"])
async def test_a_role_that_is_none_is_refused_in_a_sentence(role: Any) -> None:
    async with opened() as people:
        await people.add(ANN)
        for attempt in (
            people.add(Person(name="ben", roles={"team": role})),
            people.grant("ann", "team", role),
            people.pair("K7QM-4XPA", name="ann", workspace="team", role=role),
        ):
            with pytest.raises(InputRefused, match="a role is one of admin, member, guest"):
                await attempt
        assert [one.roles for one in people.everybody()] == [ANN.roles]


async def test_what_somebody_is_called_hides_nothing_and_is_bounded() -> None:
    async with opened() as people:
        for called in ("a" * 81, "two\nlines", "\x1b[31mred", "right\u202eleft", "half \ud800"):
            with pytest.raises(InputRefused, match="one line of at most 80"):
                await people.add(Person(name="ann", called=called))
        assert people.everybody() == []


async def test_a_name_is_given_once_and_roles_are_bounded() -> None:
    async with opened() as people:
        await people.add(ANN)
        with pytest.raises(InputRefused, match="called ann already"):
            await people.add(Person(name="ann"))
        with pytest.raises(InputRefused, match=f"at most {ROLES_MAX}"):
            await people.add(Person(name="ben", roles={f"w{n}": "guest" for n in range(ROLES_MAX + 1)}))


# --- memory and disk -----------------------------------------------------------------------------


async def test_what_could_not_be_written_did_not_happen() -> None:
    store = MemoryGateway()
    async with opened(store) as people:
        await people.add(ANN)
        token, key = await people.make_key("ann", "team", scopes=["chat"])
        store.fail = StoreFull("no space left")
        for attempt in (
            people.grant("ann", "team", "admin"),
            people.remove("ann"),
            people.revoke_key(key.id),
            people.make_key("ann", "team", scopes=["chat"]),
            people.ask("slack", "U1", ""),
        ):
            with pytest.raises(StoreFull):
                await attempt
        store.fail = None
        found = people.principal(token)
        assert found is not None
        assert (found.role, len(people.keys()), people.pairings()) == ("member", 1, [])


async def test_a_change_goes_on_to_its_end_when_whoever_wanted_it_leaves(tmp_path: Path) -> None:
    """A key whose revocation is on disk must not be good for another moment."""
    clock = HandClock()
    async with opened(SqliteGateway(str(tmp_path / "gateway.db")), clock) as people:
        await people.add(ANN)
        token, key = await people.make_key("ann", "team", scopes=["chat"])
        wanted = asyncio.ensure_future(people.revoke_key(key.id))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        wanted.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wanted
        assert not await people.revoke_key(key.id), "it is done by now: changes are made one after another"
        assert people.principal(token) is None


async def test_everything_is_there_after_a_restart_and_closing_waits_for_what_is_under_way(tmp_path: Path) -> None:
    path = str(tmp_path / "gateway.db")
    people = People(SqliteGateway(path), HandClock())
    await people.open()
    await people.add(ANN)
    token, _ = await people.make_key("ann", "team", scopes=["chat"])
    wanted = asyncio.ensure_future(people.grant("ann", "team", "guest"))
    await asyncio.sleep(0)
    await people.close()
    await wanted
    async with opened(SqliteGateway(path)) as again:
        found = again.principal(token)
        assert found is not None
        assert found.role == "guest"


async def test_many_changes_at_once_are_made_one_after_another(tmp_path: Path) -> None:
    async with opened(SqliteGateway(str(tmp_path / "gateway.db"))) as people:
        await people.add(Person(name="ann"))
        await asyncio.gather(*(people.grant("ann", f"w{number}", "guest") for number in range(30)))
        found = people.person("ann")
        assert found is not None
        assert len(found.roles) == 30
