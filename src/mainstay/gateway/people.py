"""People of a home: authentication by API key or channel account, and changes of people, roles, pairings and keys.

Everything is held in memory, because every request needs it, and in the store. Changes run one after another, on disk
first; a change that has begun is finished even if its caller is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from mainstay.core.errors import InputRefused, StoreError
from mainstay.core.people import AccessScope, ApiKey, ChannelIdentity, PendingPairing, PeopleStore, Person, PersonRole
from mainstay.core.ports import Clock
from mainstay.gateway import pairing_codes, people_validation
from mainstay.gateway.api_keys import ACTIVE_KEYS_MAX, ApiKeyIndex, compute_key_digest, generate_key
from mainstay.gateway.pairing_codes import AttemptLimiter
from mainstay.gateway.people_lookup import PeopleLookup

log = logging.getLogger("mainstay.people")

T = TypeVar("T")
CODE_UNKNOWN = (
    "this pairing code is unknown: it was mistyped, used, replaced, or is older than an hour; request a new one"
)


class People(PeopleLookup):
    """The people of a home. `declared` people and their `accounts` come from the configuration and can be changed only
    there."""

    def __init__(
        self,
        store: PeopleStore,
        clock: Clock,
        declared: Sequence[Person] = (),
        accounts: Sequence[ChannelIdentity] = (),
    ) -> None:
        super().__init__(clock)
        self._store = store
        self._change_lock = asyncio.Lock()
        self._running_changes: set[asyncio.Task[Any]] = set()
        self._wrong_codes = AttemptLimiter(clock, pairing_codes.WRONG_CODES_PER_MIN)
        # by channel, so that one channel does not exhaust another's limit
        self._issued_codes: dict[str, AttemptLimiter] = {}
        self.set_declared(declared, accounts)

    async def open(self) -> None:
        await self._store.open()
        await self._load()

    async def close(self) -> None:
        await asyncio.gather(*self._running_changes, return_exceptions=True)
        await self._store.close()

    # --- people and roles ------------------------------------------------------------------------

    async def add_person(self, person: Person) -> None:
        people_validation.check_person_name(person.name)
        people_validation.check_display_name(person.display_name)
        people_validation.check_roles(person.roles)

        async def work() -> None:
            self._refuse_declared(person.name)
            if person.name in self._people:
                raise InputRefused(f"there is a person {person.name} already; `mainstay user grant` changes their role")
            await self._prepare_new_name(person.name)
            stored = msgspec.structs.replace(person, created=person.created or self._clock.now_ms())
            await self._save_person(stored)
            log.info("person %s was added", person.name)

        await self._run_change(work)

    async def grant_role(self, name: str, workspace: str, role: PersonRole) -> Person:
        people_validation.check_workspace(workspace)
        people_validation.check_role(role)

        async def work() -> Person:
            changed = _with_granted_role(self._get_stored(name), workspace, role)
            await self._save_person(changed)
            log.info("%s now has the role %s in the workspace %s", name, role, workspace)
            return changed

        return await self._run_change(work)

    async def withdraw_role(self, name: str, workspace: str) -> Person:
        """Take a person's role in a workspace away and revoke their keys to it: a role granted later does not restore
        the keys."""
        people_validation.check_workspace(workspace)

        async def work() -> Person:
            person = self._get_stored(name)
            if workspace not in person.roles:
                raise InputRefused(f"{name} has no role in the workspace {workspace!r}")
            for key in self._keys.list_active(name, workspace):
                await self._revoke(key)
            remaining = {other: role for other, role in person.roles.items() if other != workspace}
            changed = msgspec.structs.replace(person, roles=remaining)
            await self._save_person(changed)
            log.info("%s has no role in the workspace %s any more", name, workspace)
            return changed

        return await self._run_change(work)

    async def remove_person(self, name: str) -> None:
        """Remove a person and their accounts, and revoke their keys."""

        async def work() -> None:
            self._refuse_declared(people_validation.check_person_name(name))
            if not await self._delete_person(name):
                raise InputRefused(_unknown_person_message(name))
            log.info("person %s was removed", name)

        await self._run_change(work)

    async def unpair_account(self, channel: str, user: str) -> bool:
        """Separate an account from its person. Returns False if the account is not paired."""

        async def work() -> bool:
            if (name := self._declared_accounts.get((channel, user))) is not None:
                raise InputRefused(f"the configuration gives this account to {name}; change it there")
            removed = await self._store.remove_identity(channel, user)
            self._accounts.pop((channel, user), None)
            return removed

        return await self._run_change(work)

    # --- pairing ---------------------------------------------------------------------------------

    async def issue_pairing_code(self, channel: str, user: str, display_name: str) -> str | None:
        """Return a new pairing code, to be shown to this account only. None if the account got one within the last ten
        minutes or the rate limit is reached: then the user gets no reply."""
        if not people_validation.is_valid_account(channel, user):
            return None

        async def work() -> str | None:
            now = self._clock.now_ms()
            limiter = self._issued_codes.setdefault(
                channel, AttemptLimiter(self._clock, pairing_codes.CODES_PER_CHANNEL_PER_MIN)
            )
            if limiter.is_exceeded or any(
                _was_issued_lately(pending, channel, user, now) for pending in self._pairings
            ):
                return None
            limiter.record_attempt()
            code = pairing_codes.generate_code()
            issued = PendingPairing(
                digest=pairing_codes.compute_code_digest(code, channel, user),
                channel=channel,
                user=user,
                display_name=people_validation.sanitise_display_name(display_name),
                created=now,
                expires=now + pairing_codes.CODE_TTL_MS,
            )
            await self._store.put_pairing(issued)
            await self._prune_pairings(channel, now)
            log.info("an unknown user on %s got a pairing code", channel)
            return code

        return await self._run_change(work)

    async def _prune_pairings(self, channel: str, now: int) -> None:
        """Delete expired pairings, and the oldest of a channel that has more than allowed."""
        stored = await self._store.list_pairings()
        of_channel = sorted(
            (pairing for pairing in stored if pairing.channel == channel), key=lambda pairing: pairing.expires
        )
        for excess in of_channel[: -pairing_codes.PAIRINGS_PER_CHANNEL_MAX]:
            await self._store.put_pairing(msgspec.structs.replace(excess, expires=now))
        if len(of_channel) > pairing_codes.PAIRINGS_PER_CHANNEL_MAX or any(
            pairing.expires <= now for pairing in stored
        ):
            await self._store.delete_expired_pairings(now)
        self._pairings = list(await self._store.list_pairings())

    async def pair_account(self, code: str, *, name: str, workspace: str, role: PersonRole) -> Person:
        """Give the account that got this code to a person, who is created if there is none of that name. A person who
        has a role in the workspace keeps it. Raises InputRefused for an unknown code."""
        canonical = pairing_codes.parse_code(code)
        people_validation.check_person_name(name)
        people_validation.check_workspace(workspace)
        people_validation.check_role(role)

        async def work() -> Person:
            if self._wrong_codes.is_exceeded:
                raise InputRefused("too many wrong codes were entered; wait a minute")
            now = self._clock.now_ms()
            person = self._with_role(name, workspace, role, now)
            match = pairing_codes.find_pairing(canonical, await self._store.list_pairings(), now)
            if match is None:
                self._wrong_codes.record_attempt()
                raise InputRefused(CODE_UNKNOWN)
            if (other := self._declared_accounts.get((match.channel, match.user), name)) != name:
                raise InputRefused(f"the configuration gives this account to {other}; change it there")
            if self.get_person(name) is None:
                await self._prepare_new_name(name)
            account = ChannelIdentity(channel=match.channel, user=match.user, person=name)
            if not await self._store.complete_pairing(match.digest, account, person, now):
                raise InputRefused(CODE_UNKNOWN)  # the code was used or expired meanwhile
            self._people[name] = person
            self._accounts[match.channel, match.user] = name
            self._pairings = [pending for pending in self._pairings if pending.digest != match.digest]
            log.info("an account on %s was paired with %s", match.channel, name)
            return self._declared.get(name, person)

        return await self._run_change(work)

    def _with_role(self, name: str, workspace: str, role: PersonRole, now: int) -> Person:
        """Return the person to store. Roles from the configuration are not stored, so that they end with it."""
        stored = self._people.get(name)
        if (declared := self._declared.get(name)) is not None:
            if workspace not in declared.roles:
                raise InputRefused(f"{name} is declared in the configuration; give them {workspace!r} there first")
            return stored or Person(name=name, created=now)
        if stored is None:
            return Person(name=name, roles={workspace: role}, created=now)
        return stored if workspace in stored.roles else _with_granted_role(stored, workspace, role)

    # --- keys ------------------------------------------------------------------------------------

    async def create_key(
        self, person: str, workspace: str, *, scopes: Sequence[AccessScope], note: str = "", expires: int = 0
    ) -> tuple[str, ApiKey]:
        """Create an API key; return the token, which is shown once and not stored, and the stored key."""
        people_validation.check_workspace(workspace)
        people_validation.check_note(note)

        async def work() -> tuple[str, ApiKey]:
            role = self._role_of(person, workspace)
            now = self._clock.now_ms()
            if self._keys.active_count >= ACTIVE_KEYS_MAX:
                raise InputRefused(f"there are {ACTIVE_KEYS_MAX} keys already; revoke some")
            token, id = generate_key()
            key = ApiKey(
                id=id,
                digest=compute_key_digest(token),
                person=person,
                workspace=workspace,
                scopes=people_validation.check_scopes(scopes, role),
                note=note,
                created=now,
                expires=people_validation.check_expiry(expires, now),
            )
            await self._store.put_key(key)
            self._keys.put_key(key)
            log.info("API key %s was created for %s in the workspace %s", id, person, workspace)
            return token, key

        return await self._run_change(work)

    def _role_of(self, name: str, workspace: str) -> PersonRole:
        person = self.get_person(people_validation.check_person_name(name))
        if person is None:
            raise InputRefused(_unknown_person_message(name))
        if workspace not in person.roles:
            raise InputRefused(f"{name} has no role in the workspace {workspace!r}; `mainstay user grant` gives one")
        return person.roles[workspace]

    async def revoke_key(self, id: str) -> bool:
        """Revoke a key. Returns False if no key has this id, or it was revoked before."""

        async def work() -> bool:
            key = self._keys.get_key(id)
            return key is not None and not key.revoked and await self._revoke(key)

        return await self._run_change(work)

    async def _revoke(self, key: ApiKey) -> bool:
        now = self._clock.now_ms()
        revoked = await self._store.revoke_key(key.id, now)
        self._keys.put_key(msgspec.structs.replace(key, revoked=now))
        log.info("API key %s of %s was revoked", key.id, key.person)
        return revoked

    # --- changes ---------------------------------------------------------------------------------

    async def _run_change(self, change: Callable[[], Awaitable[T]]) -> T:
        """Run a change alone, shielded from the caller's cancellation, so that memory and disk stay the same."""

        async def whole() -> T:
            async with self._change_lock:
                try:
                    return await change()
                except StoreError:  # the change may be on disk or not: read what is
                    with suppress(StoreError):
                        await self._load()
                    raise

        task = asyncio.ensure_future(whole())
        self._running_changes.add(task)
        task.add_done_callback(self._running_changes.discard)
        return await asyncio.shield(task)

    async def _load(self) -> None:
        people, accounts = await self._store.list_people(), await self._store.list_identities()
        waiting, keys = await self._store.list_pairings(), await self._store.list_keys()
        self._people = {person.name: person for person in people}
        self._accounts = {(account.channel, account.user): account.person for account in accounts}
        self._pairings, self._keys = list(waiting), ApiKeyIndex(keys)

    async def _save_person(self, person: Person) -> None:
        await self._store.put_person(person)
        self._people[person.name] = person

    async def _prepare_new_name(self, name: str) -> None:
        """Prepare a new name: delete what an earlier person of this name may have left in the store."""
        if len(self._people) >= people_validation.PEOPLE_MAX:
            raise InputRefused(f"there are {people_validation.PEOPLE_MAX} people already; remove some")
        await self._delete_person(name)

    async def _delete_person(self, name: str) -> bool:
        removed = await self._store.remove_person(name)
        self._people.pop(name, None)
        self._accounts = {account: person for account, person in self._accounts.items() if person != name}
        now = self._clock.now_ms()
        for key in self._keys.list_active(name):
            self._keys.put_key(msgspec.structs.replace(key, revoked=now))
        return removed

    def _get_stored(self, name: str) -> Person:
        self._refuse_declared(people_validation.check_person_name(name))
        if (person := self._people.get(name)) is None:
            raise InputRefused(_unknown_person_message(name))
        return person

    def _refuse_declared(self, name: str) -> None:
        if name in self._declared:
            raise InputRefused(f"{name} is declared in the configuration and can be changed only there")


def _with_granted_role(person: Person, workspace: str, role: PersonRole) -> Person:
    roles = people_validation.check_roles({**person.roles, workspace: role})
    return msgspec.structs.replace(person, roles=roles)


def _unknown_person_message(name: str) -> str:
    return f"there is no person {name[:80]!r}; `mainstay user list` lists people"


def _was_issued_lately(pending: PendingPairing, channel: str, user: str, now: int) -> bool:
    return (pending.channel, pending.user) == (
        channel,
        user,
    ) and 0 <= now - pending.created < pairing_codes.REISSUE_AFTER_MS
