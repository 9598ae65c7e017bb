"""`mainstay serve`: the gateway, until a signal ends it."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path

from mainstay import __version__
from mainstay.app.agent import Agent
from mainstay.app.chat.safe import visible
from mainstay.app.commands.homes import home_of, overrides_of, run_async
from mainstay.app.commands.logs import set_up
from mainstay.app.commands.talking import NoModel, reaching, remembering, tell
from mainstay.app.config import Loaded, load_config
from mainstay.app.discover import NO_MODEL_HELP, Found, find_model
from mainstay.app.listening import is_private, listen
from mainstay.app.schema import Config
from mainstay.app.service import Service
from mainstay.core.errors import ConfigError

log = logging.getLogger("mainstay.gateway")

STOP = (signal.SIGINT, signal.SIGTERM)


def serve(options: argparse.Namespace) -> int:
    home = home_of(options)
    look = _Look(home, options)
    loaded = look()
    set_up(options.log_level or "info", home, loaded.config.server.logs)
    run_async(_served(home, look, loaded))
    return 0


class _Look:
    """The configuration as the command line would have it, whenever it is read."""

    def __init__(self, home: Path, options: argparse.Namespace) -> None:
        self._home = home
        self._given = overrides_of(options)
        for name in ("host", "port", "grpc_port"):
            if getattr(options, name) is not None:
                self._given[f"server.{name}"] = getattr(options, name)

    def __call__(self) -> Loaded:
        return load_config(self._home, env=os.environ, overrides=self._given)


def make_agent(home: Path) -> Callable[[Config], Agent]:
    """The agent of a workspace: with the model that is configured, or that this machine offers."""
    known: dict[tuple[str | None, int], Found | None] = {}

    def make(config: Config) -> Agent:
        place = config.model, len(config.models)
        if place not in known:
            known[place] = find_model(config, os.environ, probe=True)
        found = known[place]
        if found is None:
            raise NoModel(NO_MODEL_HELP)
        return Agent(found.spec, home=home, config=remembering(reaching(config, found)))

    return make


async def _served(home: Path, look: _Look, loaded: Loaded) -> None:
    service = Service(home, loaded, make_agent(home))
    stop, now = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        if stop.is_set():
            now.set()  # a second time: at once
        stop.set()

    for number in STOP:
        loop.add_signal_handler(number, end)
    loop.add_signal_handler(signal.SIGHUP, lambda: service.later(_reload(service, look), "reload"))
    try:
        await service.open()
        try:
            await listen(service, stop, now, lambda url, grpc: service.later(_report(service, url, grpc), "report"))
        finally:
            await service.close()
    finally:
        for number in (*STOP, signal.SIGHUP):
            loop.remove_signal_handler(number)


async def _reload(service: Service, look: _Look) -> None:
    try:
        changed = await service.reload(look)
    except ConfigError as error:
        log.error("the configuration stays as it was: %s", error)
        return
    log.info("the configuration was read again; changed: %s", ", ".join(changed) or "nothing")


async def _report(service: Service, url: str, grpc: str) -> None:
    """What a person who starts it wants to know."""
    tell(f"mainstay {__version__} at {url}" + (f", gRPC at {grpc}" if grpc else ""))
    tell(f"workspaces: {', '.join(sorted(service.workspaces.open_ones))}")
    for name, state in service.states().items():
        tell(f"{visible(name)}: {visible(state)}")
    fired = await _fired(service)
    if fired:
        tell(f"firing {fired} triggers")
    if service.config.server.keys == "auto" and is_private(service.config.server.host):
        tell("whoever is on this machine may come in without a key; server.keys: required changes that")


async def _fired(service: Service) -> int:
    if not service.config.triggers.enabled:
        return 0
    return sum([len(await desk.triggers.list()) for desk in service.workspaces.open_ones.values()])
