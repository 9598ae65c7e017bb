"""`mainstay trigger serve`: runs due triggers and accepts webhooks until a signal ends it."""

from __future__ import annotations

import argparse
import asyncio
import signal
from typing import Any

from mainstay.agent.agent import Agent
from mainstay.cli.commands.agent_setup import AgentSetup, load_agent_setup, print_note
from mainstay.cli.commands.home_locator import run_async
from mainstay.cli.commands.output import format_clock
from mainstay.cli.log_setup import set_up_logging
from mainstay.core.errors import ConfigError, HomeTaken
from mainstay.core.outcome_text import format_count
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.server.uvicorn_server import bind_socket, serve_asgi

REPORT_INTERVAL_S = 1.0
REPORTED_RUNS_MAX = 100  # newest runs that are checked for changes
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def serve(options: argparse.Namespace) -> int:
    setup = load_agent_setup(options)
    if not setup.config.triggers.enabled:
        raise ConfigError("triggers are disabled: triggers.enabled is false in mainstay.yaml")
    set_up_logging(options.log_level or "warning", setup.home)  # refused webhooks and failures are only logged
    run_async(_serve_until_stopped(setup, options.host, options.port))
    return 0


async def _serve_until_stopped(setup: AgentSetup, host: str, port: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)
    try:
        async with setup.open_agent() as agent:
            if not isinstance(agent, Agent):
                hint = "`mainstay doctor` shows which; a chat runs due triggers, too"
                raise HomeTaken(f"another process owns this home; stop it first ({hint})")
            app = await agent.triggers.app(alone=True) if setup.config.triggers.webhooks else None
            await agent.triggers.start()
            await _print_triggers(agent)
            reporting = asyncio.create_task(_report_runs(agent))
            try:
                await _serve_webhooks(stop, app, host, port)
            finally:
                reporting.cancel()
                await asyncio.gather(reporting, return_exceptions=True)
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)


async def _serve_webhooks(stop: asyncio.Event, app: Any, host: str, port: int) -> None:
    """Serve webhooks, if they are enabled, until stopped."""
    if app is None:
        await stop.wait()
        return
    with bind_socket(host, port) as socket:
        print_note(f"webhooks at {_format_url(host, socket.getsockname()[1])}/hooks/NAME; Ctrl-C ends it")
        await serve_asgi(app, socket, stop)


async def _report_runs(agent: Agent) -> None:
    """Print a line for every run that starts, and one for its outcome."""
    reported = {(run.trigger, run.key): run.outcome for run in await agent.triggers.history(limit=REPORTED_RUNS_MAX)}
    while True:
        await asyncio.sleep(REPORT_INTERVAL_S)
        for run in reversed(await agent.triggers.history(limit=REPORTED_RUNS_MAX)):
            key = run.trigger, run.key
            if reported.get(key) != run.outcome:
                reported[key] = run.outcome
                state = run.outcome or f"{run.result}{f': {run.note}' if run.note else ''}"
                session = f" (session {run.session})" if run.session else ""
                print_note(
                    f"{format_clock(run.at)[:8]} {escape_line(run.trigger)}: {escape_line(state)}{escape_line(session)}"
                )
        while len(reported) > REPORTED_RUNS_MAX * 4:
            del reported[next(iter(reported))]


async def _print_triggers(agent: Agent) -> None:
    triggers = await agent.triggers.list()
    print_note(f"{format_count(len(triggers), 'trigger')} active; the folder events is watched")
    for trigger in triggers:
        if trigger.trouble:
            print_note(f"{escape_line(trigger.name)}: {escape_line(trigger.trouble)}")


def _format_url(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
