"""Everything that `mainstay serve` runs, from the home's lock to the last open stream."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Literal

import msgspec

from mainstay import __version__
from mainstay.agent.accounts import HomeAccounts
from mainstay.agent.agent import Agent
from mainstay.agent.auditing import Noted, open_books, workspace_gone
from mainstay.agent.error_listing import errors_in, listed
from mainstay.agent.governing import gauges
from mainstay.agent.opened import Beside
from mainstay.agent.telemetry import Telemetry
from mainstay.agent.world import SystemClock
from mainstay.config.check_gateway import people_of
from mainstay.config.check_webhooks import hook_of
from mainstay.config.loading import Loaded
from mainstay.config.schema import Config, builtin_names, data_home
from mainstay.core.channels import ChatChannel, Mail
from mainstay.core.errors import ConfigError, InputRefused, WorkspaceUnknown
from mainstay.core.outside import Outgoing
from mainstay.gateway.channel_factory import make_channel, rules_of
from mainstay.gateway.desk import Desk
from mainstay.gateway.doorways import ASGIApp, Doorway, not_yet
from mainstay.gateway.gateway import Gateway
from mainstay.gateway.measuring import budget_gauges, scrape
from mainstay.gateway.owner import serving
from mainstay.gateway.people_commands import PREFIX as PEOPLE
from mainstay.gateway.people_commands import do as do_people
from mainstay.gateway.people_commands import people_at
from mainstay.gateway.rooms import ChannelRules
from mainstay.gateway.switchboard import Switchboard
from mainstay.gateway.workspace_folders import put_away
from mainstay.gateway.workspaces import Make, Workspaces
from mainstay.metering.governor import Governors

log = logging.getLogger("mainstay.gateway")

CHANNEL_S = 20.0  # for a channel to connect before the others are waited for no longer


class Service:
    """`make` makes the agent of a workspace from its settings; it is told what the gateway adds to it."""

    def __init__(self, home: Path, loaded: Loaded, make: Make, channels: Sequence[ChatChannel] = ()) -> None:
        """`channels`: more than the configured ones."""
        self._home = home
        self._make = make
        self._more = tuple(channels)
        self.workspaces = Workspaces(home, loaded, self._made, self._opened)
        self.noted = Noted()
        self.people = people_at(self.workspaces.home, loaded.config, lambda: self.noted.notary)
        self.gateway = Gateway(self.workspaces.desk, self.people)
        self.telemetry = Telemetry(counting=True)
        self.governors = Governors(SystemClock())
        self.books: Any = None  # what is derived from the journals of all workspaces
        self.accounts = HomeAccounts(self.workspaces.home, SystemClock())
        self.switchboard = Switchboard(
            self.gateway, self._rules(loaded.config), SystemClock(), mail=self._mail, folder=self._folder
        )
        self.opened = asyncio.Event()  # every workspace that can be
        self.begun = asyncio.Event()  # and every channel that is quick enough
        self.at: tuple[str, ...] = ()  # where it listens
        self.otherwise: Callable[[Config], list[str]] = lambda before: []  # whoever listens is told of other settings
        self._ending = False
        self._broken: dict[str, str] = {}  # by channel: why it was not made
        self._hooks: dict[str, tuple[Desk, ASGIApp]] = {}
        self._keys: tuple[Loaded, Literal["auto", "required"]] | None = None  # as they are under this configuration
        self._reloading = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stack = AsyncExitStack()

    @property
    def config(self) -> Config:
        return self.workspaces.loaded.config

    def _rules(self, config: Config) -> Mapping[str, ChannelRules]:
        more = {one.name: ChannelRules(workspace=config.workspace) for one in self._more}
        return {**more, **rules_of(config)}

    @property
    def keys(self) -> Literal["auto", "required"]:
        """As it is configured. But commands that reach the network reach this server too, on the very machine: without
        a key an agent of any workspace would be the owner to it."""
        loaded = self.workspaces.loaded
        if self._keys is None or self._keys[0] is not loaded:
            configs = (loaded.of(name) for name in self.workspaces.names())
            self._keys = loaded, "required" if any(map(_reaches_out, configs)) else self.config.server.keys
        return self._keys[1]

    def broken_hooks(self) -> dict[str, str]:
        """Webhooks that cannot be served as they are configured, and why."""
        found: dict[str, str] = {}
        for name, entry in self.config.triggers.webhooks.items():
            try:
                hook_of(name, entry)
            except ConfigError as error:
                found[f"webhook {name}"] = str(error)
        return found

    # --- beginning and end -----------------------------------------------------------------------

    async def open(self) -> None:
        """`own` and `begin`. Raises HomeTaken, or ConfigError if what is configured cannot be served at all."""
        await self.own()
        try:
            await self.begin()
        except BaseException:
            await self.close()
            raise

    async def own(self) -> None:
        """The home, those who may come in, and the socket for commands. Raises HomeTaken."""
        self.workspaces.own()
        async with AsyncExitStack() as stack:
            self.books = books = await open_books(self.workspaces.home, self.config.limits.store_busy_s)
            self.noted = Noted.of(books, self.config)
            stack.push_async_callback(books.close)  # after the workspaces, which write into it to the last
            stack.push_async_callback(self.noted.close)
            await stack.enter_async_context(listed(errors_in(self.books), lambda: self.config))
            stack.push_async_callback(self.telemetry.close)
            stack.push_async_callback(self.workspaces.close)
            await self.people.open()
            stack.push_async_callback(self.people.close)
            stack.push_async_callback(self._quiet)
            await stack.enter_async_context(serving(self, self.workspaces.home))
            self._stack = stack.pop_all()

    async def begin(self) -> None:
        """Workspaces, then channels; whoever comes meanwhile waits for the one that they want. Once."""
        if self.begun.is_set():
            return
        await self.workspaces.open()
        self.opened.set()
        await self._connect(self.switchboard.start([*self._channels_of(self.config), *self._more]), "channels")
        self.begun.set()

    async def close(self) -> None:
        """At once: what runs is put aside, and taken up by whoever opens the home next."""
        self._ending = True
        await self._stack.aclose()

    async def drain(self, seconds: float) -> None:
        """What runs may end, and what is to be delivered go out."""
        self._ending = True
        await self.workspaces.drain(seconds)

    async def _quiet(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.switchboard.close(drain_s=2.0)

    # --- agents ----------------------------------------------------------------------------------

    def _made(self, config: Config) -> Agent:
        agent = self._make(config)
        workspace = config.workspace
        speaks = self._speaks(self.config)
        agent._beside = Beside(
            outbox=_Outbox(self.switchboard, workspace) if speaks else None,
            channels=self.switchboard.searching(workspace) if speaks else lambda session: None,
            contributors=(self.switchboard.hints(workspace),) if speaks else (),
            is_guest=lambda person: self._is_guest(person, workspace),
            rooms=self.switchboard if speaks else None,
            telemetry=self.telemetry,
            governors=self.governors,
            books=self.books,
            accounts=self.accounts,
            main=workspace == self.config.workspace,
        )
        return agent

    def _speaks(self, config: Config) -> bool:
        """Whether there are channels at all: without one, agents have no tools for them."""
        return bool(rules_of(config)) or bool(self._more)

    def _is_guest(self, name: str, workspace: str) -> bool:
        """Also whoever is nobody here any more."""
        person = self.people.person(name)
        return person is None or person.roles.get(workspace, "guest") == "guest"

    def _opened(self, desk: Desk) -> None:
        self.later(self._started(desk), f"workspace {desk.workspace}")

    async def _started(self, desk: Desk) -> None:
        if self.config.triggers.enabled:
            await desk.triggers.start()

    def later(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Beside everything else, for as long as this is open."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: %s", task.get_name(), error, exc_info=error)

    def _mail(self, workspace: str) -> Mail:
        return self.workspaces.open_ones[workspace].mail()

    def _folder(self, workspace: str, session: str) -> str:
        return self.workspaces.open_ones[workspace].attachments(session)

    # --- channels --------------------------------------------------------------------------------

    def _channels_of(self, config: Config) -> list[ChatChannel]:
        made: list[ChatChannel] = []
        for name, entry in config.channels.items():
            self._broken.pop(name, None)
            if entry.enabled:
                try:
                    made.append(make_channel(name, entry, self.workspaces.home, self._welcomes))
                except ConfigError as error:
                    self._broken[name] = str(error)
                    log.error("%s", error, extra={"kind": "channel"})
        return made

    def _welcomes(self, channel: str, user: str) -> bool:
        return self.people.who(channel, user) is not None

    async def _connect(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """One that takes long is waited for no longer; it says itself when it is there."""
        doing = self.later(work, name)
        await asyncio.wait((doing,), timeout=CHANNEL_S)
        if not doing.done():
            log.error("%s: not connected within %g s; it goes on trying", name, CHANNEL_S, extra={"kind": "channel"})

    # --- another configuration -------------------------------------------------------------------

    async def reload(self, load: Callable[[], Loaded]) -> list[str]:
        """What changed. Raises ConfigError: then everything is as it was."""
        async with self._reloading:
            await self.begun.wait()
            before, since = self.config, time.time()
            loaded = load()
            after = loaded.config
            if data_home(self._home, after) != self.workspaces.home:
                raise ConfigError("state.data_dir is not changed while the server runs: it is read at the next start")
            people = people_of(after)
            again = self._speaks(before) != self._speaks(after)
            added = sorted(set(after.workspaces) - set(self.workspaces.open_ones))
            changed = await self.workspaces.reload(loaded, after.server.drain_s, everything=again)
            changed = [f"workspace {one}" for one in (*changed, *added)]
            self.people.declare(*people)
            if after.people != before.people:
                changed.append("people")
            changed += await self._rewire(before, after)
            changed += self.otherwise(before)
            self._hooks.clear()
            self.workspaces.has_read(since)
            if self.noted.notary is not None:
                await self.noted.notary.note("configured", ", ".join(changed) or "nothing that is in use")
            return changed

    async def _rewire(self, before: Config, after: Config) -> list[str]:
        """Channels that are otherwise are closed and connected again; the others go on."""
        was, rules = rules_of(before), rules_of(after)
        names = {*before.channels, *after.channels}
        changed = sorted(
            one
            for one in names
            if (before.channels.get(one), was.get(one)) != (after.channels.get(one), rules.get(one))
        )
        for one in changed:
            self._broken.pop(one, None)
        await asyncio.gather(*(self.switchboard.disconnect(one) for one in changed if one in before.channels))
        wanted = {one: after.channels[one] for one in changed if one in after.channels}
        made = self._channels_of(msgspec.structs.replace(after, channels=wanted))
        connecting = (self._connect(self.switchboard.connect(one, rules[one.name]), one.name) for one in made)
        await asyncio.gather(*connecting)
        return [f"channel {one}" for one in changed]

    # --- over HTTP -------------------------------------------------------------------------------

    def mounts(self) -> dict[str, Any]:
        return {"/hooks": Doorway(self._hook, whole=True), "/channels": Doorway(self._channel)}

    async def _hook(self, name: str) -> ASGIApp | None:
        entry = self.config.triggers.webhooks.get(name)
        broken = {one.removeprefix("webhook ") for one in self.broken_hooks()}
        if entry is None or name in broken:
            return None
        workspace = entry.workspace or self.config.workspace
        desk = await self.workspaces.desk(workspace)
        known = self._hooks.get(workspace)
        if known is None or known[0] is not desk:
            known = self._hooks[workspace] = desk, await desk.triggers.app(without=broken)
        return known[1]

    async def _channel(self, name: str) -> ASGIApp | None:
        channel = self.switchboard.channel(name)
        if channel is None:
            entry = self.config.channels.get(name)
            return not_yet if entry is not None and entry.enabled else None
        app: ASGIApp | None = channel.app()
        return app

    def unready(self) -> dict[str, str]:
        """What is not ready, and why."""
        found = {f"workspace {name}": said for name, said in self.workspaces.troubles.items()}
        if self._ending or not self.begun.is_set():
            found["server"] = "it is being stopped" if self._ending else "it is starting"
        return found

    def metrics(self) -> str:
        """For Prometheus."""
        opened = [desk.now for desk in self.workspaces.open_ones.values()]
        more = (lambda: gauges(self.governors), lambda: budget_gauges(self.accounts.used(self.config.budgets)))
        return scrape(self.telemetry, opened, self.switchboard.undelivered, more)

    # --- for commands ----------------------------------------------------------------------------

    async def agent(self, workspace: str) -> Agent:
        name = workspace or self.config.workspace
        if name not in self.workspaces.names():
            raise WorkspaceUnknown(f"there is no workspace {name[:80]!r}; `mainstay workspace create` makes one")
        return await self.workspaces.agent(name)

    async def do(self, verb: str, workspace: str, arguments: dict[str, Any]) -> Any:
        if verb.startswith(PEOPLE):
            return await do_people(self.people, verb.removeprefix(PEOPLE), arguments)
        match verb:
            case "gateway.status":
                return self.status()
            case "gateway.remove_workspace":
                close = self.workspaces.remove
                gone = await put_away(self.workspaces.home, self.config, self.people, arguments["name"], close)
                await workspace_gone(arguments["name"], self.noted)
                return gone
            case "channels.states":
                return self.states()
        raise InputRefused(f"there is no operation {verb!r}")

    def states(self) -> dict[str, str]:
        """Of each channel, in a few words."""
        return self.switchboard.states() | self._broken

    def status(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "at": list(self.at),
            "workspaces": sorted(self.workspaces.open_ones),
            "channels": self.states(),
            "unready": self.unready(),
        }


def _reaches_out(config: Config) -> bool:
    return config.sandbox.network and not {"bash", "process"}.isdisjoint(builtin_names(config.tools.builtin))


class _Outbox:
    """The Outbox port, for tools of one workspace."""

    def __init__(self, switchboard: Switchboard, workspace: str) -> None:
        self._switchboard = switchboard
        self._workspace = workspace

    async def send(self, message: Outgoing) -> str:
        return await self._switchboard.send(self._workspace, message)
