"""`mainstay trigger serve`: fires what is due and takes webhooks, until a signal ends it."""

from __future__ import annotations

import argparse
import asyncio
import signal

from mainstay.app.agent import Agent
from mainstay.app.chat.safe import visible
from mainstay.app.chat.words import count
from mainstay.app.commands.homes import run_async
from mainstay.app.commands.talking import Setting, setting, tell
from mainstay.core.errors import ConfigError, HomeTaken
from mainstay.server.web import bind, serve_web

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def serve(options: argparse.Namespace) -> int:
    where = setting(options)
    if not where.config.triggers.enabled:
        raise ConfigError("triggers are turned off: triggers.enabled is false in mainstay.yaml")
    run_async(_served(where, options.host, options.port))
    return 0


async def _served(where: Setting, host: str, port: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stop.set)
    try:
        async with where.agent() as agent:
            if not isinstance(agent, Agent):
                said = "`mainstay doctor` says which, and a chat fires what is due as well"
                raise HomeTaken(f"another process uses this home; stop it first ({said})")
            app = await agent.triggers.app(alone=True) if where.config.triggers.webhooks else None
            await agent.triggers.start()
            await _say(agent)
            if app is None:
                await stop.wait()
                return
            with bind(host, port) as at:
                tell(f"webhooks at {_address(host, at.getsockname()[1])}/hooks/NAME; Ctrl-C ends it")
                await serve_web(app, at, stop)
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


async def _say(agent: Agent) -> None:
    found = await agent.triggers.list()
    tell(f"firing {count(len(found), 'trigger')}; files in events/ are watched")
    for one in found:
        if one.trouble:
            tell(f"{visible(one.name)}: {visible(one.trouble)}")


def _address(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
