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
from mainstay.agent.agent import Agent
from mainstay.agent.discover import Found, find_model, no_model_help
from mainstay.agent.trust import known_secrets
from mainstay.cli.chat.safe import visible
from mainstay.cli.chat.words import count
from mainstay.cli.commands.homes import home_of, overrides_of, run_async
from mainstay.cli.commands.logs import hide, set_up
from mainstay.cli.commands.talking import NoModel, reaching, remembering, tell
from mainstay.config.loading import FILE, Loaded, load_config
from mainstay.config.schema import Config
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.gateway.service import Service
from mainstay.server.listening import is_private, listen

log = logging.getLogger("mainstay.gateway")

STOP = (signal.SIGINT, signal.SIGTERM)
FAILED = 1
Say = Callable[[str], object]


def serve(options: argparse.Namespace) -> int:
    home = home_of(options)
    look = _Look(home, options)
    loaded = look()
    shape = loaded.config.server.logs
    set_up(options.log_level or "info", home, shape)
    logging.captureWarnings(True)
    say = log.info if shape == "json" else tell  # one document a line, whatever it says
    try:
        run_async(_served(home, look, loaded, say))
    except MainstayError as error:
        if shape == "text":
            raise
        log.error("%s", error)
        return FAILED
    return 0


class _Look:
    """The configuration as the command line would have it, whenever it is read."""

    def __init__(self, home: Path, options: argparse.Namespace) -> None:
        self._home = home
        self._was_there = False
        self._secrets: list[str] = []  # of the configuration before
        self._given = overrides_of(options)
        for name in ("host", "port", "grpc_port"):
            if getattr(options, name) is not None:
                self._given[f"server.{name}"] = getattr(options, name)

    def __call__(self) -> Loaded:
        there = (self._home / FILE).exists()
        if self._was_there and not there:  # to go on without it would be to forget whom it keeps out
            raise ConfigError(f"{self._home / FILE} is gone")
        self._was_there = there
        loaded = load_config(self._home, env=os.environ, overrides=self._given)
        secrets = known_secrets(loaded.config, os.environ)
        hide([*secrets, *self._secrets])  # what was one until now may still be under way
        self._secrets = secrets
        return loaded


def make_agent(home: Path) -> Callable[[Config], Agent]:
    """The agent of a workspace: with the model that is configured, or that this machine offers."""
    offered: list[Found | None] = []  # looked for once

    def make(config: Config) -> Agent:
        found = find_model(config, os.environ, probe=False)
        if found is None:
            if not offered:
                offered.append(find_model(config, os.environ))
            found = offered[0]
        if found is None:
            raise NoModel(no_model_help(os.environ))
        return Agent(found.spec, home=home, config=remembering(reaching(config, found)))

    return make


async def _served(home: Path, look: _Look, loaded: Loaded, say: Say) -> None:
    service = Service(home, loaded, make_agent(home))
    stop, now = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        if stop.is_set():
            now.set()  # a second time: at once
        else:
            log.info("stopping; what runs may go on for %g s, a second signal ends it", service.config.server.drain_s)
        stop.set()

    def told(url: str, grpc: str) -> None:
        service.later(_report(service, url, grpc, say), "report")

    for number in STOP:
        loop.add_signal_handler(number, end)
    loop.add_signal_handler(signal.SIGHUP, lambda: service.later(_reload(service, look), "reload"))
    try:
        await service.own()
        try:
            await listen(service, stop, now, told)
        finally:
            await service.close()
    finally:
        for number in (*STOP, signal.SIGHUP):
            loop.remove_signal_handler(number)


async def _reload(service: Service, look: _Look) -> None:
    log.info(
        "the configuration is read again; turns that have to end first may take %g s", service.config.server.drain_s
    )
    try:
        changed = await service.reload(look)
    except ConfigError as error:
        log.error("the configuration stays as it was: %s", error)
        return
    log.info("the configuration was read again; changed: %s", ", ".join(changed) or "nothing")


async def _report(service: Service, url: str, grpc: str, say: Say) -> None:
    """What a person who starts it wants to know, as soon as it is so."""
    await service.opened.wait()
    say(f"mainstay {__version__} at {url}" + (f", gRPC at {grpc}" if grpc else ""))
    say(f"workspaces: {', '.join(sorted(service.workspaces.open_ones))}")
    await service.begun.wait()
    for name, state in (service.states() | service.broken_hooks()).items():
        say(f"{visible(name)}: {visible(state)}")
    fired = await _fired(service)
    if fired:
        say(f"firing {count(fired, 'trigger')}")
    settings = service.config.server
    if service.keys == "auto" and is_private(settings.host):
        say("whoever is on this machine may come in without a key; server.keys: required changes that")
    elif settings.keys == "auto" and is_private(settings.host):
        say("commands of agents have the network (sandbox.network), so a key is needed on this machine too")


async def _fired(service: Service) -> int:
    if not service.config.triggers.enabled:
        return 0
    names = [{one.name for one in await desk.triggers.list()} for desk in service.workspaces.open_ones.values()]
    return len(set().union(*names))  # they are the home's, and each workspace knows all of them
