"""A `PeopleStore` that writes every change of people, accounts and API keys to the audit log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mainstay.core.audit import AdminAuditRecorder
from mainstay.core.people import ApiKey, ChannelIdentity, PendingPairing, PeopleStore, Person


class AuditedPeopleStore:
    """Wraps another store. `get_recorder` is called for every change; it returns None if there is no audit log.

    If the audit log is required and unavailable, changes that give rights are refused before they are made. Changes
    that take rights away are never refused.
    """

    def __init__(self, store: PeopleStore, get_recorder: Callable[[], AdminAuditRecorder | None]) -> None:
        self._store = store
        self._get_recorder = get_recorder

    async def _record(
        self, kind: str, subject: str, workspace: str = "", details: dict[str, Any] | None = None
    ) -> None:
        if (recorder := self._get_recorder()) is not None:
            await recorder.record(kind, subject, workspace=workspace, details=details)

    async def _ensure_available(self) -> None:
        if (recorder := self._get_recorder()) is not None:
            await recorder.ensure_available()

    async def open(self) -> None:
        await self._store.open()

    async def close(self) -> None:
        await self._store.close()

    # --- people and their accounts ---------------------------------------------------------------

    async def list_people(self) -> Sequence[Person]:
        return await self._store.list_people()

    async def put_person(self, person: Person) -> None:
        await self._ensure_available()
        await self._store.put_person(person)
        await self._record("person.changed", person.name, details={"roles": person.roles})

    async def remove_person(self, name: str) -> bool:
        removed = await self._store.remove_person(name)
        if removed:
            await self._record("person.removed", name)
        return removed

    async def list_identities(self) -> Sequence[ChannelIdentity]:
        return await self._store.list_identities()

    async def put_identity(self, identity: ChannelIdentity) -> None:
        await self._ensure_available()
        await self._store.put_identity(identity)
        await self._record(
            "person.paired", identity.person, details={"channel": identity.channel, "user": identity.user}
        )

    async def remove_identity(self, channel: str, user: str) -> bool:
        removed = await self._store.remove_identity(channel, user)
        if removed:
            await self._record("person.unpaired", user, details={"channel": channel})
        return removed

    async def list_pairings(self) -> Sequence[PendingPairing]:
        return await self._store.list_pairings()

    async def put_pairing(self, pairing: PendingPairing) -> None:
        await self._store.put_pairing(pairing)

    async def complete_pairing(self, digest: str, identity: ChannelIdentity, person: Person, now: int) -> bool:
        await self._ensure_available()
        paired = await self._store.complete_pairing(digest, identity, person, now)
        if paired:
            account = {"channel": identity.channel, "user": identity.user, "roles": person.roles}
            await self._record("person.paired", person.name, details=account)
        return paired

    async def delete_expired_pairings(self, before_ms: int) -> None:
        await self._store.delete_expired_pairings(before_ms)

    # --- keys ------------------------------------------------------------------------------------

    async def list_keys(self) -> Sequence[ApiKey]:
        return await self._store.list_keys()

    async def put_key(self, key: ApiKey) -> None:
        await self._ensure_available()
        await self._store.put_key(key)
        details = {"person": key.person, "scopes": list(key.scopes), "expires": key.expires}
        await self._record("key.made", key.id, key.workspace, details)

    async def revoke_key(self, id: str, at: int) -> bool:
        revoked = await self._store.revoke_key(id, at)
        if revoked:
            await self._record("key.revoked", id)
        return revoked
