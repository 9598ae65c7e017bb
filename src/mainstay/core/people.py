"""People, their channel accounts, pairing codes, API keys, roles and scopes, and the port that stores them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

PersonRole = Literal["admin", "member", "guest"]
AccessScope = Literal["chat", "read", "approve", "admin"]

# Maximal scopes of a role; a key may have fewer.
ROLE_SCOPES: dict[PersonRole, frozenset[AccessScope]] = {
    "admin": frozenset(("chat", "read", "approve", "admin")),  # everything, in every session of the workspace
    "member": frozenset(("chat", "approve")),  # in their own sessions
    "guest": frozenset(("chat",)),  # in their own sessions, with read-only tools
}
# valid names of people, as policies and session keys use them
PERSON_NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
KEY_PREFIX = "ms_"  # of every API key, so that secret scanners recognise one
REVOKED_KEYS_MAX = 1_000  # revoked keys that are kept for display; the earliest revoked are deleted first


class Person(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"display_name": "called"}):
    """A user of the gateway, with a role in each of their workspaces."""

    name: str
    display_name: str = ""  # display name: "Ann Lee"
    roles: dict[str, PersonRole] = {}  # by workspace; the first is the default workspace
    created: int = 0  # ms

    @property
    def label(self) -> str:
        return self.display_name or self.name


class ChannelIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A person's account on a channel."""

    channel: str  # its name in the configuration
    user: str  # the platform's user id
    person: str


class PendingPairing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"display_name": "called"}):
    """An unknown user who got a one-time pairing code and waits for approval."""

    digest: str  # of the code, which is not stored
    channel: str
    user: str
    display_name: str = ""  # display name on the platform, chosen by the user
    created: int = 0  # ms
    expires: int = 0  # ms


class ApiKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An API key that authenticates a client as a person. The secret itself is not stored."""

    id: str  # public: the part of the key before its secret
    digest: str  # of the whole key
    person: str
    workspace: str
    scopes: tuple[AccessScope, ...] = ("chat",)
    note: str = ""  # its purpose
    rate_per_min: int = 0  # 0: the server's configured limit
    streams_max: int = 0  # 0: the server's configured limit
    created: int = 0  # ms
    expires: int = 0  # ms; 0: never
    revoked: int = 0  # ms; 0: valid


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The authenticated caller: a person, their workspace and their permissions.

    Created only by the code that verified a key or a channel account, never from fields of a request.
    """

    person: str  # empty: the owner, on this machine
    workspace: str
    role: PersonRole = "admin"
    scopes: frozenset[AccessScope] = ROLE_SCOPES["admin"]
    key: str = ""  # id of the API key that was used; empty: none

    def has_scope(self, scope: AccessScope) -> bool:
        return scope in self.scopes


class PeopleStore(Protocol):
    """Stores people, channel accounts, pairings and API keys. A change is on disk when the method returns."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...

    async def list_people(self) -> Sequence[Person]: ...
    async def put_person(self, person: Person) -> None: ...
    async def remove_person(self, name: str) -> bool:
        """Delete a person and their accounts, and revoke their keys."""
        ...

    async def list_identities(self) -> Sequence[ChannelIdentity]: ...
    async def put_identity(self, identity: ChannelIdentity) -> None:
        """Assign an account to a person, replacing an earlier assignment."""
        ...

    async def remove_identity(self, channel: str, user: str) -> bool: ...

    async def list_pairings(self) -> Sequence[PendingPairing]: ...
    async def put_pairing(self, pairing: PendingPairing) -> None:
        """Store a pairing, replacing an earlier one of the same account."""
        ...

    async def complete_pairing(self, digest: str, identity: ChannelIdentity, person: Person, now: int) -> bool:
        """Consume a pairing code and assign the account to the person, in one transaction.

        Returns False, and changes nothing, if no pairing has this code or it has expired.
        """
        ...

    async def delete_expired_pairings(self, before_ms: int) -> None:
        """Delete pairings that expired before this time (ms)."""
        ...

    async def list_keys(self) -> Sequence[ApiKey]: ...
    async def put_key(self, key: ApiKey) -> None: ...
    async def revoke_key(self, id: str, at: int) -> bool:
        """Revoke a key; returns False if there is none or it was revoked before. Keeps `REVOKED_MAX` revoked keys."""
        ...
