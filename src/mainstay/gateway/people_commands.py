"""People as commands ask about them and change them, here or in the process that owns the home.

Every verb takes a JSON object and gives back something that JSON can say. No answer but that of `key` holds a secret.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from mainstay.agent.auditing import noting
from mainstay.agent.places import GATEWAY
from mainstay.agent.world import SystemClock
from mainstay.config.check_gateway import people_of
from mainstay.config.schema import Config
from mainstay.core.audit import Notary
from mainstay.core.errors import InputRefused
from mainstay.core.people import Key, Pairing, Person, Role, Scope
from mainstay.gateway.audited_people import NotedPeople
from mainstay.gateway.people import People
from mainstay.store.home import HomeLock, prepare
from mainstay.testing.memory_gateway import MemoryGateway

PREFIX = "people."  # of these verbs on the owner's socket
FILE = GATEWAY
LOOKING = ("list", "pairings", "keys")  # verbs that change nothing


# --- where they are ------------------------------------------------------------------------------


def people_at(data: Path, config: Config, notary: Callable[[], Notary | None] = lambda: None) -> People:
    """Those of a home, to be opened by whoever owns it. What is changed is put on record by the notary."""
    from mainstay.store.sqlite.gateway import SqliteGateway  # its engine is loaded only where it is used

    declared, accounts = people_of(config)
    return People(NotedPeople(SqliteGateway(str(data / FILE)), notary), SystemClock(), declared, accounts)


@asynccontextmanager
async def own_people(data: Path, config: Config) -> AsyncIterator[People]:
    """The same, under the home's lock for as long as the block runs. Raises HomeTaken."""
    prepare(data)
    lock = HomeLock(data)
    lock.take()
    try:
        async with noting(data, config) as noted:
            people = people_at(data, config, lambda: noted.notary)
            await people.open()
            try:
                yield people
            finally:
                await people.close()
    finally:
        lock.release()


async def nobody_yet(config: Config) -> People:
    """Those of a home in which nothing was ever kept: who is declared, and no others."""
    people = People(MemoryGateway(), SystemClock(), *people_of(config))
    await people.open()
    return people


# --- what can be asked for -----------------------------------------------------------------------


class _Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class _Named(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str


class _Role(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    workspace: str
    role: Role


class _Added(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    workspace: str
    role: Role = "member"
    called: str = ""


class _Paired(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    code: str
    name: str
    workspace: str
    role: Role = "member"


class _Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    workspace: str


class _Account(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    channel: str
    user: str


class _NewKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    workspace: str
    scopes: tuple[Scope, ...] = ("chat",)
    note: str = ""
    expires: int = 0  # ms


class _KeyId(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str


async def do(people: People, verb: str, arguments: dict[str, Any]) -> Any:
    """Raises InputRefused for whatever cannot be."""
    found = _VERBS.get(verb.removeprefix(PREFIX))
    if found is None:
        raise InputRefused(f"there is no operation {verb[:80]!r}")
    kind, work = found
    try:
        given = msgspec.convert(arguments, kind)
    except msgspec.ValidationError as error:
        raise InputRefused(f"this cannot be done: {error}") from None
    return await work(people, given)


# --- how it is done ------------------------------------------------------------------------------


async def _list(people: People, given: _Nothing) -> list[dict[str, Any]]:
    held = _held(people)
    return [_person(people, one, held[one.name]) for one in people.everybody()]


async def _add(people: People, given: _Added) -> dict[str, Any]:
    await people.add(Person(name=given.name, called=given.called, roles={given.workspace: given.role}))
    return _found(people, given.name)


async def _grant(people: People, given: _Role) -> dict[str, Any]:
    await people.grant(given.name, given.workspace, given.role)
    return _found(people, given.name)


async def _withdraw(people: People, given: _Place) -> dict[str, Any]:
    await people.withdraw(given.name, given.workspace)
    return _found(people, given.name)


async def _remove(people: People, given: _Named) -> bool:
    await people.remove(given.name)
    return True


async def _pairings(people: People, given: _Nothing) -> list[dict[str, Any]]:
    return [_waiting(one) for one in people.pairings()]


async def _pair(people: People, given: _Paired) -> dict[str, Any]:
    await people.pair(given.code, name=given.name, workspace=given.workspace, role=given.role)
    return _found(people, given.name)


async def _unpair(people: People, given: _Account) -> bool:
    if not await people.unpair(given.channel, given.user):
        raise InputRefused(f"the account {given.user[:80]!r} on {given.channel[:80]!r} is nobody's")
    return True


async def _key(people: People, given: _NewKey) -> dict[str, Any]:
    token, key = await people.make_key(
        given.name, given.workspace, scopes=given.scopes, note=given.note, expires=given.expires
    )
    return {"token": token, "key": _shown(people, key)}


async def _keys(people: People, given: _Nothing) -> list[dict[str, Any]]:
    kept = people.keys()
    return [_shown(people, one) for one in kept]


async def _revoke(people: People, given: _KeyId) -> dict[str, Any]:
    if not await people.revoke_key(given.id):
        known = people.key(given.id)
        raise InputRefused("it was revoked before" if known is not None else f"there is no key {given.id[:20]!r}")
    key = people.key(given.id)
    assert key is not None, "the last that was revoked is kept"
    return _shown(people, key)


_VERBS: dict[str, tuple[Any, Callable[[People, Any], Awaitable[Any]]]] = {
    "list": (_Nothing, _list),
    "add": (_Added, _add),
    "grant": (_Role, _grant),
    "withdraw": (_Place, _withdraw),
    "remove": (_Named, _remove),
    "pairings": (_Nothing, _pairings),
    "pair": (_Paired, _pair),
    "unpair": (_Account, _unpair),
    "key": (_NewKey, _key),
    "keys": (_Nothing, _keys),
    "revoke": (_KeyId, _revoke),
}


# --- how it is shown -----------------------------------------------------------------------------


def _found(people: People, name: str) -> dict[str, Any]:
    person = people.person(name)
    if person is None:
        raise InputRefused(f"{name} was removed meanwhile")
    return _person(people, person, _held(people)[name])


def _held(people: People) -> Counter[str]:
    """How many keys each has that could be used now."""
    kept = people.keys()
    return Counter(one.person for one in kept if people.is_usable(one))


def _person(people: People, person: Person, keys: int) -> dict[str, Any]:
    accounts = [{"channel": one.channel, "user": one.user} for one in people.accounts_of(person.name)]
    made = {"name": person.name, "called": person.called, "roles": dict(person.roles), "accounts": accounts}
    return made | {"keys": keys, "declared": people.is_declared(person.name), "created": person.created}


def _waiting(one: Pairing) -> dict[str, Any]:
    """Without the digest, which is nobody's business."""
    made = {"channel": one.channel, "user": one.user, "called": one.called}
    return made | {"created": one.created, "expires": one.expires}


def _shown(people: People, key: Key) -> dict[str, Any]:
    made = {"id": key.id, "person": key.person, "workspace": key.workspace, "scopes": list(key.scopes)}
    times = {"created": key.created, "expires": key.expires, "revoked": key.revoked}
    return made | {"note": key.note, **times, "usable": people.is_usable(key)}
