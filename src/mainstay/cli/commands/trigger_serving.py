"""`mainstay trigger serve`: fires what is due and takes webhooks, until a signal ends it."""

from __future__ import annotations

import argparse
import asyncio
import signal
from typing import Any

from mainstay.agent.agent import Agent
from mainstay.cli.chat.safe import visible
from mainstay.cli.chat.words import count
from mainstay.cli.commands.homes import run_async
from mainstay.cli.commands.logs import set_up
from mainstay.cli.commands.out import clock
from mainstay.cli.commands.talking import Setting, setting, tell
from mainstay.core.errors import ConfigError, HomeTaken
from mainstay.server.web import bind, serve_web

REPORT_S = 1.0
REPORTED = 100  # newest runs that are looked at
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def serve(options: argparse.Namespace) -> int:
    where = setting(options)
    if not where.config.triggers.enabled:
        raise ConfigError("triggers are turned off: triggers.enabled is false in mainstay.yaml")
    set_up(options.log_level or "warning", where.home)  # whatever is refused or fails is said
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
            reporting = asyncio.create_task(_report(agent))
            try:
                await _until(stop, app, host, port)
            finally:
                reporting.cancel()
                await asyncio.gather(reporting, return_exceptions=True)
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


async def _until(stop: asyncio.Event, app: Any, host: str, port: int) -> None:
    if app is None:
        await stop.wait()
        return
    with bind(host, port) as at:
        tell(f"webhooks at {_address(host, at.getsockname()[1])}/hooks/NAME; Ctrl-C ends it")
        await serve_web(app, at, stop)


async def _report(agent: Agent) -> None:
    """A line for everything that is fired, and one for how it ended."""
    told = {(run.trigger, run.key): run.outcome for run in await agent.triggers.history(limit=REPORTED)}
    while True:
        await asyncio.sleep(REPORT_S)
        for run in reversed(await agent.triggers.history(limit=REPORTED)):
            place = run.trigger, run.key
            if told.get(place) != run.outcome:
                told[place] = run.outcome
                said = run.outcome or f"{run.came}{f': {run.note}' if run.note else ''}"
                where = f" (session {run.session})" if run.session else ""
                tell(f"{clock(run.at)[:8]} {visible(run.trigger)}: {visible(said)}{visible(where)}")
        while len(told) > REPORTED * 4:
            del told[next(iter(told))]


async def _say(agent: Agent) -> None:
    found = await agent.triggers.list()
    tell(f"firing {count(len(found), 'trigger')}; files in events/ are watched")
    for one in found:
        if one.trouble:
            tell(f"{visible(one.name)}: {visible(one.trouble)}")


def _address(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
