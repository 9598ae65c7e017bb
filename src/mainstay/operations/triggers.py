"""Operations on triggers: list, add, remove, pause, resume, run, history.

All workspaces of a home store their triggers in one folder. A person sees those of their workspace, under names without
the workspace's prefix, so that a name does not reveal that another workspace uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from mainstay.core.errors import InputRefused, TriggerUnknown
from mainstay.core.triggers import MissedPolicy, Trigger, TriggerKind, TriggerRun, TriggerStatus, TriggerTarget
from mainstay.operations.caller import Caller, NotAllowed
from mainstay.operations.operation import Line, Name, Operation, PageSize
from mainstay.operations.operation_entry import OperationEntry, Route
from mainstay.operations.runtime_protocols import TriggerService


class TriggerView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A trigger, when it is due, and its last run."""

    name: str
    kind: TriggerKind | None = None  # None: its file cannot be read
    next: int = 0  # ms
    paused: bool = False
    waiting: str = ""
    trouble: str = ""
    text: str = ""
    schedule: str = ""
    timezone: str = ""
    session: str = ""
    last: TriggerRun | None = None
    channel: str = ""  # with `room`: every run is a thread of its own there
    room: str = ""
    missed: MissedPolicy | None = None
    jitter_s: float = 0.0
    check: str = ""  # the command that must succeed first; for the owner only


class TriggerList(msgspec.Struct, frozen=True, kw_only=True):
    triggers: list[TriggerView]


class TriggerName(msgspec.Struct, frozen=True, kw_only=True):
    name: str


class RunList(msgspec.Struct, frozen=True, kw_only=True):
    runs: list[TriggerRun]


class ListTriggers(Operation[list[TriggerStatus]], frozen=True, kw_only=True):
    """List the triggers of the workspace."""


class AddTrigger(Operation[TriggerName], frozen=True, kw_only=True):
    """Add a trigger: into a session, or into a room of a channel, where every run is a thread of its own."""

    name: Name
    kind: TriggerKind
    text: Annotated[str, Meta(min_length=1, max_length=100_000)]
    session: Annotated[str, Meta(max_length=512)] = ""
    channel: Name = ""
    room: Name = ""
    schedule: Name = ""
    timezone: Name = "UTC"
    missed: MissedPolicy = "once"
    jitter_s: Annotated[float, Meta(ge=0, le=86_400)] = 0.0
    check: Line = ""
    paused: bool = False
    replace: bool = False


class RemoveTrigger(Operation[None], frozen=True, kw_only=True):
    """Remove a trigger; the owner may also remove an invalid one, whose file is in `events/failed`."""

    name: Name


class PauseTrigger(Operation[None], frozen=True, kw_only=True):
    """Pause a trigger: it is not fired until it is resumed."""

    name: Name


class ResumeTrigger(Operation[None], frozen=True, kw_only=True):
    """Resume a paused trigger."""

    name: Name


class RunTrigger(Operation[TriggerRun], frozen=True, kw_only=True):
    """Run a trigger now, in addition to its schedule; returns when its prompt is on disk."""

    name: Name


class ListTriggerRuns(Operation[RunList], frozen=True, kw_only=True):
    """List the runs of triggers, the newest first."""

    name: Name = ""  # of this trigger only
    limit: PageSize = 100


_COPIED_FIELDS = ("name", "kind", "text", "schedule", "timezone", "missed", "jitter_s", "check", "paused")


async def get_trigger_service(caller: Caller) -> TriggerService:
    """Return the triggers of the home. Raises InputRefused for an agent without a home."""
    service = (await caller.runtime()).trigger_service
    if service is None:
        raise InputRefused("an agent without a home has no triggers")
    return service


def _name_prefix(caller: Caller) -> str:
    return f"{caller.workspace}." if caller.person else ""


def _is_visible(caller: Caller, status: TriggerStatus) -> bool:
    """The owner sees the triggers of all workspaces, and files that cannot be read."""
    if not caller.person:
        return True
    return status.trigger is not None and status.trigger.target.workspace in ("", caller.workspace)


def _rename_run(caller: Caller, run: TriggerRun) -> TriggerRun:
    return msgspec.structs.replace(run, trigger=run.trigger.removeprefix(_name_prefix(caller)))


def _rename_status(caller: Caller, status: TriggerStatus) -> TriggerStatus:
    last = _rename_run(caller, status.last) if status.last is not None else None
    return msgspec.structs.replace(status, name=status.name.removeprefix(_name_prefix(caller)), last=last)


async def _list_visible(caller: Caller) -> list[TriggerStatus]:
    """Return the triggers that the caller may see, under the names of their files."""
    return [status for status in await (await get_trigger_service(caller)).list() if _is_visible(caller, status)]


async def _find_file(caller: Caller, name: str) -> str | None:
    """Return the file name of the trigger that the caller knows under this name; None if there is none."""
    return next(
        (status.name for status in await _list_visible(caller) if _rename_status(caller, status).name == name), None
    )


async def _require_file(caller: Caller, name: str) -> str:
    file = await _find_file(caller, name)
    if file is None:
        raise TriggerUnknown(f"there is no trigger {name[:80]!r}")
    return file


async def list_triggers(caller: Caller, request: ListTriggers) -> list[TriggerStatus]:
    return [_rename_status(caller, status) for status in await _list_visible(caller)]


def show_triggers(caller: Caller, request: ListTriggers, result: Sequence[TriggerStatus]) -> TriggerList:
    views = []
    for status in result:
        trigger = status.trigger or Trigger(name=status.name, kind="immediate", text="", timezone="")
        view = TriggerView(
            name=status.name,
            kind=status.kind,
            next=status.next,
            paused=status.paused,
            waiting=status.waiting,
            trouble=status.trouble,
            text=trigger.text,
            schedule=trigger.schedule,
            timezone=trigger.timezone,
            session=trigger.target.session,
            last=status.last,
            channel=trigger.target.channel,
            room=trigger.target.room,
            missed=trigger.missed if status.trigger is not None else None,
            jitter_s=trigger.jitter_s,
            check="" if caller.person else trigger.check,
        )
        views.append(view)
    return TriggerList(triggers=views)


async def add_trigger(caller: Caller, request: AddTrigger) -> TriggerName:
    same = {name: getattr(request, name) for name in _COPIED_FIELDS}
    target = TriggerTarget(
        session=request.session, channel=request.channel, room=request.room, workspace=caller.workspace
    )
    await store_trigger(caller, Trigger(target=target, **same), replace=request.replace)
    return TriggerName(name=request.name)


async def store_trigger(caller: Caller, trigger: Trigger, *, replace: bool) -> None:
    """Store a trigger for the caller's workspace. A person's trigger runs under that person's rules."""
    if not caller.person:
        await (await get_trigger_service(caller)).add(trigger, replace=replace)
        return
    file = await _find_file(caller, trigger.name)
    if trigger.target.workspace not in ("", caller.workspace):
        raise NotAllowed("a trigger belongs to the workspace in which it is added")
    if file is not None and not replace:
        raise InputRefused(f"there is a trigger {trigger.name[:80]!r} already")
    if trigger.check:  # a command on the machine itself
        raise NotAllowed("a trigger with a check is added by the owner, on the machine itself")
    stored = msgspec.structs.replace(
        trigger,
        name=file or _name_prefix(caller) + trigger.name,
        target=msgspec.structs.replace(trigger.target, workspace=caller.workspace),
        person=caller.person,
    )
    await (await get_trigger_service(caller)).add(stored, replace=file is not None)


async def remove_trigger(caller: Caller, request: RemoveTrigger) -> None:
    if caller.person:
        file = await _require_file(caller, request.name)
    else:  # invalid triggers of an earlier process are not listed
        file = await _find_file(caller, request.name) or request.name
    await (await get_trigger_service(caller)).remove(file)


async def pause_trigger(caller: Caller, request: PauseTrigger) -> None:
    await (await get_trigger_service(caller)).pause(await _require_file(caller, request.name))


async def resume_trigger(caller: Caller, request: ResumeTrigger) -> None:
    await (await get_trigger_service(caller)).pause(await _require_file(caller, request.name), paused=False)


async def run_trigger(caller: Caller, request: RunTrigger) -> TriggerRun:
    return _rename_run(caller, await (await get_trigger_service(caller)).run(await _require_file(caller, request.name)))


async def list_trigger_runs(caller: Caller, request: ListTriggerRuns) -> RunList:
    service = await get_trigger_service(caller)
    if not caller.person:
        return RunList(runs=list(await service.history(request.name, request.limit)))
    files = (
        [await _require_file(caller, request.name)]
        if request.name
        else [status.name for status in await _list_visible(caller)]
    )
    runs = [run for file in files for run in await service.history(file, request.limit)]
    newest = sorted(runs, key=lambda run: run.at, reverse=True)[: request.limit]
    return RunList(runs=[_rename_run(caller, run) for run in newest])


_PATH = "/api/triggers/{name}"

ENTRIES = (
    OperationEntry(
        request=ListTriggers,
        run=list_triggers,
        access="admin",
        http=Route("GET", "/api/triggers"),
        to_view=show_triggers,
        view_type=TriggerList,
    ),
    OperationEntry(
        request=AddTrigger, run=add_trigger, access="admin", http=Route("POST", "/api/triggers", status=201)
    ),
    OperationEntry(
        request=ListTriggerRuns, run=list_trigger_runs, access="admin", http=Route("GET", "/api/triggers/runs")
    ),
    OperationEntry(request=RemoveTrigger, run=remove_trigger, access="admin", http=Route("DELETE", _PATH, status=204)),
    OperationEntry(request=RunTrigger, run=run_trigger, access="admin", http=Route("POST", f"{_PATH}/run")),
    OperationEntry(
        request=PauseTrigger, run=pause_trigger, access="admin", http=Route("POST", f"{_PATH}/pause", status=204)
    ),
    OperationEntry(
        request=ResumeTrigger, run=resume_trigger, access="admin", http=Route("POST", f"{_PATH}/resume", status=204)
    ),
)
