"""Builds the spans of a turn from its journal records; a pure function.

The journal has the end of every operation, and the start only of tool calls that are not pure, of model calls under a
budget and of approvals. Other operations start at the end of the previous one, when the turn loop turned to them: so
preparing a request counts as part of the model call, and tool calls that ran concurrently start together. Records may
be written up to 20 ms late, together with others; times are not more accurate than that.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from mainstay.core.budget_ports import NANODOLLARS_PER_DOLLAR
from mainstay.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    Folded,
    Guarded,
    Judged,
    MessageAdded,
    Received,
    Relieved,
    Reserved,
    Score,
    Settled,
    Steered,
    StepCheckpointed,
    StepRestarted,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    TurnStarted,
)
from mainstay.core.journal import Record
from mainstay.core.memory_tiers import CONTEXT_ORIGIN, RUNTIME, UNTRUSTED
from mainstay.core.messages import Finish, Text, ToolCall, Usage
from mainstay.core.outcome import Failed, Outcome
from mainstay.core.turn_location import span_id
from mainstay.observe.span_content import encode_input_messages, encode_output_message
from mainstay.observe.span_types import (
    Attributes,
    Span,
    SpanEvent,
    TelemetryOptions,
    TraceContext,
    add_outcome_attributes,
    finish_reason_name,
    fold_attributes,
    usage_attributes,
)
from mainstay.observe.unknown_tools import UNKNOWN_TOOL, tool_exists

MEMORY_TOOLS = frozenset(("memory_search", "memory_get", "memory_summary", "memory_recall", "memory_semantic"))
_ALWAYS_NAMED_TOOLS = MEMORY_TOOLS | {"spawn"}  # their names are shown even if the call did not run
NAME_CHARS_MAX = 100  # of a tool
# only occur in a turn
_TURN_EVENTS = MessageAdded | ToolStarted | ToolFinished | TurnResumed | TurnEnded | StepRestarted


def build_turn_spans(
    records: Iterable[Record], context: TraceContext, options: TelemetryOptions, now_ms: int | None = None
) -> list[Span]:
    """Return the spans of one turn, the turn itself first; of sub-agents only the calls that spawned them. A turn that
    has not ended has no spans without `now_ms`, until which unfinished operations are shown."""
    builder = _TurnSpanBuilder(context, options)
    for record in records:
        builder.add_record(record)
    return builder.build_spans(now_ms)


class _PendingToolCall:
    """A tool call that the model requested and that has no result yet."""

    __slots__ = ("events", "is_denied", "requested_at", "started_at", "step", "tool_call")

    def __init__(self, tool_call: ToolCall, step: int, requested_at: int) -> None:
        self.tool_call = tool_call
        self.step = step
        self.requested_at = requested_at
        self.started_at: int | None = None  # ms; None: not in the journal
        self.is_denied = False
        self.events: list[SpanEvent] = []


class _TurnSpanBuilder:
    """Collects spans record by record. Times are in ms."""

    def __init__(self, context: TraceContext, options: TelemetryOptions) -> None:
        self._context = context
        self._options = options
        self._root_id = span_id(context.trace_id, context.id_prefix + "turn")
        self._spans: list[Span] = []
        self._events: list[SpanEvent] = []
        self._turn_start = 0
        self._turn_end = 0
        self._outcome: Outcome | None = None
        self._turn = 0
        self._model = ""
        self._inputs: dict[int, Record] = {}  # by sequence
        self._consumed_inputs: list[int] = []  # sequences of the inputs that the turn consumed
        self._usage: Usage | None = None
        self._cost = 0.0
        self._last_end = 0  # end of the last operation, which is the start of the next
        self._last_record_at = 0  # time of the previous record
        self._step = 0
        self._key_counts: dict[str, int] = {}  # spans so far, by key
        self._last_checkpoint_at = 0  # time of the last streaming checkpoint of the running step; 0: none
        self._pending_calls: dict[str, _PendingToolCall] = {}  # by call id
        self._last_call_times: tuple[int, int] = (0, 0)  # start and end of the tool call that ended last
        self._pending_approvals: dict[str, tuple[int, ApprovalAsked]] = {}  # pending approvals, by id, with their start
        self._fold_start = 0  # start of the running fold; 0: none

    def add_record(self, record: Record) -> None:
        at, event = max(record.at, self._last_record_at), record.event  # the clock may have been set back
        # the turn is so long that its first records were left out
        if not self._turn and isinstance(event, _TURN_EVENTS):
            self._turn, self._turn_start, self._last_end = event.turn, at, at
        elif not self._turn and not isinstance(event, Received | TurnStarted):
            return  # a record between two turns belongs to neither
        match event:
            case Received():
                self._inputs[record.seq] = record
                return  # not an operation of the turn: it may have been queued long before, or arrived in the middle
            case TurnStarted():
                self._turn, self._model, self._turn_start = event.turn, event.model, at
                self._consumed_inputs += event.inputs
            case TurnResumed():
                self._add_interruption(at)
            case MessageAdded():
                self._add_message(at, event)
            case ToolStarted() | ToolFinished():
                self._track_tool(at, event)
            case ApprovalAsked() | ApprovalAnswered():
                self._track_approval(at, event)
            case StepCheckpointed():
                self._last_checkpoint_at, self._last_record_at = at, at
                return
            case StepRestarted():
                self._add_model_call(at, event.step, {}, "stream_broken", event.reason)
                self._add_event(at, "mainstay.step.restarted", {"mainstay.step": event.step})
            case Settled(usage=usage, cost=cost):  # the next record is the end of the call or of the turn
                self._add_usage(usage, cost)
                self._last_record_at = at
                return
            case Reserved():
                self._track_reservation(at, event)
            case Judged():
                self._add_judgement(at, event)
            case TurnEnded():
                self._turn_end, self._outcome = at, event.outcome
                if isinstance(event.outcome, Failed) and event.outcome.step > self._step and not self._pending_calls:
                    self._add_model_call(at, event.outcome.step, {}, "model_failed", event.outcome.sentence)
            case _:
                self._add_other(at, event)
        self._last_end = self._last_record_at = at

    # --- operations of a turn --------------------------------------------------------------------

    def _add_message(self, at: int, event: MessageAdded) -> None:
        if event.role == "system":
            self._add_notes(at, event)
        if event.role != "assistant":
            return
        if event.usage is None and _is_runtime_message(event):  # no model was called
            self._add_event(at, "mainstay.stopped", {})
            return
        attributes = usage_attributes(event.usage, event.cost)
        finish = next((part.reason for part in event.parts if isinstance(part, Finish)), None)
        if finish is not None:
            attributes["gen_ai.response.finish_reasons"] = (finish_reason_name(finish),)
        if event.model:
            attributes["gen_ai.response.model"] = self._options.find_model(event.model).name
        if self._options.include_content:
            attributes["gen_ai.output.messages"] = encode_output_message(event, self._options)
        self._add_model_call(at, event.step, attributes)
        self._add_usage(event.usage, event.cost)
        self._step = event.step
        self._pending_calls |= {
            part.id: _PendingToolCall(part, event.step, at) for part in event.parts if isinstance(part, ToolCall)
        }

    def _add_notes(self, at: int, event: MessageAdded) -> None:
        """Add an event for each note of a contributor: which skill, pattern or hint was chosen for the turn."""
        for part in event.parts:
            source = part.origin.removeprefix(f"{UNTRUSTED}:")
            if source.startswith(CONTEXT_ORIGIN):
                name = source.removeprefix(CONTEXT_ORIGIN).removeprefix(":") or CONTEXT_ORIGIN
                self._add_event(at, "mainstay.note", {"mainstay.note.source": self._options.redact_text(name)})

    def _add_model_call(self, at: int, step: int, extra: Attributes, error: str = "", error_message: str = "") -> None:
        model = self._options.find_model(self._model)
        attributes: Attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": model.provider,
            "gen_ai.request.model": model.name,
            "mainstay.step": step,
        }
        if model.host:
            attributes["server.address"] = model.host
        if not error:
            attributes["gen_ai.response.model"] = model.name
        span = self._new_span(f"chat {model.name}", (self._last_end, at), attributes | extra)
        self._add_span(f"step {step}", replace(span, kind="client", error_type=error, error_message=error_message))
        self._last_checkpoint_at = 0

    def _track_tool(self, at: int, event: ToolStarted | ToolFinished) -> None:
        if isinstance(event, ToolStarted):
            if (pending := self._pending_calls.get(event.call_id)) is not None and pending.started_at is None:
                pending.started_at = at
            return
        result = event.result
        unknown = ToolCall(result.call_id, result.name, "")
        call = self._pending_calls.pop(result.call_id, None) or _PendingToolCall(unknown, event.step, self._last_end)
        start = call.started_at
        if start is None:  # calls that ended together ran concurrently
            start = (
                self._last_call_times[0]
                if self._last_call_times[1] == at and self._last_call_times[0] >= call.requested_at
                else self._last_end
            )
        self._last_call_times = start, at
        attributes = usage_attributes(event.usage, event.cost)
        if self._options.include_content:
            attributes["gen_ai.tool.call.result"] = self._options.redact_text(result.content)
        error = "" if not result.is_error else "denied" if call.is_denied else "tool_error"
        exists = tool_exists(result, call.started_at is not None) or call.tool_call.name in _ALWAYS_NAMED_TOOLS
        self._add_tool_call(call, replace(self._new_span("", (start, at), attributes), error_type=error), exists)
        self._add_usage(event.usage, event.cost)

    def _add_tool_call(self, call: _PendingToolCall, span: Span, exists: bool = True) -> None:
        part = call.tool_call
        name = self._options.redact_text(part.name, NAME_CHARS_MAX) if exists else UNKNOWN_TOOL
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": part.id,
            "gen_ai.tool.type": "function",
            "mainstay.step": call.step,
        }
        if self._options.include_content:
            attributes["gen_ai.tool.call.arguments"] = self._options.redact_text(part.input)
        execution = replace(
            span, name=f"execute_tool {name}", attributes=attributes | span.attributes, events=tuple(call.events)
        )
        id = self._add_span(f"call {part.id}", execution)
        if part.name in MEMORY_TOOLS:
            retrieval: Attributes = {"gen_ai.operation.name": "retrieval", "gen_ai.data_source.id": "memory"}
            inner = replace(span, name="retrieval memory", attributes=retrieval, parent_id=id)
            self._add_span(f"retrieval {part.id}", inner)

    def _track_approval(self, at: int, event: ApprovalAsked | ApprovalAnswered) -> None:
        if isinstance(event, ApprovalAsked):
            self._pending_approvals[event.id] = at, event
            self._add_event(at, "mainstay.approval.asked", {"gen_ai.tool.call.id": event.call_id})
            return
        verdict: Attributes = {"mainstay.approval.verdict": event.verdict}
        self._add_event(at, "mainstay.approval.answered", verdict)
        if (pending := self._pending_approvals.pop(event.id, None)) is not None:
            since, request = pending
            if (call := self._pending_calls.get(request.call_id)) is not None:
                call.is_denied = event.verdict != "approved"
            self._add_wait(request, self._new_span("", (since, at), verdict))

    def _add_wait(self, request: ApprovalAsked, span: Span) -> None:
        name = self._options.redact_text(request.name, NAME_CHARS_MAX)
        # a client tool: the client runs it and returns the result
        operation = "client" if request.client else "approval"
        attributes: Attributes = {"gen_ai.tool.name": name, "gen_ai.tool.call.id": request.call_id, **span.attributes}
        self._add_span(f"{operation} {request.id}", replace(span, name=f"{operation} {name}", attributes=attributes))

    def _add_judgement(self, at: int, event: Judged) -> None:
        for score in event.scores:
            self._add_judge_call(at, score, event.attempt)
            self._add_usage(score.usage, score.cost)
        if not event.passed:
            name = "mainstay.judge.failed" if event.last else "mainstay.correction"
            self._add_event(at, name, {"gen_ai.evaluation.score.value": event.score, "mainstay.attempt": event.attempt})

    def _add_judge_call(self, at: int, score: Score, attempt: int) -> None:
        attributes: Attributes = {"gen_ai.evaluation.name": score.judge, "mainstay.attempt": attempt}
        if score.score is not None:
            attributes["gen_ai.evaluation.score.value"] = score.score
        if self._options.include_content and score.reason:
            attributes["gen_ai.evaluation.explanation"] = self._options.redact_text(score.reason)
        start = max(at - round(score.seconds * 1000), self._last_end)
        span = self._new_span(
            f"judge {score.judge}", (start, at), attributes | usage_attributes(score.usage, score.cost)
        )
        error = "judge_failed" if score.error else ""
        self._add_span(f"judge {score.judge}", replace(span, error_type=error, error_message=score.error))

    def _track_reservation(self, at: int, event: Reserved) -> None:
        if event.id.startswith("fold"):
            self._fold_start = at
        elif not event.id.startswith("judge") and at > self._last_end:
            attributes: Attributes = {"mainstay.budget.reserved": event.cost / NANODOLLARS_PER_DOLLAR}
            self._add_span(f"prepare {event.id}", self._new_span("prepare", (self._last_end, at), attributes))

    def _add_other(self, at: int, event: Event) -> None:
        match event:
            case Guarded():
                self._add_guard_event(at, event)
            case Steered(inputs=inputs):
                self._consumed_inputs += inputs
                self._add_event(at, "mainstay.steered", {})
            case Relieved():
                self._add_event(at, "mainstay.context.relieved", {})
            case Folded(usage=usage, cost=cost):
                span = self._new_span("fold", (self._fold_start or at, at), fold_attributes(event, self._options))
                self._add_span(f"fold {event.version}", span)
                self._add_usage(usage, cost)
                self._fold_start = 0

    def _add_guard_event(self, at: int, event: Guarded) -> None:
        attributes: Attributes = {"mainstay.guard.stage": event.stage, "mainstay.guard.action": event.action}
        if event.kinds:
            attributes["mainstay.guard.kinds"] = event.kinds
        call = self._pending_calls.get(event.call_id)
        (self._events if call is None else call.events).append(SpanEvent(at, "mainstay.guard", attributes))
        if call is not None and event.action == "denied":
            call.is_denied = True

    def _add_interruption(self, at: int) -> None:
        """Add a span for the interruption: the process stopped at an unknown time after the previous record."""
        if self._last_checkpoint_at:
            self._add_model_call(self._last_checkpoint_at, self._step + 1, {}, "interrupted")
        self._add_span(
            "interrupted",
            replace(self._new_span("interrupted", (self._last_record_at, at), {}), error_type="process_stopped"),
        )
        for call in self._pending_calls.values():
            if call.started_at is not None:
                call.events.append(SpanEvent(at, "mainstay.turn.resumed"))
        self._add_event(at, "mainstay.turn.resumed", {})

    # --- spans -----------------------------------------------------------------------------------

    def _add_usage(self, usage: Usage | None, cost: float) -> None:
        if usage is not None:
            self._usage = usage if self._usage is None else self._usage + usage
        self._cost += cost

    def _add_event(self, at: int, name: str, attributes: Attributes) -> None:
        self._events.append(SpanEvent(at, name, attributes))

    def _new_span(self, name: str, period: tuple[int, int], attributes: Attributes) -> Span:
        start = max(min(period), self._turn_start)
        return Span(
            id="", name=name, start=start, end=max(period[1], start), parent_id=self._root_id, attributes=attributes
        )

    def _add_span(self, key: str, span: Span) -> str:
        """Add a span and return its id, which is derived from the key and how often the key occurred."""
        tries = self._key_counts[key] = self._key_counts.get(key, 0) + 1
        name = key if tries == 1 else f"{key} try {tries}"
        id = span_id(self._context.trace_id, self._context.id_prefix + name)
        span.attributes["gen_ai.conversation.id"] = self._context.session
        if span.error_type:
            span.attributes["error.type"] = span.error_type
        self._spans.append(replace(span, id=id, error_message=self._options.error_message(span.error_message)))
        return id

    def build_spans(self, now_ms: int | None) -> list[Span]:
        if not self._turn or (not self._turn_end and now_ms is None):
            return []
        if not self._turn_end and now_ms is not None:
            self._add_unfinished(max(now_ms, self._last_record_at))
        return [self._turn_span(now_ms), *sorted(self._spans, key=lambda span: (span.start, span.end))]

    def _add_unfinished(self, now_ms: int) -> None:
        """Add spans for the operations that are not finished."""
        for since, request in self._pending_approvals.values():
            self._add_wait(request, replace(self._new_span("", (since, now_ms), {}), is_open=True))
        for call in () if self._pending_approvals else self._pending_calls.values():
            start = self._last_end if call.started_at is None else call.started_at
            self._add_tool_call(call, replace(self._new_span("", (start, now_ms), {}), is_open=True))
        if not self._pending_approvals and not self._pending_calls:
            self._add_model_call(now_ms, self._step + 1, {})
            self._spans[-1] = replace(self._spans[-1], is_open=True)

    def _turn_span(self, now_ms: int | None) -> Span:
        context, options = self._context, self._options
        name = "sub-agent" if context.id_prefix else options.workspace or "mainstay"
        model = options.find_model(self._model)
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": name,
            "gen_ai.provider.name": model.provider,
            "gen_ai.request.model": model.name,
            "gen_ai.conversation.id": context.session,
            "mainstay.session": context.session,
            "mainstay.turn": self._turn,
            "mainstay.steps": self._step,
            **usage_attributes(self._usage, self._cost),
        }
        if options.workspace:
            attributes["mainstay.workspace"] = options.workspace
        inputs = [self._inputs[seq] for seq in self._consumed_inputs if seq in self._inputs]
        if inputs and (queued := self._turn_start - inputs[0].at) > 0:
            attributes["mainstay.queued_ms"] = queued
        if options.include_content and inputs:
            messages = [record.event.parts for record in inputs if isinstance(record.event, Received)]
            attributes["gen_ai.input.messages"] = encode_input_messages(messages, options)
        error, note = add_outcome_attributes(attributes, self._outcome)
        return Span(
            id=self._root_id,
            name=f"invoke_agent {name}",
            start=self._turn_start,
            end=self._turn_end or max(now_ms or 0, self._last_record_at),
            parent_id=context.parent_id,
            attributes=attributes,
            events=tuple(self._events),
            error_type=error,
            error_message=options.error_message(note),
            is_open=not self._turn_end,
        )


def _is_runtime_message(event: MessageAdded) -> bool:
    """Return True if the runtime wrote the message in place of the model."""
    texts = [part for part in event.parts if isinstance(part, Text)]
    return bool(texts) and all(part.origin == RUNTIME for part in texts)
