"""`mainstay session undo`: shows what a turn changed in files, asks, and restores what was there before."""

from __future__ import annotations

import argparse
import sys

from mainstay.agent.undo_dialog import format_turns
from mainstay.cli.commands.agent_setup import open_home_client
from mainstay.cli.commands.home_locator import resolve_workspace, run_async
from mainstay.cli.commands.output import print_json
from mainstay.cli.parser.root import UsageError
from mainstay.operations.undo import format_preview, format_result
from mainstay.trust.guards.terminal_sanitizer import escape_line


def undo(options: argparse.Namespace) -> int:
    return run_async(_undo(options))


async def _undo(options: argparse.Namespace) -> int:
    async with open_home_client(resolve_workspace(options)) as client:
        if options.list:
            turns = await client.sessions.undoable_turns(options.session)
            _print(options, {"turns": turns}, format_turns(turns))
            return 0
        preview = await client.sessions.preview_undo(options.session, options.turn)
        if not options.yes:
            _print(options, {"preview": preview}, format_preview(preview))
            if options.json or not preview.can_restore or not _confirm():
                return 0
        result = await client.sessions.undo(options.session, preview.turn)
        _print(options, {"result": result}, format_result(result))
        return 1 if result.refused else 0


def _print(options: argparse.Namespace, data: dict[str, object], lines: list[str]) -> None:
    if options.json:
        print_json({"ok": True, **data})
    else:
        print("\n".join(map(escape_line, lines)))


def _confirm() -> bool:
    if not sys.stdin.isatty():
        raise UsageError("add --yes to restore this")
    return input("Restore what was there before this turn? [y/N] ").strip().lower() in ("y", "yes")
