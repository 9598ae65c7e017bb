"""`mainstay session import|fork|archive|activate|pause|release|undo|delete`: through the home's owner, or as it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from mainstay.cli.commands.agent_setup import open_home_client
from mainstay.cli.commands.home_locator import (
    WorkspaceLocation,
    load_session_info,
    open_store_read_only,
    resolve_workspace,
    run_async,
)
from mainstay.cli.commands.output import print_json
from mainstay.cli.parser.root import UsageError
from mainstay.core.errors import InputRefused
from mainstay.core.events import MessageAdded
from mainstay.core.input_envelope import check_session_name
from mainstay.core.limits import Limits
from mainstay.core.messages import parts_text
from mainstay.core.outcome_text import format_count
from mainstay.core.ports import SessionInfo
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.io.session_import import read_messages

IMPORT_BYTES_MAX = 256 * 1024 * 1024
INCIDENT_KEY = "import_incident"  # key in a session's metadata: how the imported file was damaged


def import_file(options: argparse.Namespace) -> int:
    source: str = options.file
    name: str = options.session or ("imported" if source == "-" else Path(source).stem)
    check_session_name(name, Limits())
    events, incident = read_messages(_read_source(source), source)
    run_async(_import_messages(resolve_workspace(options), name, events, incident and f"{source}: {incident}"))
    if incident:
        print(f"mainstay: {escape_line(source)} is damaged: {incident}", file=sys.stderr)
    if options.json:
        extra = {"incident": incident} if incident else {}
        print_json({"ok": True, "session": name, "messages": len(events)} | extra)
    else:
        print(f"{format_count(len(events), 'message')} imported into {escape_line(name)}")
    return 0


def _read_source(source: str) -> bytes:
    if source == "-":
        raw = sys.stdin.buffer.read(IMPORT_BYTES_MAX + 1)
    else:
        with open(source, "rb") as file:
            raw = file.read(IMPORT_BYTES_MAX + 1)
    if len(raw) > IMPORT_BYTES_MAX:
        raise InputRefused(f"{source} is larger than {IMPORT_BYTES_MAX >> 20} MB")
    return raw


async def _import_messages(
    location: WorkspaceLocation, name: str, events: Sequence[MessageAdded], incident: str
) -> None:
    messages = [{"role": event.role, "content": parts_text(event.parts)} for event in events]
    async with open_home_client(location) as client:
        await client.import_history(name, messages, metadata={INCIDENT_KEY: incident} if incident else None)


def fork_session(options: argparse.Namespace) -> int:
    check_session_name(options.new, Limits())
    info = run_async(_fork(resolve_workspace(options), options.session, options.new, options.upto))
    if options.json:
        print_json({"ok": True, "session": info})
    else:
        size = format_count(info.head - 1, "record")
        print(f"{escape_line(options.new)} is a copy of {escape_line(options.session)}, {size}")
    return 0


async def _fork(location: WorkspaceLocation, source: str, target: str, upto: int | None) -> SessionInfo:
    async with open_home_client(location) as client:
        await _check_sessions_exist(location, [source])  # its error suggests a session with a similar name
        return await client.sessions.fork(source, target, upto=upto)


def archive(options: argparse.Namespace) -> int:
    names: list[str] = options.sessions
    run_async(_set_status(resolve_workspace(options), names, "archived"))
    return _print_done(options, names, "archived")


def activate(options: argparse.Namespace) -> int:
    names: list[str] = options.sessions
    run_async(_set_status(resolve_workspace(options), names, "active"))
    return _print_done(options, names, "active")


def pause(options: argparse.Namespace) -> int:
    names: list[str] = options.sessions
    run_async(_set_status(resolve_workspace(options), names, "paused"))
    return _print_done(options, names, "paused")


async def _set_status(
    location: WorkspaceLocation, names: Sequence[str], status: Literal["archived", "active", "paused"]
) -> None:
    """Change all sessions, or none if one does not exist."""
    await _check_sessions_exist(location, names)
    async with open_home_client(location) as client:
        sessions = client.sessions
        change = {"archived": sessions.archive, "active": sessions.activate, "paused": sessions.pause}[status]
        for name in names:
            await change(name)


def release(options: argparse.Namespace) -> int:
    run_async(_release(resolve_workspace(options), options.session, fail=options.fail))
    return _print_done(options, [options.session], "ended as failed" if options.fail else "released")


async def _release(location: WorkspaceLocation, name: str, *, fail: bool) -> None:
    await _check_sessions_exist(location, [name])
    async with open_home_client(location) as client:
        await client.sessions.release(name, fail=fail)


def undo(options: argparse.Namespace) -> int:
    return run_async(_undo(options, resolve_workspace(options)))


async def _undo(options: argparse.Namespace, location: WorkspaceLocation) -> int:
    from mainstay.agent.undo_dialog import format_preview, format_result, format_turns  # only needed here

    def show(data: dict[str, object], lines: list[str]) -> None:
        print_json({"ok": True} | data) if options.json else print("\n".join(map(escape_line, lines)))

    await _check_sessions_exist(location, [options.session])
    async with open_home_client(location) as client:
        if options.list:
            turns = await client.sessions.undoable_turns(options.session)
            show({"turns": turns}, format_turns(turns))
            return 0
        preview = await client.sessions.preview_undo(options.session, options.turn)
        if not options.yes:
            show({"preview": preview}, format_preview(preview))
            if options.json or not preview.can_restore or not _confirm_undo():
                return 0
        result = await client.sessions.undo(options.session, preview.turn)
        show({"result": result}, format_result(result))
        return 1 if result.refused else 0


def _confirm_undo() -> bool:
    if not sys.stdin.isatty():
        raise UsageError("add --yes to restore this")
    return input("Restore what was there before this turn? [y/N] ").strip().lower() in ("y", "yes")


def delete(options: argparse.Namespace) -> int:
    location = resolve_workspace(options)
    names: list[str] = options.sessions
    if not options.yes:
        run_async(_check_sessions_exist(location, names))
        if not _confirm_deletion(names):
            print("nothing was deleted")
            return 0
    run_async(_delete(location, names))
    return _print_done(options, names, "deleted")


async def _check_sessions_exist(location: WorkspaceLocation, names: Sequence[str]) -> None:
    """Raise SessionUnknown if one of the sessions does not exist."""
    async with open_store_read_only(location) as store:
        for name in names:
            await load_session_info(store, name)


async def _delete(location: WorkspaceLocation, names: Sequence[str]) -> None:
    await _check_sessions_exist(location, names)
    async with open_home_client(location) as client:
        for name in names:
            await client.sessions.delete(name)


def _confirm_deletion(names: Sequence[str]) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("deleting cannot be undone; add --yes to confirm")
    what = ", ".join(escape_line(name) for name in names)
    answer = input(f"Delete {what} with all messages? This cannot be undone. [y/N] ")
    return answer.strip().lower() in ("y", "yes")


def _print_done(options: argparse.Namespace, names: Sequence[str], status: str) -> int:
    if options.json:
        print_json({"ok": True, status: names})
    else:
        for name in names:
            print(f"{escape_line(name)} {status}")
    return 0
