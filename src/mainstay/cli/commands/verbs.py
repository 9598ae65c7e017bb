"""What the command's tree is built with: parsers that complain in a sentence, nouns, verbs, and kinds of values.

Nothing but argparse is loaded for it.
"""

from __future__ import annotations

import argparse
from functools import cache
from typing import Any, NoReturn

from mainstay import __version__

LATER = (
    "backup", "restore", "worker",
)  # fmt: skip
LEVELS = ("debug", "info", "warning", "error")


class UsageError(Exception):
    """The command line makes no sense; `str(error)` is one sentence that says why."""


class Parser(argparse.ArgumentParser):
    """Complains with an exception, in one sentence."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see `{self.prog} --help`)")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        from difflib import get_close_matches  # only for those who made a mistake

        plurals = {_plural(one) for one in action.choices}
        names = [one for one in action.choices if one not in plurals]
        if self.prog == "mainstay" and (value in LATER or value.removesuffix("s") in LATER):
            raise UsageError(f"`mainstay {value}` is not available in this release")
        near = get_close_matches(str(value), names, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(names)}"
        what = "a command" if isinstance(action, argparse._SubParsersAction) else "possible here"
        raise UsageError(f"{str(value)!r} is not {what} of `{self.prog}`; {hint}")


def _plural(noun: str) -> str:
    return noun[:-1] + "ies" if noun.endswith("y") else noun + "s"


class Verbs:
    """The verbs of one noun, as they are added."""

    def __init__(self, parser: Parser, *, required: bool) -> None:
        self._verbs = parser.add_subparsers(
            metavar="COMMAND", dest="verb", parser_class=Parser, title="commands", required=required
        )

    def noun(self, name: str, help: str, alone: Parser | None = None) -> Verbs:
        """A noun with verbs of its own; its plural is the same noun. `alone`: what it takes, and does, without one."""
        parents = [shared(), alone] if alone is not None else [shared()]
        made = self._verbs.add_parser(name, help=help, description=help, allow_abbrev=False, parents=parents)
        self._verbs.choices[_plural(name)] = made
        if alone is not None:
            made.set_defaults(run=alone.get_default("run"))
        return Verbs(made, required=alone is None)

    def verb(self, name: str, help: str, run: str, *, json: bool = True, more: Parser | None = None) -> Parser:
        parents = [shared(), *([json_option()] if json else []), *([more] if more is not None else [])]
        made: Parser = self._verbs.add_parser(name, help=help, description=help, allow_abbrev=False, parents=parents)
        made.set_defaults(run=run)
        return made


@cache
def shared() -> Parser:
    """What every verb takes, before or after its name: without defaults, or the later would undo the earlier."""
    shared = Parser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    shared.add_argument("--home", metavar="DIR", help="where everything is kept (default: $MAINSTAY_HOME, ~/.mainstay)")
    shared.add_argument("--workspace", metavar="W", help="whose conversations and memory (default: the configured one)")
    shared.add_argument("--log-level", choices=LEVELS, metavar="LEVEL", help=f"log to stderr: {', '.join(LEVELS)}")
    version = f"mainstay {__version__}"
    shared.add_argument("-V", "--version", action="version", version=version, help="print the version")
    return shared


@cache
def json_option() -> Parser:
    shared = Parser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    shared.add_argument("--json", action="store_true", help="print one JSON document")
    return shared


def count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def seconds(text: str) -> float:
    try:
        given = float(text)
    except ValueError:
        given = -1.0
    if not 0 <= given <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds up to 86400")
    return given


def port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number up to 65535")
    return int(text)
