"""`mainstay errors`: what went wrong, in a home and all its workspaces. It works beside whoever owns the home."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from mainstay.agent.error_listing import errors_at
from mainstay.cli.chat.safe import safe, visible
from mainstay.cli.chat.words import count
from mainstay.cli.commands.homes import home_of, kept_in, run_async
from mainstay.cli.commands.out import paint, print_json, print_table, when
from mainstay.cli.commands.tree import UsageError
from mainstay.core.error_list import KEPT_DAYS, KINDS, ErrorList, Kin, Mishap, Sought
from mainstay.core.errors import InputRefused
from mainstay.memory.times import moment

T = TypeVar("T")
SHOWN_MAX = 20  # of a group
LINE_CHARS = 100
_TRACE_DIGITS = 32


def list_errors(options: argparse.Namespace) -> int:
    sought, limit = _sought(options), int(getattr(options, "limit", 100))
    if getattr(options, "all", False):
        return _list_each(options, _asked(options, lambda errors: errors.find(sought, limit)) or [])
    groups = _asked(options, lambda errors: errors.groups(sought, limit)) or []
    if options.json:
        print_json({"ok": True, "groups": [_group(one) for one in groups]})
    elif not groups:
        print("No errors.")
    else:
        rows = [
            [one.id, str(one.count), when(one.first), when(one.last), one.newest.kind, _line(one.newest)]
            for one in groups
        ]
        print_table(["GROUP", "COUNT", "FIRST", "LAST", "KIND", "THE NEWEST"], rows, "b")
        _hint("`mainstay errors show GROUP` says more; `--all` lists each of them")
    return 0


def _list_each(options: argparse.Namespace, found: list[Mishap]) -> int:
    if options.json:
        print_json({"ok": True, "errors": [_document(one) for one in found]})
    elif not found:
        print("No errors.")
    else:
        rows = [[one.id, when(one.at), one.kind, one.session, str(one.turn or ""), _line(one)] for one in found]
        print_table(["ID", "AT", "KIND", "SESSION", "TURN", "WHAT"], rows, "e")
    return 0


def show(options: argparse.Namespace) -> int:
    found = _asked(options, lambda errors: _found(errors, options.id)) or []
    if not found:
        raise InputRefused(f"there is no error, group or trace {options.id[:80]!r}; `mainstay errors` lists them")
    if options.json:
        print_json({"ok": True, "errors": [_document(one) for one in found]})
        return 0
    first = found[0]
    for line in _told(first):
        print(line)
    if len(found) > 1:
        what = "of this turn" if options.id == first.trace else "like it"
        print(f"\n{count(len(found), 'error')} {what}; the newest:")
        rows = [[one.id, when(one.at), one.kind, one.session, str(one.turn or ""), one.trace] for one in found]
        print_table(["ID", "AT", "KIND", "SESSION", "TURN", "TRACE"], rows[:SHOWN_MAX], "e")
    return 0


async def _found(errors: ErrorList, given: str) -> list[Mishap]:
    """By its id, by what it is alike, or by the trace of a turn."""
    if (one := await errors.get(given)) is not None:
        return [one]
    if len(given) == _TRACE_DIGITS:
        return await errors.find(Sought(trace=given))
    return await errors.find(Sought(group=given), 1_000)


def clear(options: argparse.Namespace) -> int:
    sought = _sought(options)
    if not (options.yes or sys.stdin.isatty()):
        raise UsageError("what is cleared is gone from the list; add --yes to do it without being asked")
    if not options.yes and input("Clear these errors? [y/N] ").strip().lower() not in ("y", "yes"):
        return 0
    gone = _asked(options, lambda errors: errors.clear(sought)) or 0
    if options.json:
        print_json({"ok": True, "cleared": gone})
    else:
        print(f"{count(gone, 'error')} cleared.")
    return 0


# --- from the list -------------------------------------------------------------------------------


def _asked(options: argparse.Namespace, ask: Callable[[ErrorList], Awaitable[T]]) -> T | None:
    async def asked() -> T | None:
        async with errors_at(kept_in(home_of(options))) as errors:
            return await ask(errors) if errors is not None else None

    return run_async(asked())


def _sought(options: argparse.Namespace) -> Sought:
    given = vars(options)
    kind: str = given.get("kind") or ""
    if kind and kind not in KINDS:
        raise UsageError(f"{kind!r} is no kind of error; there are: {', '.join(KINDS)}")
    return Sought(
        workspace=options.workspace,
        session=given.get("session") or "",
        kind=kind,
        since=moment(given.get("since"), time.time_ns() // 1_000_000) or 0,
    )


# --- in words ------------------------------------------------------------------------------------


def _line(one: Mishap) -> str:
    sentence = f"{one.place}: {one.sentence}" if one.place and one.kind != "turn" else one.sentence
    return sentence if len(sentence) <= LINE_CHARS or not sys.stdout.isatty() else sentence[: LINE_CHARS - 1] + "…"


def _told(one: Mishap) -> list[str]:
    facts = [
        ("error", one.id),
        ("group", one.group),
        ("at", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.at / 1000))),
        ("kind", one.kind),
        ("in", one.place),
        ("workspace", one.workspace),
        ("session", one.session),
        ("turn", str(one.turn or "")),
        ("step", str(one.step or "")),
        ("call", one.call),
        ("record", str(one.record or "")),
        ("trace", one.trace),
    ]
    lines = [paint(visible(one.sentence), "bold"), ""]
    lines += [f"{name:<10} {visible(value)}" for name, value in facts if value]
    if one.details:
        lines += ["", *(f"    {line}" for line in safe(one.details).splitlines())]
    return [*lines, "", *further(one)]


def further(one: Mishap) -> list[str]:
    """How to look further."""
    if not one.session or not one.record:
        return ["Look further: the log of that time" + (f", for {one.trace}" if one.trace else "")]
    name = shlex.quote(one.session) + (f" --workspace {shlex.quote(one.workspace)}" if one.workspace else "")
    turn = f" --turn {one.turn}" if one.turn else ""
    return [
        f"Look further: mainstay session trace {visible(name)}{turn}",
        f"              mainstay session records {visible(name)}",
        f"              mainstay errors show {one.group}",
    ]


def _document(one: Mishap) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.structs.asdict(one)
    return fields | {"group": one.group}


def _group(one: Kin) -> dict[str, Any]:
    newest = one.newest
    return {
        "group": one.id,
        "count": one.count,
        "first": one.first,
        "last": one.last,
        "kind": newest.kind,
        "place": newest.place,
        "sentence": newest.sentence,
        "example": _document(newest),
    }


def _hint(sentence: str) -> None:
    if sys.stdout.isatty():
        print(paint(f"{sentence}. They are kept for {KEPT_DAYS} days.", "dim"))
