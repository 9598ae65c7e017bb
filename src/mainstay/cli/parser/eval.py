"""Argument parser of `mainstay eval`."""

from __future__ import annotations

import argparse

from mainstay.cli.parser.base import CommandGroup, parse_count

JOBS_DEFAULT, JOBS_MAX = 4, 64


def add_eval(commands: CommandGroup) -> None:
    about = "Evaluate test cases or recorded sessions: check and judge the answers, compare with a baseline."
    run = commands.add_command("eval", about, "eval:evaluate")
    run.add_argument("file", nargs="?", metavar="FILE", help="a YAML file of cases")
    what = "instead of FILE: a recorded session, each turn of it a case; can be repeated"
    run.add_argument("--session", metavar="S", action="append", default=[], help=what)
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
