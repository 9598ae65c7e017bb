"""`mainstay trigger …` without `serve`: edits the files in the home's events folder, shows and starts runs."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from mainstay.agent.home_paths import EVENTS_FOLDER
from mainstay.agent.system_clock import SystemClock
from mainstay.agent.trigger_adapters import describe_outcome
from mainstay.agent.trigger_service import DEFAULT_WORKSPACE, find_main_workspace
from mainstay.agent.workspace_stores import get_auxiliary_stores
from mainstay.cli.commands.agent_setup import AgentSetup, find_owner, load_agent_setup, print_note
from mainstay.cli.commands.home_locator import (
    WorkspaceLocation,
    load_storage,
    open_store_read_only,
    resolve_workspace,
    run_async,
)
from mainstay.cli.commands.output import format_time, print_json, print_table, style_text
from mainstay.cli.commands.run import exit_code
from mainstay.cli.parser.root import UsageError
from mainstay.config.loader import load_config
from mainstay.config.schema_skills_patterns_triggers import WebhookEntry
from mainstay.core.errors import InputRefused, MainstayError, TriggerUnknown
from mainstay.core.outcome import Paused, Reply
from mainstay.core.triggers import Trigger, TriggerLog, TriggerRun, TriggerStatus, TriggerTarget
from mainstay.guards.terminal_sanitizer import escape_line, sanitize_text
from mainstay.lane.replies import find_reply
from mainstay.operations.operation import Operation
from mainstay.operations.triggers import AddTrigger, PauseTrigger, RemoveTrigger, ResumeTrigger
from mainstay.store.home import prepare_home
from mainstay.triggers.async_event_folder import AsyncEventFolder
from mainstay.triggers.event_file_io import SUFFIX
from mainstay.triggers.event_folder import EventFolder
from mainstay.triggers.misfire_policy import TriggerEngineSettings
from mainstay.triggers.schedule import TriggerSchedule
from mainstay.triggers.status_listing import list_statuses
from mainstay.triggers.trigger_json import check_is_future, check_trigger_name

POLL_S = 0.2
EXIT_PAUSED = 5  # exit code of a turn that waits for approval, as of `mainstay run`
REMOVED = "removed; its history is kept"
SHOWN_RUNS_MAX = 10
OUTCOME_CHARS_MAX = 60
LOCALTIME_PATH = "/etc/localtime"
TIME_FORMAT = "%Y-%m-%d %H:%M"


# --- list, show, history -------------------------------------------------------------------------


def list_triggers(options: argparse.Namespace) -> int:
    location, webhooks = _load_webhooks(options)
    statuses = run_async(_load_statuses(location))
    if options.json:
        documents = [_build_webhook_document(name, webhook) for name, webhook in webhooks.items()]
        print_json({"ok": True, "triggers": statuses, "webhooks": documents})
        return 0
    if not statuses and not webhooks:
        print_note("there are no triggers; `mainstay trigger add` adds one")
        return 0
    rows = [
        [
            status.name,
            status.kind or "?",
            _format_next_run(status),
            _format_trigger_target(status.trigger),
            _format_last_run(status),
        ]
        for status in statuses
    ]
    for name, webhook in webhooks.items():
        run = next(iter(run_async(_load_runs(location, name, 1))), None)
        last = f"{format_time(run.at)} {_format_outcome(run)}" if run is not None else ""
        rows.append([name, "webhook", "paused" if webhook.paused else "", _format_target(_build_target(webhook)), last])
    print_table(["NAME", "TYPE", "NEXT RUN", "TARGET", "LAST RUN"], rows)
    for status in statuses:
        if status.trouble:
            print(f"{style_text(escape_line(status.name), 'yellow')}: {escape_line(status.trouble)}")
    return 0


def show(options: argparse.Namespace) -> int:
    location, webhooks = _load_webhooks(options)
    status = next((status for status in run_async(_load_statuses(location)) if status.name == options.name), None)
    runs = run_async(_load_runs(location, options.name, SHOWN_RUNS_MAX))
    webhook = webhooks.get(options.name)
    if status is None and webhook is not None and not options.json:
        print(f"webhook   /hooks/{options.name}, signed as {webhook.scheme}{', paused' if webhook.paused else ''}")
        print(f"target    {_format_target(_build_target(webhook))}")
    if status is None and not runs and webhook is None:
        raise InputRefused(f"there is no trigger {options.name!r}")
    if options.json:
        print_json({"ok": True, "trigger": status, "runs": runs})
        return 0
    if status is not None:
        for name, value in _format_fields(status):
            print(f"{name:9} {sanitize_text(value)}")
    if runs:
        _print_runs(runs)
    return 0


def list_runs(options: argparse.Namespace) -> int:
    location, _ = _load_webhooks(options)
    runs = run_async(_load_runs(location, options.name or "", options.limit))
    if options.json:
        print_json({"ok": True, "runs": runs})
    elif not runs:
        print_note("there are no runs yet")
    else:
        _print_runs(runs)
    return 0


def _print_runs(runs: Sequence[TriggerRun]) -> None:
    rows = [[format_time(run.at), run.trigger, run.result, _format_outcome(run), run.session] for run in runs]
    print_table(["AT", "TRIGGER", "RESULT", "OUTCOME", "SESSION"], rows)


def _format_fields(status: TriggerStatus) -> list[tuple[str, str]]:
    lines = [
        ("name", status.name),
        ("next run", _format_next_run(status)),
        ("target", _format_trigger_target(status.trigger)),
        ("last run", _format_last_run(status)),
    ]
    if (trigger := status.trigger) is not None:
        schedule = trigger.schedule
        lines += [("type", trigger.kind), ("schedule", schedule), ("zone", trigger.timezone if schedule else "")]
        lines += [("missed", trigger.missed if schedule else ""), ("check", trigger.check)]
        lines += [("jitter", f"{trigger.jitter_s:g} s" if trigger.jitter_s else ""), ("text", trigger.text)]
    return [(name, value) for name, value in (*lines, ("problem", status.trouble)) if value]


def _format_next_run(status: TriggerStatus) -> str:
    if status.paused:
        return "paused"
    if status.waiting:
        return f"waits {status.waiting}"
    return format_time(status.next) if status.next else "cannot be read" if status.kind is None else ""


def _format_trigger_target(trigger: Trigger | None) -> str:
    return _format_target(trigger.target) if trigger is not None else ""


def _format_target(target: TriggerTarget) -> str:
    return target.session or f"{target.channel}:{target.room}, a new thread"


def _format_last_run(status: TriggerStatus) -> str:
    return (
        f"{format_time(status.last.at)} {_format_outcome(status.last) or status.last.result}"
        if status.last is not None
        else ""
    )


def _format_outcome(run: TriggerRun) -> str:
    text = run.outcome or run.note
    return text if len(text) <= OUTCOME_CHARS_MAX else f"{text[: OUTCOME_CHARS_MAX - 1]}…"


def _build_target(entry: WebhookEntry) -> TriggerTarget:
    return TriggerTarget(session=entry.session, channel=entry.channel, room=entry.room)


def _build_webhook_document(name: str, entry: WebhookEntry) -> dict[str, Any]:
    document = {"name": name, "path": f"/hooks/{name}", "scheme": entry.scheme, "paused": entry.paused}
    return document | {"target": _build_target(entry)}


# --- add, remove, pause, resume ------------------------------------------------------------------


def add(options: argparse.Namespace) -> int:
    location, _ = _load_webhooks(options)
    trigger = _build_trigger(options, location)
    check_is_future(trigger, SystemClock().now_ms())
    if not options.force and os.path.lexists(location.data / EVENTS_FOLDER / f"{trigger.name}{SUFFIX}"):
        raise InputRefused(f"the trigger {trigger.name!r} exists already; --force replaces it")
    if (remote := find_owner(location)) is not None:
        run_async(remote.execute(_build_request(trigger, replace=options.force)))
    else:
        _open_folder(location, create=True).write(trigger, replace=options.force)
    due = (
        TriggerSchedule(trigger.schedule, trigger.timezone).next_after(SystemClock().now_ms())
        if trigger.schedule
        else None
    )
    if options.json:
        print_json({"ok": True, "name": trigger.name, "next": due})
        return 0
    first = "first " if trigger.kind == "periodic" else ""
    at = f"{first}at {_format_local_time(due, trigger.timezone)}" if due is not None else "at once"
    kind = "" if trigger.target.is_new_thread else "the session "
    print(f"{trigger.name}: {at}, to {kind}{_format_target(trigger.target)}")
    if not trigger.target.is_new_thread and not options.session:
        print_note(
            f"see the answers with `mainstay chat --session {trigger.target.session}` or `mainstay trigger history`"
        )
    if remote is None:
        print_note("it will not run until `mainstay serve`, `mainstay trigger serve` or a chat is running")
    return 0


def _build_trigger(options: argparse.Namespace, location: WorkspaceLocation) -> Trigger:
    name = check_trigger_name(options.name)
    if bool(options.channel) != bool(options.room) or (options.session and options.room):
        raise UsageError("give --session, or --channel with --room")
    destination = (
        {"channel": options.channel, "room": options.room} if options.room else {"session": options.session or name}
    )
    target = TriggerTarget(
        **destination, workspace="" if location.workspace == DEFAULT_WORKSPACE else location.workspace
    )
    schedule = options.at or options.cron or ""
    return Trigger(
        name=name,
        kind="one-shot" if options.at else "periodic" if options.cron else "immediate",
        text=options.text,
        target=target,
        schedule=schedule,
        timezone=options.timezone or (_find_local_zone() if schedule else "UTC"),
        missed=options.missed or "once",
        jitter_s=options.jitter or 0.0,
        check=options.check or "",
    )


def _build_request(trigger: Trigger, *, replace: bool) -> AddTrigger:
    return AddTrigger(
        name=trigger.name,
        kind=trigger.kind,
        text=trigger.text,
        session=trigger.target.session,
        channel=trigger.target.channel,
        room=trigger.target.room,
        schedule=trigger.schedule,
        timezone=trigger.timezone,
        missed=trigger.missed,
        jitter_s=trigger.jitter_s,
        check=trigger.check,
        replace=replace,
    )


def _format_local_time(at_ms: int, zone: str) -> str:
    """Return the time in the trigger's zone, and in this machine's if that differs."""
    target_time, local_time = (
        datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone)).strftime(TIME_FORMAT),
        format_time(at_ms),
    )
    return f"{target_time} ({zone})" + (f", {local_time} local time" if local_time != target_time else "")


def _find_local_zone() -> str:
    """Return the name of this machine's time zone; UTC if it cannot be found."""
    name = os.environ.get("TZ", "").lstrip(":") or os.path.realpath(LOCALTIME_PATH).rpartition("zoneinfo/")[2]
    try:
        TriggerSchedule("0 0 * * *", name)
    except MainstayError:
        return "UTC"
    return name


def remove(options: argparse.Namespace) -> int:
    request = RemoveTrigger(name=options.name)
    return _apply_change(
        options, request, lambda folder: folder.remove(options.name) or folder.remove_failed(options.name), REMOVED
    )


def pause(options: argparse.Namespace) -> int:
    return _apply_change(options, PauseTrigger(name=options.name), lambda folder: folder.pause(options.name), "paused")


def resume(options: argparse.Namespace) -> int:
    return _apply_change(
        options, ResumeTrigger(name=options.name), lambda folder: folder.pause(options.name, False), "resumed"
    )


def _apply_change(
    options: argparse.Namespace, request: Operation[None], change: Callable[[EventFolder], bool], done: str
) -> int:
    """Run `request` in the process that owns the home; without one, apply `change` to the files: it returns False if
    there is no such trigger."""
    location, webhooks = _load_webhooks(options)
    try:
        if (remote := find_owner(location)) is not None:
            run_async(remote.execute(request))
            exists = True
        else:
            exists = change(_open_folder(location))
    except TriggerUnknown:
        exists = False
    if not exists:
        hint = f"; {options.name} is a webhook: change it in mainstay.yaml" if options.name in webhooks else ""
        raise InputRefused(f"there is no trigger {options.name!r}{hint}")
    if options.json:
        print_json({"ok": True, "name": options.name})
    else:
        print(f"{options.name}: {done}")
    return 0


# --- run -----------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> int:
    location, webhooks = _load_webhooks(options)
    if options.name in webhooks:
        raise InputRefused(f"{options.name} is a webhook: it runs when a signed request arrives")
    options.model = None
    run, reply = run_async(_run_and_wait(load_agent_setup(options), options.name, location))
    if options.json:
        waits = "waits for an approval" if run.result == "fired" else ""
        outcome = describe_outcome(reply.outcome) if reply is not None else waits
        print_json({"ok": True, "run": run, "outcome": outcome, "text": reply.text if reply is not None else ""})
    elif reply is not None:
        print(sanitize_text(reply.text))
    else:
        state = "its check found nothing to do" if run.result == "asleep" else run.result
        print_note(f"{run.trigger}: {state}{f': {run.note}' if run.note else ''}")
    if reply is None:
        return EXIT_PAUSED if run.result == "fired" else 0 if run.result == "asleep" else 1
    if isinstance(reply.outcome, Paused):
        print_note("it waits for an approval: see `mainstay approval list`")
    return exit_code(reply.outcome)


async def _run_and_wait(setup: AgentSetup, name: str, location: WorkspaceLocation) -> tuple[TriggerRun, Reply | None]:
    """Run a trigger. Return its reply, None if it did not fire or its turn waits for an approval."""
    async with setup.open_agent() as agent:
        run = await agent.triggers.run(name)
        if run.result != "fired":
            return run, None
        async with open_store_read_only(location) as store:
            while (reply := await find_reply(store, run.session, run.seq)) is None:
                info = await store.get_session(run.session)
                if info is not None and info.approval is not None:
                    print_note("it waits for an approval: see `mainstay approval list`")
                    return run, None
                await asyncio.sleep(POLL_S)
            return run, reply


# --- access to the home --------------------------------------------------------------------------


def _load_webhooks(options: argparse.Namespace) -> tuple[WorkspaceLocation, dict[str, WebhookEntry]]:
    location = resolve_workspace(options)
    return location, load_config(location.home, env=os.environ).config.triggers.webhooks


def _open_folder(location: WorkspaceLocation, *, create: bool = False) -> EventFolder:
    if create:
        prepare_home(location.data)
    return EventFolder(str(location.data / EVENTS_FOLDER), SystemClock(), owned=False)


async def _load_statuses(location: WorkspaceLocation) -> Sequence[TriggerStatus]:
    """Return the triggers from the process that owns the home; without one, from their files and the log."""
    if (remote := find_owner(location)) is not None:
        return await remote.triggers.list()
    async with _open_log(location) as log:
        files = AsyncEventFolder(_open_folder(location))
        rules = TriggerEngineSettings(
            workspace=location.workspace,
            main_workspace=find_main_workspace(location.data, location.workspace, load_storage(location.home)),
        )
        return await list_statuses(files, log, SystemClock(), rules)


async def _load_runs(location: WorkspaceLocation, name: str, limit: int) -> Sequence[TriggerRun]:
    async with _open_log(location) as log:
        return await log.list_runs(name, limit=limit)


@asynccontextmanager
async def _open_log(location: WorkspaceLocation) -> AsyncIterator[TriggerLog]:
    async with open_store_read_only(location) as store:
        yield get_auxiliary_stores(store).trigger_log()
