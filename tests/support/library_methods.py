"""The library's own methods (`agent.steer`, `agent.sessions.fork` …) as one more client of the operations.

`METHODS` has the call for each request whose operation has a method. A call returns the operation's result, or the
fields of it that the method returns, or None if the method returns nothing.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from mainstay import Agent
from mainstay.core.triggers import Trigger, TriggerTarget
from mainstay.operations import (
    approvals,
    budgets,
    errors_and_audit,
    memory,
    session_settings,
    sessions,
    traces,
    triggers,
    turns,
    undo,
)
from mainstay.operations.operation import Operation
from mainstay.operations.operation_entry import OperationEntry
from support.operations_world import NO_BODY, Bench

Call = Callable[[Agent, Any], Awaitable[Any]]


async def run_method(bench: Bench, entry: OperationEntry, request: Operation[Any]) -> Any:
    result = await METHODS[entry.request](bench.agent, request)
    if result is None:
        return NO_BODY
    if isinstance(result, dict):
        return json.loads(msgspec.json.encode(result, enc_hook=str))
    return bench.shown(entry, request, result)


async def _read_events(agent: Agent, request: turns.ReadEvents) -> Any:
    records = await agent.sessions.records(request.session, after=request.after, limit=request.limit)
    events = [{"sequence": record.seq, "at": record.at, "event": record.event} for record in records]
    return {"events": events, "next": records[-1].seq}


async def _add_trigger(agent: Agent, request: triggers.AddTrigger) -> None:
    target = TriggerTarget(session=request.session)
    schedule = request.schedule
    await agent.triggers.add(
        Trigger(name=request.name, kind=request.kind, schedule=schedule, text=request.text, target=target)
    )


def _under(name: str, call: Call) -> Call:
    """Return the result of the call as the field `name`."""

    async def run(agent: Agent, request: Any) -> dict[str, Any]:
        return {name: await call(agent, request)}

    return run


METHODS: dict[type[Operation[Any]], Call] = {
    turns.Prompt: lambda agent, one: agent.run(one.session, one.text, id=one.id, sender=one.sender),
    turns.Steer: lambda agent, one: agent.steer(one.session, one.text, id=one.id, sender=one.sender),
    turns.Abort: _under("aborted", lambda agent, one: agent.abort(one.session, sender=one.sender)),
    turns.ImportHistory: lambda agent, one: agent.import_history(one.session, one.messages, metadata=one.metadata),
    turns.ReadEvents: _read_events,
    sessions.ListSessions: lambda agent, one: agent.sessions.list(limit=one.limit),
    sessions.GetSession: lambda agent, one: agent.sessions.get(one.session),
    sessions.DeleteSession: lambda agent, one: agent.sessions.delete(one.session),
    sessions.ArchiveSession: lambda agent, one: agent.sessions.archive(one.session),
    sessions.ActivateSession: lambda agent, one: agent.sessions.activate(one.session),
    sessions.PauseSession: lambda agent, one: agent.sessions.pause(one.session),
    sessions.ReleaseSession: lambda agent, one: agent.sessions.release(one.session, fail=one.fail),
    sessions.RenameSession: lambda agent, one: agent.sessions.rename(one.session, one.title),
    sessions.ForkSession: lambda agent, one: agent.sessions.fork(one.session, one.to, upto=one.upto),
    sessions.CompactSession: _under("summary", lambda agent, one: agent.sessions.compact(one.session, one.focus)),
    sessions.SetModel: lambda agent, one: agent.sessions.set_model(one.session, one.model),
    sessions.ShowContext: lambda agent, one: agent.sessions.context(one.session),
    sessions.ReplaySession: lambda agent, one: agent.sessions.replay(one.session),
    sessions.GetProfile: _under("fields", lambda agent, one: agent.profile(one.session).get()),
    sessions.SetProfile: lambda agent, one: agent.profile(one.session).set(**one.fields),
    session_settings.GetMetadata: _under("fields", lambda agent, one: agent.sessions.metadata(one.session)),
    session_settings.SetMetadata: _under(
        "fields", lambda agent, one: agent.sessions.set_metadata(one.session, one.fields)
    ),
    session_settings.ClearMetadata: lambda agent, one: agent.sessions.clear_metadata(one.session),
    session_settings.SetSessionBudget: lambda agent, one: agent.sessions.set_budget(
        one.session, money=one.money, tokens=one.tokens, tool_calls=one.tool_calls
    ),
    sessions.ClearProfile: lambda agent, one: agent.profile(one.session).clear(),
    sessions.ListSkills: lambda agent, one: agent.skills(one.session),
    sessions.SetWorkingFolder: lambda agent, one: agent.sessions.work_in(one.session, one.folder),
    sessions.ExportSession: lambda agent, one: agent.sessions.export(one.session, one.folder),
    undo.ListUndoableTurns: lambda agent, one: agent.sessions.undoable_turns(one.session),
    undo.PreviewUndo: lambda agent, one: agent.sessions.preview_undo(one.session, one.turn),
    undo.UndoTurn: lambda agent, one: agent.sessions.undo(one.session, one.turn),
    approvals.ListApprovals: lambda agent, one: agent.approvals.list(),
    approvals.Approve: lambda agent, one: agent.approvals.approve(one.id, always=one.always, wait=False),
    approvals.Deny: lambda agent, one: agent.approvals.deny(one.id, one.reason, wait=False),
    approvals.ListRules: _under("rules", lambda agent, one: agent.approvals.rules()),
    approvals.RevokeRule: lambda agent, one: agent.approvals.revoke(one.rule),
    memory.SearchMemory: _under("hits", lambda agent, one: agent.memory.search(one.q, one.k)),
    memory.RecallTopic: _under("hits", lambda agent, one: agent.memory.recall(one.topic, one.limit)),
    memory.ListSummaries: _under(
        "summaries", lambda agent, one: agent.memory.summaries(one.start, one.end or None, one.limit)
    ),
    memory.ListFacts: _under("facts", lambda agent, one: agent.memory.facts(origin=one.origin, limit=one.limit)),
    memory.GetMemoryStatus: lambda agent, one: agent.memory.status(),
    memory.ListMemories: _under(
        "memories", lambda agent, one: agent.memory.list(tag=one.tag, origin=one.origin, pinned=one.pinned)
    ),
    memory.Remember: lambda agent, one: agent.memory.remember(one.text, one.tags, one.pin),
    memory.GetMemory: lambda agent, one: agent.memory.get(one.id, one.offset, one.limit),
    memory.ForgetMemory: lambda agent, one: agent.memory.forget(one.id),
    memory.PinMemory: lambda agent, one: agent.memory.pin(one.id) if one.pinned else agent.memory.unpin(one.id),
    memory.ForgetOrigin: _under("deleted", lambda agent, one: agent.memory.forget_origin(one.origin)),
    triggers.ListTriggers: lambda agent, one: agent.triggers.list(),
    triggers.AddTrigger: _add_trigger,
    triggers.RemoveTrigger: lambda agent, one: agent.triggers.remove(one.name),
    triggers.PauseTrigger: lambda agent, one: agent.triggers.pause(one.name),
    triggers.ResumeTrigger: lambda agent, one: agent.triggers.resume(one.name),
    triggers.RunTrigger: lambda agent, one: agent.triggers.run(one.name),
    triggers.ListTriggerRuns: _under("runs", lambda agent, one: agent.triggers.history(one.name, one.limit)),
    traces.GetTrace: lambda agent, one: agent.sessions.trace(one.session, one.turn),
    errors_and_audit.ListProblems: _under("problems", lambda agent, one: agent.problems()),
    budgets.ShowBudget: lambda agent, one: agent.budget(),
}
