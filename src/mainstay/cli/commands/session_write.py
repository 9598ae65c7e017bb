"""`mainstay session import|fork|archive|activate|delete`: through the home's owner, or owning it while they write."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from mainstay.agent.observing import observed
from mainstay.agent.sessions import children_of, fork
from mainstay.agent.world import SystemClock
from mainstay.cli.chat.safe import visible
from mainstay.cli.chat.words import count
from mainstay.cli.commands.homes import Place, change, place_of, reading, run_async, standing_of, writing
from mainstay.cli.commands.out import print_json
from mainstay.cli.commands.talking import owner_of
from mainstay.cli.commands.tree import UsageError
from mainstay.config.loading import load_config
from mainstay.core.envelope import IMPORTED, check_session_name
from mainstay.core.errors import InputRefused, SessionArchived
from mainstay.core.events import MessageAdded, SessionChanged
from mainstay.core.limits import Limits
from mainstay.core.messages import Text, text_of
from mainstay.io.jsonl import JsonlBroken, read_lines

IMPORT_BYTES_MAX = 256 * 1024 * 1024
INCIDENT = "import_incident"  # in a session's metadata: what was damaged in the file it was brought from
_AT_ONCE = 5000


def import_file(options: argparse.Namespace) -> int:
    source: str = options.file
    name: str = options.session or ("imported" if source == "-" else Path(source).stem)
    check_session_name(name, Limits())
    events, incident = read_messages(_read(source), source)
    run_async(_import(place_of(options), name, events, incident and f"{source}: {incident}"))
    if incident:
        print(f"mainstay: {visible(source)} is damaged: {incident}", file=sys.stderr)
    if options.json:
        found = {"incident": incident} if incident else {}
        print_json({"ok": True, "session": name, "messages": len(events)} | found)
    else:
        print(f"{count(len(events), 'message')} imported into {visible(name)}")
    return 0


def _read(source: str) -> bytes:
    if source == "-":
        raw = sys.stdin.buffer.read(IMPORT_BYTES_MAX + 1)
    else:
        with open(source, "rb") as file:
            raw = file.read(IMPORT_BYTES_MAX + 1)
    if len(raw) > IMPORT_BYTES_MAX:
        raise InputRefused(f"{source} is over {IMPORT_BYTES_MAX >> 20} MB")
    return raw


def read_messages(raw: bytes, source: str) -> tuple[list[MessageAdded], str]:
    """A JSON list (or {"messages": list}), or one JSON object a line; also the log.jsonl that `export` writes.

    With them, what was left out because the file is damaged at its end; empty: nothing was.
    """
    incident = ""
    try:
        whole = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        try:
            lines = read_lines(raw)
        except JsonlBroken as broken:
            raise InputRefused(f"{source} {broken}") from None
        whole, incident = lines.objects, lines.incident
    match whole:
        case {"messages": list(found)} | list(found):
            pass
        case dict():
            found = [whole]
        case _:
            raise InputRefused(f"{source} holds no list of messages")
    if not found:
        raise InputRefused(f"{source} holds no messages" + (f": {incident}" if incident else ""))
    return [_message(one, n, source) for n, one in enumerate(found, start=1)], incident


def _message(given: Any, number: int, source: str) -> MessageAdded:
    match given:
        case {"role": "user" | "assistant" as role, "content": str(text)}:
            return MessageAdded(role, (Text(text, origin=IMPORTED[role]),))
        case {"role": "user" | "assistant" as role, "content": list(parts)}:
            texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
            return MessageAdded(role, (Text("\n".join(texts), origin=IMPORTED[role]),))
        case {"isBot": bool(is_bot), "text": str(text)}:
            speaker: Literal["assistant", "user"] = "assistant" if is_bot else "user"
            return MessageAdded(speaker, (Text(text, origin=IMPORTED[speaker]),))
    wanted = '{"role": "user" or "assistant", "content": text}'
    raise InputRefused(f"message {number} of {source} is not {wanted}")


async def _import(place: Place, name: str, events: Sequence[MessageAdded], incident: str) -> None:
    if (owner := owner_of(place)) is not None:
        said = [{"role": one.role, "content": text_of(one.parts)} for one in events]
        await owner.import_history(name, said, metadata={INCIDENT: incident} if incident else None)
        return
    async with writing(place) as store:
        standing = await store.get(name)
        if standing is not None and standing.status == "archived":
            raise SessionArchived(f"session {name!r} is archived; choose another with --session")
        if standing is not None and standing.unfinished:
            raise InputRefused(f"session {name!r} is in the middle of a turn; choose another with --session")
        if standing is not None and standing.status == "deleted":
            await change(store, name, SessionChanged(status="active"))
        for start in range(0, len(events), _AT_ONCE):
            await change(store, name, *events[start : start + _AT_ONCE])
        if incident:  # so that whoever misses something later finds out why
            metadata = {**(standing.metadata if standing is not None else {}), INCIDENT: incident}
            await change(store, name, SessionChanged(metadata=metadata))


def fork_session(options: argparse.Namespace) -> int:
    check_session_name(options.new, Limits())
    standing = run_async(_fork(place_of(options), options.session, options.new, options.upto))
    if options.json:
        print_json({"ok": True, "session": standing})
    else:
        print(f"{visible(options.new)} is a copy of {visible(options.session)}, {count(standing.head - 1, 'record')}")
    return 0


async def _fork(place: Place, source: str, target: str, upto: int | None) -> Any:
    if (owner := owner_of(place)) is not None:
        return await owner.sessions.fork(source, target, upto=upto)
    async with writing(place) as store:
        await standing_of(store, source)
        return await fork(store, source, target, upto, SystemClock().now_ms())


def archive(options: argparse.Namespace) -> int:
    names: list[str] = options.sessions
    run_async(_become(place_of(options), names, "archived"))
    return _done(options, names, "archived")


def activate(options: argparse.Namespace) -> int:
    names: list[str] = options.sessions
    run_async(_become(place_of(options), names, "active"))
    return _done(options, names, "active")


async def _become(place: Place, names: Sequence[str], status: Literal["archived", "active"]) -> None:
    """All of them, or none where one is not there."""
    if (owner := owner_of(place)) is not None:
        await _look(place, names)
        for name in names:
            await (owner.sessions.archive(name) if status == "archived" else owner.sessions.activate(name))
        return
    async with writing(place) as store:
        for name in names:
            await standing_of(store, name)
        for name in names:
            await change(store, name, SessionChanged(status=status))


def delete(options: argparse.Namespace) -> int:
    place = place_of(options)
    names: list[str] = options.sessions
    if not options.yes:
        run_async(_look(place, names))
        if not _sure(names):
            print("nothing was deleted")
            return 0
    run_async(_delete(place, names))
    return _done(options, names, "deleted")


async def _look(place: Place, names: Sequence[str]) -> None:
    async with reading(place) as store:
        for name in names:
            await standing_of(store, name)


async def _delete(place: Place, names: Sequence[str]) -> None:
    if (owner := owner_of(place)) is not None:
        await _look(place, names)
        for name in names:
            await owner.sessions.delete(name)
        return
    async with writing(place) as store:
        for name in names:
            await standing_of(store, name)
        wanted = list(names)
        config = load_config(place.home, env=os.environ, overrides={"workspace": place.workspace}).config
        async with observed(place.data, config, store) as observing:
            for name in wanted:  # which grows by the sub-agents of each
                wanted += await children_of(store, name)
                await store.blank(name, SystemClock().now_ms())
                await observing.forget(name)


def _sure(names: Sequence[str]) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("deleting cannot be undone; add --yes to do it without being asked")
    what = ", ".join(visible(name) for name in names)
    answer = input(f"Forget everything said in {what}? This cannot be undone. [y/N] ")
    return answer.strip().lower() in ("y", "yes")


def _done(options: argparse.Namespace, names: Sequence[str], what: str) -> int:
    if options.json:
        print_json({"ok": True, what: names})
    else:
        for name in names:
            print(f"{visible(name)} {what}")
    return 0
