"""What an agent was given, and what it is once it has been opened, for those who only pass it on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from mainstay.agent.grants import Grants
from mainstay.config.schema import Config
from mainstay.core.addresses import Address
from mainstay.core.audit import AuditReading
from mainstay.core.error_list import ErrorList
from mainstay.core.outside import Channel, Outbox
from mainstay.core.ports import Contributor, Provider, Tool
from mainstay.lane.lanes import Lanes
from mainstay.lane.services import Services


class KnownSkill(msgspec.Struct, frozen=True):
    name: str
    description: str
    trigger: str = "manual"
    scope: str = ""
    untrusted: bool = False  # somebody else wrote it, and nobody vouches for it


ApiKey = str | Callable[[], str | Awaitable[str]]


class Rooms(Protocol):
    """The rooms of chat platforms, for triggers that speak into one."""

    async def open_thread(self, workspace: str, address: Address, text: str, key: str) -> Address:
        """Say something there that begins a thread; under the same key once, then with the same thread."""
        ...

    async def thread_of(self, workspace: str, key: str) -> Address | None:
        """The thread that was begun under this key."""
        ...


class Beside(msgspec.Struct, frozen=True):
    """What a gateway adds to the agents of its workspaces."""

    outbox: Outbox | None = None  # to people on channels
    channels: Callable[[str], Channel | None] = lambda session: None  # the one that a session is on
    contributors: tuple[Contributor, ...] = ()
    is_guest: Callable[[str], bool] = lambda person: False  # somebody for whom things are only read
    rooms: Rooms | None = None
    telemetry: Any = None  # a `telemetry.Telemetry`, which all workspaces share
    accounts: Any = None  # what may be spent in the home: an `accounts.HomeAccounts`
    books: Any = None  # the home's database: a `store.sqlite.observed.SqliteObserved`
    governors: Any = None  # a `governor.Governors`, which all workspaces share
    main: bool = False  # the workspace is the server's own: its admins look after the whole home


class Made(msgspec.Struct, frozen=True):
    """The arguments of an `Agent`."""

    model: str | Provider | None
    tools: tuple[Tool, ...]
    instructions: str | Callable[[str], str]
    base_url: str | None
    api_key: ApiKey | None
    beside: Beside | None = None  # of a gateway, which owns the home itself
    judges: tuple[Any, ...] = ()  # beside the configured ones


class Opened(Protocol):
    config: Config
    services: Services
    lanes: Lanes
    grants: Grants

    @property
    def troubles(self) -> list[str]:
        """What was left out of what the owner wanted, and why."""
        ...

    @property
    def errors(self) -> ErrorList | None:
        """Of the home, in all its workspaces; None for an agent without one."""
        ...

    @property
    def audit(self) -> AuditReading | None:
        """Likewise."""
        ...

    @property
    def library(self) -> Any:
        """Its memory: a `memory.library.Library`, which is not loaded for those who never open an agent."""
        ...

    @property
    def triggering(self) -> Any:
        """A `triggering.Triggering`; None for an agent without a home."""
        ...

    def skills(self, session: str) -> list[KnownSkill]: ...

    def key(self, session: str, sender: str) -> str:
        """The lane that a session's name means."""
        ...

    async def note(self, kind: str, what: str) -> None:
        """Put on record what no journal tells, where a record is kept."""
        ...

    async def settle(self) -> None:
        """What was done is on record, before somebody forgets it. Raises AuditUnavailable if it is not."""
        ...

    async def drop(self, session: str) -> None:
        """What came of a session goes from every tier."""
        ...

    def attachments(self, session: str) -> str:
        """The folder for files that come with its messages, which is there."""
        ...

    async def work_in(self, session: str, folder: str) -> str:
        """Where a session works from now on, unless it is in the middle of a turn; where it does work."""
        ...

    async def end(self, session: str) -> None:
        """Background commands of a session stop."""
        ...

    async def close(self) -> None: ...


Opening = Callable[[], Awaitable[Opened]]
