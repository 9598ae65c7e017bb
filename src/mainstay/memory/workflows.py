"""What multi-step turns did that worked, and finding one again when a similar request comes.

A workflow is kept of a turn that ended with an answer, whose last call succeeded, with at least two calls that did;
failed calls are no steps of it. It holds what was asked and which tools were called with which arguments' names and
types, never their values. Looking things up in memory is not a step.

Similarity is the cosine between the words of two requests. Words are reduced to their stems in a way that needs no
dictionary, those that are in many requests count less, and numbers not at all: they are what differs between two
requests of one kind.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from mainstay.core.events import Event, Forked, MessageAdded, Received, ToolFinished, TurnEnded, TurnStarted
from mainstay.core.journal import Record
from mainstay.core.messages import AnyPart, Text, ToolCall, text_of
from mainstay.core.outcome import Answered
from mainstay.core.recall import Memory, is_untrusted, message_id, worst
from mainstay.core.stems import stems

TAG = "workflow"
STEPS_MIN = 2
STEPS_MAX = 20  # what is kept of a longer one is its beginning
TRIGGER_CHARS_MAX = 500
OUTCOME_CHARS_MAX = 200
ARGUMENTS_MAX = 20
WORKFLOWS_MAX = 500
SIMILAR = 0.6
_SIMILAR_BY_TWO = 0.8  # two words in common are soon found
_FEW = 20  # below so many requests nobody can say which words are common
_LOOKED_MAX = 1000
_CANDIDATES_MAX = 16
_NO_STEP = re.compile(r"memory_\w+|remember|forget|result|tool_search")
_ARGUMENT = re.compile(r"[\w.-]{1,64}")
_KINDS = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


class Step(msgspec.Struct, frozen=True):
    tool: str
    order: int
    arguments: dict[str, str] = {}  # name and JSON type


class Workflow(msgspec.Struct, frozen=True):
    """What `Memory.data` holds."""

    trigger: str
    steps: tuple[Step, ...]
    outcome: str = ""
    timestamp: str = ""


# --- from the journal ----------------------------------------------------------------------------


def workflows_in(session: str, records: Sequence[Record]) -> list[Memory]:
    """One for every turn in these records that qualifies; of a turn whose beginning is not among them, none."""
    found: list[Memory] = []
    received: dict[int, Received] = {}
    turn: _Turn | None = None
    for record in records:
        match record.event:
            case Received() as event:
                received[record.seq] = event
            case TurnStarted(inputs=inputs):
                turn = _Turn(record.event.turn, inputs, [received.pop(seq, None) for seq in inputs])
            case Forked():  # a turn that was under way stayed behind
                turn = None
            case TurnEnded(outcome=outcome):
                if turn is not None and isinstance(outcome, Answered) and turn.qualifies:
                    found.append(turn.memory(session, record.at))
                turn = None
            case event if turn is not None:
                turn.hear(event)
    return found


class _Turn:
    """A turn as its records tell it."""

    def __init__(self, number: int, inputs: tuple[int, ...], received: Sequence[Received | None]) -> None:
        self._number = number
        self._input = max(inputs, default=0)
        self._calls: dict[str, ToolCall] = {}
        self._done: list[ToolCall] = []
        self._failed = False  # the last call did
        self._answer = ""
        self._origin = ""
        words = [_words(one.parts) for one in received if one is not None]
        self._trigger = _bounded("\n".join(text for text in words if text), TRIGGER_CHARS_MAX)
        self._whole = None not in received
        for one in received:
            self._taint(one.parts if one is not None else ())

    def hear(self, event: Event) -> None:
        match event:
            case MessageAdded(role="assistant", parts=parts):
                self._taint(parts)
                self._calls.update((part.id, part) for part in parts if isinstance(part, ToolCall))
                self._answer = text_of(parts) or self._answer
            case ToolFinished(result=result):
                self._taint((result,))
                call = self._calls.pop(result.call_id, None)
                if call is not None and not _NO_STEP.fullmatch(call.name):
                    self._failed = result.is_error
                    if not result.is_error:
                        self._done.append(call)
            case MessageAdded(parts=parts):
                self._taint(parts)

    @property
    def qualifies(self) -> bool:
        return self._whole and bool(self._trigger) and len(self._done) >= STEPS_MIN and not self._failed

    def memory(self, session: str, at: int) -> Memory:
        steps = tuple(Step(call.name, order, shape(call.input)) for order, call in enumerate(self._done[:STEPS_MAX], 1))
        outcome = _bounded(self._answer, OUTCOME_CHARS_MAX)
        timestamp = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds")
        return Memory(
            id=f"workflow:{session}#{self._number}",
            text=self._trigger,
            tags=(TAG,),
            at=at,
            source=message_id(session, self._input),
            origin=self._origin,
            data=msgspec.json.encode(Workflow(self._trigger, steps, outcome, timestamp)).decode(),
        )

    def _taint(self, parts: Iterable[AnyPart]) -> None:
        self._origin = worst((self._origin, *(part.origin for part in parts)))


def _words(parts: tuple[AnyPart, ...]) -> str:
    """The person's own: not what the runtime put beside them."""
    return "".join(part.text for part in parts if isinstance(part, Text) and part.origin != "runtime")


def _bounded(text: str, chars: int) -> str:
    text = text.strip()
    return text if len(text) <= chars else text[: chars - 1].rstrip() + "…"


def shape(input: str) -> dict[str, str]:
    """Names and JSON types of a call's arguments; nothing of what they hold."""
    try:
        given = json.loads(input or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(given, dict):
        return {}
    named = [(key, _KINDS.get(type(value), "null")) for key, value in given.items() if _ARGUMENT.fullmatch(key)]
    return dict(named[:ARGUMENTS_MAX])


# --- finding one again ---------------------------------------------------------------------------


class _Kept:
    """A workflow in RAM, and its words."""

    __slots__ = ("key", "memory", "words")

    def __init__(self, memory: Memory, key: tuple[Any, ...], words: frozenset[str]) -> None:
        self.memory = memory
        self.key = key
        self.words = words


class Workflows:
    """Those that may be recalled: the newest, each once, and none that anything from outside had a part in."""

    def __init__(self, memories: Iterable[Memory] = (), *, most: int = WORKFLOWS_MAX, similar: float = SIMILAR) -> None:
        self._most = most
        self._similar = similar
        self._kept: dict[str, _Kept] = {}
        self._by_key: dict[tuple[Any, ...], str] = {}
        self._having: dict[str, dict[str, None]] = {}  # stem: ids of workflows that have it, in order
        self._weights: dict[str, float] = {}  # for as long as nothing is added or removed
        self.add_all(memories)

    def __len__(self) -> int:
        return len(self._kept)

    def add_all(self, memories: Iterable[Memory]) -> None:
        for memory in memories:
            self.add(memory)

    def keep_only(self, ids: Collection[str]) -> None:
        """All others are gone."""
        self.remove([id for id in self._kept if id not in ids])

    def add(self, memory: Memory) -> None:
        """Of the same request done in the same way the newest is kept. What could never be matched is not."""
        if is_untrusted(memory.origin) or TAG not in memory.tags:
            return
        done, words = read(memory), frozenset(stems(memory.text))
        if done is None or len(words) < 2:
            return
        self.remove([memory.id])
        key = (words, *((step.tool, *sorted(step.arguments)) for step in done.steps))
        same = self._by_key.get(key)
        if same is not None:
            if self._kept[same].memory.at > memory.at:
                return
            self.remove([same])
        self._kept[memory.id] = _Kept(memory, key, words)
        self._by_key[key] = memory.id
        for word in words:
            self._having.setdefault(word, {})[memory.id] = None
        self._weights.clear()
        if len(self._kept) > self._most:
            self.remove([min(self._kept, key=lambda id: self._kept[id].memory.at)])

    def remove(self, ids: Iterable[str]) -> None:
        for id in ids:
            kept = self._kept.pop(id, None)
            if kept is None:
                continue
            del self._by_key[kept.key]
            for word in kept.words:
                having = self._having[word]
                having.pop(id, None)
                if not having:
                    del self._having[word]
            self._weights.clear()

    def match(self, prompt: str) -> Memory | None:
        """The workflow whose request is most like this one, if it is like it at all."""
        if not self._kept:
            return None
        words = frozenset(stems(prompt))
        shared = [word for word in words if word in self._having]
        if len(shared) < 2:
            return None
        own = sum(self._weight(word) ** 2 for word in words)
        if sum(self._weight(word) ** 2 for word in shared) < self._similar**2 * own:
            return None  # not even a request made of all the shared words would be alike
        best, found = self._similar, None
        for id in self._candidates(shared):
            kept = self._kept[id]
            common = words & kept.words
            if len(common) < 2:
                continue
            both = sum(self._weight(word) ** 2 for word in common)
            score = both / math.sqrt(own * sum(self._weight(word) ** 2 for word in kept.words))
            if score < (self._similar if len(common) > 2 else max(self._similar, _SIMILAR_BY_TWO)):
                continue
            if score > best or (score == best and (found is None or kept.memory.at > found.at)):
                best, found = score, kept.memory
        return found

    def _candidates(self, shared: list[str]) -> list[str]:
        """The few that share most, found through the rarest words: common ones alone make nothing alike."""
        scores: dict[str, float] = {}
        looked = 0
        for word in sorted(shared, key=lambda one: (len(self._having[one]), one)):
            having = self._having[word]
            if looked and looked + len(having) > _LOOKED_MAX:
                break
            looked += len(having)
            weight = self._weight(word)
            for id in having:
                scores[id] = scores.get(id, 0.0) + weight
        return sorted(scores, key=scores.__getitem__, reverse=True)[:_CANDIDATES_MAX]

    def _weight(self, word: str) -> float:
        """1 for a word that is in few requests, down to a quarter for one that is in all."""
        weight = self._weights.get(word)
        if weight is None:
            share = len(self._having.get(word, ())) / max(len(self._kept), _FEW)
            weight = min(1.0, max(0.25, 1 - 0.75 * math.log(max(share, 1e-9) * _FEW) / math.log(_FEW)))
            if word in self._having:  # what people ask for has no end
                self._weights[word] = weight
        return weight


def read(memory: Memory) -> Workflow | None:
    """What a memory of this kind did; None if it cannot be read."""
    try:
        return msgspec.json.decode(memory.data, type=Workflow)
    except msgspec.DecodeError:
        return None


def render(memory: Memory) -> str:
    """A note for the model."""
    done = read(memory)
    if done is None:
        return ""
    asked = " ".join(done.trigger.split())
    steps = ", then ".join(f"{step.tool}({', '.join(step.arguments)})" for step in done.steps)
    return (
        f'[From memory, only if it fits: a similar request, "{_bounded(asked, 120)}", was answered on '
        f"{done.timestamp[:10]} by calling {steps}. It is in {memory.source}.]"
    )
