"""In-memory PeopleStore: people, identities, pairings and API keys of a gateway that stores nothing."""

from __future__ import annotations

import time

import msgspec

from mainstay.core.errors import InputRefused, StoreFailed
from mainstay.core.people import REVOKED_KEYS_MAX, ApiKey, ChannelIdentity, PendingPairing, Person


class InMemoryPeopleStore:
    """Every change raises `fail` while it is set, and changes nothing."""

    def __init__(self) -> None:
        self.fail: Exception | None = None
        self._is_open = False
        self._people: dict[str, Person] = {}
        self._identities: dict[tuple[str, str], ChannelIdentity] = {}
        self._pairings: dict[str, PendingPairing] = {}
        self._keys: dict[str, ApiKey] = {}

    async def open(self) -> None:
        self._is_open = True

    async def close(self) -> None:
        self._is_open = False

    async def list_people(self) -> list[Person]:
        self._check_open()
        return [self._people[name] for name in sorted(self._people)]

    async def put_person(self, person: Person) -> None:
        self._check_writable(person)
        self._people[person.name] = person

    async def remove_person(self, name: str) -> bool:
        self._check_writable()
        accounts = [account for account, identity in self._identities.items() if identity.person == name]
        keys = [key for key in self._keys.values() if key.person == name and not key.revoked]
        existed = self._people.pop(name, None) is not None or bool(accounts) or bool(keys)
        for account in accounts:
            del self._identities[account]
        now = time.time_ns() // 1_000_000
        for key in keys:
            self._keys[key.id] = msgspec.structs.replace(key, revoked=now)
        self._trim_revoked_keys()
        return existed

    async def list_identities(self) -> list[ChannelIdentity]:
        self._check_open()
        return [self._identities[account] for account in sorted(self._identities)]

    async def put_identity(self, identity: ChannelIdentity) -> None:
        self._check_writable(identity)
        self._identities[identity.channel, identity.user] = identity

    async def remove_identity(self, channel: str, user: str) -> bool:
        self._check_writable()
        return self._identities.pop((channel, user), None) is not None

    async def list_pairings(self) -> list[PendingPairing]:
        self._check_open()
        return sorted(self._pairings.values(), key=lambda pairing: (pairing.created, pairing.digest))

    async def put_pairing(self, pairing: PendingPairing) -> None:
        self._check_writable(pairing)
        account = (pairing.channel, pairing.user)
        others = {digest: other for digest, other in self._pairings.items() if (other.channel, other.user) != account}
        self._pairings = {**others, pairing.digest: pairing}

    async def complete_pairing(self, digest: str, identity: ChannelIdentity, person: Person, now: int) -> bool:
        self._check_writable(identity, person)
        pairing = self._pairings.get(digest)
        if (
            pairing is None
            or (pairing.channel, pairing.user) != (identity.channel, identity.user)
            or pairing.expires <= now
        ):
            return False
        del self._pairings[digest]
        self._people[person.name] = person
        self._identities[identity.channel, identity.user] = identity
        return True

    async def delete_expired_pairings(self, before_ms: int) -> None:
        self._check_writable()
        self._pairings = {digest: pairing for digest, pairing in self._pairings.items() if pairing.expires > before_ms}

    async def list_keys(self) -> list[ApiKey]:
        self._check_open()
        return sorted(self._keys.values(), key=lambda key: (key.created, key.id))

    async def put_key(self, key: ApiKey) -> None:
        self._check_writable(key)
        self._keys[key.id] = key

    async def revoke_key(self, id: str, at: int) -> bool:
        self._check_writable()
        key = self._keys.get(id)
        if key is None or key.revoked:
            return False
        self._keys[id] = msgspec.structs.replace(key, revoked=at)
        self._trim_revoked_keys()
        return True

    def _trim_revoked_keys(self) -> None:
        revoked = sorted((key.revoked, key.id) for key in self._keys.values() if key.revoked)
        for _, id in revoked[:-REVOKED_KEYS_MAX]:
            del self._keys[id]

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreFailed("the store is not open")

    def _check_writable(self, *records: msgspec.Struct) -> None:
        self._check_open()
        if self.fail is not None:
            raise self.fail
        try:
            msgspec.json.encode(records)
        except UnicodeEncodeError:
            raise InputRefused("this cannot be stored: it is not valid text") from None
