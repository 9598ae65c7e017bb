"""`mainstay session list|show|records|export|replay`: they only read, and work while another process owns the home."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import Any

import msgspec

from mainstay.cli.chat.safe import safe, visible
from mainstay.cli.chat.words import count, dollars, short, waits
from mainstay.cli.commands.conversation import conversation, trace_row
from mainstay.cli.commands.homes import Place, home_of, place_of, reading, records_of, run_async, standing_of
from mainstay.cli.commands.out import clock, paint, print_json, print_table, when
from mainstay.config.loading import load_config
from mainstay.config.schema import secrets_in
from mainstay.context.compile import Shown
from mainstay.core.errors import InputRefused
from mainstay.core.events import Judged
from mainstay.core.journal import Record
from mainstay.core.limits import Limits
from mainstay.core.messages import Message
from mainstay.core.ports import Standing
from mainstay.lane.replay import Replayed, replay
from mainstay.observe.export import history, write_session
from mainstay.store.home import is_owned
from mainstay.trust.guards.redact import Redactor

NAME_CHARS_MAX = 60  # of a session's, in a list on a terminal


def list_sessions(options: argparse.Namespace) -> int:
    place = place_of(options)
    found = run_async(_sessions(place, int(options.limit)))
    if options.json:
        print_json({"ok": True, "sessions": found})
    elif not found:
        print(f"No sessions in {visible(str(place.home))} yet. `mainstay chat` starts one.")
    else:
        rows = [
            [
                _shortened(one.key) if sys.stdout.isatty() else one.key,
                when(one.updated),
                str(one.turns),
                str(one.messages),
                f"{short(one.prompt_tokens)} / {short(one.completion_tokens)}",
                dollars(one.cost),
                _status(one),
            ]
            for one in found
        ]
        print_table(["SESSION", "UPDATED", "TURNS", "MESSAGES", "TOKENS IN / OUT", "COST", "STATUS"], rows, "cdef")
    return 0


def _shortened(name: str) -> str:
    """For the eye: both ends of a name tell more than its middle."""
    if len(name) <= NAME_CHARS_MAX:
        return name
    end = NAME_CHARS_MAX // 2
    return f"{name[: NAME_CHARS_MAX - end - 1]}…{name[-end:]}"


async def _sessions(place: Place, limit: int) -> list[Standing]:
    async with reading(place) as store:
        return [msgspec.structs.replace(one, workspace=place.workspace) for one in await store.sessions(limit=limit)]


def _status(standing: Standing) -> str:
    if standing.approval is not None:
        return f"{standing.status}, {waits(standing.approval)}"
    return f"{standing.status}, unfinished" if standing.unfinished else standing.status


def show(options: argparse.Namespace) -> int:
    if options.context:
        return _show_context(options)
    standing, records = run_async(_whole(place_of(options), options.session))
    if options.json:
        messages = [_message(standing.key, one) for one in history(records)]
        verdicts = [one.event for one in records if isinstance(one.event, Judged)]
        print_json({"ok": True, "session": standing, "messages": messages, "verdicts": verdicts})
        return 0
    facts = [_status(standing), count(standing.turns, "turn"), count(standing.messages, "message")]
    facts.append(f"{short(standing.prompt_tokens)} tokens in, {short(standing.completion_tokens)} out")
    facts += [dollars(standing.cost)] if standing.cost else []
    facts += [f"forked from {visible(standing.parent)}"] if standing.parent else []
    print(paint(visible(standing.key), "bold"), paint(" · ".join(facts), "dim"))
    for line in conversation(records):
        print(line)
    return 0


def _show_context(options: argparse.Namespace) -> int:
    from mainstay.cli.commands.talking import setting  # models and their wire: nothing else here needs them

    run_async(_at_rest(place_of(options), options.session))
    where = setting(options)

    async def ask() -> Shown:
        async with where.agent() as agent:
            shown: Shown = await agent.sessions.context(options.session)
            return shown

    shown = run_async(ask())
    if options.json:
        print_json({"ok": True, "context": shown})
        return 0
    room = f"{shown.tokens:,} of {shown.budget:,} tokens, window {shown.window:,}"
    print(paint(f"{visible(shown.model)}: {room}", "bold"))
    for section in shown.sections:
        print(f"\n{paint(section.name, 'bold', 'cyan')} {paint(count(section.tokens, 'token'), 'dim')}")
        for line in safe(section.text).splitlines():
            print(f"  {line}".rstrip())
    return 0


async def _at_rest(place: Place, session: str) -> None:
    """Whoever opens a home takes up what is unfinished in it; looking at something must not."""
    async with reading(place) as store:
        await standing_of(store, session)
        if not is_owned(place.data) and (waiting := await store.unfinished()):
            names = ", ".join(waiting[:3])
            raise InputRefused(f"a turn is unfinished ({names}); go on with it in a chat: /context shows the same")


def print_records(options: argparse.Namespace) -> int:
    standing, records = run_async(_whole(place_of(options), options.session))
    if options.json:
        print_json({"ok": True, "session": standing, "records": [_record(one) for one in records]})
        return 0
    rows, before = [], records[0].at if records else 0
    for record in records:
        turn, step, what, spent = trace_row(record.event)
        kind = type(record.event).__name__
        rows.append([str(record.seq), clock(record.at), str(record.at - before), turn, step, kind, spent, what])
        before = record.at
    print_table(["SEQ", "TIME", "+MS", "TURN", "STEP", "KIND", "TOKENS", "WHAT"], rows, "acdeg")
    return 0


def _record(record: Record) -> dict[str, Any]:
    event: dict[str, Any] = msgspec.to_builtins(record.event)
    return {"seq": record.seq, "at": record.at, "kind": event.pop("type"), **event}


async def _whole(place: Place, session: str) -> tuple[Standing, list[Record]]:
    async with reading(place) as store:
        standing, records = await records_of(store, session)
        return msgspec.structs.replace(standing, workspace=place.workspace), records


def _message(session: str, said: Message) -> dict[str, Any]:
    made = {"id": said.id, "session": session, "at": said.at, "role": said.role, "parts": said.parts}
    return {**made, "model": said.model} if said.model else made


def export(options: argparse.Namespace) -> int:
    given: str | None = options.to
    _, records = run_async(_whole(place_of(options), options.session))
    folder = Path(given) if given is not None else Path(_file_name(options.session))
    if folder.exists() and not folder.is_dir():
        raise InputRefused(f"{folder} is not a folder; choose another with --to")
    redactor = Redactor(secrets_in(os.environ))
    paths = [str(path) for path in write_session(records, folder, lambda text: redactor.whole(text)[0])]
    if options.json:
        print_json({"ok": True, "files": paths})
    else:
        for path in paths:
            print(visible(path))
    return 0


def _file_name(session: str) -> str:
    """A folder here, whatever the session is called."""
    return re.sub(r"[^\w.-]+", "-", session).strip(".-") or "session"


def replay_session(options: argparse.Namespace) -> int:
    limits = load_config(home_of(options), env=os.environ).config.limits
    result = run_async(_replay(place_of(options), options.session, limits))
    if options.json:
        print_json(_replayed(result))
    elif result.identical:
        print(f"identical: {count(result.records, 'record')}, {count(result.turns, 'turn')}")
    else:
        print(f"different at record {result.records}: {visible(result.difference)}")
    return 0 if result.identical else 1


def _replayed(result: Replayed) -> dict[str, Any]:
    made: dict[str, Any] = {"ok": result.identical, "records": result.records, "turns": result.turns}
    return made if result.identical else made | {"error": {"type": "Differs", "message": result.difference}}


async def _replay(place: Place, session: str, limits: Limits) -> Replayed:
    async with reading(place) as store:
        _, records = await records_of(store, session)
    return await replay(records, limits)
