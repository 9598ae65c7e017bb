"""What is counted of every turn, from the journals: how many, how long, how much."""

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
from mainstay.core.following import Stretch
from mainstay.core.journal import Record
from mainstay.core.messages import Usage
from mainstay.core.ports import Standing
from mainstay.observe.called import UNKNOWN, was_there
from mainstay.observe.metrics import DURATIONS_S, TOKENS, Counter, Histogram, Metric, label
from mainstay.observe.spans import Telling, provider_name

_MODEL = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")


class Counts:
    """Of all workspaces of a process together, since it began."""

    def __init__(self) -> None:
        self.turns = Counter("mainstay_turns_total", "Turns that ended, by how.", ("agent", "outcome"))
        self.turn_s = Histogram(
            "mainstay_turn_duration_seconds",
            "How long turns took, waiting included.",
            DURATIONS_S,
            ("agent", "outcome"),
        )
        self.resumed = Counter("mainstay_turns_resumed_total", "Turns taken up after their process stopped.")
        self.restarted = Counter("mainstay_steps_restarted_total", "Model calls that broke off and were asked again.")
        self.operation_s = Histogram(
            "gen_ai_client_operation_duration_seconds",
            "How long model and tool calls took.",
            DURATIONS_S,
            _MODEL,
        )
        self.usage = Histogram(
            "gen_ai_client_token_usage", "Tokens of a model call.", TOKENS, (*_MODEL, "gen_ai_token_type")
        )
        self.tokens = Counter("mainstay_tokens_total", "Tokens used.", ("kind", "type"))
        self.cost = Counter("mainstay_cost_dollars_total", "What model calls cost.", ("kind",))
        self.tools = Counter("mainstay_tool_calls_total", "Tool calls.", ("tool", "result"))
        self.approvals = Counter("mainstay_approvals_total", "Approvals that were answered, by verdict.", ("verdict",))
        self.guards = Counter("mainstay_guard_actions_total", "What guards did.", ("stage", "action"))
        self.judged = Counter("mainstay_judgements_total", "Answers that were judged, by result.", ("result",))
        self.folds = Counter("mainstay_folds_total", "Summaries made of what left a window.")

    def metrics(self) -> Sequence[Metric]:
        return tuple(vars(self).values())

    def spent(self, kind: str, usage: Usage | None, cost: float) -> None:
        if usage is not None:
            self.tokens.add(kind, "input", by=usage.prompt)
            self.tokens.add(kind, "output", by=usage.completion)
            if usage.cached:
                self.tokens.add(kind, "cached", by=usage.cached)
        if cost:
            self.cost.add(kind, by=cost)


class CountingReader:
    """Counts what is new since it began; a counter that begins at zero is what Prometheus expects of a process."""

    name = "metrics"

    def __init__(self, counts: Counts, telling: Telling, heads: Mapping[str, int]) -> None:
        """`heads`: where sessions stood before anything was done in this process."""
        self._places = dict(heads)
        self._counts = counts
        self._telling = telling

    async def positions(self) -> dict[str, int]:
        return dict(self._places)

    async def take(self, stretch: Stretch) -> None:
        turn = _Turn(self._counts, self._telling, stretch.standing)
        for record in stretch.earlier:
            turn.follow(record)
        for record in stretch.records:
            turn.count(record)
            turn.follow(record)
        self._places[stretch.standing.key] = stretch.records[-1].seq


class _Turn:
    """Where a turn stands, as far as times need it."""

    def __init__(self, counts: Counts, telling: Telling, standing: Standing) -> None:
        self._counts = counts
        self._telling = telling
        self._agent = "main" if standing.errand is None else "sub"
        self._model = standing.model
        self._begun = 0
        self._edge = 0
        self._started: dict[str, int] = {}

    def follow(self, record: Record) -> None:
        match record.event:
            case Received() | StepCheckpointed():
                return
            case TurnStarted(model=model):
                self._model, self._begun = model, record.at
                self._started.clear()
            case ToolStarted(call_id=call_id):
                self._started.setdefault(call_id, record.at)
        self._edge = record.at

    def count(self, record: Record) -> None:
        counts, event, at = self._counts, record.event, record.at
        match event:
            case MessageAdded(role="assistant", usage=usage, cost=cost) if usage is not None:
                operation = self._operation("chat", event.model)
                counts.operation_s.observe(max(at - self._edge, 0) / 1000 if self._edge else 0.0, *operation)
                counts.usage.observe(usage.prompt, *operation, "input")
                counts.usage.observe(usage.completion, *operation, "output")
                counts.spent("turn", usage, cost)
            case ToolFinished(result=result):
                name = label(result.name) if was_there(result, result.call_id in self._started) else UNKNOWN
                counts.tools.add(name, "error" if result.is_error else "ok")
                since = self._started.get(result.call_id, self._edge) or at
                counts.operation_s.observe(max(at - since, 0) / 1000, "execute_tool", "", "")
            case TurnEnded(outcome=outcome):
                name = type(outcome).__name__.lower()
                counts.turns.add(self._agent, name)
                if self._begun:
                    counts.turn_s.observe(max(at - self._begun, 0) / 1000, self._agent, name)
            case _:
                self._aside(event)

    def _aside(self, event: Event) -> None:
        counts = self._counts
        match event:
            case TurnResumed():
                counts.resumed.add()
            case StepRestarted():
                counts.restarted.add()
            case ApprovalAnswered(verdict=verdict):
                counts.approvals.add(verdict)
            case Guarded(stage=stage, action=action):
                counts.guards.add(stage, action)
            case Settled(usage=usage, cost=cost):
                counts.spent("turn", usage, cost)
            case Folded(usage=usage, cost=cost):
                counts.folds.add()
                counts.spent("fold", usage, cost)
            case Judged(scores=scores, passed=passed):
                counts.judged.add("passed" if passed else "failed")
                for score in scores:
                    counts.spent("judge", score.usage, score.cost)

    def _operation(self, name: str, answered: str) -> tuple[str, str, str]:
        model = self._telling.model(answered or self._model)
        return name, label(provider_name(model.provider)), label(model.name)
