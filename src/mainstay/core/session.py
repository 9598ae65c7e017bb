"""The state of a session, derived from its journal by applying the records in order (event sourcing).

The whole state of a conversation, an unfinished turn included, follows from the records alone. So a crash needs no
special handling: a turn continues from this state, whether the turn itself has just built it or it was read from disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from mainstay.core.budget_reservation_ids import reservations_closed_by
from mainstay.core.chat_addresses import is_room_key
from mainstay.core.client_tools import ClientTool
from mainstay.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Blanked,
    Delivered,
    Event,
    Folded,
    Forked,
    Guarded,
    Judged,
    MessageAdded,
    Received,
    Relieved,
    Reserved,
    SessionChanged,
    Settled,
    Spawned,
    Steered,
    StepCheckpointed,
    StepRestarted,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    TurnSetAside,
    TurnStarted,
)
from mainstay.core.history_stubs import apply_relief, summary_message
from mainstay.core.input_envelope import effective_sender, sender_person
from mainstay.core.journal import Record
from mainstay.core.limits import NO_SESSION_BUDGET
from mainstay.core.memory_tiers import RUNTIME, UNTRUSTED, is_private, is_untrusted
from mainstay.core.messages import Finish, FinishReason, Message, Text, Usage, join_inputs
from mainstay.core.open_turn import OpenTurn, QueuedInput
from mainstay.core.outcome import Aborted, Exhausted
from mainstay.core.ports import NO_TOKEN_COUNT, SessionInfo, SessionTail
from mainstay.core.usage_bounds import DOLLARS_MAX, RECORD_TOKENS_MAX, bound_charge, bound_totals

AMENDED_PREFIX = "Your instructions have changed. From now on these hold instead of the earlier ones:\n\n"
OVERHEARD_MAX = 50  # overheard messages shown with a prompt: the newest


class Session:
    """In-memory state of a session. Changed only by `apply`."""

    __slots__ = (
        "amended_seq",
        "amendment",
        "budget",
        "calls",
        "client_tools",
        "client_tools_seq",
        "compacted",
        "cost",
        "created",
        "delivered_turn",
        "fixed_seq",
        "fold_seq",
        "has_unread_history",
        "head",
        "instructions",
        "is_reduced",
        "key",
        "last_fold",
        "message_count",
        "messages",
        "metadata",
        "model",
        "note_mark",
        "open_turn",
        "parent",
        "private",
        "profile",
        "queued_inputs",
        "reported_tokens",
        "reserved",
        "spawned",
        "started_by",
        "status",
        "stopped_turn",
        "title",
        "turn_floor_seq",
        "turns",
        "untrusted",
        "untrusted_skills",
        "updated",
        "usage",
        "window_tokens",
    )  # fmt: skip

    def __init__(self, key: str) -> None:
        self.key = key
        self.head = self.fold_seq = self.turn_floor_seq = self.turns = self.message_count = 0
        self.status = "active"
        self.usage, self.cost = Usage(), 0.0
        self.calls = 0  # tool calls that ran, with those of sub-agents
        self.reserved: dict[str, Reserved] = {}  # open reservations by id, also those of a process that died
        self.created = self.updated = 0  # ms
        self.started_by = ""  # the first sender who is a person with a name
        self.title = self.parent = self.model = ""
        self.instructions = ""  # the fixed section
        self.fixed_seq = 0  # sequence of its record
        self.note_mark = ""  # what notes of the runtime begin with, in that record
        self.untrusted_skills: tuple[str, ...] = ()  # untrusted skills in it
        self.amendment = ""  # a newer fixed section, appended to the history for now
        self.amended_seq = 0  # sequence of its record
        self.untrusted = self.private = False
        self.spawned: Spawned | None = None  # set if this is a sub-agent's session
        self.profile: dict[str, str] = {}
        self.metadata: dict[str, str] = {}
        self.budget = NO_SESSION_BUDGET
        self.compacted = 0  # ms: time of the last fold
        self.last_fold: Folded | None = None  # the last fold
        self.has_unread_history = False  # older history exists that was neither read nor folded
        self.is_reduced = False  # some messages have left the window or are stubs
        self.messages: list[Message] = []  # the history as the model sees it: the summary first, if there is one
        self.window_tokens = (
            NO_TOKEN_COUNT  # token count of the window: number of messages, their tokens, the tokenizer
        )
        self.reported_tokens = 0  # prompt tokens of the last request, as the provider reported them
        self.queued_inputs: dict[int, QueuedInput] = {}  # queued inputs by sequence, overheard ones included
        self.delivered_turn = 0  # the last turn whose delivery to a chat platform has ended
        self.client_tools: tuple[ClientTool, ...] = ()  # the client's tools
        self.client_tools_seq = 0  # sequence of their record
        self.open_turn: OpenTurn | None = None
        self.stopped_turn = 0  # the turn that ran when its process was told to stop; 0: none

    @classmethod
    def from_tail(cls, tail: SessionTail) -> Session:
        """Build the state from what a store loaded: totals from the summary row, history from the newest records."""
        session = cls(tail.info.key)
        for record in tail.pinned_records:
            session.apply(record.seq, record.at, record.event)
        for record in trim_to_whole_turns(tail.records, complete=tail.complete):
            session.apply(record.seq, record.at, record.event)
        session._restore_totals(tail.info)
        return session

    def _restore_totals(self, info: SessionInfo) -> None:
        self.head, self.fold_seq, self.status = info.head, info.fold, info.status
        self.turns, self.message_count = info.turns, info.messages
        self.usage, self.cost = bound_totals(info.prompt_tokens, info.completion_tokens, info.cost)
        self.calls = info.calls
        self.created, self.updated = info.created, info.updated
        self.started_by = info.person or self.started_by
        self.title, self.parent, self.model = info.title, info.parent, info.model
        self.fixed_seq, self.amended_seq = info.fixed, info.amended
        self.untrusted, self.private = info.untrusted, info.private
        self.spawned, self.profile, self.metadata = info.spawned, info.profile, info.metadata
        self.delivered_turn, self.client_tools_seq = info.delivered, info.client_tools_seq
        self.stopped_turn = info.stopped_turn
        self.budget, self.compacted = info.budget, info.compacted or self.compacted
        if info.window_tokens[0] <= len(self.messages):
            self.window_tokens = info.window_tokens

    def to_info(self) -> SessionInfo:
        return SessionInfo(
            key=self.key,
            head=self.head,
            fold=self.fold_seq,
            floor=min((self.turn_floor_seq, *self.queued_inputs)),
            unfinished=self.is_unfinished,
            status=self.status,  # type: ignore[arg-type]  # one of the literals: `apply` takes no other
            turns=self.turns,
            messages=self.message_count,
            prompt_tokens=self.usage.prompt,
            completion_tokens=self.usage.completion,
            cost=self.cost,
            calls=self.calls,
            created=self.created,
            updated=self.updated,
            title=self.title,
            parent=self.parent,
            model=self.model,
            fixed=self.fixed_seq,
            amended=self.amended_seq,
            untrusted=self.untrusted,
            private=self.private,
            approval=self.pending_approval,
            spawned=self.spawned,
            person=self.started_by,
            profile=self.profile,
            metadata=self.metadata,
            delivered=self.delivered_turn,
            client_tools_seq=self.client_tools_seq,
            window_tokens=self.window_tokens
            if self.window_tokens[2]
            else NO_TOKEN_COUNT,  # an upper bound is quick to recompute
            stopped_turn=self.stopped_turn,
            set_aside=self.open_turn is not None and self.open_turn.is_set_aside,
            budget=self.budget,
            compacted=self.compacted,
        )

    @property
    def is_unfinished(self) -> bool:
        return self.open_turn is not None or self.has_prompt

    @property
    def has_prompt(self) -> bool:
        """Return whether an input is queued that starts a turn."""
        return any(queued.event.kind != "overheard" for queued in self.queued_inputs.values())

    @property
    def pending_approval(self) -> ApprovalAsked | None:
        return (
            self.open_turn.pending_approval if self.open_turn is not None and self.open_turn.approvals_asked else None
        )

    @property
    def person(self) -> str:
        """Return the person whose permissions apply: the last sender, or the one that a sub-agent acts for."""
        if self.spawned is not None:
            return self.spawned.person
        return effective_sender(self.open_turn.sender) if self.open_turn is not None else ""

    def typed_texts(self) -> list[str]:
        """Return the texts that the sender of the open turn wrote: no forwarded, attached or imported content, and
        nothing of other people in the same conversation."""
        return self._typed_texts(self.messages)

    def request_texts(self) -> list[str]:
        """Return those of the typed texts that belong to the open turn."""
        turn = self.open_turn.turn if self.open_turn is not None else -1
        return self._typed_texts([message for message in self.messages if message.turn == turn])

    def typed_texts_of_turn(self) -> list[str]:
        """Return the typed texts of the open turn; none for a sub-agent, whose prompt a model wrote."""
        return [] if self.spawned is not None else self.request_texts()

    def _typed_texts(self, messages: Sequence[Message]) -> list[str]:
        sender = self.open_turn.sender if self.open_turn is not None else ""
        texts: list[str] = []
        for message in messages:
            if message.role == "user":
                for speaker, parts in message.inputs or ((message.sender, message.parts),):
                    if speaker == sender:
                        texts += [part.text for part in parts if isinstance(part, Text) and not part.origin]
        return texts

    @property
    def summary(self) -> str:
        return self.last_fold.summary if self.last_fold is not None else ""

    def apply(self, seq: int, at: int, event: Event) -> None:
        """Update the state with the record at sequence `seq`, written at `at` (ms)."""
        self.head, self.updated = seq, at
        self.created = self.created or at
        if self.reserved:
            for id in reservations_closed_by(event, self.reserved):
                del self.reserved[id]
        if self.open_turn is not None:
            self.open_turn.observe(seq, event)
        _HANDLERS[type(event)](self, seq, at, event)

    # --- one handler for each type of event ------------------------------------------------------

    def _received(self, seq: int, at: int, event: Received) -> None:
        self.queued_inputs[seq] = QueuedInput(seq, at, event)
        if event.kind == "overheard":
            overheard = [queued.seq for queued in self.queued_inputs.values() if queued.event.kind == "overheard"]
            for old in overheard[:-OVERHEARD_MAX]:
                del self.queued_inputs[old]
        elif not self.started_by:
            self.started_by = sender_person(event.sender)
        if self.status == "deleted":
            self.status = "active"

    def _turn_started(self, seq: int, at: int, event: TurnStarted) -> None:
        self.turns = event.turn
        self.turn_floor_seq = min(event.inputs, default=seq)
        self.open_turn = OpenTurn(event.turn, event.inputs, event.model, event.wording)
        self.open_turn.is_direct = bool(event.inputs) and self.queued_inputs.keys() >= set(event.inputs)
        self._add_inputs(event.inputs, event.turn)

    def _turn_resumed(self, seq: int, at: int, event: TurnResumed) -> None:
        self.stopped_turn = 0
        if self.open_turn is not None:
            self.open_turn.note_resumption(seq, event)

    def _turn_set_aside(self, seq: int, at: int, event: TurnSetAside) -> None:
        if self.open_turn is not None:
            self.open_turn.is_set_aside, self.open_turn.crashes = True, event.crashes

    def _tool_started(self, seq: int, at: int, event: ToolStarted) -> None:
        if self.open_turn is not None:
            self.open_turn.started_calls.add(event.call_id)

    def _steered(self, seq: int, at: int, event: Steered) -> None:
        if self.open_turn is not None:
            self.open_turn.inputs += event.inputs
        self._add_inputs(event.inputs, event.turn)

    def _step_streamed(self, seq: int, at: int, event: StepCheckpointed | StepRestarted) -> None:
        if self.open_turn is not None:
            self.open_turn.has_streamed = isinstance(event, StepCheckpointed)
            self.open_turn.restarts += isinstance(event, StepRestarted)

    def _turn_ended(self, seq: int, at: int, event: TurnEnded | Forked) -> None:
        # rejected answers leave the history
        if self.open_turn is not None and (failed := self.open_turn.rejected_seqs):
            self.messages, self.window_tokens = (
                [message for message in self.messages if message.id not in failed],
                NO_TOKEN_COUNT,
            )
        if isinstance(event, TurnEnded) and isinstance(event.outcome, Aborted):
            self._mark_aborted()
        if isinstance(event, TurnEnded) and isinstance(event.outcome, Exhausted) and event.outcome.budget:
            self._drop_refused_prompt()
        self.open_turn = None

    def _mark_aborted(self) -> None:
        """Give the last answer of the aborted turn the finish reason `aborted`: a tool of it may have been running."""
        if self.open_turn is None or not self.open_turn.wording.marks_aborted_answer:
            return
        for message in reversed(self.messages):
            if message.turn != self.open_turn.turn:
                return
            if message.role == "assistant" and message.parts and isinstance(message.parts[-1], Finish):
                message.parts = (*message.parts[:-1], structs.replace(message.parts[-1], reason=FinishReason.ABORTED))
                return

    def _drop_refused_prompt(self) -> None:
        """Remove the turn from the context if its budget refused it before any call of the model: it would be paid for
        with every later prompt. New instructions that came with it stay."""
        turn = self.open_turn
        if turn is None or not turn.wording.drops_refused_prompt:
            return
        mine = [message for message in self.messages if message.turn == turn.turn]
        if any(
            message.role == "assistant" and [part.origin for part in message.parts[:1]] != [RUNTIME] for message in mine
        ):
            return
        dropped = {message.id for message in mine if message.id != self.amended_seq}
        self.messages = [message for message in self.messages if message.id not in dropped]
        self.window_tokens = NO_TOKEN_COUNT

    def _relieved(self, seq: int, at: int, event: Relieved) -> None:
        turn = self.open_turn.turn if self.open_turn is not None else 0
        self.messages = apply_relief(self.messages, event, self.key, turn, seq, at)
        self.is_reduced = True
        self.window_tokens = NO_TOKEN_COUNT

    def _folded(self, seq: int, at: int, event: Folded) -> None:
        """Replace whole turns by the summary; imported messages, which have no turns, by their sequence."""
        through, upto = event.through, event.upto
        remaining = [old for old in self.messages if (old.turn > through if old.turn and through else old.id > upto)]
        if self.last_fold is not None and remaining and remaining[0].id == self.fold_seq:
            del remaining[0]  # the previous summary
        self.messages = [summary_message(seq, at, event.summary, event.origin), *remaining]
        self.messages[0].mark = self.note_mark
        if event.usage is not None:
            self._add_usage(event.usage, event.cost)
        self.fold_seq, self.last_fold, self.compacted, self.window_tokens = seq, event, at, NO_TOKEN_COUNT
        self.has_unread_history, self.is_reduced = False, True

    def _forked(self, seq: int, at: int, event: Forked) -> None:
        """End a turn that was open in the parent session; its calls without a result get one here."""
        self.parent = event.parent
        if (turn := self.open_turn) is not None and turn.open_calls:
            self._append(Message(seq, "tool", turn.results_for_fork(), at=at, turn=turn.turn))
        self._turn_ended(seq, at, event)
        self.reserved = {}  # running calls are paid for by the parent session
        self.queued_inputs.clear()

    def _add_inputs(self, inputs: tuple[int, ...], turn: int) -> None:
        """Join queued inputs into one user message, with the time of the last one."""
        used = [self.queued_inputs.pop(seq) for seq in inputs if seq in self.queued_inputs]
        if used:
            if self.open_turn is not None:
                prompts = [queued for queued in used if queued.event.kind != "overheard"]
                self.open_turn.sender = (prompts or used)[-1].event.sender
                for queued in used:
                    self.open_turn.is_direct = self.open_turn.is_direct and _is_direct_input(queued.event, self.key)
            parts = join_inputs([queued.event.parts for queued in used])
            last, first = used[-1], min(queued.seq for queued in used)
            message = Message(last.seq, "user", parts, at=last.at, turn=turn, since=first, sender=last.event.sender)
            if any(queued.event.sender != message.sender for queued in used):
                message.inputs = tuple((queued.event.sender, queued.event.parts) for queued in used)
            self._append(message)

    def _message_added(self, seq: int, at: int, event: MessageAdded) -> None:
        requested = self.open_turn.model if self.open_turn is not None and event.role == "assistant" else ""
        message = Message(seq, event.role, event.parts, at=at, model=event.model or requested, turn=event.turn)
        self._append(message)
        if event.usage is not None:
            self.reported_tokens = 0 if event.usage.correction else event.usage.prompt
            if event.role == "assistant":
                self._add_usage(event.usage, event.cost)
        if event.role == "user" and self.open_turn is None:
            self.turn_floor_seq = seq
        if self.open_turn is None or event.role != "assistant":
            return
        turn = self.open_turn
        turn.step, turn.provisional = event.step, event.provisional
        turn.restarts, turn.has_streamed = 0, False
        if turn.crashes:
            turn.note_progress()
        turn.step_calls = message.calls
        turn.results, turn.started_calls, turn.approvals_asked, turn.approval_answers = {}, set(), {}, {}
        turn.released_calls = set()

    def _tool_finished(self, seq: int, at: int, event: ToolFinished) -> None:
        """Collect results, which may arrive in any order; once all are there, add them in call order as one message."""
        turn, result = self.open_turn, event.result
        if turn is None or result.call_id in turn.results:
            return
        turn.results[result.call_id] = result
        turn.calls, turn.calls_run, self.calls = turn.calls + 1, turn.calls_run + event.calls, self.calls + event.calls
        if turn.crashes and result.content != turn.wording.outcome_unknown:
            turn.note_progress(of_call=event.calls > 0)
        if event.usage is not None:
            self._add_usage(event.usage, event.cost)
        if not turn.open_calls:
            parts = tuple(turn.results[call.id] for call in turn.step_calls)
            self._append(Message(seq, "tool", parts, at=at, turn=turn.turn))

    def _append(self, message: Message) -> None:
        message.mark = self.note_mark
        self.messages.append(message)
        self.message_count += 1
        if self.open_turn is not None and message.role in ("system", "tool"):
            self.open_turn.note_skills(message)
        for part in message.parts:
            if part.origin:
                self.untrusted = self.untrusted or is_untrusted(part.origin)
                self.private = self.private or is_private(part.origin)

    def _approval_asked(self, seq: int, at: int, event: ApprovalAsked) -> None:
        if self.open_turn is not None:
            self.open_turn.approvals_asked[event.call_id] = event

    def _approval_answered(self, seq: int, at: int, event: ApprovalAnswered) -> None:
        if self.open_turn is not None:
            self.open_turn.approval_answers[event.id] = event
            self.open_turn.last_answered_seq = seq
            self.open_turn.note_progress()

    def _guarded(self, seq: int, at: int, event: Guarded) -> None:
        if event.action == "released" and self.open_turn is not None:
            self.open_turn.released_calls.add(event.call_id)

    def _ignored(self, seq: int, at: int, event: Blanked) -> None:
        """Do nothing: this event does not affect the state."""

    def _reserved(self, seq: int, at: int, event: Reserved) -> None:
        self.reserved[event.id] = event

    def _settled(self, seq: int, at: int, event: Settled) -> None:
        if event.usage is not None:
            self._add_usage(event.usage, event.cost)

    def _judged(self, seq: int, at: int, event: Judged) -> None:
        if self.open_turn is not None:
            self.open_turn.last_verdict = event
            self.open_turn.note_progress()
        for score in event.scores:
            if score.usage is not None:
                self._add_usage(score.usage, score.cost)

    def _add_usage(self, usage: Usage, cost: float) -> None:
        """Add to the totals of the session and of the open turn. Records of earlier releases may hold any numbers."""
        if min(usage.prompt, usage.completion, cost) < 0 or max(usage.prompt, usage.completion) > RECORD_TOKENS_MAX:
            usage, cost = bound_charge(usage, cost)
        self.usage, self.cost = self.usage + usage, min(self.cost + cost, DOLLARS_MAX)
        if (turn := self.open_turn) is not None:
            turn.usage, turn.cost = turn.usage + usage, min(turn.cost + cost, DOLLARS_MAX)

    def _delivered(self, seq: int, at: int, event: Delivered) -> None:
        self.delivered_turn = max(self.delivered_turn, event.turn)
        # nothing else happened in the turn since
        if self.open_turn is not None and self.open_turn.last_answered_seq == seq - 1:
            self.open_turn.last_answered_seq = seq

    def _spawned(self, seq: int, at: int, event: Spawned) -> None:
        self.spawned, self.started_by = event, event.person
        self.parent = event.parent
        self.untrusted = self.untrusted or event.untrusted
        self.private = self.private or event.private

    def _session_changed(self, seq: int, at: int, event: SessionChanged) -> None:
        self.title = self.title if event.title is None else event.title
        self.status = self.status if event.status is None else event.status
        self.model = self.model if event.model is None else event.model
        self.profile = self.profile if event.profile is None else event.profile
        self.metadata = self.metadata if event.metadata is None else event.metadata
        self.budget = self.budget if event.budget is None else event.budget
        if event.guests is not None:
            self.client_tools, self.client_tools_seq = event.guests, seq
        if event.instructions is not None:
            self.instructions, self.fixed_seq, self.untrusted_skills = event.instructions, seq, event.told
            self.note_mark = event.note_mark or self.note_mark
            self.amendment, self.amended_seq = "", 0
        if event.amended is not None:
            self.amendment, self.amended_seq, self.untrusted_skills = (
                event.amended,
                seq,
                (*self.untrusted_skills, *event.told),
            )
            note = Text(AMENDED_PREFIX + event.amended, origin=f"{UNTRUSTED}:context" if event.told else RUNTIME)
            self._append(Message(seq, "system", (note,), at=at, turn=event.turn))


_HANDLERS: dict[type[Event], Callable[[Session, int, int, Any], None]] = {
    Received: Session._received,
    TurnStarted: Session._turn_started,
    TurnResumed: Session._turn_resumed,
    TurnSetAside: Session._turn_set_aside,
    MessageAdded: Session._message_added,
    ToolStarted: Session._tool_started,
    ToolFinished: Session._tool_finished,
    ApprovalAsked: Session._approval_asked,
    ApprovalAnswered: Session._approval_answered,
    Guarded: Session._guarded,
    Spawned: Session._spawned,
    Steered: Session._steered,
    StepCheckpointed: Session._step_streamed,
    StepRestarted: Session._step_streamed,
    Reserved: Session._reserved,
    Settled: Session._settled,
    Judged: Session._judged,
    Relieved: Session._relieved,
    Folded: Session._folded,
    TurnEnded: Session._turn_ended,
    Delivered: Session._delivered,
    SessionChanged: Session._session_changed,
    Forked: Session._forked,
    Blanked: Session._ignored,
}


def _is_direct_input(event: Received, session: str) -> bool:
    """Return True if the sender alone reads the answer: a direct message, or a prompt that came by no chat platform to
    a session that is no chat room."""
    if event.kind == "overheard" or event.shared:
        return False
    return event.heard.direct if event.heard is not None else ":" not in session or not is_room_key(session)


def trim_to_whole_turns(records: list[Record], *, complete: bool) -> list[Record]:
    """Return the records from the first whole turn on; all of them if they are `complete`."""
    if complete:
        return records
    loaded = {record.seq for record in records}
    for index, record in enumerate(records):
        match record.event:
            case TurnStarted(inputs=inputs) if all(seq in loaded for seq in inputs):
                return _with_needed_inputs(records, index)
            case MessageAdded(role="user", turn=0):  # imported history has no turns
                return _with_needed_inputs(records, index)
    return records


def _with_needed_inputs(records: list[Record], index: int) -> list[Record]:
    """Return the records from `index` on, preceded by earlier inputs that are used after it or still queued."""
    received = [record for record in records[:index] if isinstance(record.event, Received)]
    used_after = {
        seq
        for record in records[index:]
        if isinstance(record.event, TurnStarted | Steered)
        for seq in record.event.inputs
    }
    used_before = {
        seq
        for record in records[:index]
        if isinstance(record.event, TurnStarted | Steered)
        for seq in record.event.inputs
    }
    needed = [record for record in received if record.seq in used_after or record.seq not in used_before]
    return needed + records[index:]
