"""A session as its journal tells it: apply the records in order and this is where it stands.

The whole state of a conversation, an unfinished turn included, follows from the records alone. That is
what makes a crash uninteresting: a turn goes on from the view, whether the view was just made by the
turn itself or read back from disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainstay.core.envelope import named_in, person_of
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
    TurnStarted,
)
from mainstay.core.guests import GuestTool
from mainstay.core.messages import Message, Text, Usage, join_inputs
from mainstay.core.open_turn import OpenTurn, Waiting
from mainstay.core.ports import UNWEIGHED, Standing, Tail
from mainstay.core.recall import RUNTIME, UNTRUSTED, is_private, is_untrusted
from mainstay.core.reservations import closed_by
from mainstay.core.stubs import relieve, summary_message
from mainstay.core.tail import whole_turns

AMENDED = "Your instructions have changed. From now on these hold instead of the earlier ones:\n\n"
OVERHEARD_MAX = 50  # of what was said meanwhile, the newest are shown with a prompt


class Session:
    """The view. `apply` is the only way it changes."""

    __slots__ = (
        "amended", "amendment", "begun_by", "calls", "cost", "created", "delivered", "errand", "fixed", "fold",
        "folded", "guested", "guests", "head", "instructions", "key", "message_count", "messages", "metadata",
        "model", "open", "parent", "partial", "private", "profile", "relieved", "reported", "reserved", "status",
        "title", "told", "turn_floor", "turns", "untrusted", "updated", "usage", "waiting", "weighed",
    )  # fmt: skip

    def __init__(self, key: str) -> None:
        self.key = key
        self.head = self.fold = self.turn_floor = self.turns = self.message_count = 0
        self.status = "active"
        self.usage, self.cost = Usage(), 0.0
        self.calls = 0  # of tools that ran, with those of sub-agents
        self.reserved: dict[str, Reserved] = {}  # put aside for calls that are under way, or whose process died
        self.created = self.updated = 0
        self.begun_by = ""  # the first who spoke here and has a name
        self.title = self.parent = self.model = ""
        self.instructions = ""  # the fixed section, and where it stands
        self.fixed = 0
        self.told: tuple[str, ...] = ()  # skills of others in it
        self.amendment = ""  # a newer one that is appended for now, and where it stands
        self.amended = 0
        self.untrusted = self.private = False
        self.errand: Spawned | None = None
        self.profile: dict[str, str] = {}
        self.metadata: dict[str, str] = {}
        self.folded: Folded | None = None  # the last fold
        self.partial = False  # older history exists that was neither read nor folded
        self.relieved = False  # something has left the window, or is only a stub in it
        self.messages: list[Message] = []  # what the model sees of the history: the summary first, where there is one
        self.weighed = UNWEIGHED  # so many messages of the window, what they weigh together, and by whose count
        self.reported = 0  # tokens of the last request, by the provider's count
        self.waiting: dict[int, Waiting] = {}  # with what was overheard since the last turn began
        self.delivered = 0  # the last turn whose answer was handed to a chat platform, or not, for good
        self.guests: tuple[GuestTool, ...] = ()  # tools that whoever asks runs, and where they stand
        self.guested = 0
        self.open: OpenTurn | None = None

    @classmethod
    def of(cls, tail: Tail) -> Session:
        """From what a store loaded: totals from the standing, history from the newest records."""
        session = cls(tail.standing.key)
        for record in tail.landmarks:
            session.apply(record.seq, record.at, record.event)
        for record in whole_turns(tail.records, complete=tail.complete):
            session.apply(record.seq, record.at, record.event)
        session._trust(tail.standing)
        return session

    def _trust(self, standing: Standing) -> None:
        self.head, self.fold, self.status = standing.head, standing.fold, standing.status
        self.turns, self.message_count = standing.turns, standing.messages
        self.usage = Usage(standing.prompt_tokens, standing.completion_tokens)
        self.cost, self.calls = standing.cost, standing.calls
        self.created, self.updated = standing.created, standing.updated
        self.begun_by = standing.person or self.begun_by
        self.title, self.parent, self.model = standing.title, standing.parent, standing.model
        self.fixed, self.amended = standing.fixed, standing.amended
        self.untrusted, self.private = standing.untrusted, standing.private
        self.errand, self.profile, self.metadata = standing.errand, standing.profile, standing.metadata
        self.delivered, self.guested = standing.delivered, standing.guested
        if standing.weighed[0] <= len(self.messages):
            self.weighed = standing.weighed

    def standing(self) -> Standing:
        return Standing(
            key=self.key,
            head=self.head,
            fold=self.fold,
            floor=min((self.turn_floor, *self.waiting)),
            unfinished=self.unfinished,
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
            fixed=self.fixed,
            amended=self.amended,
            untrusted=self.untrusted,
            private=self.private,
            approval=self.pending,
            errand=self.errand,
            person=self.begun_by,
            profile=self.profile,
            metadata=self.metadata,
            delivered=self.delivered,
            guested=self.guested,
            weighed=self.weighed if self.weighed[2] else UNWEIGHED,  # a bound is found again in no time
        )

    @property
    def unfinished(self) -> bool:
        return self.open is not None or self.prompted

    @property
    def prompted(self) -> bool:
        """Something waits that a turn is to be made of."""
        return any(one.event.kind != "overheard" for one in self.waiting.values())

    @property
    def pending(self) -> ApprovalAsked | None:
        return self.open.pending if self.open is not None and self.open.asked else None

    @property
    def person(self) -> str:
        """Whose rules hold now: whoever spoke last, or for whom it was sent, however many agents that went through."""
        if self.errand is not None:
            return self.errand.person
        return person_of(self.open.sender) if self.open is not None else ""

    def spoken(self) -> list[str]:
        """What the person said here, word for word; nothing that was only shown to the model."""
        said = (part for message in self.messages if message.role == "user" for part in message.parts)
        return [part.text for part in said if isinstance(part, Text) and not part.origin]

    @property
    def summary(self) -> str:
        return self.folded.summary if self.folded is not None else ""

    def apply(self, seq: int, at: int, event: Event) -> None:
        self.head, self.updated = seq, at
        self.created = self.created or at
        if self.reserved:
            for id in closed_by(event, self.reserved):
                del self.reserved[id]
        if self.open is not None:
            self.open.hear(seq, event)
        _APPLY[type(event)](self, seq, at, event)

    # --- one for each kind of event --------------------------------------------------------------

    def _received(self, seq: int, at: int, event: Received) -> None:
        self.waiting[seq] = Waiting(seq, at, event)
        if event.kind == "overheard":
            heard = [one.seq for one in self.waiting.values() if one.event.kind == "overheard"]
            for old in heard[:-OVERHEARD_MAX]:
                del self.waiting[old]
        elif not self.begun_by:
            self.begun_by = named_in(event.sender)
        if self.status == "deleted":
            self.status = "active"

    def _turn_started(self, seq: int, at: int, event: TurnStarted) -> None:
        self.turns = event.turn
        self.turn_floor = min(event.inputs, default=seq)
        self.open = OpenTurn(event.turn, event.inputs, event.model)
        self._add_inputs(event.inputs, event.turn)

    def _turn_resumed(self, seq: int, at: int, event: TurnResumed) -> None:
        if self.open is not None:
            self.open.resumes += 1

    def _tool_started(self, seq: int, at: int, event: ToolStarted) -> None:
        if self.open is not None:
            self.open.started.add(event.call_id)

    def _steered(self, seq: int, at: int, event: Steered) -> None:
        if self.open is not None:
            self.open.inputs += event.inputs
        self._add_inputs(event.inputs, event.turn)

    def _step_streamed(self, seq: int, at: int, event: StepCheckpointed | StepRestarted) -> None:
        if self.open is not None:
            self.open.partial = isinstance(event, StepCheckpointed)
            self.open.restarts += isinstance(event, StepRestarted)

    def _turn_ended(self, seq: int, at: int, event: TurnEnded | Forked) -> None:
        if self.open is not None and (failed := self.open.failed):  # what is seen of it from now on is what stood
            self.messages, self.weighed = [one for one in self.messages if one.id not in failed], UNWEIGHED
        self.open = None

    def _relieved(self, seq: int, at: int, event: Relieved) -> None:
        turn = self.open.turn if self.open is not None else 0
        self.messages = relieve(self.messages, event, self.key, turn, seq, at)
        self.relieved = True
        self.weighed = UNWEIGHED

    def _folded(self, seq: int, at: int, event: Folded) -> None:
        """Whole turns leave; of what was brought from elsewhere and has no turns, whatever stands low enough."""
        through, upto = event.through, event.upto
        kept = [one for one in self.messages if (one.turn > through if one.turn and through else one.id > upto)]
        if self.folded is not None and kept and kept[0].id == self.fold:
            del kept[0]  # the summary before this one
        self.messages = [summary_message(seq, at, event.summary, event.origin), *kept]
        if event.usage is not None:
            self._spent(event.usage, event.cost)
        self.fold, self.folded, self.weighed = seq, event, UNWEIGHED
        self.partial, self.relieved = False, True

    def _forked(self, seq: int, at: int, event: Forked) -> None:
        """A turn that was under way stays behind; calls that have no result yet get one here, as every call does."""
        self.parent = event.parent
        if (turn := self.open) is not None and turn.open_calls:
            self._append(Message(seq, "tool", turn.left_behind(), at=at, turn=turn.turn))
        self._turn_ended(seq, at, event)
        self.reserved = {}  # who pays for what is under way is the parent
        self.waiting.clear()

    def _add_inputs(self, inputs: tuple[int, ...], turn: int) -> None:
        """Waiting inputs become one user message, texts joined, the last one's time kept."""
        taken = [self.waiting.pop(seq) for seq in inputs if seq in self.waiting]
        if taken:
            if self.open is not None:
                meant = [one for one in taken if one.event.kind != "overheard"]
                self.open.sender = (meant or taken)[-1].event.sender
            parts = join_inputs([one.event.parts for one in taken])
            first = min(one.seq for one in taken)
            self._append(Message(taken[-1].seq, "user", parts, at=taken[-1].at, turn=turn, since=first))

    def _message_added(self, seq: int, at: int, event: MessageAdded) -> None:
        meant = self.open.model if self.open is not None and event.role == "assistant" else ""
        message = Message(seq, event.role, event.parts, at=at, model=event.model or meant, turn=event.turn)
        self._append(message)
        if event.usage is not None:
            self.reported = event.usage.prompt
            if event.role == "assistant":
                self._spent(event.usage, event.cost)
        if event.role == "user" and self.open is None:
            self.turn_floor = seq
        if self.open is None or event.role != "assistant":
            return
        turn = self.open
        turn.step, turn.provisional = event.step, event.provisional
        turn.restarts, turn.resumes, turn.partial = 0, 0, False
        turn.step_calls = message.calls
        turn.results, turn.started, turn.asked, turn.answers = {}, set(), {}, {}

    def _tool_finished(self, seq: int, at: int, event: ToolFinished) -> None:
        """Results may come in any order; the history gets them together, in the order of the calls."""
        turn, result = self.open, event.result
        if turn is None or result.call_id in turn.results:
            return
        turn.results[result.call_id] = result
        turn.calls, turn.ran, self.calls = turn.calls + 1, turn.ran + event.calls, self.calls + event.calls
        turn.resumes = 0
        if event.usage is not None:
            self._spent(event.usage, event.cost)
        if not turn.open_calls:
            parts = tuple(turn.results[call.id] for call in turn.step_calls)
            self._append(Message(seq, "tool", parts, at=at, turn=turn.turn))

    def _append(self, message: Message) -> None:
        self.messages.append(message)
        self.message_count += 1
        if self.open is not None and message.role in ("system", "tool"):
            self.open.follow(message)
        for part in message.parts:
            if part.origin:
                self.untrusted = self.untrusted or is_untrusted(part.origin)
                self.private = self.private or is_private(part.origin)

    def _approval_asked(self, seq: int, at: int, event: ApprovalAsked) -> None:
        if self.open is not None:
            self.open.asked[event.call_id] = event

    def _approval_answered(self, seq: int, at: int, event: ApprovalAnswered) -> None:
        if self.open is not None:
            self.open.answers[event.id] = event
            self.open.answered = seq
            self.open.resumes = 0

    def _noted(self, seq: int, at: int, event: Guarded | Blanked) -> None:
        """For whoever looks back; nothing follows from it."""

    def _reserved(self, seq: int, at: int, event: Reserved) -> None:
        self.reserved[event.id] = event

    def _settled(self, seq: int, at: int, event: Settled) -> None:
        if event.usage is not None:
            self._spent(event.usage, event.cost)

    def _judged(self, seq: int, at: int, event: Judged) -> None:
        if self.open is not None:
            self.open.judged, self.open.resumes = event, 0
        for score in event.scores:
            if score.usage is not None:
                self._spent(score.usage, score.cost)

    def _spent(self, usage: Usage, cost: float) -> None:
        """On the session, and on the turn under way."""
        self.usage, self.cost = self.usage + usage, self.cost + cost
        if self.open is not None:
            self.open.usage, self.open.cost = self.open.usage + usage, self.open.cost + cost

    def _delivered(self, seq: int, at: int, event: Delivered) -> None:
        self.delivered = max(self.delivered, event.turn)
        if self.open is not None and self.open.answered == seq - 1:  # nothing has happened to the turn since
            self.open.answered = seq

    def _spawned(self, seq: int, at: int, event: Spawned) -> None:
        self.errand, self.begun_by = event, event.person
        self.parent = event.parent
        self.untrusted = self.untrusted or event.untrusted
        self.private = self.private or event.private

    def _session_changed(self, seq: int, at: int, event: SessionChanged) -> None:
        self.title = self.title if event.title is None else event.title
        self.status = self.status if event.status is None else event.status
        self.model = self.model if event.model is None else event.model
        self.profile = self.profile if event.profile is None else event.profile
        self.metadata = self.metadata if event.metadata is None else event.metadata
        if event.guests is not None:
            self.guests, self.guested = event.guests, seq
        if event.instructions is not None:
            self.instructions, self.fixed, self.told = event.instructions, seq, event.told
            self.amendment, self.amended = "", 0
        if event.amended is not None:
            self.amendment, self.amended, self.told = event.amended, seq, (*self.told, *event.told)
            note = Text(AMENDED + event.amended, origin=f"{UNTRUSTED}:context" if event.told else RUNTIME)
            self._append(Message(seq, "system", (note,), at=at, turn=event.turn))


_APPLY: dict[type[Event], Callable[[Session, int, int, Any], None]] = {
    Received: Session._received,
    TurnStarted: Session._turn_started,
    TurnResumed: Session._turn_resumed,
    MessageAdded: Session._message_added,
    ToolStarted: Session._tool_started,
    ToolFinished: Session._tool_finished,
    ApprovalAsked: Session._approval_asked,
    ApprovalAnswered: Session._approval_answered,
    Guarded: Session._noted,
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
    Blanked: Session._noted,
}
