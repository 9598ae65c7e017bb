"""Who is known: people, their accounts, strangers who wait, and keys, as all that is asked for with every request."""

from __future__ import annotations

from collections.abc import Sequence

from mainstay.core.people import SCOPES, Identity, Key, Pairing, Person, Principal
from mainstay.core.ports import Clock
from mainstay.gateway.keys import Keyring, usable


class Known:
    """In memory. Who is declared in the configuration wins over who is stored, and so do their accounts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._people: dict[str, Person] = {}
        self._accounts: dict[tuple[str, str], str] = {}
        self._declared: dict[str, Person] = {}
        self._declared_accounts: dict[tuple[str, str], str] = {}
        self._waiting: list[Pairing] = []
        self._keys = Keyring()

    def declare(self, declared: Sequence[Person], accounts: Sequence[Identity]) -> None:
        """Instead of those before."""
        self._declared = {one.name: one for one in declared}
        self._declared_accounts = {(one.channel, one.user): one.person for one in accounts}

    # --- who is this -----------------------------------------------------------------------------

    def principal(self, token: str) -> Principal | None:
        """Of a key. None: there is none, or it may not be used any more, or whose it is may not enter where it leads
        to."""
        key = self._keys.find(token, self._clock.now_ms())
        return self._holder(key) if key is not None else None

    def _holder(self, key: Key) -> Principal | None:
        person = self.person(key.person)
        role = person.roles.get(key.workspace) if person is not None else None
        if role is None:
            return None
        scopes = SCOPES[role].intersection(key.scopes)
        return Principal(person=key.person, workspace=key.workspace, role=role, scopes=scopes, key=key.id)

    def still(self, principal: Principal) -> bool:
        """Whoever came with a key may still do what they might then."""
        key = self._keys.get(principal.key)
        return key is not None and usable(key, self._clock.now_ms()) and self._holder(key) == principal

    def who(self, channel: str, user: str) -> Person | None:
        name = self._declared_accounts.get((channel, user)) or self._accounts.get((channel, user))
        return self.person(name) if name is not None else None

    def principal_of(self, person: Person, workspace: str) -> Principal | None:
        """Of somebody who is known otherwise than by a key. None: this workspace is not theirs."""
        known = self.person(person.name)  # whoever asks may have held it for a while
        role = known.roles.get(workspace) if known is not None else None
        if role is None:
            return None
        return Principal(person=person.name, workspace=workspace, role=role, scopes=SCOPES[role])

    # --- what there is ---------------------------------------------------------------------------

    def person(self, name: str) -> Person | None:
        return self._declared.get(name) or self._people.get(name)

    def is_declared(self, name: str) -> bool:
        return name in self._declared

    def everybody(self) -> list[Person]:
        """By name."""
        found = {**self._people, **self._declared}
        return [found[name] for name in sorted(found)]

    def accounts_of(self, name: str) -> list[Identity]:
        found = {**self._accounts, **self._declared_accounts}
        return [
            Identity(channel=channel, user=user, person=person)
            for (channel, user), person in sorted(found.items())
            if person == name
        ]

    def pairings(self) -> list[Pairing]:
        """Strangers who wait, the longest first."""
        now = self._clock.now_ms()
        return [one for one in self._waiting if now < one.expires]

    def key(self, id: str) -> Key | None:
        return self._keys.get(id)

    def keys(self) -> list[Key]:
        """The oldest first, those that are revoked among them."""
        return sorted(self._keys, key=lambda key: (key.created, key.id))

    def is_usable(self, key: Key) -> bool:
        return usable(key, self._clock.now_ms()) and self._holder(key) is not None

    @property
    def has_keys(self) -> bool:
        """Any that could be used now."""
        return any(map(self.is_usable, self._keys))
