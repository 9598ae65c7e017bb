"""From a configuration to an agent that is open: store, memory, lanes, and the lock of its home."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec

from mainstay.agent.grants import Grants
from mainstay.agent.models import Models
from mainstay.agent.observing import Observing, Sight, both, observe
from mainstay.agent.opened import Beside, KnownSkill, Made
from mainstay.agent.places import own_database
from mainstay.agent.remembering import Place, Remembering, rules_of, summariser_of
from mainstay.agent.trust import (
    MadeKey,
    denies,
    has_elsewhere,
    has_knowhow,
    make_guards,
    make_policy,
    only,
    screening,
    warn_of_rules,
)
from mainstay.agent.workplace import Workplace, WorkplaceNotes
from mainstay.agent.world import SystemClock
from mainstay.config.schema import ON_CHANNELS, Config, builtin_names
from mainstay.core.audit import AuditReading
from mainstay.core.envelope import Envelope, check_session_name, session_key
from mainstay.core.error_list import ErrorList
from mainstay.core.judging import Panel
from mainstay.core.outside import Labels, Sandbox
from mainstay.core.ports import Clock, Contributor, Store, Tool
from mainstay.lane.children import Children
from mainstay.lane.hub import Hub
from mainstay.lane.lanes import Lanes
from mainstay.lane.services import Services
from mainstay.memory.library import Library
from mainstay.metering.breaker import Breakers
from mainstay.store.home import HomeLock, make_workspace, prepare
from mainstay.trust.guards.guard import Guards
from mainstay.trust.policy import Policy
from mainstay.turn.means import Trust
from mainstay.turn.toolbox import Toolbox

log = logging.getLogger("mainstay")
FEW = frozenset({"read", "write", "bash", "remember", "memory_recall"})  # of ours, for a small model


class Open:
    """An agent that has been opened: its lanes, its memory, and what they share."""

    def __init__(
        self, config: Config, services: Services, remembering: Remembering, given: Given, observing: Observing
    ) -> None:
        self.config = config
        self.observing = observing
        self.services = services
        self.remembering = remembering
        self.lanes = Lanes(services)
        self.grants = given.grants
        self._given = given
        self.closing: list[Callable[[], Awaitable[None]]] = []
        remembering.library.redact = self._redact
        if (builtins := given.builtins) is not None:
            builtins.spawner.real = Children(self.lanes, services)
            builtins.outbox.wire(self.lanes, services.store, services.limits.agent_hops_max)
        self._triggering = given.triggering
        if given.triggering is not None:
            self._wire(given.triggering)

    @property
    def troubles(self) -> list[str]:
        return self._given.troubles

    @property
    def errors(self) -> ErrorList | None:
        return self.observing.errors

    @property
    def audit(self) -> AuditReading | None:
        return self.observing.audit

    @property
    def library(self) -> Library:
        return self.remembering.library

    @property
    def triggering(self) -> Any:
        """Made when it is first asked for, unless a tool needed it before."""
        if self._triggering is None and self._given.place is not None:
            self._triggering = _triggers(self.config, self.services.store, self._given.place)
            self._wire(self._triggering)
        return self._triggering

    def _wire(self, triggering: Any) -> None:
        from mainstay.agent.doors import Checks, LaneDoor  # only for those who have triggers

        guards = self.services.trust.guards
        assert guards is not None, "an agent has guards"
        door = LaneDoor(self.lanes, self.services.store, guards, self.config)
        door.rooms = self._given.beside.rooms if self._given.beside is not None else None
        builtins = self._given.builtins
        sandbox = builtins.sandbox if builtins is not None else None
        triggering.wire(door, Checks(sandbox, self._given.workplace, self.config))

    def skills(self, session: str) -> list[KnownSkill]:
        return self._given.knowhow.skills(session) if self._given.knowhow is not None else []

    async def note(self, kind: str, what: str) -> None:
        if self.observing.notary is not None:
            await self.observing.notary.note(kind, what, workspace=self.config.workspace)

    async def settle(self) -> None:
        await self.observing.settle()

    async def drop(self, session: str) -> None:
        await self.observing.forget(session)
        await self.remembering.drop(session)
        await self.end(session)
        if self._given.builtins is not None:
            await self._given.builtins.files.labels.disown(session)
        self._given.workplace.drop(session)

    def attachments(self, session: str) -> str:
        return self._given.workplace.attachments(session)

    async def work_in(self, session: str, folder: str) -> str:
        if self._given.builtins is None:
            return ""
        if (await self.lanes.get(session).view()).open is None:
            self._given.workplace.work_in(session, folder)
        return self._given.workplace.cwd(session)

    async def end(self, session: str) -> None:
        if self._given.builtins is not None:
            await self._given.builtins.end(session)

    def key(self, session: str, sender: str) -> str:
        check_session_name(session, self.config.limits)
        return session_key(Envelope(parts=(), thread=session, sender=sender), self.config.lanes.key)

    async def close(self) -> None:
        try:
            if self._triggering is not None:
                await self._triggering.close()
            await self.lanes.close()
            await self._given.close()
            self.services.hub.close()
            await self.observing.close()
            await self.remembering.close()
        finally:
            for close in self.closing:
                await close()

    async def _redact(self, session: str, seqs: Sequence[int]) -> None:
        """In the journal, and as soon as may be in the lane that has it in memory."""
        await self.settle()
        await self.services.store.redact(session, seqs)
        self.lanes.refresh(session)
        await self.observing.forget(session, seqs)


async def open_agent(made: Made, config: Config, home: Path | None) -> Open:
    """`home` is where it keeps everything; None: nowhere."""
    if callable(made.api_key):
        made = msgspec.structs.replace(made, api_key=MadeKey(made.api_key))
    governors = made.beside.governors if made.beside is not None else None
    models = Models(made.model, made.base_url, made.api_key, config, governors)
    store, place, lock = _kept_in(home, config)
    if made.beside is not None:
        lock = None
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
    panel = _panel(made, config, place, models)  # first: what cannot be used is known before anything is begun
    clock = SystemClock()
    offered = config.tools.memory
    speaks = offered == "on" or (offered == "auto" and bool(made.tools))
    remembering = await Remembering.start(config, store, place, clock, speaks=speaks)
    memory = config.sessions.memory
    guards = make_guards(config, place, os.environ, made.api_key)
    given = await _given(config, store, place, remembering, made.beside)
    sandbox = given.builtins.sandbox if given.builtins is not None else None
    policy = make_policy(config, given.grants, sandbox)
    own = made.tools
    contributors: tuple[Contributor, ...] = (remembering.contributor,)
    if made.beside is not None:
        policy.is_guest = made.beside.is_guest
        contributors += made.beside.contributors
    for brings in (given.builtins, given.knowhow):
        if brings is not None:  # what was handed over in code takes the place of what is built in
            own += tuple(tool for tool in brings.tools if tool.name not in {one.name for one in made.tools})
    if given.knowhow is not None:
        contributors += given.knowhow.contributors
    if has_elsewhere(config, place.home if place is not None else None):
        given = msgspec.structs.replace(given, elsewhere=await _elsewhere(config, store, place, policy, guards))
        own += given.elsewhere.offered(policy, (*own, *remembering.tools))
        contributors += given.elsewhere.contributors(policy)
    own = only(own, config.tools.only)
    recalling = only(remembering.tools, config.tools.only) if offered != "off" else ()
    if any(tool.untrusted for tool in own) or given.builtins is not None:
        contributors += (given.notes(sandbox, config),)
    warn_of_rules(config, (*own, *remembering.tools))
    if given.builtins is not None:
        given.builtins.denies = partial(denies, policy)
    sight = Sight(config, store, clock, clean=guards.shown, home=place.home if place is not None else None)
    meant = made.model if isinstance(made.model, str) else ""
    sight = msgspec.structs.replace(sight, model=meant, hide=guards.hide)
    observing = await observe(sight, made.beside)
    resting = Breakers(clock, config.limits)
    services = Services(
        store=store,
        choose=models.choose,
        tools=Toolbox(own, config.limits, memory=recalling, keep=store.keep, guards=guards, breaker=resting.of),
        limits=config.limits,
        clock=clock,
        hub=Hub(config.limits.watcher_buffer_max),
        instructions=made.instructions or config.instructions,
        contributors=contributors,
        summariser=summariser_of(config, models.choose, place),
        facts=memory.summaries.extract_facts and memory.knowledge.enabled,
        rules=rules_of(config),
        memory_tools=offered,
        few=_few((*own, *recalling), made, given, remembering.tools),
        trust=given.trust(policy, guards, clock),
        screen=screening(guards, config),
        touched=both(remembering.follower.touched, observing.touched),
        panel=panel,
        gate=observing.gate,
        accounts=await observing.accounts(),
    )
    observing.start()
    return Open(config, services, remembering, given, observing)


def _panel(made: Made, config: Config, place: Place | None, models: Models) -> Panel | None:
    if not config.judges.panel and not made.judges:
        return None
    from mainstay.agent.judges import make_panel  # only for those who have judges

    return make_panel(config.judges, models, place.home if place is not None else None, made.judges)


def _few(offered: Sequence[Tool], made: Made, given: Given, memory: Sequence[Tool]) -> tuple[str, ...]:
    """What a small model is offered: of our own tools a handful, and all that the owner brought."""
    ours = {one.name for brings in (given.builtins, given.knowhow) if brings is not None for one in brings.tools}
    spared = (ours | {one.name for one in memory}) - FEW - {one.name for one in made.tools}
    return tuple(one.name for one in offered if one.name not in spared)


class Given(msgspec.Struct, frozen=True):
    """What an agent works with beside its memory."""

    workplace: Workplace
    grants: Grants
    builtins: Any = None  # a `builtin_tools.Builtins`, which is not loaded for those who have none
    knowhow: Any = None  # nor is a `knowhow.KnowHow`
    triggering: Any = None  # nor a `triggering.Triggering`, if no tool needs one
    place: Place | None = None
    beside: Beside | None = None
    elsewhere: Any = None  # nor an `elsewhere.Elsewhere`

    @property
    def troubles(self) -> list[str]:
        return [said for one in (self.elsewhere, self.knowhow) if one is not None for said in one.troubles]

    async def close(self) -> None:
        for one in (self.elsewhere, self.knowhow, self.builtins):
            if one is not None:
                await one.close()
        self.workplace.close()

    def trust(self, policy: Policy, guards: Guards, clock: Clock) -> Trust:
        made = Trust(policy, guards, clock.now_ms)
        if self.builtins is not None:  # else there are no files, and no paths
            made = msgspec.structs.replace(made, cwd=self.workplace.cwd, made=self.builtins.made)
        if self.knowhow is not None:
            made = msgspec.structs.replace(made, told=self.knowhow.told, narrowing=self.knowhow.narrowing)
        return made

    def notes(self, sandbox: Sandbox | None, config: Config) -> WorkplaceNotes:
        speaks = self.builtins is not None
        keeps = config.skills.enabled and "write" in builtin_names(config.tools.builtin)
        return WorkplaceNotes(self.workplace, sandbox, network=config.sandbox.network, speaks=speaks, keeps=keeps)


async def _given(
    config: Config, store: Store, place: Place | None, remembering: Remembering, beside: Beside | None
) -> Given:
    workplace = Workplace(config, place, remembering.notes)
    grants = Grants(place.workspace if place is not None else None)
    wanted = builtin_names(config.tools.builtin)
    if beside is not None and beside.outbox is not None and wanted:
        wanted += ON_CHANNELS
    if not wanted:
        knowhow = await _knowhow(config, place, workplace, None)
        return Given(workplace, grants, knowhow=knowhow, place=place, beside=beside)
    from mainstay.agent.builtin_tools import Builtins  # and all that they work with, only for those who have some
    from mainstay.core.labels import MemoryLabels
    from mainstay.store.sqlite import SqliteStore

    labels = await cast(SqliteStore, store).labels() if place is not None else MemoryLabels()
    knowhow = await _knowhow(config, place, workplace, labels)
    triggering = _triggers(config, store, place) if place is not None and "schedule" in wanted else None
    scheduler = triggering.scheduler if triggering is not None else None
    builtins = Builtins(config, wanted, workplace, labels, scheduler, beside)
    return Given(workplace, grants, builtins, knowhow, triggering, place, beside)


def _triggers(config: Config, store: Store, place: Place) -> Any:
    from mainstay.agent.triggering import Triggering  # and all that triggers need
    from mainstay.store.sqlite import SqliteStore

    return Triggering(config, place.home, cast(SqliteStore, store).triggers(), SystemClock())


async def _knowhow(config: Config, place: Place | None, workplace: Workplace, labels: Labels | None) -> Any:
    """Whoever works with files may find or write some later; others have what is there."""
    if labels is None and not has_knowhow(config, place):
        return None
    from mainstay.agent.knowhow import KnowHow  # and all that skills and patterns need

    made = KnowHow(config, place, labels)
    await made.open()
    workplace.skills = made.ground
    return made


async def _elsewhere(config: Config, store: Store, place: Place | None, policy: Policy, guards: Guards) -> Any:
    from mainstay.agent.elsewhere import open_elsewhere  # and all that tools from elsewhere need
    from mainstay.core.plugin_state import MemoryPluginState
    from mainstay.store.sqlite import SqliteStore

    state = cast(SqliteStore, store).plugin_state() if place is not None else MemoryPluginState()
    return await open_elsewhere(config, place, state, policy, guards)


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
