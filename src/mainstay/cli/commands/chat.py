"""`mainstay chat`: starts the full-screen or the plain user interface of the chat."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys

from mainstay.cli.commands.agent_setup import AgentSetup, load_agent_setup, print_note
from mainstay.cli.commands.home_locator import run_async

HINT = "for colours, completion and history: pip install -e '.[chat]'"


def chat(options: argparse.Namespace) -> int:
    setup = load_agent_setup(options)
    return run_async(_run_chat(setup, options.session, new=bool(options.new)))


async def _run_chat(setup: AgentSetup, session: str | None, *, new: bool) -> int:
    if _can_use_terminal_ui():
        from mainstay.cli.chat.terminal_ui import TerminalChat  # its libraries are an extra, and slow to import

        return await TerminalChat(setup).run(session, new=new)
    from mainstay.cli.chat.plain_ui import PlainChat

    return await PlainChat(setup).run(session, new=new)


def _can_use_terminal_ui() -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        return False
    if importlib.util.find_spec("rich") and importlib.util.find_spec("prompt_toolkit"):
        return True
    print_note(HINT)
    return False
