"""`mainstay trigger …`, all but `serve`: files in the home's events folder, and what came of them."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, cast
from zoneinfo import ZoneInfo

from mainstay.agent.doors import word_of
from mainstay.agent.triggering import DEFAULT, EVENTS, main_workspace
from mainstay.agent.world import SystemClock
from mainstay.cli.chat.safe import safe, visible
from mainstay.cli.commands.homes import Place, place_of, reading, run_async
from mainstay.cli.commands.out import paint, print_json, print_table, when
from mainstay.cli.commands.run import exit_code
from mainstay.cli.commands.talking import Setting, owner_of, setting, tell
from mainstay.cli.commands.tree import UsageError
from mainstay.config.loading import load_config
from mainstay.config.schema_skills import WebhookEntry
from mainstay.core.errors import InputRefused, MainstayError
from mainstay.core.outcome import Paused, Reply
from mainstay.core.ports import Store
from mainstay.core.trigger_log import MemoryTriggerLog
from mainstay.core.triggers import Check, Door, Run, Status, Target, Trigger, TriggerLog
from mainstay.lane.ending import find_reply
from mainstay.store.home import prepare
from mainstay.triggers.definition import check_ahead, check_trigger_name
from mainstay.triggers.due import Rules
from mainstay.triggers.engine import Engine
from mainstay.triggers.files import Files
from mainstay.triggers.filing import SUFFIX
from mainstay.triggers.folder import EventFolder
from mainstay.triggers.times import Times

LOOK_S = 0.2
WAITS = 5  # the exit code of what waits for an approval, as of `run`
GONE = "removed; what came of it stays"
REASON = ".reason.txt"
SHOWN_RUNS = 10
TEXT_CHARS = 60
ZONE = "/etc/localtime"
MINUTE = "%Y-%m-%d %H:%M"


# --- looking -------------------------------------------------------------------------------------


def list_triggers(options: argparse.Namespace) -> int:
    place, webhooks = _here(options)
    found = run_async(_statuses(place))
    if options.json:
        print_json({"ok": True, "triggers": found, "webhooks": [_hook(*one) for one in webhooks.items()]})
        return 0
    if not found and not webhooks:
        tell("there are no triggers; `mainstay trigger add` makes one")
        return 0
    rows = [[one.name, one.kind or "?", _due(one), _target(one.trigger), _last(one)] for one in found]
    for name, hook in webhooks.items():
        last = next(iter(run_async(_runs(place, name, 1))), None)
        said = f"{when(last.at)} {_came(last)}" if last is not None else ""
        rows.append([name, "webhook", "paused" if hook.paused else "", _where(_aim(hook)), said])
    print_table(["NAME", "TYPE", "DUE", "GOES TO", "LAST"], rows)
    for one in found:
        if one.trouble:
            print(f"{paint(visible(one.name), 'yellow')}: {visible(one.trouble)}")
    return 0


def show(options: argparse.Namespace) -> int:
    place, webhooks = _here(options)
    one = next((one for one in run_async(_statuses(place)) if one.name == options.name), None)
    runs = run_async(_runs(place, options.name, SHOWN_RUNS))
    hook = webhooks.get(options.name)
    if one is None and hook is not None and not options.json:
        print(f"webhook   /hooks/{options.name}, signed as {hook.scheme}{', paused' if hook.paused else ''}")
        print(f"goes to   {_where(_aim(hook))}")
    if one is None and not runs and hook is None:
        raise InputRefused(f"there is no trigger {options.name!r}")
    if options.json:
        print_json({"ok": True, "trigger": one, "runs": runs})
        return 0
    if one is not None:
        for name, value in _lines(one):
            print(f"{name:9} {safe(value)}")
    if runs:
        _print_runs(runs)
    return 0


def history(options: argparse.Namespace) -> int:
    place, _ = _here(options)
    runs = run_async(_runs(place, options.name or "", options.limit))
    if options.json:
        print_json({"ok": True, "runs": runs})
    elif not runs:
        tell("nothing was fired yet")
    else:
        _print_runs(runs)
    return 0


def _print_runs(runs: Sequence[Run]) -> None:
    rows = [[when(one.at), one.trigger, one.came, _came(one), one.session] for one in runs]
    print_table(["AT", "TRIGGER", "CAME", "OUTCOME", "SESSION"], rows)


def _lines(one: Status) -> list[tuple[str, str]]:
    found = [("name", one.name), ("due", _due(one)), ("goes to", _target(one.trigger)), ("last", _last(one))]
    if (made := one.trigger) is not None:
        found += [("type", made.kind), ("schedule", made.schedule), ("zone", made.timezone if made.schedule else "")]
        found += [("missed", made.missed if made.schedule else ""), ("check", made.check)]
        found += [("jitter", f"{made.jitter_s:g} s" if made.jitter_s else ""), ("text", made.text)]
    return [(name, value) for name, value in (*found, ("trouble", one.trouble)) if value]


def _due(one: Status) -> str:
    if one.paused:
        return "paused"
    if one.waiting:
        return f"waits {one.waiting}"
    return when(one.next) if one.next else "cannot be read" if one.kind is None else ""


def _target(made: Trigger | None) -> str:
    return _where(made.target) if made is not None else ""


def _where(target: Target) -> str:
    return target.session or f"{target.channel}:{target.room}, a new thread"


def _last(one: Status) -> str:
    return f"{when(one.last.at)} {_came(one.last) or one.last.came}" if one.last is not None else ""


def _came(run: Run) -> str:
    said = run.outcome or run.note
    return said if len(said) <= TEXT_CHARS else f"{said[: TEXT_CHARS - 1]}…"


def _aim(entry: WebhookEntry) -> Target:
    return Target(session=entry.session, channel=entry.channel, room=entry.room)


def _hook(name: str, entry: WebhookEntry) -> dict[str, Any]:
    return {"name": name, "path": f"/hooks/{name}", "scheme": entry.scheme, "paused": entry.paused} | {
        "target": _aim(entry)
    }


# --- changing ------------------------------------------------------------------------------------


def add(options: argparse.Namespace) -> int:
    place, _ = _here(options)
    made = _made(options, place)
    check_ahead(made, SystemClock().now_ms())
    folder = _folder(place, make=True)
    if not options.force and os.path.lexists(f"{folder.path}/{made.name}{SUFFIX}"):
        raise InputRefused(f"there is a trigger {made.name!r} already; --force replaces it")
    folder.write(made, replace=options.force)
    due = Times(made.schedule, made.timezone).after(SystemClock().now_ms()) if made.schedule else None
    if options.json:
        print_json({"ok": True, "name": made.name, "next": due})
        return 0
    first = "first " if made.kind == "periodic" else ""
    at = f"{first}at {_on_the_wall(due, made.timezone)}" if due is not None else "at once"
    print(f"{made.name}: {at}, to {'' if made.target.new else 'the session '}{_where(made.target)}")
    if not made.target.new and not options.session:
        tell(f"what comes of it: `mainstay chat --session {made.target.session}`, or `mainstay trigger history`")
    if owner_of(place) is None:
        tell("nothing fires it yet: `mainstay serve` does, or `mainstay trigger serve`, or a running chat")
    return 0


def _made(options: argparse.Namespace, place: Place) -> Trigger:
    name = check_trigger_name(options.name)
    if bool(options.channel) != bool(options.room) or (options.session and options.room):
        raise UsageError("give --session, or --channel with --room")
    where = {"channel": options.channel, "room": options.room} if options.room else {"session": options.session or name}
    target = Target(**where, workspace="" if place.workspace == DEFAULT else place.workspace)
    schedule = options.at or options.cron or ""
    return Trigger(
        name=name,
        kind="one-shot" if options.at else "periodic" if options.cron else "immediate",
        text=options.text,
        target=target,
        schedule=schedule,
        timezone=options.timezone or (_local_zone() if schedule else "UTC"),
        missed=options.missed or "once",
        jitter_s=options.jitter or 0.0,
        check=options.check or "",
    )


def _on_the_wall(ms: int, zone: str) -> str:
    """What clocks show then, there; and here, if that is something else."""
    there, here = datetime.fromtimestamp(ms / 1000, ZoneInfo(zone)).strftime(MINUTE), when(ms)
    return f"{there} ({zone})" + (f", which is {here} here" if here != there else "")


def _local_zone() -> str:
    """What this machine calls its own time; UTC if it does not say."""
    given = os.environ.get("TZ", "").lstrip(":") or os.path.realpath(ZONE).rpartition("zoneinfo/")[2]
    try:
        Times("0 0 * * *", given)
    except MainstayError:
        return "UTC"
    return given


def remove(options: argparse.Namespace) -> int:
    return _changed(options, lambda folder: folder.remove(options.name) or _cleared(folder, options.name), GONE)


def _cleared(folder: EventFolder, name: str) -> bool:
    """One that could not be used, with the reason that lies beside it."""
    stem = f"{folder.path}/failed/{check_trigger_name(name)}"
    if not os.path.lexists(stem + SUFFIX):
        return False
    for path in (stem + SUFFIX, stem + REASON):
        if os.path.lexists(path):
            os.unlink(path)
    return True


def pause(options: argparse.Namespace) -> int:
    return _changed(options, lambda folder: folder.pause(options.name), "paused")


def resume(options: argparse.Namespace) -> int:
    return _changed(options, lambda folder: folder.pause(options.name, False), "goes on")


def _changed(options: argparse.Namespace, work: Callable[[EventFolder], bool], said: str) -> int:
    place, webhooks = _here(options)
    if not work(_folder(place)):
        hint = f"; {options.name} is a webhook, which stands in mainstay.yaml" if options.name in webhooks else ""
        raise InputRefused(f"there is no trigger {options.name!r}{hint}")
    if options.json:
        print_json({"ok": True, "name": options.name})
    else:
        print(f"{options.name}: {said}")
    return 0


# --- running -------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> int:
    place, webhooks = _here(options)
    if options.name in webhooks:
        raise InputRefused(f"{options.name} is a webhook: it runs when something signed comes in at its address")
    options.model = None
    ran, reply = run_async(_ran(setting(options), options.name, place))
    if options.json:
        waits = "waits for an approval" if ran.came == "fired" else ""
        outcome = word_of(reply.outcome) if reply is not None else waits
        print_json({"ok": True, "run": ran, "outcome": outcome, "text": reply.text if reply is not None else ""})
    elif reply is not None:
        print(safe(reply.text))
    else:
        said = "its check found nothing to do" if ran.came == "asleep" else ran.came
        tell(f"{ran.trigger}: {said}{f': {ran.note}' if ran.note else ''}")
    if reply is None:
        return WAITS if ran.came == "fired" else 0 if ran.came == "asleep" else 1
    if isinstance(reply.outcome, Paused):
        tell("it waits for an approval: see `mainstay approvals list`")
    return exit_code(reply.outcome)


async def _ran(where: Setting, name: str, place: Place) -> tuple[Run, Reply | None]:
    async with where.agent() as agent:
        ran = await agent.triggers.run(name)
        if ran.came != "fired":
            return ran, None
        async with reading(place) as store:
            while (reply := await find_reply(store, ran.session, ran.seq)) is None:
                standing = await store.get(ran.session)
                if standing is not None and standing.approval is not None:
                    tell("it waits for an approval: see `mainstay approvals list`")
                    return ran, None
                await asyncio.sleep(LOOK_S)
            return ran, reply


# --- where ---------------------------------------------------------------------------------------


def _here(options: argparse.Namespace) -> tuple[Place, dict[str, WebhookEntry]]:
    place = place_of(options)
    return place, load_config(place.home, env=os.environ).config.triggers.webhooks


def _folder(place: Place, *, make: bool = False) -> EventFolder:
    if make:
        prepare(place.data)
    return EventFolder(str(place.data / EVENTS), SystemClock(), owned=False)


async def _statuses(place: Place) -> Sequence[Status]:
    """As the home's owner sees them; without one, as their files and the log have them."""
    if (remote := owner_of(place)) is not None:
        return await remote.triggers.list()
    async with _log(place) as log:
        nobody: Any = None  # nothing is fired by looking
        files = Files(_folder(place))
        rules = Rules(workspace=place.workspace, main=main_workspace(place.data, place.workspace))
        engine = Engine(files, log, cast(Door, nobody), check=cast(Check, nobody), clock=SystemClock(), rules=rules)
        return await engine.look()


async def _runs(place: Place, name: str, limit: int) -> Sequence[Run]:
    async with _log(place) as log:
        return await log.runs(name, limit=limit)


@asynccontextmanager
async def _log(place: Place) -> AsyncIterator[TriggerLog]:
    async with reading(place) as store:
        yield _log_of(store)


def _log_of(store: Store) -> TriggerLog:
    made = getattr(store, "triggers", None)
    return made() if made is not None else MemoryTriggerLog()
