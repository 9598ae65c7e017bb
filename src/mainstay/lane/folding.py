"""A lane's folds: old turns become a summary beside the conversation, and one record at the end.

Until that record nothing has changed, so a fold that fails, is killed or comes too late loses nothing. If no model can
write the summary and there is no more room to wait, an outline takes its place.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence

import msgspec

from mainstay.context.outline import outline
from mainstay.context.relief import Fold
from mainstay.context.rules import Budget, Rules
from mainstay.context.tokens import counted
from mainstay.context.weigh import weigh
from mainstay.core.accounts import Accounts
from mainstay.core.errors import MainstayError
from mainstay.core.events import Event, Folded
from mainstay.core.messages import Message, Usage
from mainstay.core.ports import Clock, Digest, Passage, Summariser, Tokenizer
from mainstay.core.recall import Fact, Summary, worst
from mainstay.core.reservations import FOLD, lost
from mainstay.core.session import Session
from mainstay.core.spending import PaidPassage, Paying
from mainstay.lane.scribe import Pen

log = logging.getLogger("mainstay.lane")

RETRY_S = 60.0  # after a summary failed, doubled each time
RETRY_MAX_S = 3600.0
PASSAGE_TOKENS = 24_000  # given to the summariser at once
FACTS_MAX = 100  # a fold


class Task(msgspec.Struct, frozen=True):
    """A fold that should happen, and how long its summary may be."""

    fold: Fold
    budget: Budget
    rules: Rules
    tokenizer: Tokenizer
    focus: str = ""


class Folding:
    """At most one fold of a session is under way. While `held`, none is recorded: something was forgotten that the
    view still has."""

    __slots__ = ("_accounts", "_clock", "_failures", "_not_before", "_running", "_summariser", "facts", "held")

    def __init__(
        self, summariser: Summariser | None, clock: Clock, *, facts: bool = True, accounts: Accounts | None = None
    ) -> None:
        self._accounts = accounts
        self._summariser = summariser
        self._clock = clock
        self._running: asyncio.Task[bool] | None = None
        self._failures = 0
        self._not_before = 0.0
        self.facts = facts
        self.held = False

    @property
    def running(self) -> asyncio.Task[bool] | None:
        if self._running is not None and self._running.done():  # also one that was cancelled before it began
            self._running = None
        return self._running

    def begin(self, pen: Pen, task: Task, renewed: Sequence[Event] = ()) -> asyncio.Task[bool]:
        """Beside the conversation. The one under way goes first; `renewed` is recorded with the fold."""
        if self.running is None:
            self._running = asyncio.get_running_loop().create_task(self._run(pen, task, renewed), name="fold")
        assert self._running is not None
        return self._running

    @property
    def rested(self) -> bool:
        """Whether it is time to try again after a failure."""
        return self._clock.monotonic() >= self._not_before

    def outline(self, pen: Pen, task: Task, renewed: Sequence[Event] = ()) -> bool:
        """At once and without a model; False if it came too late."""
        return self._record(pen, task, _outlined(pen.session, task), renewed)

    async def close(self) -> None:
        if (running := self.running) is not None:
            running.cancel()
            await asyncio.wait((running,))

    async def _run(self, pen: Pen, task: Task, renewed: Sequence[Event]) -> bool:
        """True if it was recorded."""
        try:
            if self._summariser is None:
                return self.outline(pen, task, renewed)
            return await self._summarise(self._summariser, pen, task, renewed)
        except Exception as error:  # a summariser may be somebody else's: the conversation goes on without it
            if not isinstance(error, MainstayError):
                log.exception("the summariser failed")
            self._failures += 1
            pause_s = min(RETRY_S * 2 ** (self._failures - 1), RETRY_MAX_S)
            self._not_before = self._clock.monotonic() + pause_s
            log.warning("session %s was not summarised, nothing is lost: %s", pen.session.key, error)
            return False

    async def _summarise(self, summariser: Summariser, pen: Pen, task: Task, renewed: Sequence[Event]) -> bool:
        """Paid for by whoever pays for the conversation, where that is bounded."""
        purse = await self._accounts.purse(pen.session) if self._accounts is not None else None
        paying = Paying(purse, pen, counted) if purse is not None else None
        pen.note(*lost(one for one in pen.session.reserved.values() if one.id.startswith(FOLD)))  # by one that died
        told = False
        try:
            made = await self._summarised(summariser, pen.session, task, paying)
            self._failures = 0
            told = self._record(pen, task, made, renewed)
        finally:
            if paying is not None:
                paying.close(told=told or pen.broken is not None)
        return told

    def _record(self, pen: Pen, task: Task, folded: Folded, renewed: Sequence[Event]) -> bool:
        """Only if the session is still the one it was made of."""
        if self.held or pen.broken is not None or pen.session.fold != task.fold.basis:
            return False
        pen.note(folded, *renewed, soon=True)
        return True

    async def _summarised(
        self, summariser: Summariser, session: Session, task: Task, paying: Paying | None = None
    ) -> Folded:
        before, model = session.summary, session.model
        origin = session.folded.origin if session.folded is not None else ""
        batches = list(_batches(task))
        share = max(task.budget.summary * 2 // (3 * len(batches)), 80)
        parts: list[Summary] = []
        facts: list[Fact] = []
        digests: list[Digest] = []
        for batch in batches:
            passage = Passage(
                messages=batch, before=before, origin=origin, tokens=share, focus=task.focus, facts=self.facts
            )
            digest = await summariser.summarise(_paid(passage, paying), model)
            digests.append(digest)
            parts.append(_summary_of(batch, digest.text))
            facts += digest.facts
            before, origin = digest.text, origin or _outside_in(batch)
        text = "\n\n".join(filter(None, (session.summary, *(part.text for part in parts))))
        if task.tokenizer.count(text) > task.budget.summary:  # summaries are folded in their turn
            passage = Passage(
                messages=(), before=text, tokens=task.budget.summary * 2 // 3, focus=task.focus, facts=False
            )
            digests.append(await summariser.summarise(_paid(passage, paying), model))
            text = _within(digests[-1].text, task)
        folded = _folded(session, task, text)
        usage, cost = sum((one.usage for one in digests), Usage()), sum(one.cost for one in digests)
        if paying is not None:
            known, cost = paying.total(usage, cost)
            usage = known or Usage()
        return msgspec.structs.replace(
            folded,
            by=digests[-1].by,
            parts=tuple(parts),
            facts=tuple(facts[:FACTS_MAX]),
            usage=usage if usage.prompt or usage.completion else None,
            cost=cost,
        )


def _paid(passage: Passage, paying: Paying | None) -> Passage:
    if paying is None:
        return passage
    fields = {name: getattr(passage, name) for name in passage.__struct_fields__}
    return PaidPassage(paying=paying, **fields)


def _outlined(session: Session, task: Task) -> Folded:
    made = outline(Passage(messages=task.fold.messages), task.budget.summary * 2 // 3, task.tokenizer.count)
    text = _within("\n\n".join(filter(None, (session.summary, made))), task)
    return _folded(session, task, text)


def _folded(session: Session, task: Task, text: str) -> Folded:
    earlier = session.folded.origin if session.folded is not None else ""
    version = session.folded.version + 1 if session.folded is not None else 1
    return Folded(
        task.fold.upto,
        text,
        through=max(task.fold.through, session.folded.through if session.folded is not None else 0),
        version=version,
        origin=worst((earlier, _outside_in(task.fold.messages))),
    )


def _outside_in(messages: Sequence[Message]) -> str:
    """The origin of whatever of these came from outside."""
    return worst(part.origin for message in messages for part in message.parts)


def _summary_of(batch: Sequence[Message], text: str) -> Summary:
    ids = [message.id for message in batch]
    return Summary(min(ids), max(ids), batch[0].at, batch[-1].at, text)


def _within(text: str, task: Task) -> str:
    """The end of it, if it is far too long: what is older can still be found by date."""
    most = task.budget.summary
    lines = text.split("\n")
    while len(lines) > 1 and task.tokenizer.count("\n".join(lines)) > most:
        lines = lines[max(1, len(lines) // 8) :]
    text = "\n".join(lines)
    while len(text) > 200 and task.tokenizer.count(text) > most:
        text = text[len(text) // 4 :]
    return text


def _batches(task: Task) -> Iterator[tuple[Message, ...]]:
    """Whole turns, about `batch_size` messages and no more than a summariser should read at once."""
    batch: list[Message] = []
    size = 0
    for turn in _by_turn(task.fold.messages):
        heavy = sum(weigh(message, task.tokenizer) for message in turn)
        if batch and (len(batch) + len(turn) > task.rules.batch_size or size + heavy > PASSAGE_TOKENS):
            yield tuple(batch)
            batch, size = [], 0
        batch += turn
        size += heavy
    if batch:
        yield tuple(batch)


def _by_turn(messages: Sequence[Message]) -> Iterator[list[Message]]:
    turn: list[Message] = []
    for message in messages:
        begins = message.role == "user" if not message.turn else bool(turn) and message.turn != turn[-1].turn
        if turn and begins:
            yield turn
            turn = []
        turn.append(message)
    if turn:
        yield turn
