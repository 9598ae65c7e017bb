"""Argument parsers of `mainstay audit`, `mainstay error` and `mainstay eval`."""

from __future__ import annotations

import argparse

from mainstay.cli.parser.base import CommandGroup, CommandParser, build_json_option, parse_count, parse_session_name

JOBS_DEFAULT, JOBS_MAX = 4, 64


def add_audit(commands: CommandGroup) -> None:
    about = "Show who did what, verify that the audit log was not changed, export it."
    commands.add_group("audit", about, _add_audit_commands)


def _add_audit_commands(audit: CommandGroup) -> None:
    show = audit.add_command("show", "List audit entries of all workspaces, or of --workspace.", "audit:show")
    show.add_argument("--session", type=parse_session_name, metavar="S", help="only of this session")
    show.add_argument("--person", metavar="NAME", help="only of this user")
    show.add_argument("--kind", metavar="K", help="only of this kind: input, turn, tool, policy, approval, key, …")
    show.add_argument(
        "--since", metavar="D", help="only from this date on: 2026-11-02, 2026-11-02T15:30, today, 7d (UTC)"
    )
    show.add_argument("--until", metavar="D", help="only up to this date")
    show.add_argument(
        "--limit", type=parse_count, metavar="N", default=100, help="only the newest N entries (default: 100)"
    )
    verify = audit.add_command(
        "verify", "Check every entry for changes and gaps, and print where they are.", "audit:verify"
    )
    verify.add_argument(
        "file", nargs="?", metavar="FILE", help="a file written by `audit export` (default: the home's log)"
    )
    verify.add_argument("--against", metavar="FILE", help="also compare the home's log with an earlier export of it")
    what = "acknowledge entry N, which reports that the audit log was changed; this is logged as well"
    verify.add_argument("--accept", type=parse_count, metavar="N", help=what)
    export = audit.add_command(
        "export", "Write the audit log to a file that can be verified.", "audit:export", has_json=False
    )
    export.add_argument("--format", choices=("jsonl", "csv"), default="jsonl", help="jsonl, csv (default: jsonl)")
    export.add_argument("--out", metavar="FILE", help="the file to write; it must not exist (default: stdout)")


def add_errors(commands: CommandGroup) -> None:
    about = "List errors of all workspaces or of --workspace, grouped, newest first."
    commands.add_group("error", about, _add_error_commands, _build_list_options())


def _add_error_commands(error: CommandGroup) -> None:
    error.add_command(
        "list",
        "The same as `mainstay error`.",
        "errors:list_errors",
        has_json=False,
        extra_options=_build_list_options(),
    )
    show = error.add_command("show", "Print an error with all its details and how to investigate it.", "errors:show")
    show.add_argument("id", metavar="ID|GROUP|TRACE", help="as printed by `mainstay error`, a failed turn or a reply")
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
    parser.add_argument("--session", type=parse_session_name, metavar="S", help="only of this session")
    parser.add_argument("--kind", metavar="K", help="only of this kind: turn, tool, judge, delivery, guard, server, …")
    what = "only from this date on: 2026-11-02, 2026-11-02T15:30, today, 7d (UTC)"
    parser.add_argument("--since", metavar="D", help=what)
    return parser


def add_eval(commands: CommandGroup) -> None:
    about = "Evaluate test cases or recorded sessions: check and judge the answers, compare with a baseline."
    run = commands.add_command("eval", about, "eval:evaluate")
    run.add_argument("file", nargs="?", metavar="FILE", help="a YAML file of cases")
    what = "instead of FILE: a recorded session, each turn of it a case; can be repeated"
    run.add_argument("--session", type=parse_session_name, metavar="S", action="append", default=[], help=what)
    run.add_argument("--sessions", action="store_true", help="instead of FILE: all recorded sessions")
    which = run.add_mutually_exclusive_group()
    which.add_argument("--model", metavar="M", help='the model to use, as "<provider>/<model>"')
    which.add_argument("--replay", action="store_true", help="use no model: replay the recorded sessions and compare")
    which.add_argument("--script", metavar="FILE", help="use no model: take the answers from this YAML file")
    what = "a configured judge to use for every case; can be repeated"
    run.add_argument("--judge", metavar="NAME", action="append", default=[], help=what)
    run.add_argument(
        "--case", metavar="NAME", action="append", default=[], help="only this case (a glob); can be repeated"
    )
    run.add_argument(
        "--tag", metavar="TAG", action="append", default=[], help="only cases with this tag; can be repeated"
    )
    what = "earlier results to compare with (default: NAME.baseline.json beside FILE, if it exists)"
    run.add_argument("--baseline", metavar="FILE", help=what)
    run.add_argument("--save-baseline", action="store_true", help="save the results as the new baseline")
    what = "how much a score may drop without counting as worse (default: 0.05)"
    run.add_argument("--tolerance", type=_parse_fraction, default=0.05, metavar="X", help=what)
    run.add_argument("--strict", action="store_true", help="also fail for cases that failed in the baseline")
    run.add_argument(
        "--money", type=_parse_dollars, metavar="DOLLARS", help="stop calling models once this much is spent"
    )
    run.add_argument(
        "--jobs",
        type=_parse_jobs,
        default=JOBS_DEFAULT,
        metavar="N",
        help=f"cases run in parallel (default: {JOBS_DEFAULT})",
    )
    run.add_argument("--junit", metavar="FILE", help="also write JUnit XML to this file")
    run.add_argument("--out", metavar="FILE", help="also write the JSON document to this file")


def _parse_fraction(text: str) -> float:
    return _parse_number(text, 0, 1, "a number from 0 to 1")


def _parse_dollars(text: str) -> float:
    return _parse_number(text, 1e-9, 1e9, "an amount above 0")


def _parse_number(text: str, minimum: float, maximum: float, description: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = minimum - 1
    if not minimum <= value <= maximum:
        raise argparse.ArgumentTypeError(f"{text!r} is not {description}")
    return value


def _parse_jobs(text: str) -> int:
    if (value := parse_count(text)) > JOBS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is more than {JOBS_MAX}")
    return value
