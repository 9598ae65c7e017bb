"""Argument parser of `mainstay errors`."""

from __future__ import annotations

import argparse

from mainstay.cli.parser.base import CommandGroup, CommandParser, build_json_option, parse_count


def add_errors(commands: CommandGroup) -> None:
    about = "List errors of all workspaces or of --workspace, grouped, newest first."
    error = commands.add_group("error", about, _build_list_options())
    error.add_command(
        "list",
        "The same as `mainstay errors`.",
        "errors:list_errors",
        has_json=False,
        extra_options=_build_list_options(),
    )
    show = error.add_command("show", "Print an error with all its details and how to investigate it.", "errors:show")
    show.add_argument("id", metavar="ID|GROUP|TRACE", help="as printed by `mainstay errors`, a failed turn or a reply")
    about = "Remove errors from the list: all, or those that match the options."
    clear = error.add_command("clear", about, "errors:clear", extra_options=_build_filter_options())
    clear.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def _build_list_options() -> CommandParser:
    """Return the options of `errors` and `errors list`; defaults would overwrite values given before the subcommand."""
    parser = CommandParser(
        add_help=False,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
        parents=[build_json_option(), _build_filter_options()],
    )
    parser.add_argument("--all", action="store_true", help="list each error, not groups")
    parser.add_argument("--limit", type=parse_count, metavar="N", help="at most N (default: 100)")
    parser.set_defaults(run="errors:list_errors")
    return parser


def _build_filter_options() -> CommandParser:
    parser = CommandParser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    parser.add_argument("--session", metavar="S", help="only of this session")
    parser.add_argument("--kind", metavar="K", help="only of this kind: turn, tool, judge, delivery, guard, server, …")
    what = "only from this date on: 2026-11-02, 2026-11-02T15:30, today, 7d (UTC)"
    parser.add_argument("--since", metavar="D", help=what)
    return parser
