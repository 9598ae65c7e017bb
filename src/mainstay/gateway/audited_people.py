"""Who may come in, with every change on record: the GatewayStore port around another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mainstay.core.audit import Notary
from mainstay.core.people import GatewayStore, Identity, Key, Pairing, Person


class NotedPeople:
    """`notary` is asked for at every change; None: nobody keeps a record. One that has to keep it refuses what
    could not be put there, but for what takes somebody's rights away: that is never put off."""

    def __init__(self, store: GatewayStore, notary: Callable[[], Notary | None]) -> None:
        self._store = store
        self._notary = notary

    async def _note(self, kind: str, what: str, workspace: str = "", details: dict[str, Any] | None = None) -> None:
        if (notary := self._notary()) is not None:
            await notary.note(kind, what, workspace=workspace, details=details)

    async def _ready(self) -> None:
        if (notary := self._notary()) is not None:
            await notary.ready()

    async def open(self) -> None:
        await self._store.open()

    async def close(self) -> None:
        await self._store.close()

    # --- people and their accounts ---------------------------------------------------------------

    async def people(self) -> Sequence[Person]:
        return await self._store.people()

    async def put_person(self, person: Person) -> None:
        await self._ready()
        await self._store.put_person(person)
        await self._note("person.changed", person.name, details={"roles": person.roles})

    async def remove_person(self, name: str) -> bool:
        found = await self._store.remove_person(name)
        if found:
            await self._note("person.removed", name)
        return found

    async def identities(self) -> Sequence[Identity]:
        return await self._store.identities()

    async def put_identity(self, identity: Identity) -> None:
        await self._ready()
        await self._store.put_identity(identity)
        await self._note("person.paired", identity.person, details={"channel": identity.channel, "user": identity.user})

    async def remove_identity(self, channel: str, user: str) -> bool:
        found = await self._store.remove_identity(channel, user)
        if found:
            await self._note("person.unpaired", user, details={"channel": channel})
        return found

    async def pairings(self) -> Sequence[Pairing]:
        return await self._store.pairings()

    async def put_pairing(self, pairing: Pairing) -> None:
        await self._store.put_pairing(pairing)

    async def pair(self, digest: str, identity: Identity, person: Person, now: int) -> bool:
        await self._ready()
        done = await self._store.pair(digest, identity, person, now)
        if done:
            account = {"channel": identity.channel, "user": identity.user, "roles": person.roles}
            await self._note("person.paired", person.name, details=account)
        return done

    async def drop_pairings(self, before: int) -> None:
        await self._store.drop_pairings(before)

    # --- keys ------------------------------------------------------------------------------------

    async def keys(self) -> Sequence[Key]:
        return await self._store.keys()

    async def put_key(self, key: Key) -> None:
        await self._ready()
        await self._store.put_key(key)
        given = {"person": key.person, "scopes": list(key.scopes), "expires": key.expires}
        await self._note("key.made", key.id, key.workspace, given)

    async def revoke_key(self, id: str, at: int) -> bool:
        done = await self._store.revoke_key(id, at)
        if done:
            await self._note("key.revoked", id)
        return done
