"""Base of the `mainstay` argument parser: parser and command group classes, shared options, argument types.

Imports only argparse, so that `--help` stays fast.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from mainstay import __version__

if TYPE_CHECKING:
    from mainstay.core.components import ComponentKind

PLANNED_COMMANDS = ("worker",)
LOG_LEVELS = ("debug", "info", "warning", "error")


class UsageError(Exception):
    """The command line is not valid; `str(error)` is one sentence that says why."""


class CommandParser(argparse.ArgumentParser):
    """Argument parser that raises UsageError instead of printing the usage and exiting."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see `{self.prog} --help`)")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        from difflib import get_close_matches  # only needed after a mistake

        plurals = {_pluralise(name) for name in action.choices}
        names = [name for name in action.choices if name not in plurals]
        if self.prog == "mainstay" and (value in PLANNED_COMMANDS or value.removesuffix("s") in PLANNED_COMMANDS):
            raise UsageError(f"`mainstay {value}` is not available in this release")
        near = get_close_matches(str(value), names, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"choose from: {', '.join(names)}"
        what = "a command" if isinstance(action, argparse._SubParsersAction) else "a valid value"
        raise UsageError(f"{str(value)!r} is not {what} of `{self.prog}`; {hint}")


def _pluralise(noun: str) -> str:
    return noun[:-1] + "ies" if noun.endswith("y") else noun + "s"


class ComponentChoices:
    """Names of the components of a kind, for `choices=`. They are read when a value is checked or help is printed, in
    which `%(choices)s` stands for them."""

    def __init__(self, kind: ComponentKind) -> None:
        self._kind = kind

    def __iter__(self) -> Iterator[str]:
        from mainstay.core.components import component_names  # only needed by the command that has this argument

        return iter(component_names(self._kind))

    def __contains__(self, name: object) -> bool:
        return name in list(self)


class CommandGroup:
    """A group of subcommands, such as those of `mainstay session`, or the top level itself."""

    def __init__(self, parser: CommandParser, *, required: bool, words: Collection[str] | None = None) -> None:
        """`words` is the command line, if commands of groups that it does not name are not needed. None: add all."""
        self._words = words
        self._subparsers = parser.add_subparsers(
            metavar="COMMAND", dest="verb", parser_class=CommandParser, title="commands", required=required
        )

    def add_group(
        self,
        name: str,
        help: str,
        add_commands: Callable[[CommandGroup], None],
        default_command: CommandParser | None = None,
    ) -> None:
        """Add a nested group, and its commands with `add_commands`; its plural is an alias. `default_command` is what
        runs without a subcommand."""
        if self._words is not None and name not in self._words and _pluralise(name) not in self._words:
            unused = self._subparsers.add_parser(name, help=help, add_help=False)
            self._subparsers.choices[_pluralise(name)] = unused
            return
        parents = [build_shared_options(), default_command] if default_command is not None else [build_shared_options()]
        parser = self._subparsers.add_parser(name, help=help, description=help, allow_abbrev=False, parents=parents)
        self._subparsers.choices[_pluralise(name)] = parser
        if default_command is not None:
            parser.set_defaults(run=default_command.get_default("run"))
        add_commands(CommandGroup(parser, required=default_command is None))

    def add_command(
        self, name: str, help: str, handler: str, *, has_json: bool = True, extra_options: CommandParser | None = None
    ) -> CommandParser:
        """Add a command. `run` names its handler as "module:function" in `mainstay.cli.commands`."""
        parents = [
            build_shared_options(),
            *([build_json_option()] if has_json else []),
            *([extra_options] if extra_options is not None else []),
        ]
        parser: CommandParser = self._subparsers.add_parser(
            name, help=help, description=help, allow_abbrev=False, parents=parents
        )
        parser.set_defaults(run=handler)
        return parser


@cache
def build_shared_options() -> CommandParser:
    """Return the options of every command, accepted before and after its name.

    They have no defaults: the subcommand's default would overwrite a value given before it.
    """
    parser = CommandParser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    parser.add_argument("--home", metavar="DIR", help="folder with all data (default: $MAINSTAY_HOME, ~/.mainstay)")
    parser.add_argument("--workspace", metavar="W", help="workspace to work in (default: the configured one)")
    parser.add_argument(
        "--log-level", choices=LOG_LEVELS, metavar="LEVEL", help=f"log to stderr: {', '.join(LOG_LEVELS)}"
    )
    version = f"mainstay {__version__}"
    parser.add_argument("-V", "--version", action="version", version=version, help="print the version")
    return parser


@cache
def build_json_option() -> CommandParser:
    parser = CommandParser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def parse_count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def parse_dollars(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.000001 <= value <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount in dollars, from 0.000001 on")
    return value


def parse_session_name(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("a session's name must not be empty")
    return text


def parse_seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to 86400")
    return value


def parse_port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port number from 0 to 65535")
    return int(text)
