"""`mainstay session list|show|records|export|replay`: read-only, so they work while another process owns the home."""

from __future__ import annotations

import argparse
import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from mainstay.agent.client import AgentClient
from mainstay.agent.trust_setup import build_output_redactor
from mainstay.cli.commands.agent_setup import find_owner, load_config_or_default
from mainstay.cli.commands.home_locator import (
    WorkspaceLocation,
    load_session_info,
    load_session_records,
    open_store_read_only,
    resolve_workspace,
    run_async,
)
from mainstay.cli.commands.output import format_clock, format_time, print_json, print_table, style_text
from mainstay.cli.commands.session_settings import describe_session_budget
from mainstay.cli.commands.transcript_formatter import format_conversation, format_event_row
from mainstay.context.compiler import ContextView, newest_messages
from mainstay.core.errors import InputRefused
from mainstay.core.events import Judged
from mainstay.core.journal import Record, ReplayResult
from mainstay.core.messages import Message
from mainstay.core.outcome_text import format_count, format_dollars
from mainstay.core.ports import SessionInfo
from mainstay.guards.terminal_sanitizer import escape_line, sanitize_text
from mainstay.lane.replay import replay_journal
from mainstay.observe.session_export import ExportFile, ExportOptions, full_history, write_lines, write_session
from mainstay.operations.sessions import ReadSessionExport
from mainstay.store.home import is_home_locked
from mainstay.terminal.formatters import describe_waiting, format_number

NAME_CHARS_MAX = 60  # of a session in a list on a terminal


def list_sessions(options: argparse.Namespace) -> int:
    location = resolve_workspace(options)
    sessions = run_async(_load_sessions(location, int(options.limit)))
    if options.json:
        print_json({"ok": True, "sessions": sessions})
    elif not sessions:
        print(f"No sessions in {escape_line(str(location.home))} yet. `mainstay chat` starts one.")
    else:
        rows = [
            [
                _shorten_name(session.key) if sys.stdout.isatty() else session.key,
                format_time(session.updated),
                str(session.turns),
                str(session.messages),
                f"{format_number(session.prompt_tokens)} / {format_number(session.completion_tokens)}",
                format_dollars(session.cost),
                _format_status(session),
            ]
            for session in sessions
        ]
        print_table(["SESSION", "UPDATED", "TURNS", "MESSAGES", "TOKENS IN / OUT", "COST", "STATUS"], rows, "cdef")
    return 0


def _shorten_name(name: str) -> str:
    """Cut the middle out of a long name."""
    if len(name) <= NAME_CHARS_MAX:
        return name
    end = NAME_CHARS_MAX // 2
    return f"{name[: NAME_CHARS_MAX - end - 1]}…{name[-end:]}"


async def _load_sessions(location: WorkspaceLocation, limit: int) -> list[SessionInfo]:
    async with open_store_read_only(location) as store:
        sessions = await store.list_sessions(limit=limit)
        return [msgspec.structs.replace(session, workspace=location.workspace) for session in sessions]


def _format_status(info: SessionInfo) -> str:
    if info.set_aside:
        return f"{info.status}, set aside"
    if info.approval is not None:
        return f"{info.status}, {describe_waiting(info.approval)}"
    return f"{info.status}, unfinished" if info.unfinished else info.status


def show(options: argparse.Namespace) -> int:
    if options.context:
        return _show_context(options)
    info, records = run_async(_load_session(resolve_workspace(options), options.session))
    if options.json:
        messages = [_build_message_document(info.key, message) for message in full_history(records)]
        verdicts = [record.event for record in records if isinstance(record.event, Judged)]
        print_json({"ok": True, "session": info, "messages": messages, "verdicts": verdicts})
        return 0
    facts = [_format_status(info), format_count(info.turns, "turn"), format_count(info.messages, "message")]
    facts.append(f"{format_number(info.prompt_tokens)} tokens in, {format_number(info.completion_tokens)} out")
    facts += [format_dollars(info.cost)] if info.cost else []
    facts += [f"forked from {escape_line(info.parent)}"] if info.parent else []
    facts += [f"summarised {format_time(info.compacted)}"] if info.compacted else []
    facts += [f"model {escape_line(info.model)}"] if info.model else []
    facts += [f"budget {limits}"] if (limits := describe_session_budget(info.budget)) else []
    print(style_text(escape_line(info.key), "bold"), style_text(" · ".join(facts), "dim"))
    for line in format_conversation(records):
        print(line)
    return 0


def _show_context(options: argparse.Namespace) -> int:
    # loads providers, which the other commands here do not need
    from mainstay.cli.commands.agent_setup import load_agent_setup

    run_async(_check_nothing_unfinished(resolve_workspace(options), options.session))
    setup = load_agent_setup(options)

    async def compile_context() -> ContextView:
        async with setup.open_agent() as agent:
            context: ContextView = await agent.sessions.context(options.session)
            return context

    context = run_async(compile_context())
    if options.json:
        print_json({"ok": True, "context": context})
        return 0
    usage = f"{context.tokens:,} of {context.budget:,} tokens, window {context.window:,}"
    print(style_text(f"{escape_line(context.model)}: {usage}", "bold"))
    for section in context.sections:
        print(
            f"\n{style_text(section.name, 'bold', 'cyan')} {style_text(format_count(section.tokens, 'token'), 'dim')}"
        )
        for line in sanitize_text(section.text).splitlines():
            print(f"  {line}".rstrip())
    return 0


async def _check_nothing_unfinished(location: WorkspaceLocation, session: str) -> None:
    """Raise InputRefused if opening the home would resume unfinished turns, which showing a context must not do."""
    async with open_store_read_only(location) as store:
        await load_session_info(store, session)
        if not is_home_locked(location.data) and (unfinished := await store.list_unfinished()):
            names = ", ".join(unfinished[:3])
            raise InputRefused(f"a turn is unfinished ({names}); continue it in a chat, where /context shows the same")


def print_records(options: argparse.Namespace) -> int:
    info, records = run_async(_load_session(resolve_workspace(options), options.session))
    if options.json:
        print_json({"ok": True, "session": info, "records": [_build_record_document(record) for record in records]})
        return 0
    rows, previous_at = [], records[0].at if records else 0
    for record in records:
        turn, step, what, spent = format_event_row(record.event)
        kind = type(record.event).__name__
        rows.append(
            [str(record.seq), format_clock(record.at), str(record.at - previous_at), turn, step, kind, spent, what]
        )
        previous_at = record.at
    print_table(["SEQ", "TIME", "+MS", "TURN", "STEP", "KIND", "TOKENS", "WHAT"], rows, "acdeg")
    return 0


def _build_record_document(record: Record) -> dict[str, Any]:
    event: dict[str, Any] = msgspec.to_builtins(record.event)
    return {"seq": record.seq, "at": record.at, "kind": event.pop("type"), **event}


async def _load_session(location: WorkspaceLocation, session: str) -> tuple[SessionInfo, list[Record]]:
    async with open_store_read_only(location) as store:
        info, records = await load_session_records(store, session)
        return msgspec.structs.replace(info, workspace=location.workspace), records


def _build_message_document(session: str, message: Message) -> dict[str, Any]:
    document = {
        "id": message.id,
        "session": session,
        "at": message.at,
        "role": message.role,
        "parts": message.parts,
    }
    return {**document, "model": message.model} if message.model else document


def export(options: argparse.Namespace) -> int:
    location = resolve_workspace(options)
    folder = Path(options.to) if options.to is not None else Path(_build_folder_name(options.session))
    _, records = run_async(_load_session(location, options.session))
    if folder.exists() and not folder.is_dir():
        raise InputRefused(f"{folder} is not a folder; choose another with --to")
    if (owner := find_owner(location)) is not None:
        folder.mkdir(parents=True, exist_ok=True)
        files: tuple[ExportFile, ...] = ("log", "context")
        paths = [
            write_lines(folder / f"{file}.jsonl", run_async(_read_export(owner, options.session, file)))
            for file in files
        ]
    else:
        config = load_config_or_default(location.home)
        redactor, window = build_output_redactor(config, os.environ), config.sessions.memory.active_window
        exported = ExportOptions(
            options.session, lambda text: redactor.redact(text)[0], partial(newest_messages, count=window)
        )
        paths = write_session(records, folder, exported)
    if options.json:
        print_json({"ok": True, "files": [str(path) for path in paths]})
    else:
        for path in paths:
            print(escape_line(str(path)))
    return 0


async def _read_export(owner: AgentClient, session: str, file: ExportFile) -> list[bytes]:
    """Return the lines of the process that owns the home: it also redacts secrets that only that process knows."""
    lines: list[bytes] = []
    after: int | None = 0
    while after is not None:
        page = await owner.execute(ReadSessionExport(session=session, file=file, after=after))
        lines += (line.encode() for line in page.lines)
        after = page.next
    return lines


def _build_folder_name(session: str) -> str:
    """Return a folder name for the current folder, without path separators or a leading dot."""
    return re.sub(r"[^\w.-]+", "-", session).strip(".-") or "session"


def replay_session(options: argparse.Namespace) -> int:
    result = run_async(_replay(resolve_workspace(options), options.session))
    if options.json:
        print_json(_build_replay_document(result))
    elif result.is_identical:
        print(f"identical: {format_count(result.records, 'record')}, {format_count(result.turns, 'turn')}")
    else:
        print(f"different at record {result.records}: {escape_line(result.difference)}")
    return 0 if result.is_identical else 1


def _build_replay_document(result: ReplayResult) -> dict[str, Any]:
    document: dict[str, Any] = {"ok": result.is_identical, "records": result.records, "turns": result.turns}
    return document if result.is_identical else document | {"error": {"type": "Differs", "message": result.difference}}


async def _replay(location: WorkspaceLocation, session: str) -> ReplayResult:
    async with open_store_read_only(location) as store:
        _, records = await load_session_records(store, session)
    return await replay_journal(records)
