"""Records successful multi-step turns as workflows, and finds the workflow of a similar request.

A turn becomes a workflow if it ended with an answer, its last tool call succeeded, and at least two calls did. Failed
calls and memory lookups are not steps. A workflow holds the request, the tool names and the names and JSON types of
their arguments, never the values. Nothing of that is text that a tool returned: its origin is that of the request. The
answer is stored as the outcome only if nothing untrusted or private was in the turn.

Similarity is the cosine between the word stems of two requests. Stemming needs no dictionary; stems that occur in many
requests count less, and numbers do not count: they are what differs between two requests of one kind. Where no request
is similar by its words, longer prompts are compared by meaning (`workflow_vectors`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from mainstay.core.chat_addresses import PERSONAL_CHANNELS, WEB_CHANNEL, ChatAddress
from mainstay.core.events import Event, Forked, MessageAdded, Received, ToolFinished, TurnEnded, TurnStarted
from mainstay.core.journal import Record
from mainstay.core.memory_tiers import Memory, combine_origins, is_untrusted, message_id, parse_message_id
from mainstay.core.messages import AnyPart, Text, ToolCall, parts_text
from mainstay.core.outcome import Answered
from mainstay.core.ports import Tool
from mainstay.core.stemming import stem_words
from mainstay.core.tools import parameter_names
from mainstay.memory.types import WORKFLOW_TAG

if TYPE_CHECKING:
    from mainstay.memory.workflow_vectors import EmbedNow, WorkflowVectors

STEPS_MIN = 2
STEPS_MAX = 20  # of a longer workflow, the first steps are stored
TRIGGER_CHARS_MAX = 500
OUTCOME_CHARS_MAX = 200
ARGUMENTS_MAX = 20
WORKFLOWS_MAX = 500
SIMILARITY_MIN = 0.6
# By meaning, with the local model: no unrelated prompt of the tests has so many stems and reaches it.
MEANING_SIMILARITY_MIN = 0.55
MEANING_STEMS_MIN = 5  # a prompt with fewer is similar to too much
OUTCOME_WITHOUT_ANSWER = "success"
_SIMILARITY_MIN_TWO_STEMS = 0.8  # required where only two stems are shared, which happens by chance
_CORPUS_SIZE_MIN = 20  # with fewer workflows, stem frequencies are computed as if there were this many
_POSTINGS_MAX = 1000
_CANDIDATES_MAX = 16
_CATALOGUE_CALL = "call_tool"  # its arguments are the name and the arguments of another tool
_EXCLUDED_TOOLS = re.compile(r"memory_\w+|remember|forget|result|tool_search")
_ARGUMENT_NAME = re.compile(r"[\w.-]{1,64}")
_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


class WorkflowStep(msgspec.Struct, frozen=True):
    tool: str
    order: int
    arguments: dict[str, str] = {}  # name and JSON type


class _CatalogueCall(msgspec.Struct, frozen=True):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class Workflow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A recorded workflow, stored as JSON in `Memory.data`."""

    trigger: str
    steps: tuple[WorkflowStep, ...]
    outcome: str = ""
    timestamp: str = ""
    has_untrusted: bool = False  # untrusted content was in the turn
    is_direct: bool = False  # requested in direct messages of a chat platform


# --- from the journal ----------------------------------------------------------------------------


def extract_workflows(session: str, records: Sequence[Record]) -> list[Memory]:
    """Return a workflow for every qualifying turn in these records. Turns without their start record are skipped."""
    memories: list[Memory] = []
    received: dict[int, Received] = {}
    turn: _TurnRecordCollector | None = None
    for record in records:
        match record.event:
            case Received() as event:
                received[record.seq] = event
            case TurnStarted(inputs=inputs):
                turn = _TurnRecordCollector(record.event.turn, inputs, [received.pop(seq, None) for seq in inputs])
            case Forked():  # a running turn is not part of the fork
                turn = None
            case TurnEnded(outcome=outcome):
                if turn is not None and isinstance(outcome, Answered) and turn.is_workflow:
                    memories.append(turn.to_memory(session, record.at))
                turn = None
            case event if turn is not None:
                turn.add_event(event)
    return memories


class _TurnRecordCollector:
    """Collects the records of one turn."""

    def __init__(self, number: int, inputs: tuple[int, ...], received: Sequence[Received | None]) -> None:
        self._number = number
        self._input_seq = max(inputs, default=0)
        self._open_calls: dict[str, ToolCall] = {}
        self._successful_calls: list[ToolCall] = []
        self._last_call_failed = False  # of the last call
        self._answer = ""
        self._origin = combine_origins(part.origin for event in received if event is not None for part in event.parts)
        self._content_origin = self._origin  # of everything in the turn
        texts = [_user_text(event.parts) for event in received if event is not None]
        self._trigger = _truncate("\n".join(text for text in texts if text), TRIGGER_CHARS_MAX)
        self._has_all_inputs = None not in received
        heard = [event.heard for event in received if event is not None and event.heard is not None]
        self._is_direct = any(message.direct for message in heard)

    def add_event(self, event: Event) -> None:
        match event:
            case MessageAdded(role="assistant", parts=parts):
                self._add_taint(parts)
                self._open_calls.update((part.id, part) for part in parts if isinstance(part, ToolCall))
                self._answer = parts_text(parts) or self._answer
            case ToolFinished(result=result):
                self._add_taint((result,))
                call = self._open_calls.pop(result.call_id, None)
                if call is not None and not _EXCLUDED_TOOLS.fullmatch(call.name):
                    self._last_call_failed = result.is_error
                    if not result.is_error:
                        self._successful_calls.append(_resolve_catalogue_call(call))
            case MessageAdded(parts=parts):
                self._add_taint(parts)

    @property
    def is_workflow(self) -> bool:
        return (
            self._has_all_inputs
            and bool(self._trigger)
            and len(self._successful_calls) >= STEPS_MIN
            and not self._last_call_failed
        )

    def to_memory(self, session: str, at: int) -> Memory:
        steps = tuple(
            WorkflowStep(call.name, order, argument_types(call.input))
            for order, call in enumerate(self._successful_calls[:STEPS_MAX], 1)
        )
        outcome = OUTCOME_WITHOUT_ANSWER if self._content_origin else _truncate(self._answer, OUTCOME_CHARS_MAX)
        timestamp = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds")
        return Memory(
            id=f"workflow:{session}#{self._number}",
            text=self._trigger,
            tags=(WORKFLOW_TAG,),
            at=at,
            source=message_id(session, self._input_seq),
            origin=self._origin,
            data=msgspec.json.encode(
                Workflow(self._trigger, steps, outcome, timestamp, is_untrusted(self._content_origin), self._is_direct)
            ).decode(),
        )

    def _add_taint(self, parts: Iterable[AnyPart]) -> None:
        self._content_origin = combine_origins((self._content_origin, *(part.origin for part in parts)))


def _resolve_catalogue_call(call: ToolCall) -> ToolCall:
    """Return the call of the tool that was called through the searchable catalogue; another call as it is."""
    if call.name != _CATALOGUE_CALL:
        return call
    try:
        inner = msgspec.json.decode(call.input, type=_CatalogueCall)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return call
    return ToolCall(call.id, inner.name, bytes(inner.arguments).decode(errors="replace"))


def _user_text(parts: tuple[AnyPart, ...]) -> str:
    """Return the user's own text, without what the runtime added."""
    return "".join(part.text for part in parts if isinstance(part, Text) and part.origin != "runtime")


def _truncate(text: str, chars: int) -> str:
    text = text.strip()
    return text if len(text) <= chars else text[: chars - 1].rstrip() + "…"


def argument_types(input: str) -> dict[str, str]:
    """Return the names and JSON types of a call's arguments, never their values."""
    try:
        arguments = json.loads(input or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(arguments, dict):
        return {}
    types = [
        (key, _JSON_TYPES.get(type(value), "null")) for key, value in arguments.items() if _ARGUMENT_NAME.fullmatch(key)
    ]
    return dict(types[:ARGUMENTS_MAX])


# --- matching ------------------------------------------------------------------------------------


# words of the request, then tool and argument names of each step
WorkflowKey = tuple[frozenset[str] | tuple[str, ...] | str, ...]


class _IndexedWorkflow:
    """An indexed workflow and its stems. `owner` names the sessions that it is recalled in: those of a person, or of a
    room with direct messages, if it ends with a colon, else one session with its sub-agents; "" for all sessions of the
    workspace."""

    __slots__ = ("key", "memory", "owner", "stems")

    def __init__(self, memory: Memory, key: WorkflowKey, stems: frozenset[str], owner: str = "") -> None:
        self.memory = memory
        self.key = key
        self.stems = stems
        self.owner = owner

    def is_for(self, session: str) -> bool:
        if not self.owner or self.owner.endswith(":"):
            return session.startswith(self.owner)
        return session == self.owner or session.startswith(f"{self.owner}/")


def _find_owner(source: str, is_direct: bool) -> str:
    """Return which sessions may see the words of the message `source`: all, if it was not a private conversation."""
    position = parse_message_id(source)
    address = ChatAddress.parse(position[0]) if position is not None else None
    if position is None or address is None:
        return ""
    if address.channel == WEB_CHANNEL or (is_direct and address.channel not in PERSONAL_CHANNELS):
        return f"{ChatAddress(address.channel, address.room)}:"
    return position[0] if address.channel in PERSONAL_CHANNELS else ""


class WorkflowIndex:
    """In-memory index of the workflows that may be recalled: the newest, without duplicates or tainted ones."""

    def __init__(
        self,
        memories: Iterable[Memory] = (),
        *,
        workflows_max: int = WORKFLOWS_MAX,
        similarity_min: float = SIMILARITY_MIN,
        embed_now: EmbedNow | None = None,
    ) -> None:
        self._embed_now = embed_now
        self._vectors: WorkflowVectors | None = None  # created when a prompt is first compared by meaning
        self._workflows_max = workflows_max
        self._similarity_min = similarity_min
        self._entries: dict[str, _IndexedWorkflow] = {}
        self._by_key: dict[WorkflowKey, str] = {}
        self._postings: dict[str, dict[str, None]] = {}  # stem: ids of workflows that have it, in order
        self._weights: dict[str, float] = {}  # cache; cleared when a workflow is added or removed
        self.add_all(memories)

    def __len__(self) -> int:
        return len(self._entries)

    def add_all(self, memories: Iterable[Memory]) -> None:
        for memory in memories:
            self.add(memory)

    def add(self, memory: Memory) -> None:
        """Add a workflow. Of several with the same request and steps, the newest is kept.

        Ignores tainted memories, and those with fewer than two stems, which could never match.
        """
        if is_untrusted(memory.origin) or WORKFLOW_TAG not in memory.tags:
            return
        workflow, words = decode_workflow(memory), frozenset(stem_words(memory.text))
        if workflow is None or len(words) < 2:
            return
        self.remove([memory.id])
        owner = _find_owner(memory.source, workflow.is_direct)
        key: WorkflowKey = (words, owner, *((step.tool, *sorted(step.arguments)) for step in workflow.steps))
        duplicate = self._by_key.get(key)
        if duplicate is not None:
            if self._entries[duplicate].memory.at > memory.at:
                return
            self.remove([duplicate])
        self._entries[memory.id] = _IndexedWorkflow(memory, key, words, owner)
        self._by_key[key] = memory.id
        for word in words:
            self._postings.setdefault(word, {})[memory.id] = None
        self._weights.clear()
        if len(self._entries) > self._workflows_max:
            self.remove([min(self._entries, key=lambda id: self._entries[id].memory.at)])

    def remove(self, ids: Iterable[str]) -> None:
        for id in ids:
            entry = self._entries.pop(id, None)
            if entry is None:
                continue
            if self._vectors is not None:
                self._vectors.forget(id)
            del self._by_key[entry.key]
            for word in entry.stems:
                holders = self._postings[word]
                holders.pop(id, None)
                if not holders:
                    del self._postings[word]
            self._weights.clear()

    def match(self, prompt: str, session: str = "") -> Memory | None:
        """Return the workflow with the most similar request, or None if none is similar enough. It contains the words
        of a person: one of a private session is for that person's private sessions alone."""
        if not self._entries:
            return None
        words = frozenset(stem_words(prompt))
        return self._match_words(words, session) or self._match_meaning(prompt, words, session)

    def _match_meaning(self, prompt: str, words: frozenset[str], session: str) -> Memory | None:
        if self._embed_now is None or len(words) < MEANING_STEMS_MIN:
            return None
        if self._vectors is None:
            from mainstay.memory.workflow_vectors import WorkflowVectors  # few processes record workflows

            self._vectors = WorkflowVectors(self._embed_now)
        requests = {id: entry.memory.text for id, entry in self._entries.items() if entry.is_for(session)}
        nearest = self._vectors.find_nearest(prompt[:TRIGGER_CHARS_MAX], requests)
        if nearest is None or nearest[1] < MEANING_SIMILARITY_MIN:
            return None
        return self._entries[nearest[0]].memory

    def _match_words(self, words: frozenset[str], session: str) -> Memory | None:
        shared = [word for word in words if word in self._postings]
        if len(shared) < 2:
            return None
        norm = sum(self._weight(word) ** 2 for word in words)
        if sum(self._weight(word) ** 2 for word in shared) < self._similarity_min**2 * norm:
            return None  # even a request made of all the shared stems would be below the threshold
        best, match = self._similarity_min, None
        for id in self._candidates(shared):
            entry = self._entries[id]
            common = words & entry.stems
            if len(common) < 2 or not entry.is_for(session):
                continue
            dot = sum(self._weight(word) ** 2 for word in common)
            score = dot / math.sqrt(norm * sum(self._weight(word) ** 2 for word in entry.stems))
            if score < (
                self._similarity_min if len(common) > 2 else max(self._similarity_min, _SIMILARITY_MIN_TWO_STEMS)
            ):
                continue
            if score > best or (score == best and (match is None or entry.memory.at > match.at)):
                best, match = score, entry.memory
        return match

    def _candidates(self, shared: list[str]) -> list[str]:
        """Return the few workflows that share most, rarest stems first: common stems alone make no match."""
        scores: dict[str, float] = {}
        scanned = 0
        for word in sorted(shared, key=lambda stem: (len(self._postings[stem]), stem)):
            ids = self._postings[word]
            if scanned and scanned + len(ids) > _POSTINGS_MAX:
                break
            scanned += len(ids)
            weight = self._weight(word)
            for id in ids:
                scores[id] = scores.get(id, 0.0) + weight
        return sorted(scores, key=scores.__getitem__, reverse=True)[:_CANDIDATES_MAX]

    def _weight(self, word: str) -> float:
        """Return 1 for a stem that is in few requests, down to 0.25 for one that is in all."""
        weight = self._weights.get(word)
        if weight is None:
            share = len(self._postings.get(word, ())) / max(len(self._entries), _CORPUS_SIZE_MIN)
            weight = min(
                1.0, max(0.25, 1 - 0.75 * math.log(max(share, 1e-9) * _CORPUS_SIZE_MIN) / math.log(_CORPUS_SIZE_MIN))
            )
            if word in self._postings:  # caching the stems of all prompts would grow without bound
                self._weights[word] = weight
        return weight


def decode_workflow(memory: Memory) -> Workflow | None:
    """Decode the workflow of a memory; None if it cannot be decoded."""
    try:
        return msgspec.json.decode(memory.data, type=Workflow)
    except msgspec.DecodeError:
        return None


FindTool = Callable[[str], Tool | None]


def render_workflow_note(memory: Memory, find_tool: FindTool = lambda name: None) -> str:
    """Render the workflow as a note for the model; empty if it cannot be decoded.

    Of a turn with untrusted content, only those names of arguments are shown that the tool declares: that content may
    have made the model use others.
    """
    workflow = decode_workflow(memory)
    if workflow is None:
        return ""
    request = " ".join(workflow.trigger.split())
    steps = ", then ".join(
        f"{step.tool}({', '.join(_list_shown(step, workflow, find_tool))})" for step in workflow.steps
    )
    return (
        f'[From memory, only if it fits: a similar request, "{_truncate(request, 120)}", was answered on '
        f"{workflow.timestamp[:10]} by calling {steps}. It is in {memory.source}.]"
    )


def _list_shown(step: WorkflowStep, workflow: Workflow, find_tool: FindTool) -> list[str]:
    if not workflow.has_untrusted:
        return list(step.arguments)
    tool = find_tool(step.tool)
    declared = parameter_names(tool.schema) if tool is not None else ()
    return [name for name in step.arguments if name in declared]
