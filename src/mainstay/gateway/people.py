"""Who somebody is: by the key that a program shows, or by their account on a channel; and who lets whom in.

Everything is in memory, as it is asked for with every request; the store has it for the next time. Changes are made
one after another, on disk first, and to the end once begun, even if whoever wanted them has gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from mainstay.core.errors import InputRefused, StoreError
from mainstay.core.people import GatewayStore, Identity, Key, Pairing, Person, Role, Scope
from mainstay.core.ports import Clock
from mainstay.gateway import named, pairing
from mainstay.gateway.keys import KEYS_MAX, Keyring, digest_of, new_key
from mainstay.gateway.known import Known
from mainstay.gateway.pairing import Turnstile

log = logging.getLogger("mainstay.people")

T = TypeVar("T")
NO_CODE = "nobody waits with this code: it was mistyped, used or replaced, or its hour is over; ask for a new one"


class People(Known):
    """`declared` are of the configuration, with their `accounts`: they are changed only there."""

    def __init__(
        self,
        store: GatewayStore,
        clock: Clock,
        declared: Sequence[Person] = (),
        accounts: Sequence[Identity] = (),
    ) -> None:
        super().__init__(clock)
        self._store = store
        self._changing = asyncio.Lock()
        self._under_way: set[asyncio.Task[Any]] = set()
        self._wrong = Turnstile(clock, pairing.WRONG_PER_MIN)
        self._asked: dict[str, Turnstile] = {}  # by channel: those of one keep out nobody on another
        self.declare(declared, accounts)

    async def open(self) -> None:
        await self._store.open()
        await self._load()

    async def close(self) -> None:
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await self._store.close()

    # --- changing people -------------------------------------------------------------------------

    async def add(self, person: Person) -> None:
        named.check_name(person.name)
        named.check_called(person.called)
        named.check_roles(person.roles)

        async def work() -> None:
            self._refuse_declared(person.name)
            if person.name in self._people:
                raise InputRefused(
                    f"there is somebody called {person.name} already; `mainstay user grant` gives them another role"
                )
            await self._begin(person.name)
            made = msgspec.structs.replace(person, created=person.created or self._clock.now_ms())
            await self._put(made)
            log.info("%s was added", person.name)

        await self._change(work)

    async def grant(self, name: str, workspace: str, role: Role) -> Person:
        named.check_workspace(workspace)
        named.check_role(role)

        async def work() -> Person:
            person = self._stored(name)
            made = _granted(person, workspace, role)
            await self._put(made)
            log.info("%s is %s in %s now", name, role, workspace)
            return made

        return await self._change(work)

    async def withdraw(self, name: str, workspace: str) -> Person:
        """Their keys to it are revoked: another role there, some day, does not bring them back."""
        named.check_workspace(workspace)

        async def work() -> Person:
            person = self._stored(name)
            if workspace not in person.roles:
                raise InputRefused(f"{name} has no role in the workspace {workspace!r}")
            for key in self._keys.of(name, workspace):
                await self._revoke(key)
            left = {where: role for where, role in person.roles.items() if where != workspace}
            made = msgspec.structs.replace(person, roles=left)
            await self._put(made)
            log.info("%s has no role in %s any more", name, workspace)
            return made

        return await self._change(work)

    async def remove(self, name: str) -> None:
        """With their accounts, and their keys are revoked."""

        async def work() -> None:
            self._refuse_declared(named.check_name(name))
            if not await self._erase(name):
                raise InputRefused(_nobody(name))
            log.info("%s was removed", name)

        await self._change(work)

    async def unpair(self, channel: str, user: str) -> bool:
        """False if this account is nobody's."""

        async def work() -> bool:
            if (name := self._declared_accounts.get((channel, user))) is not None:
                raise InputRefused(f"this account is {name}'s by the configuration; change it there")
            found = await self._store.remove_identity(channel, user)
            self._accounts.pop((channel, user), None)
            return found

        return await self._change(work)

    # --- letting strangers in --------------------------------------------------------------------

    async def ask(self, channel: str, user: str, called: str) -> str | None:
        """A fresh code, to be told to this account and to nobody else. None: say nothing; they were told one a moment
        ago, or too many ask."""
        if not named.is_account(channel, user):
            return None

        async def work() -> str | None:
            now = self._clock.now_ms()
            asked = self._asked.setdefault(channel, Turnstile(self._clock, pairing.ASKED_PER_MIN))
            if asked.closed or any(_was_told(one, channel, user, now) for one in self._waiting):
                return None
            asked.count()
            code = pairing.new_code()
            made = Pairing(
                digest=pairing.digest_of(code, channel, user),
                channel=channel,
                user=user,
                called=named.clean(called),
                created=now,
                expires=now + pairing.CODE_MS,
            )
            await self._store.put_pairing(made)
            await self._make_room(channel, now)
            log.info("a stranger on %s was told a code", channel)
            return code

        return await self._change(work)

    async def _make_room(self, channel: str, now: int) -> None:
        """What expired goes, and of too many on a channel those that have waited longest there."""
        kept = await self._store.pairings()
        here = sorted((one for one in kept if one.channel == channel), key=lambda one: one.expires)
        for one in here[: -pairing.WAITING_MAX]:
            await self._store.put_pairing(msgspec.structs.replace(one, expires=now))
        if len(here) > pairing.WAITING_MAX or any(one.expires <= now for one in kept):
            await self._store.drop_pairings(now)
        self._waiting = list(await self._store.pairings())

    async def pair(self, code: str, *, name: str, workspace: str, role: Role) -> Person:
        """Who was told this code is this person, who is made if there is none of that name. Somebody who has a role
        there keeps it."""
        wanted = pairing.read_code(code)
        named.check_name(name)
        named.check_workspace(workspace)
        named.check_role(role)

        async def work() -> Person:
            if self._wrong.closed:
                raise InputRefused("too many wrong codes were given; wait a minute")
            now = self._clock.now_ms()
            made = self._with_role(name, workspace, role, now)
            found = pairing.find(wanted, await self._store.pairings(), now)
            if found is None:
                self._wrong.count()
                raise InputRefused(NO_CODE)
            if (other := self._declared_accounts.get((found.channel, found.user), name)) != name:
                raise InputRefused(f"this account is {other}'s by the configuration; change it there")
            if self.person(name) is None:
                await self._begin(name)
            account = Identity(channel=found.channel, user=found.user, person=name)
            if not await self._store.pair(found.digest, account, made, now):
                raise InputRefused(NO_CODE)  # somebody was quicker
            self._people[name] = made
            self._accounts[found.channel, found.user] = name
            self._waiting = [one for one in self._waiting if one.digest != found.digest]
            log.info("an account on %s is %s's now", found.channel, name)
            return self._declared.get(name, made)

        return await self._change(work)

    def _with_role(self, name: str, workspace: str, role: Role, now: int) -> Person:
        """As they are to be stored. What the configuration says of somebody is not: it must not outlast it there."""
        stored = self._people.get(name)
        if (declared := self._declared.get(name)) is not None:
            if workspace not in declared.roles:
                raise InputRefused(f"{name} is declared in the configuration; give them {workspace!r} there first")
            return stored or Person(name=name, created=now)
        if stored is None:
            return Person(name=name, roles={workspace: role}, created=now)
        return stored if workspace in stored.roles else _granted(stored, workspace, role)

    # --- keys ------------------------------------------------------------------------------------

    async def make_key(
        self, person: str, workspace: str, *, scopes: Sequence[Scope], note: str = "", expires: int = 0
    ) -> tuple[str, Key]:
        """The key itself, which is shown once and kept nowhere, and what is kept of it."""
        named.check_workspace(workspace)
        named.check_note(note)

        async def work() -> tuple[str, Key]:
            role = self._role_of(person, workspace)
            now = self._clock.now_ms()
            if self._keys.count >= KEYS_MAX:
                raise InputRefused(f"there are {KEYS_MAX} keys already; revoke some")
            token, id = new_key()
            made = Key(
                id=id,
                digest=digest_of(token),
                person=person,
                workspace=workspace,
                scopes=named.check_scopes(scopes, role),
                note=note,
                created=now,
                expires=named.check_expires(expires, now),
            )
            await self._store.put_key(made)
            self._keys.put(made)
            log.info("the key %s was made for %s in %s", id, person, workspace)
            return token, made

        return await self._change(work)

    def _role_of(self, name: str, workspace: str) -> Role:
        known = self.person(named.check_name(name))
        if known is None:
            raise InputRefused(_nobody(name))
        if workspace not in known.roles:
            raise InputRefused(f"{name} has no role in the workspace {workspace!r}; `mainstay user grant` gives one")
        return known.roles[workspace]

    async def revoke_key(self, id: str) -> bool:
        """False if there is none with this id, or it was revoked before."""

        async def work() -> bool:
            key = self._keys.get(id)
            return key is not None and not key.revoked and await self._revoke(key)

        return await self._change(work)

    async def _revoke(self, key: Key) -> bool:
        now = self._clock.now_ms()
        done = await self._store.revoke_key(key.id, now)
        self._keys.put(msgspec.structs.replace(key, revoked=now))
        log.info("the key %s of %s was revoked", key.id, key.person)
        return done

    # --- how changes are made --------------------------------------------------------------------

    async def _change(self, work: Callable[[], Awaitable[T]]) -> T:
        """Whoever leaves in the middle must not leave memory and disk apart."""

        async def whole() -> T:
            async with self._changing:
                try:
                    return await work()
                except StoreError:  # it may be on disk or not
                    with suppress(StoreError):
                        await self._load()
                    raise

        task = asyncio.ensure_future(whole())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _load(self) -> None:
        people, accounts = await self._store.people(), await self._store.identities()
        waiting, keys = await self._store.pairings(), await self._store.keys()
        self._people = {one.name: one for one in people}
        self._accounts = {(one.channel, one.user): one.person for one in accounts}
        self._waiting, self._keys = list(waiting), Keyring(keys)

    async def _put(self, person: Person) -> None:
        await self._store.put_person(person)
        self._people[person.name] = person

    async def _begin(self, name: str) -> None:
        """Nobody has this name. What somebody of that name may have left behind is not for whoever gets it next."""
        if len(self._people) >= named.PEOPLE_MAX:
            raise InputRefused(f"there are {named.PEOPLE_MAX} people already; remove some")
        await self._erase(name)

    async def _erase(self, name: str) -> bool:
        found = await self._store.remove_person(name)
        self._people.pop(name, None)
        self._accounts = {account: person for account, person in self._accounts.items() if person != name}
        now = self._clock.now_ms()
        for key in self._keys.of(name):
            self._keys.put(msgspec.structs.replace(key, revoked=now))
        return found

    def _stored(self, name: str) -> Person:
        self._refuse_declared(named.check_name(name))
        if (found := self._people.get(name)) is None:
            raise InputRefused(_nobody(name))
        return found

    def _refuse_declared(self, name: str) -> None:
        if name in self._declared:
            raise InputRefused(f"{name} is declared in the configuration, and can be changed only there")


def _granted(person: Person, workspace: str, role: Role) -> Person:
    roles = named.check_roles({**person.roles, workspace: role})
    return msgspec.structs.replace(person, roles=roles)


def _nobody(name: str) -> str:
    return f"there is nobody called {name[:80]!r}; `mainstay user list` shows who there is"


def _was_told(one: Pairing, channel: str, user: str, now: int) -> bool:
    return (one.channel, one.user) == (channel, user) and 0 <= now - one.created < pairing.AGAIN_MS
