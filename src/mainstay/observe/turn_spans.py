"""From the records of a turn to its spans: a pure function, for whoever exports them and whoever only looks.

The journal says when something was over, and of some things when they began: of calls that are not pure, of model calls
under a budget, of approvals. Of the others the beginning is the end of what came before them, which is when the loop
turned to them: preparing a request is counted to the model call, and calls that ran beside each other begin together.
Records ride along with others for up to 20 ms, and no time is known more closely than that.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from mainstay.core.accounts import NANO
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
from mainstay.core.messages import Finish, Text, ToolCall, Usage
from mainstay.core.outcome import Failed, Outcome
from mainstay.core.recall import RUNTIME
from mainstay.core.tracing import span_id
from mainstay.observe.called import UNKNOWN, was_there
from mainstay.observe.content import said_in, said_out
from mainstay.observe.spans import (
    Attributes,
    Lineage,
    Mark,
    Span,
    Telling,
    fold_attributes,
    outcome_attributes,
    provider_name,
    reason_name,
    usage_attributes,
)

FROM_MEMORY = frozenset(("memory_search", "memory_get", "memory_summary", "memory_recall", "memory_semantic"))
OURS = FROM_MEMORY | {"spawn"}  # names that nobody need make up
NAME_CHARS_MAX = 100  # of a tool's


_WITHIN = MessageAdded | ToolStarted | ToolFinished | TurnResumed | TurnEnded | StepRestarted


def turn_spans(records: Iterable[Record], lineage: Lineage, telling: Telling, now: int | None = None) -> list[Span]:
    """The spans of one turn, the turn itself first; of sub-agents only the calls that sent them. What is not over is
    left out, unless `now` says until when it has lasted."""
    builder = _Builder(lineage, telling)
    for record in records:
        builder.take(record)
    return builder.spans(now)


class _Call:
    """A tool call between being asked for and being over."""

    __slots__ = ("asked", "denied", "marks", "part", "start", "step")

    def __init__(self, part: ToolCall, step: int, asked: int) -> None:
        self.part = part
        self.step = step
        self.asked = asked
        self.start: int | None = None  # where the journal says so
        self.denied = False
        self.marks: list[Mark] = []


class _Builder:
    def __init__(self, lineage: Lineage, telling: Telling) -> None:
        self._lineage = lineage
        self._telling = telling
        self._root = span_id(lineage.trace, lineage.prefix + "turn")
        self._spans: list[Span] = []
        self._marks: list[Mark] = []
        self._begun = 0
        self._ended = 0
        self._outcome: Outcome | None = None
        self._turn = 0
        self._model = ""
        self._inputs: dict[int, Record] = {}
        self._taken: list[int] = []
        self._usage: Usage | None = None
        self._cost = 0.0
        self._edge = 0  # until when everything is accounted for
        self._last = 0  # the time of the record before
        self._step = 0
        self._tries: dict[str, int] = {}
        self._streamed = 0  # until when a step that is not over has said something
        self._calls: dict[str, _Call] = {}
        self._beside: tuple[int, int] = (0, 0)  # begin and end of the calls that ended last
        self._asked: dict[str, tuple[int, ApprovalAsked]] = {}
        self._folding = 0

    def take(self, record: Record) -> None:
        at, event = max(record.at, self._last), record.event  # a clock may be set back; a turn goes on
        if not self._turn and isinstance(event, _WITHIN):  # a turn so long that its beginning is not told of any more
            self._turn, self._begun, self._edge = event.turn, at, at
        elif not self._turn and not isinstance(event, Received | TurnStarted):
            return  # what stands between two turns belongs to neither
        match event:
            case Received():
                self._inputs[record.seq] = record
                return  # it may have waited long before the turn, or come in the middle of it
            case TurnStarted():
                self._turn, self._model, self._begun = event.turn, event.model, at
                self._taken += event.inputs
            case TurnResumed():
                self._resumed(at)
            case MessageAdded():
                self._message(at, event)
            case ToolStarted() | ToolFinished():
                self._tool(at, event)
            case ApprovalAsked() | ApprovalAnswered():
                self._approval(at, event)
            case StepCheckpointed():
                self._streamed, self._last = at, at
                return
            case StepRestarted():
                self._chat(at, event.step, {}, "stream_broken", event.reason)
                self._mark(at, "mainstay.step.restarted", {"mainstay.step": event.step})
            case Settled(usage=usage, cost=cost):  # of a call whose end, or whose turn's, is told next
                self._spend(usage, cost)
                self._last = at
                return
            case Reserved():
                self._reserved(at, event)
            case Judged():
                self._judged(at, event)
            case TurnEnded():
                self._ended, self._outcome = at, event.outcome
                if isinstance(event.outcome, Failed) and event.outcome.step > self._step and not self._calls:
                    self._chat(at, event.outcome.step, {}, "model_failed", event.outcome.sentence)
            case _:
                self._aside(at, event)
        self._edge = self._last = at

    # --- what there is in a turn -----------------------------------------------------------------

    def _message(self, at: int, event: MessageAdded) -> None:
        if event.role != "assistant":
            return
        if event.usage is None and _is_ours(event):  # no model was asked
            self._mark(at, "mainstay.stopped", {})
            return
        found = usage_attributes(event.usage, event.cost)
        finish = next((part.reason for part in event.parts if isinstance(part, Finish)), None)
        if finish is not None:
            found["gen_ai.response.finish_reasons"] = (reason_name(finish),)
        if event.model:
            found["gen_ai.response.model"] = self._telling.model(event.model).name
        if self._telling.content:
            found["gen_ai.output.messages"] = said_out(event, self._telling)
        self._chat(at, event.step, found)
        self._spend(event.usage, event.cost)
        self._step = event.step
        self._calls |= {part.id: _Call(part, event.step, at) for part in event.parts if isinstance(part, ToolCall)}

    def _chat(self, at: int, step: int, found: Attributes, error: str = "", note: str = "") -> None:
        model = self._telling.model(self._model)
        attributes: Attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider_name(model.provider),
            "gen_ai.request.model": model.name,
            "mainstay.step": step,
        }
        if model.address:
            attributes["server.address"] = model.address
        if not error:
            attributes["gen_ai.response.model"] = model.name
        span = self._span(f"chat {model.name}", (self._edge, at), attributes | found)
        self._add(f"step {step}", replace(span, kind="client", error=error, note=note))
        self._streamed = 0

    def _tool(self, at: int, event: ToolStarted | ToolFinished) -> None:
        if isinstance(event, ToolStarted):
            if (known := self._calls.get(event.call_id)) is not None and known.start is None:
                known.start = at
            return
        result = event.result
        unknown = ToolCall(result.call_id, result.name, "")
        call = self._calls.pop(result.call_id, None) or _Call(unknown, event.step, self._edge)
        start = call.start
        if start is None:  # those that ended together ran together
            start = self._beside[0] if self._beside[1] == at and self._beside[0] >= call.asked else self._edge
        self._beside = start, at
        found = usage_attributes(event.usage, event.cost)
        if self._telling.content:
            found["gen_ai.tool.call.result"] = self._telling.text(result.content)
        error = "" if not result.is_error else "denied" if call.denied else "tool_error"
        there = was_there(result, call.start is not None) or call.part.name in OURS
        self._executed(call, replace(self._span("", (start, at), found), error=error), there)
        self._spend(event.usage, event.cost)

    def _executed(self, call: _Call, span: Span, there: bool = True) -> None:
        part = call.part
        name = self._telling.text(part.name, NAME_CHARS_MAX) if there else UNKNOWN
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": part.id,
            "gen_ai.tool.type": "function",
            "mainstay.step": call.step,
        }
        if self._telling.content:
            attributes["gen_ai.tool.call.arguments"] = self._telling.text(part.input)
        made = replace(
            span, name=f"execute_tool {name}", attributes=attributes | span.attributes, marks=tuple(call.marks)
        )
        id = self._add(f"call {part.id}", made)
        if part.name in FROM_MEMORY:
            looked: Attributes = {"gen_ai.operation.name": "retrieval", "gen_ai.data_source.id": "memory"}
            inner = replace(span, name="retrieval memory", attributes=looked, parent=id)
            self._add(f"retrieval {part.id}", inner)

    def _approval(self, at: int, event: ApprovalAsked | ApprovalAnswered) -> None:
        if isinstance(event, ApprovalAsked):
            self._asked[event.id] = at, event
            self._mark(at, "mainstay.approval.asked", {"gen_ai.tool.call.id": event.call_id})
            return
        verdict: Attributes = {"mainstay.approval.verdict": event.verdict}
        self._mark(at, "mainstay.approval.answered", verdict)
        if (known := self._asked.pop(event.id, None)) is not None:
            since, asked = known
            if (call := self._calls.get(asked.call_id)) is not None:
                call.denied = event.verdict != "approved"
            self._waited(asked, self._span("", (since, at), verdict))

    def _waited(self, asked: ApprovalAsked, span: Span) -> None:
        name = self._telling.text(asked.name, NAME_CHARS_MAX)
        what = "client" if asked.client else "approval"  # the first runs the call itself, and hands in its result
        attributes: Attributes = {"gen_ai.tool.name": name, "gen_ai.tool.call.id": asked.call_id, **span.attributes}
        self._add(f"{what} {asked.id}", replace(span, name=f"{what} {name}", attributes=attributes))

    def _judged(self, at: int, event: Judged) -> None:
        for score in event.scores:
            self._scored(at, score, event.attempt)
            self._spend(score.usage, score.cost)
        if not event.passed:
            name = "mainstay.evals.judges.failed" if event.last else "mainstay.correction"
            self._mark(at, name, {"gen_ai.evaluation.score.value": event.score, "mainstay.attempt": event.attempt})

    def _scored(self, at: int, score: Score, attempt: int) -> None:
        attributes: Attributes = {"gen_ai.evaluation.name": score.judge, "mainstay.attempt": attempt}
        if score.score is not None:
            attributes["gen_ai.evaluation.score.value"] = score.score
        if self._telling.content and score.reason:
            attributes["gen_ai.evaluation.explanation"] = self._telling.text(score.reason)
        start = max(at - round(score.seconds * 1000), self._edge)
        span = self._span(f"judge {score.judge}", (start, at), attributes | usage_attributes(score.usage, score.cost))
        error = "judge_failed" if score.error else ""
        self._add(f"judge {score.judge}", replace(span, error=error, note=score.error))

    def _reserved(self, at: int, event: Reserved) -> None:
        if event.id.startswith("fold"):
            self._folding = at
        elif not event.id.startswith("judge") and at > self._edge:
            found: Attributes = {"mainstay.budget.reserved": event.cost / NANO}
            self._add(f"prepare {event.id}", self._span("prepare", (self._edge, at), found))

    def _aside(self, at: int, event: Event) -> None:
        match event:
            case Guarded():
                self._guarded(at, event)
            case Steered(inputs=inputs):
                self._taken += inputs
                self._mark(at, "mainstay.steered", {})
            case Relieved():
                self._mark(at, "mainstay.context.relieved", {})
            case Folded(usage=usage, cost=cost):
                span = self._span("fold", (self._folding or at, at), fold_attributes(event, self._telling))
                self._add(f"fold {event.version}", span)
                self._spend(usage, cost)
                self._folding = 0

    def _guarded(self, at: int, event: Guarded) -> None:
        found: Attributes = {"mainstay.guard.stage": event.stage, "mainstay.guard.action": event.action}
        if event.kinds:
            found["mainstay.guard.kinds"] = event.kinds
        call = self._calls.get(event.call_id)
        (self._marks if call is None else call.marks).append(Mark(at, "mainstay.guard", found))
        if call is not None and event.action == "denied":
            call.denied = True

    def _resumed(self, at: int) -> None:
        """Between its last record and this one the process died, and nobody knows when."""
        if self._streamed:
            self._chat(self._streamed, self._step + 1, {}, "interrupted")
        self._add("interrupted", replace(self._span("interrupted", (self._last, at), {}), error="process_stopped"))
        for call in self._calls.values():
            if call.start is not None:
                call.marks.append(Mark(at, "mainstay.turn.resumed"))
        self._mark(at, "mainstay.turn.resumed", {})

    # --- putting it together ---------------------------------------------------------------------

    def _spend(self, usage: Usage | None, cost: float) -> None:
        if usage is not None:
            self._usage = usage if self._usage is None else self._usage + usage
        self._cost += cost

    def _mark(self, at: int, name: str, attributes: Attributes) -> None:
        self._marks.append(Mark(at, name, attributes))

    def _span(self, name: str, when: tuple[int, int], attributes: Attributes) -> Span:
        start = max(min(when), self._begun)
        return Span(id="", name=name, start=start, end=max(when[1], start), parent=self._root, attributes=attributes)

    def _add(self, key: str, span: Span) -> str:
        """Its id: what happens twice under one key has two."""
        tries = self._tries[key] = self._tries.get(key, 0) + 1
        name = key if tries == 1 else f"{key} try {tries}"
        id = span_id(self._lineage.trace, self._lineage.prefix + name)
        span.attributes["gen_ai.conversation.id"] = self._lineage.session
        if span.error:
            span.attributes["error.type"] = span.error
        self._spans.append(replace(span, id=id, note=self._telling.note(span.note)))
        return id

    def spans(self, now: int | None) -> list[Span]:
        if not self._turn or (not self._ended and now is None):
            return []
        if not self._ended and now is not None:
            self._go_on(max(now, self._last))
        return [self._whole(now), *sorted(self._spans, key=lambda span: (span.start, span.end))]

    def _go_on(self, now: int) -> None:
        """What is under way."""
        for since, asked in self._asked.values():
            self._waited(asked, replace(self._span("", (since, now), {}), open=True))
        for call in () if self._asked else self._calls.values():
            start = self._edge if call.start is None else call.start
            self._executed(call, replace(self._span("", (start, now), {}), open=True))
        if not self._asked and not self._calls:
            self._chat(now, self._step + 1, {})
            self._spans[-1] = replace(self._spans[-1], open=True)

    def _whole(self, now: int | None) -> Span:
        lineage, telling = self._lineage, self._telling
        name = "sub-agent" if lineage.prefix else telling.workspace or "mainstay"
        model = telling.model(self._model)
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": name,
            "gen_ai.provider.name": provider_name(model.provider),
            "gen_ai.request.model": model.name,
            "gen_ai.conversation.id": lineage.session,
            "mainstay.session": lineage.session,
            "mainstay.turn": self._turn,
            "mainstay.steps": self._step,
            **usage_attributes(self._usage, self._cost),
        }
        if telling.workspace:
            attributes["mainstay.workspace"] = telling.workspace
        inputs = [self._inputs[seq] for seq in self._taken if seq in self._inputs]
        if inputs and (queued := self._begun - inputs[0].at) > 0:
            attributes["mainstay.queued_ms"] = queued
        if telling.content and inputs:
            said = [one.event.parts for one in inputs if isinstance(one.event, Received)]
            attributes["gen_ai.input.messages"] = said_in(said, telling)
        error, note = outcome_attributes(attributes, self._outcome)
        return Span(
            id=self._root,
            name=f"invoke_agent {name}",
            start=self._begun,
            end=self._ended or max(now or 0, self._last),
            parent=lineage.parent,
            attributes=attributes,
            marks=tuple(self._marks),
            error=error,
            note=telling.note(note),
            open=not self._ended,
        )


def _is_ours(event: MessageAdded) -> bool:
    """Said by the runtime in the model's place."""
    texts = [part for part in event.parts if isinstance(part, Text)]
    return bool(texts) and all(part.origin == RUNTIME for part in texts)
