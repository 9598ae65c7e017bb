"""Authentication and lookups in memory: people, their accounts on channels, pending pairings, API keys."""

from __future__ import annotations

from collections.abc import Sequence

from mainstay.core.people import ROLE_SCOPES, ApiKey, ChannelIdentity, PendingPairing, Person, Principal
from mainstay.core.ports import Clock
from mainstay.gateway.api_keys import ApiKeyIndex, is_valid_at


class PeopleLookup:
    """Finds people, accounts and keys. People and accounts declared in the configuration win over stored ones."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._people: dict[str, Person] = {}
        self._accounts: dict[tuple[str, str], str] = {}
        self._declared: dict[str, Person] = {}
        self._declared_accounts: dict[tuple[str, str], str] = {}
        self._pairings: list[PendingPairing] = []
        self._keys = ApiKeyIndex()

    def set_declared(self, declared: Sequence[Person], accounts: Sequence[ChannelIdentity]) -> None:
        """Replace the people and accounts that are declared in the configuration."""
        self._declared = {person.name: person for person in declared}
        self._declared_accounts = {(account.channel, account.user): account.person for account in accounts}

    # --- authentication --------------------------------------------------------------------------

    def authenticate_key(self, token: str) -> Principal | None:
        """Return the principal of an API key. None if the key is unknown, revoked or expired, or its person has no role
        in its workspace any more."""
        key = self._keys.authenticate(token, self._clock.now_ms())
        return self._principal_of_key(key) if key is not None else None

    def _principal_of_key(self, key: ApiKey) -> Principal | None:
        person = self.get_person(key.person)
        role = person.roles.get(key.workspace) if person is not None else None
        if role is None:
            return None
        scopes = ROLE_SCOPES[role].intersection(key.scopes)
        return Principal(person=key.person, workspace=key.workspace, role=role, scopes=scopes, key=key.id)

    def is_still_valid(self, principal: Principal) -> bool:
        """True if the principal's key is still valid and gives the same rights as when it was authenticated."""
        key = self._keys.get_key(principal.key)
        return key is not None and is_valid_at(key, self._clock.now_ms()) and self._principal_of_key(key) == principal

    def find_by_account(self, channel: str, user: str) -> Person | None:
        name = self._declared_accounts.get((channel, user)) or self._accounts.get((channel, user))
        return self.get_person(name) if name is not None else None

    # --- lookups ---------------------------------------------------------------------------------

    def get_person(self, name: str) -> Person | None:
        return self._declared.get(name) or self._people.get(name)

    def is_declared(self, name: str) -> bool:
        return name in self._declared

    def list_people(self) -> list[Person]:
        """Return all people, sorted by name."""
        people = {**self._people, **self._declared}
        return [people[name] for name in sorted(people)]

    def list_accounts(self, name: str) -> list[ChannelIdentity]:
        accounts = {**self._accounts, **self._declared_accounts}
        return [
            ChannelIdentity(channel=channel, user=user, person=person)
            for (channel, user), person in sorted(accounts.items())
            if person == name
        ]

    def list_pairings(self) -> list[PendingPairing]:
        """Return the pairings that have not expired, the oldest first."""
        now = self._clock.now_ms()
        return [pairing for pairing in self._pairings if now < pairing.expires]

    def get_key(self, id: str) -> ApiKey | None:
        return self._keys.get_key(id)

    def list_keys(self) -> list[ApiKey]:
        """Return all keys, revoked ones included, the oldest first."""
        return sorted(self._keys, key=lambda key: (key.created, key.id))

    def is_usable(self, key: ApiKey) -> bool:
        return is_valid_at(key, self._clock.now_ms()) and self._principal_of_key(key) is not None

    @property
    def has_usable_keys(self) -> bool:
        """True if any key can be used now."""
        return any(map(self.is_usable, self._keys))
