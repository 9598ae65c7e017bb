"""People, how they are known on channels, and the keys that programs come in with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

Role = Literal["admin", "member", "guest"]
Scope = Literal["chat", "read", "approve", "admin"]

# What a role may do at most. A key may do less.
SCOPES: dict[Role, frozenset[Scope]] = {
    "admin": frozenset(("chat", "read", "approve", "admin")),  # everything, in every session of the workspace
    "member": frozenset(("chat", "approve")),  # in sessions of their own
    "guest": frozenset(("chat",)),  # likewise, with tools that change nothing
}
PERSON = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")  # policy names people so, and sessions of theirs
KEY_PREFIX = "ms_"  # how a key begins, so that scanners and people know one when they see it
REVOKED_MAX = 1_000  # keys that are kept to be shown only; those that were revoked first go first


class Person(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody who may come in, and what they are in each workspace they may enter, the first by default."""

    name: str
    called: str = ""  # as people say it: "Ann Lee"
    roles: dict[str, Role] = {}  # by workspace
    created: int = 0  # ms

    @property
    def shown(self) -> str:
        return self.called or self.name


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """An account on a channel, and whose it is."""

    channel: str  # as it is configured
    user: str  # as the platform knows them
    person: str


class Pairing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stranger who was told a code, and waits for somebody to let them in."""

    digest: str  # of the code; nobody can read it back
    channel: str
    user: str
    called: str = ""  # as the platform calls them: their own word
    created: int = 0  # ms
    expires: int = 0


class Key(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a program shows to come in as a person. The secret itself is kept nowhere."""

    id: str  # public: the part of the key before its secret
    digest: str  # of the whole key
    person: str
    workspace: str
    scopes: tuple[Scope, ...] = ("chat",)
    note: str = ""  # what it is for
    rate_per_min: int = 0  # 0: as the server is configured
    streams_max: int = 0
    created: int = 0  # ms
    expires: int = 0  # 0: never
    revoked: int = 0


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asking, in which workspace, and what they may do there. It is made by whoever checked a key or knows an
    account, never from what a request says of itself."""

    person: str  # empty: the owner, on this very machine
    workspace: str
    role: Role = "admin"
    scopes: frozenset[Scope] = SCOPES["admin"]
    key: str = ""  # the id of the key they came with

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes


class GatewayStore(Protocol):
    """Keeps people, accounts, pairings and keys. What returned is on disk."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...

    async def people(self) -> Sequence[Person]: ...
    async def put_person(self, person: Person) -> None: ...
    async def remove_person(self, name: str) -> bool:
        """With their accounts, and their keys are revoked."""
        ...

    async def identities(self) -> Sequence[Identity]: ...
    async def put_identity(self, identity: Identity) -> None:
        """Instead of whoever had this account before."""
        ...

    async def remove_identity(self, channel: str, user: str) -> bool: ...

    async def pairings(self) -> Sequence[Pairing]: ...
    async def put_pairing(self, pairing: Pairing) -> None:
        """An account waits under one code: the newest."""
        ...

    async def pair(self, digest: str, identity: Identity, person: Person, now: int) -> bool:
        """Use a code up: its pairing goes and the account is the person's, in one transaction. False if nobody waits
        under it, or not any more: then nothing changes."""
        ...

    async def drop_pairings(self, before: int) -> None:
        """Those that expired by then."""
        ...

    async def keys(self) -> Sequence[Key]: ...
    async def put_key(self, key: Key) -> None: ...
    async def revoke_key(self, id: str, at: int) -> bool:
        """False if there is none, or it was revoked before. Of those that are revoked, `REVOKED_MAX` are kept."""
        ...
