"""The reference page of the command, made from its tree: `python -m mainstay.cli.commands.reference`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from mainstay.cli.commands.tree import LATER, build

HEAD = """\
# The command

<!-- Made from the command itself by `python -m mainstay.cli.commands.reference`; do not edit. -->

`mainstay` is the command of Mainstay; `python -m mainstay` is the same. The plural of a noun is the same noun
(`mainstay sessions list`, `mainstay memories search …`).

Every command says what is wrong in one sentence on stderr. Exit codes: 0 all is well, 1 it failed, 2 the command
line makes no sense, 130 it was interrupted. `mainstay run` also ends with 3 (a bound was hit), 4 (somebody stopped
the turn) or 5 (it waits for an approval). With `--json` there is one JSON document on stdout, which has `"ok"`;
where that is false it has `"error": {"type", "message"}`, and the exit code is not 0.

Commands that only read (`session list`, `show`, `trace`, `export`, `replay`) work while another process owns the
home; the others, and `memory`, work through its socket, so a chat, a run and a search can share a home. If that is
`mainstay serve`, in any workspace; any other works in one, and a command that names another with `--workspace` is
refused meanwhile, unless it only reads.

What models and tools wrote is printed without terminal control sequences;
`--json` has it as it is, escaped. Colours are left out if `NO_COLOR` is set or the output is no terminal.
"""


def render() -> str:
    parser = build()
    parts = [HEAD, "## Options of every command\n", *_table(_own(parser)), ""]
    for path, verb in _leaves(parser):
        parts += [f"## {path}\n", f"{verb.description}\n", f"    {_usage(path, verb)}\n"]
        rows = list(_table(_own(verb)))
        parts += [*rows, ""] if rows else []
    parts += ["## Later releases\n", ", ".join(f"`{name}`" for name in LATER) + ": not available in this release.", ""]
    return "\n".join(parts)


def _leaves(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    nested = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not nested:
        yield parser.prog, parser
    for action in nested:
        seen: list[argparse.ArgumentParser] = []
        for child in action.choices.values():
            if child not in seen:  # a plural is the same parser again
                seen.append(child)
                yield from _leaves(child)


_SHARED = ("--help", "--home", "--workspace", "--log-level", "--version", "--json")


def _own(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What is worth a row: a verb's own arguments, and for the command itself what all verbs share."""
    actions = [one for one in parser._actions if not isinstance(one, argparse._SubParsersAction)]
    root = parser.prog == "mainstay"
    return [one for one in actions if root or not set(one.option_strings) & set(_SHARED)]


def _table(actions: list[argparse.Action]) -> Iterator[str]:
    if actions:
        yield "| | |"
        yield "|---|---|"
    for action in actions:
        yield f"| `{_name(action)}` | {(action.help or '').replace('|', chr(92) + '|')} |"


def _name(action: argparse.Action) -> str:
    value = f" {action.metavar}" if action.metavar else ""
    return ", ".join(action.option_strings) + value if action.option_strings else str(action.metavar)


def _usage(path: str, parser: argparse.ArgumentParser) -> str:
    words = [path]
    for action in _own(parser):
        name = f"{action.option_strings[-1]} {action.metavar or ''}".strip() if action.option_strings else _name(action)
        name += " …" if action.nargs in ("*", "+") else ""
        optional = bool(action.option_strings) or action.nargs in ("*", "?")
        words.append(f"[{name}]" if optional else name)
    return " ".join(words)


if __name__ == "__main__":
    print(render(), end="")
