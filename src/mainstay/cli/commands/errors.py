"""`mainstay error list|show|clear`: the recorded errors of a home and all its workspaces.

Works while another process owns the home.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import msgspec

from mainstay.agent.home_error_reports import open_error_store
from mainstay.cli.commands.agent_setup import find_owner
from mainstay.cli.commands.home_locator import locate_data_folder, locate_workspace, resolve_home, run_async
from mainstay.cli.commands.output import format_time, print_json, print_table, style_text
from mainstay.cli.parser.root import UsageError
from mainstay.core.error_reports import (
    ERROR_KINDS,
    RETENTION_DAYS,
    ErrorGroup,
    ErrorKind,
    ErrorQuery,
    ErrorReport,
    ErrorStore,
)
from mainstay.core.errors import InputRefused
from mainstay.core.outcome_text import format_count
from mainstay.guards.terminal_sanitizer import escape_line, sanitize_text
from mainstay.memory.time_expressions import parse_time
from mainstay.operations.errors_and_audit import ClearErrors

T = TypeVar("T")
GROUP_ERRORS_MAX = 20  # errors of a group
LINE_CHARS_MAX = 100
_TRACE_DIGITS = 32


def list_errors(options: argparse.Namespace) -> int:
    query, limit = _build_query(options), int(getattr(options, "limit", 100))
    if getattr(options, "all", False):
        return _print_errors(options, _query_errors(options, lambda errors: errors.find_reports(query, limit)) or [])
    groups = _query_errors(options, lambda errors: errors.find_groups(query, limit)) or []
    if options.json:
        print_json({"ok": True, "groups": [_group_to_document(group) for group in groups]})
    elif not groups:
        print("No errors.")
    else:
        rows = [
            [
                group.id,
                str(group.count),
                format_time(group.first),
                format_time(group.last),
                group.newest.kind,
                _format_line(group.newest),
            ]
            for group in groups
        ]
        print_table(["GROUP", "COUNT", "FIRST", "LAST", "KIND", "NEWEST"], rows, "b")
        _print_hint("`mainstay error show GROUP` shows details; `--all` lists every error")
    return 0


def _print_errors(options: argparse.Namespace, errors: list[ErrorReport]) -> int:
    if options.json:
        print_json({"ok": True, "errors": [_to_document(error) for error in errors]})
    elif not errors:
        print("No errors.")
    else:
        rows = [
            [error.id, format_time(error.at), error.kind, error.session, str(error.turn or ""), _format_line(error)]
            for error in errors
        ]
        print_table(["ID", "AT", "KIND", "SESSION", "TURN", "WHAT"], rows, "e")
    return 0


def show(options: argparse.Namespace) -> int:
    matches = _query_errors(options, lambda errors: _find_errors(errors, options.id)) or []
    if not matches:
        raise InputRefused(f"there is no error, group or trace {options.id[:80]!r}; `mainstay error` lists them")
    if options.json:
        print_json({"ok": True, "errors": [_to_document(error) for error in matches]})
        return 0
    first = matches[0]
    for line in _format_details(first):
        print(line)
    if len(matches) > 1:
        what = "in this turn" if options.id == first.trace else "in this group"
        print(f"\n{format_count(len(matches), 'error')} {what}; the newest:")
        rows = [
            [error.id, format_time(error.at), error.kind, error.session, str(error.turn or ""), error.trace]
            for error in matches
        ]
        print_table(["ID", "AT", "KIND", "SESSION", "TURN", "TRACE"], rows[:GROUP_ERRORS_MAX], "e")
    return 0


async def _find_errors(errors: ErrorStore, id: str) -> list[ErrorReport]:
    """Return the errors with this id, group or trace."""
    if (error := await errors.get_report(id)) is not None:
        return [error]
    if len(id) == _TRACE_DIGITS:
        return await errors.find_reports(ErrorQuery(trace=id))
    return await errors.find_reports(ErrorQuery(group=id), 1_000)


def clear(options: argparse.Namespace) -> int:
    query = _build_query(options)
    if not (options.yes or sys.stdin.isatty()):
        raise UsageError("clearing removes errors from the list for good; add --yes to confirm")
    if not options.yes and input("Clear these errors? [y/N] ").strip().lower() not in ("y", "yes"):
        return 0
    if (owner := find_owner(locate_workspace(resolve_home(options)))) is not None:
        kind = cast(ErrorKind, query.kind) if query.kind else None
        request = ClearErrors(workspace=query.workspace, session=query.session, kind=kind, since=query.since)
        cleared = run_async(owner.execute(request)).cleared
    else:
        cleared = _query_errors(options, lambda errors: errors.delete_reports(query)) or 0
    if options.json:
        print_json({"ok": True, "cleared": cleared})
    else:
        print(f"{format_count(cleared, 'error')} cleared.")
    return 0


# --- querying the list ---------------------------------------------------------------------------


def _query_errors(options: argparse.Namespace, query: Callable[[ErrorStore], Awaitable[T]]) -> T | None:
    async def asked() -> T | None:
        async with open_error_store(locate_data_folder(resolve_home(options))) as errors:
            return await query(errors) if errors is not None else None

    return run_async(asked())


def _build_query(options: argparse.Namespace) -> ErrorQuery:
    arguments = vars(options)  # not every verb has all of them
    kind: str = arguments.get("kind") or ""
    if kind and kind not in ERROR_KINDS:
        raise UsageError(f"{kind!r} is not a kind of error; kinds: {', '.join(ERROR_KINDS)}")
    return ErrorQuery(
        workspace=options.workspace,
        session=arguments.get("session") or "",
        kind=kind,
        since=parse_time(arguments.get("since"), time.time_ns() // 1_000_000) or 0,
    )


# --- output --------------------------------------------------------------------------------------


def _format_line(error: ErrorReport) -> str:
    sentence = f"{error.place}: {error.sentence}" if error.place and error.kind != "turn" else error.sentence
    return (
        sentence if len(sentence) <= LINE_CHARS_MAX or not sys.stdout.isatty() else sentence[: LINE_CHARS_MAX - 1] + "…"
    )


def _format_details(error: ErrorReport) -> list[str]:
    facts = [
        ("error", error.id),
        ("group", error.group_id),
        ("at", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(error.at / 1000))),
        ("kind", error.kind),
        ("in", error.place),
        ("workspace", error.workspace),
        ("session", error.session),
        ("turn", str(error.turn or "")),
        ("step", str(error.step or "")),
        ("call", error.call),
        ("record", str(error.record or "")),
        ("trace", error.trace),
    ]
    lines = [style_text(escape_line(error.sentence), "bold"), ""]
    lines += [f"{name:<10} {escape_line(value)}" for name, value in facts if value]
    if error.details:
        lines += ["", *(f"    {line}" for line in sanitize_text(error.details).splitlines())]
    return [*lines, "", *format_see_also(error)]


def format_see_also(error: ErrorReport) -> list[str]:
    """Return the commands that show more about the error."""
    if not error.session or not error.record:
        return ["See also: the log of that time" + (f", for {error.trace}" if error.trace else "")]
    name = shlex.quote(error.session) + (f" --workspace {shlex.quote(error.workspace)}" if error.workspace else "")
    turn = f" --turn {error.turn}" if error.turn else ""
    return [
        f"See also: mainstay session trace {escape_line(name)}{turn}",
        f"          mainstay session records {escape_line(name)}",
        f"          mainstay error show {error.group_id}",
    ]


def _to_document(error: ErrorReport) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.structs.asdict(error)
    return fields | {"group": error.group_id}


def _group_to_document(group: ErrorGroup) -> dict[str, Any]:
    newest = group.newest
    return {
        "group": group.id,
        "count": group.count,
        "first": group.first,
        "last": group.last,
        "kind": newest.kind,
        "place": newest.place,
        "sentence": newest.sentence,
        "example": _to_document(newest),
    }


def _print_hint(sentence: str) -> None:
    if sys.stdout.isatty():
        print(style_text(f"{sentence}. Errors are kept for {RETENTION_DAYS} days.", "dim"))
