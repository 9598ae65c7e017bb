"""Operations on people, for administrators of the home: roles, accounts on channels (pairing), API keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from mainstay.core.errors import InputRefused, KeyUnknown, PersonUnknown
from mainstay.core.people import AccessScope, ApiKey, PendingPairing, Person, PersonRole
from mainstay.operations.caller import Caller
from mainstay.operations.operation import Milliseconds, Name, Operation
from mainstay.operations.operation_entry import OperationEntry, Route, RunFunction
from mainstay.operations.runtime_protocols import PeopleDirectory


class ChannelAccount(msgspec.Struct, frozen=True):
    channel: str
    user: str


class PersonView(msgspec.Struct, frozen=True, kw_only=True):
    """A person, with roles by workspace."""

    name: str
    called: str
    roles: dict[str, PersonRole]
    created: int
    accounts: list[ChannelAccount] = []
    keys: int = 0  # API keys that can be used now
    declared: bool = False  # configured in mainstay.yaml


class PersonList(msgspec.Struct, frozen=True, kw_only=True):
    people: list[PersonView]


class PairingView(msgspec.Struct, frozen=True, kw_only=True):
    """An unknown user of a channel who was given a pairing code."""

    channel: str
    user: str
    called: str
    created: int
    expires: int


class PairingList(msgspec.Struct, frozen=True, kw_only=True):
    pairings: list[PairingView]


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """An API key without its secret."""

    id: str
    person: str
    workspace: str
    scopes: list[AccessScope]
    note: str
    created: int
    expires: int
    revoked: int
    usable: bool = True


class KeyList(msgspec.Struct, frozen=True, kw_only=True):
    keys: list[KeyView]


class CreatedKey(msgspec.Struct, frozen=True, kw_only=True):
    """A new API key. The secret is shown this once."""

    key: str
    kept: KeyView


class ListPeople(Operation[PersonList], frozen=True, kw_only=True):
    """List people and their roles."""


class AddPerson(Operation[PersonView], frozen=True, kw_only=True):
    """Add a person."""

    name: Name
    called: Name = ""
    roles: Annotated[dict[str, PersonRole], Meta(max_length=1_000)] = {}


class GrantRole(Operation[PersonView], frozen=True, kw_only=True):
    """Give a person a role in a workspace."""

    name: Name
    workspace: Name
    role: PersonRole


class WithdrawRole(Operation[PersonView], frozen=True, kw_only=True):
    """Take a person's role in a workspace away; their keys to it are revoked."""

    name: Name
    workspace: Name


class RemovePerson(Operation[None], frozen=True, kw_only=True):
    """Remove a person, their accounts and their keys."""

    name: Name


class ListPairings(Operation[PairingList], frozen=True, kw_only=True):
    """List unknown users of channels who wait for pairing."""


class PairAccount(Operation[PersonView], frozen=True, kw_only=True):
    """Pair the account that was given a code with a person."""

    code: Name
    name: Name
    workspace: Name
    role: PersonRole = "member"


class UnpairAccount(Operation[None], frozen=True, kw_only=True):
    """Separate an account on a channel from its person."""

    channel: Name
    user: Name


class ListKeys(Operation[KeyList], frozen=True, kw_only=True):
    """List API keys, without their secrets."""


class CreateKey(Operation[CreatedKey], frozen=True, kw_only=True):
    """Create an API key; its secret is shown this once."""

    person: Name
    workspace: Name = ""
    scopes: Annotated[tuple[AccessScope, ...], Meta(min_length=1, max_length=10)] = ("chat",)
    note: Name = ""
    expires: Milliseconds = 0  # 0: never


class RevokeKey(Operation[KeyView], frozen=True, kw_only=True):
    """Revoke an API key."""

    id: Name


def check_workspaces_exist(caller: Caller, names: Iterable[str]) -> None:
    """Raise InputRefused for a workspace that does not exist: else these people would have rights in a workspace of
    that name that is created later."""
    names_in_home = caller.home.workspace_names()
    if names_in_home is None:
        return
    existing = {caller.home.main_workspace, *names_in_home}
    for name in (name[:80] for name in names if name not in existing):
        raise InputRefused(f"there is no workspace {name!r}; `mainstay workspace create {name}` makes it")


def person_view(people: PeopleDirectory, person: Person) -> PersonView:
    accounts = [ChannelAccount(account.channel, account.user) for account in people.list_accounts(person.name)]
    keys = sum(key.person == person.name and people.is_usable(key) for key in people.list_keys())
    return PersonView(
        name=person.name,
        called=person.display_name,
        roles=person.roles,
        created=person.created,
        accounts=accounts,
        keys=keys,
        declared=people.is_declared(person.name),
    )


def _find_person(people: PeopleDirectory, name: str) -> PersonView:
    person = people.get_person(name)
    if person is None:
        raise PersonUnknown(f"there is no person {name[:80]!r}")
    return person_view(people, person)


def key_view(people: PeopleDirectory, key: ApiKey) -> KeyView:
    return KeyView(
        id=key.id,
        person=key.person,
        workspace=key.workspace,
        scopes=list(key.scopes),
        note=key.note,
        created=key.created,
        expires=key.expires,
        revoked=key.revoked,
        usable=people.is_usable(key),
    )


def pairing_view(pairing: PendingPairing) -> PairingView:
    """Return a pairing without the digest of its code, which is a secret."""
    return PairingView(
        channel=pairing.channel,
        user=pairing.user,
        called=pairing.display_name,
        created=pairing.created,
        expires=pairing.expires,
    )


async def list_people(caller: Caller, request: ListPeople) -> PersonList:
    people = caller.home.people
    return PersonList(people=[person_view(people, person) for person in people.list_people()])


async def add_person(caller: Caller, request: AddPerson) -> PersonView:
    check_workspaces_exist(caller, request.roles)
    people = caller.home.people
    await people.add_person(Person(name=request.name, display_name=request.called, roles=request.roles))
    return _find_person(people, request.name)


async def grant_role(caller: Caller, request: GrantRole) -> PersonView:
    check_workspaces_exist(caller, (request.workspace,))
    await caller.home.people.grant_role(request.name, request.workspace, request.role)
    return _find_person(caller.home.people, request.name)


async def withdraw_role(caller: Caller, request: WithdrawRole) -> PersonView:
    await caller.home.people.withdraw_role(request.name, request.workspace)
    return _find_person(caller.home.people, request.name)


async def remove_person(caller: Caller, request: RemovePerson) -> None:
    _find_person(caller.home.people, request.name)
    await caller.home.people.remove_person(request.name)


async def list_pairings(caller: Caller, request: ListPairings) -> PairingList:
    return PairingList(pairings=[pairing_view(pairing) for pairing in caller.home.people.list_pairings()])


async def pair_account(caller: Caller, request: PairAccount) -> PersonView:
    check_workspaces_exist(caller, (request.workspace,))
    people = caller.home.people
    await people.pair_account(request.code, name=request.name, workspace=request.workspace, role=request.role)
    return _find_person(people, request.name)


async def unpair_account(caller: Caller, request: UnpairAccount) -> None:
    if not await caller.home.people.unpair_account(request.channel, request.user):
        raise PersonUnknown(f"the account {request.user[:80]!r} on {request.channel[:80]!r} is not paired")


async def list_keys(caller: Caller, request: ListKeys) -> KeyList:
    people = caller.home.people
    return KeyList(keys=[key_view(people, key) for key in people.list_keys()])


async def create_key(caller: Caller, request: CreateKey) -> CreatedKey:
    people = caller.home.people
    workspace = request.workspace or caller.home.main_workspace
    check_workspaces_exist(caller, (workspace,))
    token, key = await people.create_key(
        request.person, workspace, scopes=request.scopes, note=request.note, expires=request.expires
    )
    return CreatedKey(key=token, kept=key_view(people, key))


async def revoke_key(caller: Caller, request: RevokeKey) -> KeyView:
    people = caller.home.people
    if not await people.revoke_key(request.id):
        existing = people.get_key(request.id)
        raise KeyUnknown(
            "this key was revoked before" if existing is not None else f"there is no key {request.id[:20]!r}"
        )
    key = people.get_key(request.id)
    assert key is not None, "the key that was revoked last is kept"
    return key_view(people, key)


def _home_entry(request: type[Operation[object]], run: RunFunction, route: Route) -> OperationEntry:
    return OperationEntry(request=request, run=run, access="home", http=route)


ENTRIES = (
    _home_entry(ListPeople, list_people, Route("GET", "/api/people")),
    _home_entry(AddPerson, add_person, Route("POST", "/api/people", status=201)),
    _home_entry(RemovePerson, remove_person, Route("DELETE", "/api/people/{name}", status=204)),
    _home_entry(GrantRole, grant_role, Route("PUT", "/api/people/{name}/roles/{workspace}")),
    _home_entry(WithdrawRole, withdraw_role, Route("DELETE", "/api/people/{name}/roles/{workspace}")),
    _home_entry(ListPairings, list_pairings, Route("GET", "/api/pairings")),
    _home_entry(PairAccount, pair_account, Route("POST", "/api/pairings", status=201)),
    _home_entry(UnpairAccount, unpair_account, Route("POST", "/api/pairings/unpair", status=204)),
    _home_entry(ListKeys, list_keys, Route("GET", "/api/keys")),
    _home_entry(CreateKey, create_key, Route("POST", "/api/keys", status=201)),
    _home_entry(RevokeKey, revoke_key, Route("DELETE", "/api/keys/{name}", {"name": "id"}, 204)),
)
