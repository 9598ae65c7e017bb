"""The tree's noun of what went wrong."""

from __future__ import annotations

import argparse

from mainstay.cli.commands.verbs import Parser, Verbs, count, json_option


def add_errors(verbs: Verbs) -> None:
    """To the tree itself."""
    about = "See what went wrong: like with like, the newest first; in all workspaces, or in --workspace."
    noun = verbs.noun("error", about, _looking())
    noun.verb("list", "The same as without a command.", "errors:list_errors", json=False, more=_looking())
    show = noun.verb("show", "Print all that is known of an error, and how to look further.", "errors:show")
    show.add_argument("id", metavar="ID|GROUP|TRACE", help="as `mainstay errors`, a failed turn or an answer names it")
    about = "Take errors out of the list, all or those that are meant."
    clear = noun.verb("clear", about, "errors:clear", more=_narrowed())
    clear.add_argument("--yes", action="store_true", help="do not ask")


def _looking() -> Parser:
    """No defaults, or the later would undo the earlier."""
    made = Parser(
        add_help=False,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
        parents=[json_option(), _narrowed()],
    )
    made.add_argument("--all", action="store_true", help="each of them, not grouped")
    made.add_argument("--limit", type=count, metavar="N", help="at most so many (default: 100)")
    made.set_defaults(run="errors:list_errors")
    return made


def _narrowed() -> Parser:
    made = Parser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    made.add_argument("--session", metavar="S", help="only in this conversation")
    made.add_argument("--kind", metavar="K", help="only of this kind: turn, tool, judge, delivery, guard, server, …")
    made.add_argument("--since", metavar="D", help="only since then: 2026-11-02, 2026-11-02T15:30, today, 7d (UTC)")
    return made
