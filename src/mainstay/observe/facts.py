"""What records of a journal mean to an audit: who asked for what, what was decided, what it came to.

Names, numbers and digests, never contents: what was said is in the journal, and can be forgotten there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from mainstay.core.audit import Fact, sha256
from mainstay.core.envelope import named_in
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
    TurnStarted,
)
from mainstay.core.following import Stretch
from mainstay.core.journal import Record
from mainstay.core.messages import Binary, Text, ToolCall, Usage
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Paused
from mainstay.core.ports import Standing
from mainstay.observe.called import UNKNOWN, near, was_there

NAME_CHARS_MAX = 200
NAMES_MAX = 50  # of tools in one entry

_RULE = re.compile(r"A rule forbids it: (.{1,200})\.")
_encode = msgspec.json.Encoder().encode


def facts_of(stretch: Stretch, workspace: str, clean: Callable[[str], str]) -> list[Fact]:
    """What is to be put on record of these records."""
    telling = _Telling(stretch.standing, workspace, clean)
    for record in stretch.earlier:
        telling.recall(record)
    for record in stretch.records:
        telling.tell(record)
    return telling.facts


class _Turn:
    """What is known of the turn that runs."""

    __slots__ = ("asked", "at", "calls", "cost", "model", "person", "ran", "started", "steps", "tools", "usage")

    def __init__(self, at: int = 0, model: str = "", person: str = "") -> None:
        self.at = at
        self.model = model
        self.person = person
        self.usage = Usage()
        self.cost = 0.0
        self.steps = 0
        self.tools: dict[str, int] = {}
        self.calls: dict[str, tuple[ToolCall, int]] = {}  # and since when
        self.started: set[str] = set()
        self.asked: dict[str, ApprovalAsked] = {}
        self.ran: dict[str, str] = {}  # by call: the arguments that somebody put in the place of the model's

    def spend(self, usage: Usage | None, cost: float) -> None:
        if usage is not None:
            self.usage += usage
        self.cost += cost


class _Telling:
    def __init__(self, standing: Standing, workspace: str, clean: Callable[[str], str]) -> None:
        self.facts: list[Fact] = []
        self._standing = standing
        self._workspace = workspace
        self._clean = clean
        self._senders: dict[int, str] = {}  # of inputs, by sequence
        self._turn = _Turn(person=standing.person)

    def recall(self, record: Record) -> None:
        """What was told before, and others build upon."""
        if (learn := _LEARNS.get(type(record.event))) is not None:
            learn(self, record, record.event)

    def tell(self, record: Record) -> None:
        event = record.event
        if (learn := _LEARNS.get(type(event))) is not None:
            learn(self, record, event)
        if (say := _SAYS.get(type(event))) is not None:
            say(self, record, event)

    # --- what is to be known ---------------------------------------------------------------------

    def _heard(self, record: Record, event: Received) -> None:
        self._senders[record.seq] = event.sender

    def _began(self, record: Record, event: TurnStarted) -> None:
        people = [self._senders.pop(seq) for seq in event.inputs if seq in self._senders]
        person = named_in(people[-1]) if people else self._standing.person
        self._turn = _Turn(record.at, event.model, person)

    def _steered(self, record: Record, event: Steered) -> None:
        for seq in event.inputs:
            self._senders.pop(seq, None)

    def _said(self, record: Record, event: MessageAdded) -> None:
        if event.role != "assistant":
            return
        turn = self._turn
        turn.steps += 1
        turn.model = event.model or turn.model
        turn.spend(event.usage, event.cost)
        for part in event.parts:
            if isinstance(part, ToolCall):
                turn.calls[part.id] = part, record.at

    def _started(self, record: Record, event: ToolStarted) -> None:
        self._turn.started.add(event.call_id)
        if event.call_id in self._turn.calls:
            self._turn.calls[event.call_id] = self._turn.calls[event.call_id][0], record.at

    def _finished(self, record: Record, event: ToolFinished) -> None:
        name = event.result.name if self._was_there(event) else UNKNOWN
        self._turn.tools[name] = self._turn.tools.get(name, 0) + 1
        self._turn.spend(event.usage, event.cost)

    def _was_there(self, event: ToolFinished) -> bool:
        return was_there(event.result, event.result.call_id in self._turn.started)

    def _asks(self, record: Record, event: ApprovalAsked) -> None:
        self._turn.asked[event.id] = event

    def _decided(self, record: Record, event: ApprovalAnswered) -> None:
        asked = self._turn.asked.get(event.id)
        if asked is not None and event.input is not None:
            self._turn.ran[asked.call_id] = event.input

    def _scored(self, record: Record, event: Judged) -> None:
        for one in event.scores:
            self._turn.spend(one.usage, one.cost)

    # --- what is told ----------------------------------------------------------------------------

    def _note(
        self,
        record: Record,
        kind: str,
        what: str = "",
        details: Mapping[str, Any] | None = None,
        person: str | None = None,
    ) -> None:
        """By whoever the turn is for, unless it was another; empty: the owner."""
        self.facts.append(
            Fact(
                at=record.at,
                kind=kind,
                what=self._name(what),
                workspace=self._workspace,
                session=self._standing.key,
                turn=record.event.turn,
                record=record.seq,
                person=self._name(self._turn.person if person is None else person),
                details=_encode(details).decode() if details else "{}",
            )
        )

    def _name(self, text: str) -> str:
        """A secret may be part of any name that somebody chose; one that was cut in two would not be recognised."""
        return self._clean(text)[:NAME_CHARS_MAX] if text else ""

    def _tool(self, name: str) -> str:
        """Look-alike letters are shown for what they are."""
        return self._name(name).encode("ascii", "backslashreplace").decode()[:NAME_CHARS_MAX]

    def _tools(self, names: Sequence[str]) -> list[str]:
        return [self._tool(name) for name in names[:NAMES_MAX]]

    def _received(self, record: Record, event: Received) -> None:
        if event.kind == "overheard":
            return
        details: dict[str, Any] = {"digest": _digest(event), "parts": len(event.parts)}
        if event.heard is not None:
            details |= {"channel": event.heard.address.channel, "from": sha256(event.heard.user)}
        if event.sender.startswith("agent:"):
            details["agent"] = self._name(event.sender)
        self._note(record, "input", event.kind, details, named_in(event.sender) or self._standing.person)

    def _called(self, record: Record, event: ToolFinished) -> None:
        result = event.result
        call, since = self._turn.calls.get(result.call_id, (None, record.at))
        details: dict[str, Any] = {"call": result.call_id, "result": sha256(result.content), "error": result.is_error}
        if call is not None:
            details["arguments"] = sha256(self._turn.ran.get(call.id, call.input))
            details["ms"] = max(0, record.at - since)
        if result.call_id in self._turn.ran:
            details["amended"] = True
        if result.origin:
            details["origin"] = self._name(result.origin)
        if event.usage is not None:
            details |= _spent(event.usage, event.cost)
        name = call.name if call is not None else result.name
        if not self._was_there(event):  # what it was called is in the journal; this tells whether it was this or that
            details["name"], name = sha256(name), UNKNOWN
            if like := near(result):
                details["like"] = self._tool(like)
        self._note(record, "tool", self._tool(name), details)

    def _answered(self, record: Record, event: ApprovalAnswered) -> None:
        details: dict[str, Any] = {"id": event.id}
        if (asked := self._turn.asked.get(event.id)) is not None:
            details |= {"call": asked.call_id, "tool": self._tool(asked.name)}
        if event.input is not None:
            details["amended"] = sha256(event.input)
        if event.always:
            details["always"] = self._name(event.always)
        if event.result is not None:
            details["result"] = sha256(event.result)
        self._note(record, "approval.answered", event.verdict, details, event.by)

    def _guarded(self, record: Record, event: Guarded) -> None:
        details: dict[str, Any] = {"stage": event.stage}
        if event.kinds:
            details["kinds"] = [self._name(one) for one in event.kinds[:NAMES_MAX]]
        if event.call_id:
            details["call"] = event.call_id
            if event.call_id in self._turn.calls:
                details["tool"] = self._tool(self._turn.calls[event.call_id][0].name)
        if event.note:
            details["why"] = sha256(event.note)
            if (rule := _RULE.fullmatch(event.note)) is not None:
                details["rule"] = self._name(rule[1])
        self._note(record, "policy" if event.stage == "policy" else "guard", event.action, details)

    def _ended(self, record: Record, event: TurnEnded) -> None:
        turn = self._turn
        details: dict[str, Any] = {"model": self._name(turn.model), "steps": turn.steps}
        details |= _spent(turn.usage, turn.cost)
        if turn.at:
            details["ms"] = max(0, record.at - turn.at)
        if turn.tools:
            details["tools"] = {self._tool(name): count for name, count in list(turn.tools.items())[:NAMES_MAX]}
        said = "failed"
        match event.outcome:
            case Answered(score=score, passed=passed):
                said = "answered"
                if score is not None:
                    details |= {"score": score, "passed": passed}
            case Aborted():
                said = "aborted"
            case Exhausted(bound=bound):
                said, details["bound"] = "exhausted", self._name(bound)
            case Paused():
                said = "paused"
            case Failed(details=why) if why.isidentifier():  # the kind of error, and no more than that
                details["error"] = why
        self._note(record, "turn", said, details)
        self._turn = _Turn(person=self._standing.person)

    def _changed(self, record: Record, event: SessionChanged) -> None:
        """Which settings; of the model and the status, to what."""
        fields = ("title", "status", "model", "instructions", "amended", "profile", "metadata", "guests")
        changed = [name for name in fields if getattr(event, name) is not None]
        details: dict[str, Any] = {
            name: self._name(value) for name in ("status", "model") if (value := getattr(event, name))
        }
        if event.guests is not None:
            details["guests"] = self._tools([one.name for one in event.guests])
        if changed and changed != ["instructions"] and changed != ["amended"]:  # which are made, not set by anybody
            self._note(record, "settings", ", ".join(changed), details)

    def _resumed(self, record: Record, event: TurnResumed) -> None:
        self._note(record, "turn.resumed")

    def _asked(self, record: Record, event: ApprovalAsked) -> None:
        details: dict[str, Any] = {"id": event.id, "call": event.call_id, "arguments": sha256(event.input)}
        details |= {"expires": event.expires, "client": event.client}
        self._note(record, "approval.asked", self._tool(event.name), details)

    def _spawned(self, record: Record, event: Spawned) -> None:
        details = {"call": event.call_id, "depth": event.depth, "tools": self._tools(event.tools)}
        self._note(record, "spawned", event.parent, details, event.person)

    def _judged(self, record: Record, event: Judged) -> None:
        given = {one.judge: "failed" if one.error or one.score is None else one.score for one in event.scores}
        details = {"score": event.score, "attempt": event.attempt, "last": event.last, "judges": given}
        self._note(record, "judged", "passed" if event.passed else "not passed", details)

    def _folded(self, record: Record, event: Folded) -> None:
        details = {"through": event.through} | _spent(event.usage or Usage(), event.cost)
        self._note(record, "folded", event.by or "outline", details)

    def _delivered(self, record: Record, event: Delivered) -> None:
        details = {"channel": event.to.channel, "to": sha256(str(event.to)), "parts": len(event.ids)}
        self._note(record, "delivered", event.state, details)

    def _forked(self, record: Record, event: Forked) -> None:
        self._note(record, "forked", event.parent, {"upto": event.upto})


Work = Callable[[_Telling, Record, Any], None]

_LEARNS: dict[type[Event], Work] = {
    Received: _Telling._heard,
    TurnStarted: _Telling._began,
    Steered: _Telling._steered,
    MessageAdded: _Telling._said,
    ToolStarted: _Telling._started,
    ToolFinished: _Telling._finished,
    ApprovalAsked: _Telling._asks,
    ApprovalAnswered: _Telling._decided,
    Judged: _Telling._scored,
}
_SAYS: dict[type[Event], Work] = {
    Received: _Telling._received,
    TurnResumed: _Telling._resumed,
    ToolFinished: _Telling._called,
    ApprovalAsked: _Telling._asked,
    ApprovalAnswered: _Telling._answered,
    Guarded: _Telling._guarded,
    Spawned: _Telling._spawned,
    Judged: _Telling._judged,
    Folded: _Telling._folded,
    TurnEnded: _Telling._ended,
    Delivered: _Telling._delivered,
    SessionChanged: _Telling._changed,
    Forked: _Telling._forked,
}


def _spent(usage: Usage, cost: float) -> dict[str, Any]:
    made: dict[str, Any] = {"prompt": usage.prompt, "completion": usage.completion}
    if usage.cached:
        made["cached"] = usage.cached
    return made | {"cost": cost}


def _digest(event: Received) -> str:
    texts = [part.text if isinstance(part, Text) else _bytes(part) for part in event.parts]
    return sha256("\n".join(texts))


def _bytes(part: Any) -> str:
    return sha256(part.data) if isinstance(part, Binary) else type(part).__name__
