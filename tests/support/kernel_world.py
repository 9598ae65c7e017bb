"""A test world for the kernel: a store, a scripted model, tools, and the lanes over them.

`virtual` runs a test on time that jumps. `crash` ends a world the way a killed process ends: nothing more of
it reaches the store, and `after` opens the next one on what was kept.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from mainstay.core.errors import StoreFailed
from mainstay.core.events import Event
from mainstay.core.input_envelope import InputEnvelope, to_parts
from mainstay.core.limits import Limits
from mainstay.core.messages import Message, ToolResult
from mainstay.core.outcome import Reply
from mainstay.core.ports import NO_TOKEN_COUNT, IdempotencyKey, Provider, SessionInfo, Store
from mainstay.core.session import Session
from mainstay.lane.event_hub import EventHub
from mainstay.lane.registry import LaneRegistry
from mainstay.lane.replay import replay_journal
from mainstay.lane.replies import PendingReply
from mainstay.lane.services import LaneServices
from mainstay.observe.session_export import full_history
from mainstay.store.sqlite.store import SqliteStore
from mainstay.testing import MemoryStore, ScriptedProvider, VirtualClock, virtual_run
from mainstay.turn.toolbox import Toolbox


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on a loop whose time jumps."""

    @functools.wraps(test)
    def run(*args: Any, **named: Any) -> None:
        virtual_run(test(*args, **named))

    return run


if TYPE_CHECKING:
    StoreBase = Store
else:
    StoreBase = object  # an inherited method of the protocol would hide `__getattr__`


class KillableStore(StoreBase):
    """A store as one process sees it: once that process is dead, nothing it does arrives any more."""

    def __init__(self, kept: Store) -> None:
        self.kept = kept
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kept, name)

    def append(
        self,
        info: SessionInfo,
        expected: int,
        events: Sequence[bytes],
        idempotency_key: IdempotencyKey | None = None,
        *,
        synced: bool = True,
    ) -> Awaitable[None]:
        if not self.dead:
            return self.kept.append(info, expected, events, idempotency_key, synced=synced)
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lost.set_exception(StoreFailed("this process is dead"))
        return lost


class Watched:
    """Everything that a watcher of one session (or of all) was told, in order."""

    def __init__(self, hub: EventHub, session: str | None) -> None:
        self.events: list[Event] = []
        self._hub = hub
        self._watcher = hub.watch(session)
        self._news = asyncio.Event()
        self._task = asyncio.ensure_future(self._listen())

    async def _listen(self) -> None:
        async for event in self._watcher:
            self.events.append(event)
            self._news.set()

    def of(self, *kinds: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kinds)]

    async def see(self, kind: type[Event], times: int = 1) -> Any:
        """Wait until so many events of a kind were seen; the last of them."""
        while len(events := self.of(kind)) < times:
            self._news.clear()
            await self._news.wait()
        return events[times - 1]

    async def leave(self) -> None:
        self._hub.unwatch(self._watcher)
        self._watcher.close()
        await self._task


class World:
    def __init__(
        self,
        script: Any,
        tools: Sequence[Any] = (),
        *,
        store: Store | None = None,
        limits: Limits | None = None,
        clock: Any = None,
        instructions: str = "",
        more: dict[str, Any] | None = None,
    ) -> None:
        self.provider: Any = ScriptedProvider(script) if isinstance(script, list) or callable(script) else script
        self.limits = limits or Limits()
        self.clock = clock or VirtualClock()
        self.store = KillableStore(store or MemoryStore())
        self.hub = EventHub(self.limits.watcher_buffer_max)
        self.services = LaneServices(
            store=self.store,
            provider_for=lambda spec: self.provider,
            tools=Toolbox(tools, self.limits),
            limits=self.limits,
            clock=self.clock,
            hub=self.hub,
            instructions=instructions,
            **(more or {}),
        )
        self.lanes = LaneRegistry(self.services)

    async def __aenter__(self) -> Self:
        await self.store.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.lanes.close()
        await self.store.close()

    async def send(self, text: Any, key: str = "s", *, id: str = "", sender: str = "") -> PendingReply:
        return await self.lanes.get(key).accept(envelope(text, key, id=id, sender=sender))

    async def ask(self, text: Any, key: str = "s", *, id: str = "", sender: str = "") -> Reply:
        return await (await self.send(text, key, id=id, sender=sender)).reply

    async def steer(self, text: Any, key: str = "s", *, id: str = "", sender: str = "") -> PendingReply:
        return await self.lanes.get(key).steer(envelope(text, key, id=id, sender=sender))

    async def abort(self, key: str = "s") -> bool:
        return await self.lanes.get(key).abort()

    def watch(self, key: str | None = "s") -> Watched:
        return Watched(self.hub, key)

    async def crash(self) -> None:
        """The process is gone: everything unwritten is lost."""
        self.store.dead = True
        await self.lanes.close()
        await self.store.close()

    def after(
        self,
        script: Any,
        tools: Sequence[Any] = (),
        *,
        limits: Limits | None = None,
        provider: Provider | None = None,
        more: dict[str, Any] | None = None,
    ) -> World:
        """The next process, on what this one kept."""
        kept = self.store.kept
        store = SqliteStore(kept.path) if isinstance(kept, SqliteStore) else kept
        return World(provider or script, tools, store=store, limits=limits or self.limits, clock=self.clock, more=more)

    # --- what is in the journal ------------------------------------------------------------------

    async def records(self, key: str = "s") -> list[Any]:
        return list(await self.store.read_records(key, limit=100_000))

    async def journal(self, key: str = "s") -> list[Any]:
        return [record.event for record in await self.records(key)]

    async def kinds(self, key: str = "s") -> list[str]:
        return [type(event).__name__ for event in await self.journal(key)]

    async def history(self, key: str = "s") -> list[Message]:
        return full_history(await self.records(key))

    async def results(self, key: str = "s") -> list[ToolResult]:
        """Every tool result that the model was given, in order."""
        return [part for message in await self.history(key) for part in message.parts if isinstance(part, ToolResult)]

    async def check_replay(self, key: str = "s") -> None:
        outcome = await replay_journal(await self.records(key))
        assert outcome.is_identical, outcome.difference


def envelope(text: Any, key: str = "s", *, id: str = "", sender: str = "") -> InputEnvelope:
    return InputEnvelope(parts=to_parts(text), thread=key, id=id, sender=sender)


def make_store(kind: str, where: Path) -> Store:
    return MemoryStore() if kind == "memory" else SqliteStore(str(where / "workspace.db"))


async def turns(times: int = 10) -> None:
    """Let the loop go round, so that everything that is ready has run."""
    for _ in range(times):
        await asyncio.sleep(0)


def unweighed(session: Session) -> SessionInfo:
    """Where it stands, without what was only found out on the way."""
    return msgspec.structs.replace(session.to_info(), window_tokens=NO_TOKEN_COUNT)
