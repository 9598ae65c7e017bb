"""`mainstay chat`."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys

from mainstay.cli.commands.homes import run_async
from mainstay.cli.commands.talking import Setting, setting, tell

HINT = "for a nicer chat: pip install -e '.[chat]'"


def chat(options: argparse.Namespace) -> int:
    where = setting(options)
    return run_async(_talk(where, options.session, new=bool(options.new)))


async def _talk(where: Setting, session: str | None, *, new: bool) -> int:
    if _has_screen():
        from mainstay.cli.chat.terminal import Terminal  # its libraries are an extra, and slow to load

        return await Terminal(where).run(session, new=new)
    from mainstay.cli.chat.pipe import Pipe

    return await Pipe(where).run(session, new=new)


def _has_screen() -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        return False
    if importlib.util.find_spec("rich") and importlib.util.find_spec("prompt_toolkit"):
        return True
    tell(HINT)
    return False
