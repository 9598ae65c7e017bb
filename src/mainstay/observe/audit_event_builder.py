"""Derives audit events from journal records: who asked for what, what was decided, and the outcome.

They contain names, numbers and digests, never contents: those are in the journal, where they can be deleted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from mainstay.core.audit import AuditEvent, sha256_hex
from mainstay.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Delivered,
    Event,
    Folded,
    Forked,
    Guarded,
    Judged,
    MessageAdded,
    Received,
    SessionChanged,
    Spawned,
    Steered,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    TurnSetAside,
    TurnStarted,
)
from mainstay.core.input_envelope import sender_person
from mainstay.core.journal import Record
from mainstay.core.json_types import JsonMapping, ReadOnlyJson
from mainstay.core.messages import AnyPart, Binary, Text, ToolCall, Usage
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Paused
from mainstay.core.ports import SessionInfo
from mainstay.core.projection_ports import JournalBatch
from mainstay.observe.unknown_tools import UNKNOWN_TOOL, suggested_tool, tool_exists

NAME_CHARS_MAX = 200
NAMES_MAX = 50  # in one entry

_RULE_PATTERN = re.compile(r"A rule forbids it: (.{1,200})\.")
_encode_json = msgspec.json.Encoder().encode


def build_audit_events(batch: JournalBatch, workspace: str, redact: Callable[[str], str]) -> list[AuditEvent]:
    """Return the audit events of a batch, in order. `redact` removes secrets from names."""
    builder = _AuditEventBuilder(batch.info, workspace, redact)
    for record in batch.earlier:
        builder.update_state(record)
    for record in batch.records:
        builder.add_record(record)
    return builder.events


class _AuditedTurn:
    """State of the running turn."""

    __slots__ = (
        "amended_arguments",
        "approvals",
        "calls",
        "cost",
        "model",
        "person",
        "started_at",
        "started_calls",
        "steps",
        "tool_counts",
        "usage",
    )

    def __init__(self, started_at: int = 0, model: str = "", person: str = "") -> None:
        self.started_at = started_at
        self.model = model
        self.person = person
        self.usage = Usage()
        self.cost = 0.0
        self.steps = 0
        self.tool_counts: dict[str, int] = {}
        self.calls: dict[str, tuple[ToolCall, int]] = {}  # by call id, with the start time in ms
        self.started_calls: set[str] = set()  # call ids
        self.approvals: dict[str, ApprovalAsked] = {}  # by approval id
        self.amended_arguments: dict[str, str] = {}  # by call id: arguments that a person put in place of the model's

    def add_usage(self, usage: Usage | None, cost: float) -> None:
        if usage is not None:
            self.usage += usage
        self.cost += cost


AuditDetails = dict[str, ReadOnlyJson]


class _AuditEventBuilder:
    """Collects audit events record by record."""

    def __init__(self, info: SessionInfo, workspace: str, redact: Callable[[str], str]) -> None:
        self.events: list[AuditEvent] = []
        self._info = info
        self._workspace = workspace
        self._redact = redact
        self._senders: dict[int, str] = {}  # senders of queued inputs, by sequence
        self._turn = _AuditedTurn(person=info.person)

    def update_state(self, record: Record) -> None:
        """Update the state from a record whose event is in the log already."""
        if (update := _STATE_HANDLERS.get(type(record.event))) is not None:
            update(self, record, record.event)

    def add_record(self, record: Record) -> None:
        event = record.event
        if (update := _STATE_HANDLERS.get(type(event))) is not None:
            update(self, record, event)
        if (audit := _EVENT_HANDLERS.get(type(event))) is not None:
            audit(self, record, event)

    # --- state -----------------------------------------------------------------------------------

    def _track_input(self, record: Record, event: Received) -> None:
        self._senders[record.seq] = event.sender

    def _track_turn_start(self, record: Record, event: TurnStarted) -> None:
        people = [self._senders.pop(seq) for seq in event.inputs if seq in self._senders]
        person = sender_person(people[-1]) if people else self._info.person
        self._turn = _AuditedTurn(record.at, event.model, person)

    def _track_steering(self, record: Record, event: Steered) -> None:
        for seq in event.inputs:
            self._senders.pop(seq, None)

    def _track_message(self, record: Record, event: MessageAdded) -> None:
        if event.role != "assistant":
            return
        turn = self._turn
        turn.steps += 1
        turn.model = event.model or turn.model
        turn.add_usage(event.usage, event.cost)
        for part in event.parts:
            if isinstance(part, ToolCall):
                turn.calls[part.id] = part, record.at

    def _track_tool_start(self, record: Record, event: ToolStarted) -> None:
        self._turn.started_calls.add(event.call_id)
        if event.call_id in self._turn.calls:
            self._turn.calls[event.call_id] = self._turn.calls[event.call_id][0], record.at

    def _track_tool_result(self, record: Record, event: ToolFinished) -> None:
        name = event.result.name if self._tool_exists(event) else UNKNOWN_TOOL
        self._turn.tool_counts[name] = self._turn.tool_counts.get(name, 0) + 1
        self._turn.add_usage(event.usage, event.cost)

    def _tool_exists(self, event: ToolFinished) -> bool:
        return tool_exists(event.result, event.result.call_id in self._turn.started_calls)

    def _track_approval(self, record: Record, event: ApprovalAsked) -> None:
        self._turn.approvals[event.id] = event

    def _track_amendment(self, record: Record, event: ApprovalAnswered) -> None:
        request = self._turn.approvals.get(event.id)
        if request is not None and event.input is not None:
            self._turn.amended_arguments[request.call_id] = event.input

    def _track_judge_cost(self, record: Record, event: Judged) -> None:
        for score in event.scores:
            self._turn.add_usage(score.usage, score.cost)

    # --- audit events ----------------------------------------------------------------------------

    def _add_event(
        self,
        record: Record,
        kind: str,
        what: str = "",
        details: JsonMapping | None = None,
        person: str | None = None,
    ) -> None:
        """Add an event. `person` None: the person whose turn it is; empty: the owner."""
        self.events.append(
            AuditEvent(
                at=record.at,
                kind=kind,
                what=self._redact_name(what),
                workspace=self._workspace,
                session=self._info.key,
                turn=record.event.turn,
                record=record.seq,
                person=self._redact_name(self._turn.person if person is None else person),
                details=_encode_json(details).decode() if details else "{}",
            )
        )

    def _redact_name(self, text: str) -> str:
        """Redact a name, then cut it: a secret that was cut in two would not be recognised."""
        return self._redact(text)[:NAME_CHARS_MAX] if text else ""

    def _ascii_tool_name(self, name: str) -> str:
        """Return a tool name in ASCII: look-alike letters are shown as escapes."""
        return self._redact_name(name).encode("ascii", "backslashreplace").decode()[:NAME_CHARS_MAX]

    def _ascii_tool_names(self, names: Sequence[str]) -> list[str]:
        return [self._ascii_tool_name(name) for name in names[:NAMES_MAX]]

    def _audit_input(self, record: Record, event: Received) -> None:
        if event.kind == "overheard":
            return
        details: AuditDetails = {"digest": _input_digest(event), "parts": len(event.parts)}
        if event.heard is not None:
            details |= {"channel": event.heard.address.channel, "from": sha256_hex(event.heard.user)}
        if event.sender.startswith("agent:"):
            details["agent"] = self._redact_name(event.sender)
        self._add_event(record, "input", event.kind, details, sender_person(event.sender) or self._info.person)

    def _audit_tool_call(self, record: Record, event: ToolFinished) -> None:
        result = event.result
        call, since = self._turn.calls.get(result.call_id, (None, record.at))
        details: AuditDetails = {
            "call": result.call_id,
            "result": sha256_hex(result.content),
            "error": result.is_error,
        }
        if call is not None:
            details["arguments"] = sha256_hex(self._turn.amended_arguments.get(call.id, call.input))
            details["ms"] = max(0, record.at - since)
        if result.call_id in self._turn.amended_arguments:
            details["amended"] = True
        if result.origin:
            details["origin"] = self._redact_name(result.origin)
        if event.usage is not None:
            details |= _usage_details(event.usage, event.cost)
        name = call.name if call is not None else result.name
        if not self._tool_exists(event):  # the name is in the journal; its digest can confirm it
            details["name"], name = sha256_hex(name), UNKNOWN_TOOL
            if similar := suggested_tool(result):
                details["like"] = self._ascii_tool_name(similar)
        self._add_event(record, "tool", self._ascii_tool_name(name), details)

    def _audit_approval_answer(self, record: Record, event: ApprovalAnswered) -> None:
        details: AuditDetails = {"id": event.id}
        if (request := self._turn.approvals.get(event.id)) is not None:
            details |= {"call": request.call_id, "tool": self._ascii_tool_name(request.name)}
        if event.input is not None:
            details["amended"] = sha256_hex(event.input)
        if event.always:
            details["always"] = self._redact_name(event.always)
        if event.result is not None:
            details["result"] = sha256_hex(event.result)
        self._add_event(record, "approval.answered", event.verdict, details, event.by)

    def _audit_guard_action(self, record: Record, event: Guarded) -> None:
        details: AuditDetails = {"stage": event.stage}
        if event.kinds:
            details["kinds"] = [self._redact_name(kind) for kind in event.kinds[:NAMES_MAX]]
        if event.call_id:
            details["call"] = event.call_id
            if event.call_id in self._turn.calls:
                details["tool"] = self._ascii_tool_name(self._turn.calls[event.call_id][0].name)
        if event.note:
            details["why"] = sha256_hex(event.note)
            if (rule := _RULE_PATTERN.fullmatch(event.note)) is not None:
                details["rule"] = self._redact_name(rule[1])
        self._add_event(record, "policy" if event.stage == "policy" else "guard", event.action, details)

    def _audit_turn_end(self, record: Record, event: TurnEnded) -> None:
        turn = self._turn
        details: AuditDetails = {"model": self._redact_name(turn.model), "steps": turn.steps}
        details |= _usage_details(turn.usage, turn.cost)
        if turn.started_at:
            details["ms"] = max(0, record.at - turn.started_at)
        if turn.tool_counts:
            details["tools"] = {
                self._ascii_tool_name(name): count for name, count in list(turn.tool_counts.items())[:NAMES_MAX]
            }
        outcome = "failed"
        match event.outcome:
            case Answered(score=score, passed=passed):
                outcome = "answered"
                if score is not None:
                    details |= {"score": score, "passed": passed}
            case Aborted():
                outcome = "aborted"
            case Exhausted(bound=bound):
                outcome, details["bound"] = "exhausted", self._redact_name(bound)
            case Paused():
                outcome = "paused"
            case Failed(details=error) if error.isidentifier():  # the error class, and no more than that
                details["error"] = error
        self._add_event(record, "turn", outcome, details)
        self._turn = _AuditedTurn(person=self._info.person)

    def _audit_settings(self, record: Record, event: SessionChanged) -> None:
        """Audit which settings changed; of model and status also the new value."""
        fields = ("title", "status", "model", "instructions", "amended", "profile", "metadata", "guests", "budget")
        changed = [name for name in fields if getattr(event, name) is not None]
        details: AuditDetails = {
            name: self._redact_name(value) for name in ("status", "model") if (value := getattr(event, name))
        }
        if event.guests is not None:
            details["guests"] = self._ascii_tool_names([tool.name for tool in event.guests])
        if event.budget is not None:
            details |= {f"budget_{name}": limit for name, limit in msgspec.to_builtins(event.budget).items()}
        if changed and changed != ["instructions"] and changed != ["amended"]:  # these the runtime itself changes
            self._add_event(record, "settings", ", ".join(changed), details)

    def _audit_resumption(self, record: Record, event: TurnResumed) -> None:
        self._add_event(record, "turn.released" if event.released else "turn.resumed")

    def _audit_setting_aside(self, record: Record, event: TurnSetAside) -> None:
        self._add_event(record, "turn.set_aside", details={"crashes": event.crashes})

    def _audit_approval_request(self, record: Record, event: ApprovalAsked) -> None:
        details: AuditDetails = {"id": event.id, "call": event.call_id, "arguments": sha256_hex(event.input)}
        details |= {"expires": event.expires, "client": event.client}
        self._add_event(record, "approval.asked", self._ascii_tool_name(event.name), details)

    def _audit_spawn(self, record: Record, event: Spawned) -> None:
        details: AuditDetails = {
            "call": event.call_id,
            "depth": event.depth,
            "tools": self._ascii_tool_names(event.tools),
        }
        self._add_event(record, "spawned", event.parent, details, event.person)

    def _audit_judgement(self, record: Record, event: Judged) -> None:
        judges = {
            score.judge: "failed" if score.error or score.score is None else score.score for score in event.scores
        }
        details: AuditDetails = {"score": event.score, "attempt": event.attempt, "last": event.last, "judges": judges}
        self._add_event(record, "judged", "passed" if event.passed else "not passed", details)

    def _audit_fold(self, record: Record, event: Folded) -> None:
        details: AuditDetails = {"through": event.through} | _usage_details(event.usage or Usage(), event.cost)
        self._add_event(record, "folded", event.by or "outline", details)

    def _audit_delivery(self, record: Record, event: Delivered) -> None:
        details: AuditDetails = {"channel": event.to.channel, "to": sha256_hex(str(event.to)), "parts": len(event.ids)}
        self._add_event(record, "delivered", event.state, details)

    def _audit_fork(self, record: Record, event: Forked) -> None:
        self._add_event(record, "forked", event.parent, {"upto": event.upto})


AuditHandler = Callable[[_AuditEventBuilder, Record, Any], None]

_STATE_HANDLERS: dict[type[Event], AuditHandler] = {
    Received: _AuditEventBuilder._track_input,
    TurnStarted: _AuditEventBuilder._track_turn_start,
    Steered: _AuditEventBuilder._track_steering,
    MessageAdded: _AuditEventBuilder._track_message,
    ToolStarted: _AuditEventBuilder._track_tool_start,
    ToolFinished: _AuditEventBuilder._track_tool_result,
    ApprovalAsked: _AuditEventBuilder._track_approval,
    ApprovalAnswered: _AuditEventBuilder._track_amendment,
    Judged: _AuditEventBuilder._track_judge_cost,
}
_EVENT_HANDLERS: dict[type[Event], AuditHandler] = {
    Received: _AuditEventBuilder._audit_input,
    TurnResumed: _AuditEventBuilder._audit_resumption,
    TurnSetAside: _AuditEventBuilder._audit_setting_aside,
    ToolFinished: _AuditEventBuilder._audit_tool_call,
    ApprovalAsked: _AuditEventBuilder._audit_approval_request,
    ApprovalAnswered: _AuditEventBuilder._audit_approval_answer,
    Guarded: _AuditEventBuilder._audit_guard_action,
    Spawned: _AuditEventBuilder._audit_spawn,
    Judged: _AuditEventBuilder._audit_judgement,
    Folded: _AuditEventBuilder._audit_fold,
    TurnEnded: _AuditEventBuilder._audit_turn_end,
    Delivered: _AuditEventBuilder._audit_delivery,
    SessionChanged: _AuditEventBuilder._audit_settings,
    Forked: _AuditEventBuilder._audit_fork,
}


def _usage_details(usage: Usage, cost: float) -> AuditDetails:
    details: AuditDetails = {"prompt": usage.prompt, "completion": usage.completion}
    if usage.cached:
        details["cached"] = usage.cached
    return details | {"cost": cost}


def _input_digest(event: Received) -> str:
    texts = [part.text if isinstance(part, Text) else _part_digest(part) for part in event.parts]
    return sha256_hex("\n".join(texts))


def _part_digest(part: AnyPart) -> str:
    return sha256_hex(part.data) if isinstance(part, Binary) else type(part).__name__
