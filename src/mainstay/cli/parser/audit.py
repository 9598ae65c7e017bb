"""Argument parser of `mainstay audit`."""

from __future__ import annotations

from mainstay.cli.parser.base import CommandGroup, parse_count


def add_audit(commands: CommandGroup) -> None:
    about = "Show who did what, verify that the audit log was not changed, export it."
    audit = commands.add_group("audit", about)
    show = audit.add_command("show", "List audit entries of all workspaces, or of --workspace.", "audit:show")
    show.add_argument("--session", metavar="S", help="only of this session")
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
