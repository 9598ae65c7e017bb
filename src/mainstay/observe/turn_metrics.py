"""Metrics of turns, model calls and tool calls, and the projection that updates them from the journals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mainstay.core.events import (
    ApprovalAnswered,
    Event,
    Folded,
    Guarded,
    Judged,
    MessageAdded,
    Received,
    Settled,
    StepCheckpointed,
    StepRestarted,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    TurnStarted,
)
from mainstay.core.journal import Record
from mainstay.core.messages import Usage
from mainstay.core.ports import SessionInfo
from mainstay.core.projection_ports import JournalBatch
from mainstay.observe.metrics import DURATION_BUCKETS_S, TOKEN_BUCKETS, Counter, Histogram, Metric, safe_label
from mainstay.observe.span_types import TelemetryOptions
from mainstay.observe.unknown_tools import UNKNOWN_TOOL, tool_exists

_MODEL_LABELS = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")  # labels


class TurnMetrics:
    """Counters and histograms of all workspaces of a process, since it started."""

    def __init__(self) -> None:
        self.turns = Counter("mainstay_turns_total", "Turns that ended, by outcome.", ("agent", "outcome"))
        self.turn_duration_s = Histogram(
            "mainstay_turn_duration_seconds",
            "Duration of turns, including time spent waiting.",
            DURATION_BUCKETS_S,
            ("agent", "outcome"),
        )
        self.turns_resumed = Counter("mainstay_turns_resumed_total", "Turns resumed after their process stopped.")
        self.steps_restarted = Counter("mainstay_steps_restarted_total", "Model calls that broke off and were retried.")
        self.operation_duration_s = Histogram(
            "gen_ai_client_operation_duration_seconds",
            "Duration of model and tool calls.",
            DURATION_BUCKETS_S,
            _MODEL_LABELS,
        )
        self.call_tokens = Histogram(
            "gen_ai_client_token_usage", "Tokens of a model call.", TOKEN_BUCKETS, (*_MODEL_LABELS, "gen_ai_token_type")
        )
        self.tokens = Counter("mainstay_tokens_total", "Tokens used.", ("kind", "type"))
        self.cost = Counter("mainstay_cost_dollars_total", "Cost of model calls in dollars.", ("kind",))
        self.tool_calls = Counter("mainstay_tool_calls_total", "Tool calls.", ("tool", "result"))
        self.approvals = Counter("mainstay_approvals_total", "Approvals that were answered, by verdict.", ("verdict",))
        self.guard_actions = Counter("mainstay_guard_actions_total", "Actions of guards.", ("stage", "action"))
        self.judgements = Counter("mainstay_judgements_total", "Answers that were judged, by result.", ("result",))
        self.folds = Counter("mainstay_folds_total", "Folds: summaries of old turns.")

    def metrics(self) -> Sequence[Metric]:
        return tuple(vars(self).values())

    def add_usage(self, kind: str, usage: Usage | None, cost: float) -> None:
        if usage is not None:
            self.tokens.add(kind, "input", amount=usage.prompt)
            self.tokens.add(kind, "output", amount=usage.completion)
            if usage.cached:
                self.tokens.add(kind, "cached", amount=usage.cached)
        if cost:
            self.cost.add(kind, amount=cost)


class MetricsProjection:
    """Projection that updates the metrics from records written since the process started: Prometheus expects the
    counters of a new process to begin at zero."""

    name = "metrics"

    def __init__(self, metrics: TurnMetrics, options: TelemetryOptions, heads: Mapping[str, int]) -> None:
        """`heads`: last record of each session at the start of this process."""
        self._positions = dict(heads)
        self._metrics = metrics
        self._options = options

    async def positions(self) -> dict[str, int]:
        return dict(self._positions)

    async def apply(self, batch: JournalBatch) -> None:
        turn = _TurnTimes(self._metrics, self._options, batch.info)
        for record in batch.earlier:
            turn.track_record(record)
        for record in batch.records:
            turn.count_record(record)
            turn.track_record(record)
        self._positions[batch.info.key] = batch.records[-1].seq


class _TurnTimes:
    """State of a session's turn that durations need."""

    def __init__(self, metrics: TurnMetrics, options: TelemetryOptions, info: SessionInfo) -> None:
        self._metrics = metrics
        self._options = options
        self._agent = "main" if info.spawned is None else "sub"
        self._model = info.model
        self._turn_start = 0  # ms; 0: not known
        self._last_end = 0  # ms; time of the last record that ends an operation; 0: not known
        self._call_starts: dict[str, int] = {}  # ms, by call id

    def track_record(self, record: Record) -> None:
        match record.event:
            case Received() | StepCheckpointed():
                return
            case TurnStarted(model=model):
                self._model, self._turn_start = model, record.at
                self._call_starts.clear()
            case ToolStarted(call_id=call_id):
                self._call_starts.setdefault(call_id, record.at)
        self._last_end = record.at

    def count_record(self, record: Record) -> None:
        counts, event, at = self._metrics, record.event, record.at
        match event:
            case MessageAdded(role="assistant", usage=usage, cost=cost) if usage is not None:
                operation = self._operation_labels("chat", event.model)
                counts.operation_duration_s.observe(
                    max(at - self._last_end, 0) / 1000 if self._last_end else 0.0, *operation
                )
                counts.call_tokens.observe(usage.prompt, *operation, "input")
                counts.call_tokens.observe(usage.completion, *operation, "output")
                counts.add_usage("turn", usage, cost)
            case ToolFinished(result=result):
                name = (
                    safe_label(result.name)
                    if tool_exists(result, result.call_id in self._call_starts)
                    else UNKNOWN_TOOL
                )
                counts.tool_calls.add(name, "error" if result.is_error else "ok")
                since = self._call_starts.get(result.call_id, self._last_end) or at
                counts.operation_duration_s.observe(max(at - since, 0) / 1000, "execute_tool", "", "")
            case TurnEnded(outcome=outcome):
                name = type(outcome).__name__.lower()
                counts.turns.add(self._agent, name)
                if self._turn_start:
                    counts.turn_duration_s.observe(max(at - self._turn_start, 0) / 1000, self._agent, name)
            case _:
                self._count_other(event)

    def _count_other(self, event: Event) -> None:
        counts = self._metrics
        match event:
            case TurnResumed():
                counts.turns_resumed.add()
            case StepRestarted():
                counts.steps_restarted.add()
            case ApprovalAnswered(verdict=verdict):
                counts.approvals.add(verdict)
            case Guarded(stage=stage, action=action):
                counts.guard_actions.add(stage, action)
            case Settled(usage=usage, cost=cost):
                counts.add_usage("turn", usage, cost)
            case Folded(usage=usage, cost=cost):
                counts.folds.add()
                counts.add_usage("fold", usage, cost)
            case Judged(scores=scores, passed=passed):
                counts.judgements.add("passed" if passed else "failed")
                for score in scores:
                    counts.add_usage("judge", score.usage, score.cost)

    def _operation_labels(self, operation: str, response_model: str) -> tuple[str, str, str]:
        model = self._options.find_model(response_model or self._model)
        return operation, safe_label(model.provider), safe_label(model.name)
