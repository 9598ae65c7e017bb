"""The tree's noun of what is on record."""

from __future__ import annotations

from mainstay.cli.commands.verbs import Verbs, count


def add_audit(verbs: Verbs) -> None:
    about = "See who did what, check that nobody changed the record of it, take it elsewhere."
    noun = verbs.noun("audit", about)
    show = noun.verb("show", "List what is on record, of all workspaces or of --workspace.", "audit:show")
    show.add_argument("--session", metavar="S", help="only of this conversation")
    show.add_argument("--person", metavar="NAME", help="only of this person")
    show.add_argument("--kind", metavar="K", help="only of this kind: input, turn, tool, policy, approval, key, …")
    show.add_argument("--since", metavar="D", help="only since then: 2026-11-02, 2026-11-02T15:30, today, 7d (UTC)")
    show.add_argument("--until", metavar="D", help="only until then")
    show.add_argument("--limit", type=count, metavar="N", default=100, help="the newest so many (default: 100)")
    verify = noun.verb("verify", "Check every entry: what was changed or is missing, and where.", "audit:verify")
    verify.add_argument("file", nargs="?", metavar="FILE", help="one that `audit export` wrote (default: the home's)")
    verify.add_argument("--against", metavar="FILE", help="compare the home's with an earlier export of it, too")
    told = "put on record that you know of this entry, which says that the audit was not as it was left"
    verify.add_argument("--accept", type=count, metavar="N", help=told)
    export = noun.verb("export", "Write all of it into a file that can be verified.", "audit:export", json=False)
    export.add_argument("--format", choices=("jsonl", "csv"), default="jsonl", help="jsonl, csv (default: jsonl)")
    export.add_argument("--out", metavar="FILE", help="where to; it must not be there yet (default: stdout)")
