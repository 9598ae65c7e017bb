"""Who may come in, held in memory: the GatewayStore port for as long as the process lives."""

from __future__ import annotations

import time

import msgspec

from mainstay.core.errors import InputRefused, StoreFailed
from mainstay.core.people import REVOKED_MAX, Identity, Key, Pairing, Person


class MemoryGateway:
    """`fail` is raised by the next changes, as long as it is set; nothing changes then."""

    def __init__(self) -> None:
        self.fail: Exception | None = None
        self._is_open = False
        self._people: dict[str, Person] = {}
        self._accounts: dict[tuple[str, str], Identity] = {}
        self._pairings: dict[str, Pairing] = {}
        self._keys: dict[str, Key] = {}

    async def open(self) -> None:
        self._is_open = True

    async def close(self) -> None:
        self._is_open = False

    async def people(self) -> list[Person]:
        self._look()
        return [self._people[name] for name in sorted(self._people)]

    async def put_person(self, person: Person) -> None:
        self._change(person)
        self._people[person.name] = person

    async def remove_person(self, name: str) -> bool:
        self._change()
        accounts = [place for place, one in self._accounts.items() if one.person == name]
        keys = [key for key in self._keys.values() if key.person == name and not key.revoked]
        found = self._people.pop(name, None) is not None or bool(accounts) or bool(keys)
        for place in accounts:
            del self._accounts[place]
        now = time.time_ns() // 1_000_000
        for key in keys:
            self._keys[key.id] = msgspec.structs.replace(key, revoked=now)
        self._trim()
        return found

    async def identities(self) -> list[Identity]:
        self._look()
        return [self._accounts[place] for place in sorted(self._accounts)]

    async def put_identity(self, identity: Identity) -> None:
        self._change(identity)
        self._accounts[identity.channel, identity.user] = identity

    async def remove_identity(self, channel: str, user: str) -> bool:
        self._change()
        return self._accounts.pop((channel, user), None) is not None

    async def pairings(self) -> list[Pairing]:
        self._look()
        return sorted(self._pairings.values(), key=lambda one: (one.created, one.digest))

    async def put_pairing(self, pairing: Pairing) -> None:
        self._change(pairing)
        account = (pairing.channel, pairing.user)
        kept = {digest: one for digest, one in self._pairings.items() if (one.channel, one.user) != account}
        self._pairings = {**kept, pairing.digest: pairing}

    async def pair(self, digest: str, identity: Identity, person: Person, now: int) -> bool:
        self._change(identity, person)
        found = self._pairings.get(digest)
        if found is None or (found.channel, found.user) != (identity.channel, identity.user) or found.expires <= now:
            return False
        del self._pairings[digest]
        self._people[person.name] = person
        self._accounts[identity.channel, identity.user] = identity
        return True

    async def drop_pairings(self, before: int) -> None:
        self._change()
        self._pairings = {digest: one for digest, one in self._pairings.items() if one.expires > before}

    async def keys(self) -> list[Key]:
        self._look()
        return sorted(self._keys.values(), key=lambda key: (key.created, key.id))

    async def put_key(self, key: Key) -> None:
        self._change(key)
        self._keys[key.id] = key

    async def revoke_key(self, id: str, at: int) -> bool:
        self._change()
        key = self._keys.get(id)
        if key is None or key.revoked:
            return False
        self._keys[id] = msgspec.structs.replace(key, revoked=at)
        self._trim()
        return True

    def _trim(self) -> None:
        revoked = sorted((key.revoked, key.id) for key in self._keys.values() if key.revoked)
        for _, id in revoked[:-REVOKED_MAX]:
            del self._keys[id]

    def _look(self) -> None:
        if not self._is_open:
            raise StoreFailed("it is not open")

    def _change(self, *given: msgspec.Struct) -> None:
        self._look()
        if self.fail is not None:
            raise self.fail
        try:
            msgspec.json.encode(given)
        except UnicodeEncodeError:
            raise InputRefused("this cannot be kept: it is not text") from None
