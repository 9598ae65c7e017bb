"""From a configuration to an agent that is open: store, memory, lanes, and the lock of its home."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from mainstay.app.models import Models
from mainstay.app.opened import Made
from mainstay.app.places import own_database
from mainstay.app.remembering import Place, Remembering, rules_of, summariser_of
from mainstay.app.schema import Config
from mainstay.app.world import SystemClock
from mainstay.core.envelope import Envelope, check_session_name, session_key
from mainstay.core.ports import Store
from mainstay.lane.hub import Hub
from mainstay.lane.lanes import Lanes
from mainstay.lane.services import Services
from mainstay.memory.library import Library
from mainstay.store.home import HomeLock, make_workspace, prepare
from mainstay.turn.toolbox import Toolbox

log = logging.getLogger("mainstay")


class Open:
    """An agent that has been opened: its lanes, its memory, and what they share."""

    def __init__(self, config: Config, services: Services, remembering: Remembering) -> None:
        self.config = config
        self.services = services
        self.remembering = remembering
        self.lanes = Lanes(services)
        self.closing: list[Callable[[], Awaitable[None]]] = []
        remembering.library.redact = self._redact

    @property
    def library(self) -> Library:
        return self.remembering.library

    async def drop(self, session: str) -> None:
        await self.remembering.drop(session)

    def key(self, session: str, sender: str) -> str:
        check_session_name(session, self.config.limits)
        return session_key(Envelope(parts=(), thread=session, sender=sender), self.config.lanes.key)

    async def close(self) -> None:
        try:
            await self.lanes.close()
            self.services.hub.close()
            await self.remembering.close()
        finally:
            for close in self.closing:
                await close()

    async def _redact(self, session: str, seqs: Sequence[int]) -> None:
        """In the journal, and as soon as may be in the lane that has it in memory."""
        await self.services.store.redact(session, seqs)
        self.lanes.refresh(session)


async def open_agent(made: Made, config: Config, home: Path | None) -> Open:
    """`home` is where it keeps everything; None: nowhere."""
    models = Models(made.model, made.base_url, made.api_key, config)
    store, place, lock = _kept_in(home, config)
    closing: list[Callable[[], Awaitable[None]]] = [models.close, store.close]
    try:
        if lock is not None:
            lock.take()
        await store.open()
        opened = await _started(made, config, store, place, models)
        if lock is not None:
            closing.append(_released(lock))
        opened.closing = closing
        resumed = await opened.lanes.resume()
    except BaseException:
        if lock is not None:
            lock.release()
        raise
    if resumed:
        log.info("resuming %d unfinished sessions", len(resumed))
    return opened


async def _started(made: Made, config: Config, store: Store, place: Place | None, models: Models) -> Open:
    clock = SystemClock()
    offered = config.tools.memory
    speaks = offered == "on" or (offered == "auto" and bool(made.tools))
    remembering = await Remembering.start(config, store, place, clock, speaks=speaks)
    memory = config.sessions.memory
    services = Services(
        store=store,
        choose=models.choose,
        tools=Toolbox(made.tools, config.limits, memory=remembering.tools if offered != "off" else (), keep=store.keep),
        limits=config.limits,
        clock=clock,
        hub=Hub(config.limits.watcher_buffer_max),
        instructions=made.instructions or config.instructions,
        contributors=(remembering.contributor,),
        summariser=summariser_of(config, models.choose, place),
        facts=memory.summaries.extract_facts and memory.knowledge.enabled,
        rules=rules_of(config),
        memory_tools=offered,
        touched=remembering.follower.touched,
    )
    return Open(config, services, remembering)


def _kept_in(home: Path | None, config: Config) -> tuple[Store, Place | None, HomeLock | None]:
    if home is None:
        from mainstay.testing.memory_store import MemoryStore  # only for those who keep nothing

        return MemoryStore(), None, None
    from mainstay.store.sqlite import SqliteStore  # its engine is loaded only by those who keep something

    path = own_database(home, config.workspace)
    prepare(home)
    make_workspace(home, config.workspace)
    return SqliteStore(str(path), limits=config.limits), Place(home, path.parent), HomeLock(home)


def _released(lock: HomeLock) -> Callable[[], Awaitable[None]]:
    async def release() -> None:
        lock.release()

    return release
