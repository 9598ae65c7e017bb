"""`mainstay serve`: runs the gateway until a signal ends it."""

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
from mainstay.agent.model_discovery import DiscoveredModel, configure_provider, explain_missing_model, find_model
from mainstay.agent.trust_setup import list_known_secrets
from mainstay.cli.commands.agent_setup import NoModel, enable_memory_tools, print_note
from mainstay.cli.commands.home_locator import build_overrides, resolve_home, run_async
from mainstay.cli.log_setup import redact_secrets, set_up_logging
from mainstay.config.loader import FILE, LoadedConfig, load_config
from mainstay.config.schema import Config
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.core.outcome_text import format_count
from mainstay.gateway.service import GatewayService
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.server.network_listeners import is_loopback_host, run_listeners

log = logging.getLogger("mainstay.gateway")

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
EXIT_FAILED = 1
Announce = Callable[[str], object]


def serve(options: argparse.Namespace) -> int:
    home = resolve_home(options)
    load_config = _ConfigLoader(home, options)
    loaded = load_config()
    shape = loaded.config.server.logs
    set_up_logging(options.log_level or "info", home, shape)
    logging.captureWarnings(True)
    report = log.info if shape == "json" else print_note  # with JSON logs, every line is a JSON document
    try:
        run_async(_run_gateway(home, load_config, loaded, report))
    except MainstayError as error:
        if shape == "text":
            raise
        log.error("%s", error)
        return EXIT_FAILED
    return 0


class _ConfigLoader:
    """Loads the configuration with the command line's overrides, at start and at every reload."""

    def __init__(self, home: Path, options: argparse.Namespace) -> None:
        self._home = home
        self._file_existed = False
        self._previous_secrets: list[str] = []  # of the configuration before the last reload
        self._overrides = build_overrides(options)
        for name in ("host", "port", "grpc_port"):
            if getattr(options, name) is not None:
                self._overrides[f"server.{name}"] = getattr(options, name)

    def __call__(self) -> LoadedConfig:
        exists = (self._home / FILE).exists()
        if self._file_existed and not exists:  # the defaults would drop the configured access rules
            raise ConfigError(f"{self._home / FILE} was removed")
        self._file_existed = exists
        loaded = load_config(self._home, env=os.environ, overrides=self._overrides)
        secrets = list_known_secrets(loaded.config, os.environ)
        redact_secrets([*secrets, *self._previous_secrets])  # the old secrets may still be in use by running turns
        self._previous_secrets = secrets
        return loaded


def build_agent_factory(home: Path) -> Callable[[Config], Agent]:
    """Return a function that builds a workspace's agent, with the configured model or one found on this machine."""
    offered: list[DiscoveredModel | None] = []  # searched for only once

    def build(config: Config) -> Agent:
        discovered = find_model(config, os.environ, probe=False)
        if discovered is None:
            if not offered:
                offered.append(find_model(config, os.environ))
            discovered = offered[0]
        if discovered is None:
            raise NoModel(explain_missing_model(os.environ))
        return Agent(discovered.spec, home=home, config=enable_memory_tools(configure_provider(config, discovered)))

    return build


async def _run_gateway(home: Path, load: _ConfigLoader, loaded: LoadedConfig, announce: Announce) -> None:
    service = GatewayService(home, loaded, build_agent_factory(home))
    stop, now = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_stop_signal() -> None:
        if stop.is_set():
            now.set()  # the second signal stops at once
        else:
            drain_s = service.config.server.drain_s
            log.info("stopping; running turns have %g s to finish, a second signal stops them at once", drain_s)
        stop.set()

    def on_listening(url: str, grpc: str) -> None:
        service.run_in_background(_announce_start(service, url, grpc, announce), "report")

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, on_stop_signal)
    loop.add_signal_handler(signal.SIGHUP, lambda: service.run_in_background(_reload_config(service, load), "reload"))
    try:
        await service.acquire_home()
        try:
            await run_listeners(service, stop, now, on_listening)
        finally:
            await service.close()
    finally:
        for number in (*STOP_SIGNALS, signal.SIGHUP):
            loop.remove_signal_handler(number)


async def _reload_config(service: GatewayService, load: _ConfigLoader) -> None:
    log.info("reloading the configuration; turns that have to end first may take %g s", service.config.server.drain_s)
    try:
        changed = await service.reload(load)
    except ConfigError as error:
        log.error("the configuration was not reloaded: %s", error)
        return
    log.info("the configuration was reloaded; changed: %s", ", ".join(changed) or "nothing")


async def _announce_start(service: GatewayService, url: str, grpc: str, announce: Announce) -> None:
    """Print addresses, workspaces, channels and triggers, each as soon as it is ready."""
    await service.workspaces_opened.wait()
    announce(f"mainstay {__version__} at {url}" + (f", gRPC at {grpc}" if grpc else ""))
    announce(f"workspaces: {', '.join(sorted(service.workspaces.open_workspaces))}")
    await service.started.wait()
    for name, state in (service.channel_states() | service.find_broken_webhooks()).items():
        announce(f"{escape_line(name)}: {escape_line(state)}")
    triggers = await _count_triggers(service)
    if triggers:
        announce(f"{format_count(triggers, 'trigger')} active")
    settings = service.config.server
    if service.key_requirement == "auto" and is_loopback_host(settings.host):
        announce("programs on this machine need no API key; server.keys: required changes that")
    elif settings.keys == "auto" and is_loopback_host(settings.host):
        announce(
            "programs on this machine need an API key, because agents' commands have network access (sandbox.network)"
        )


async def _count_triggers(service: GatewayService) -> int:
    if not service.config.triggers.enabled:
        return 0
    workspaces = service.workspaces.open_workspaces.values()
    names = [{trigger.name for trigger in await workspace.agent.triggers.list()} for workspace in workspaces]
    return len(set().union(*names))  # triggers belong to the home: every workspace lists all of them
