"""The agent of one workspace, as far as the gateway needs it, as Protocols. `app` gives it a real one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, Literal, Protocol

from mainstay.core.addresses import Heard
from mainstay.core.audit import AuditReading
from mainstay.core.error_list import ErrorList
from mainstay.core.events import Delivered, Event
from mainstay.core.guests import GuestTool
from mainstay.core.journal import Record
from mainstay.core.messages import AnyPart
from mainstay.core.outcome import Reply
from mainstay.core.ports import Standing
from mainstay.core.recall import Hit
from mainstay.core.triggers import Run, Status, Trigger
from mainstay.lane.pausing import Pending
from mainstay.lane.tickets import Ticket

Approver = Literal["member", "admin", "owner"]  # who has to say yes: they, or somebody who may more


class OfficeSessions(Protocol):
    async def list(self, *, limit: int = 100, offset: int = 0) -> Sequence[Standing]: ...
    async def get(self, key: str) -> Standing:
        """Raises SessionUnknown."""
        ...

    async def records(self, key: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]: ...
    async def archive(self, key: str) -> None: ...
    async def activate(self, key: str) -> None: ...
    async def rename(self, key: str, title: str) -> None: ...
    async def delete(self, key: str) -> None: ...
    async def fork(self, key: str, target: str, *, upto: int | None = None) -> Standing: ...
    async def compact(self, key: str, focus: str = "") -> str | None: ...


class OfficeApprovals(Protocol):
    async def list(self) -> Sequence[Pending]: ...
    async def approve(
        self, id: str, *, input: str | None = None, always: bool = False, by: str = "", wait: bool = True
    ) -> Reply | None: ...
    async def deny(self, id: str, reason: str = "", *, by: str = "", wait: bool = True) -> Reply | None: ...


class OfficeMemory(Protocol):
    async def search(self, query: str, k: int = 10) -> Sequence[Hit]: ...


class OfficeTriggers(Protocol):
    async def list(self) -> Sequence[Status]: ...
    async def add(self, trigger: Trigger, *, replace: bool = False) -> None: ...
    async def remove(self, name: str) -> None: ...
    async def run(self, name: str) -> Run: ...


class Office(Protocol):
    """Sessions are named by their keys here; who may use which is the business of whoever holds one of these."""

    @property
    def workspace(self) -> str: ...
    @property
    def sessions(self) -> OfficeSessions: ...
    @property
    def approvals(self) -> OfficeApprovals: ...
    @property
    def memory(self) -> OfficeMemory: ...
    @property
    def triggers(self) -> OfficeTriggers: ...
    @property
    def errors(self) -> ErrorList | None:
        """Of the whole home; None: none are kept."""
        ...

    @property
    def audit(self) -> AuditReading | None:
        """Likewise."""
        ...

    def key(self, session: str, sender: str, heard: Heard | None = None) -> str:
        """The lane that a session's name means, or that something heard on a channel belongs to. Raises InputRefused
        if none can have that name."""
        ...

    async def accept(
        self, key: str, parts: Sequence[AnyPart], *, id: str = "", sender: str = "", heard: Heard | None = None
    ) -> Ticket:
        """On disk when it returns; under the same id once, then with the same ticket. Raises LaneFull, InputRefused,
        SessionArchived or a StoreError: it was not taken."""
        ...

    async def overhear(
        self, key: str, parts: Sequence[AnyPart], *, id: str, sender: str = "", heard: Heard | None = None
    ) -> bool:
        """Kept, and shown to the model with the next prompt; no turn begins. False if it was there before."""
        ...

    async def steer(self, key: str, parts: Sequence[AnyPart], *, id: str = "", sender: str = "") -> Ticket: ...
    async def abort(self, key: str) -> bool: ...

    def expect(self, key: str) -> object:
        """Whoever says something now will `follow` in a moment, and is to miss nothing of what comes of it at once:
        what this returns says since when they listen."""
        ...

    def follow(self, key: str, after: int = 0, since: object = None) -> AsyncGenerator[Event, None]:
        """Everything that is on disk after this sequence, each event once and in order, and then what happens, until
        one stops listening. Durable events carry their sequence, partial ones have none (0). All of them: what people
        may not hear yet, or ever, is kept from them by whoever asks here (lane/curtain)."""
        ...

    def watch(self) -> AsyncIterator[Event]:
        """What happens in all sessions from now on; whoever is too slow is told so (Lagged)."""
        ...

    async def trace(self, key: str, turn: int) -> str:
        """What a turn is found under in logs, traces and the list of errors."""
        ...

    async def seen(self, key: str, id: str) -> bool:
        """An input was accepted under this id."""
        ...

    async def record(self, key: str, event: Delivered) -> None: ...
    async def import_history(self, key: str, messages: Sequence[dict[str, Any]]) -> None: ...

    async def offer(self, key: str, tools: Sequence[GuestTool]) -> None:
        """From the next turn on the model has these beside the agent's own, instead of those before."""
        ...

    async def hand_in(self, key: str, call_id: str, content: str) -> Ticket:
        """The result of a call that was handed back; the ticket's reply is the end of the turn. Raises ApprovalUnknown
        if nothing waits for it."""
        ...

    def approved_by(self, tool: str) -> Approver:
        """Whose yes a call of this tool needs. What runs on the machine itself, in no sandbox, could read all that the
        home holds, of every workspace."""
        ...

    async def set_model(self, key: str, model: str) -> None: ...
    def title(self) -> str:
        """The model that answers here where a session has not chosen another."""
        ...
