"""The tree's verb that judges answers offline."""

from __future__ import annotations

import argparse

from mainstay.cli.commands.verbs import Verbs, count

JOBS, JOBS_MAX = 4, 64


def add_eval(verbs: Verbs) -> None:
    about = "Run cases, or look at recorded sessions: check and judge the answers, and compare with how it was."
    run = verbs.verb("eval", about, "eval:evaluate")
    run.add_argument("file", nargs="?", metavar="FILE", help="a YAML file of cases")
    what = "instead: a recorded conversation, each turn of it a case; may be given again"
    run.add_argument("--session", metavar="S", action="append", default=[], help=what)
    run.add_argument("--sessions", action="store_true", help="instead: all that were recorded")
    which = run.add_mutually_exclusive_group()
    which.add_argument("--model", metavar="M", help='the model to ask, as "<provider>/<model>"')
    which.add_argument("--replay", action="store_true", help="ask none: run what was recorded again, and compare")
    which.add_argument("--script", metavar="FILE", help="ask none: take the answers from this YAML file")
    what = "a judge of the configuration to ask about every case; may be given again"
    run.add_argument("--judge", metavar="NAME", action="append", default=[], help=what)
    run.add_argument("--case", metavar="NAME", action="append", default=[], help="only this (a glob); again for more")
    run.add_argument("--tag", metavar="TAG", action="append", default=[], help="only with this tag; again for more")
    what = "how it was, to compare with (default: NAME.baseline.json beside FILE, if it is there)"
    run.add_argument("--baseline", metavar="FILE", help=what)
    run.add_argument("--save-baseline", action="store_true", help="keep how it is now, to compare with later")
    what = "how much lower a score may be without being worse (default: 0.05)"
    run.add_argument("--tolerance", type=_share, default=0.05, metavar="X", help=what)
    run.add_argument("--strict", action="store_true", help="fail for cases too that failed before")
    run.add_argument("--money", type=_dollars, metavar="DOLLARS", help="ask nothing more once so much is spent")
    run.add_argument("--jobs", type=_jobs, default=JOBS, metavar="N", help=f"cases side by side (default: {JOBS})")
    run.add_argument("--junit", metavar="FILE", help="write JUnit XML there too")
    run.add_argument("--out", metavar="FILE", help="write the JSON document there too")


def _share(text: str) -> float:
    return _number(text, 0, 1, "a number from 0 to 1")


def _dollars(text: str) -> float:
    return _number(text, 1e-9, 1e9, "an amount above 0")


def _number(text: str, least: float, most: float, what: str) -> float:
    try:
        given = float(text)
    except ValueError:
        given = least - 1
    if not least <= given <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return given


def _jobs(text: str) -> int:
    if (given := count(text)) > JOBS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is more than {JOBS_MAX}")
    return given
