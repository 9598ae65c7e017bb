"""Compaction of a session: summarises old turns in the background and records the result as one `Folded` event.

Until that event nothing has changed, so a fold that fails, is killed or comes too late loses nothing. If no model can
write the summary and the context has no room left, an outline takes its place.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence

import msgspec

from mainstay.context.compaction_plan import FoldPlan
from mainstay.context.fallback_summary import build_outline
from mainstay.context.token_budget import ContextSizeSettings, TokenBudget
from mainstay.context.token_counts import count_message_tokens
from mainstay.context.tokenizers import count_for_model
from mainstay.core.budget_ports import BudgetManager
from mainstay.core.budget_reservation_ids import FOLD_ID_PREFIX, settle_lost
from mainstay.core.budgeted_side_calls import BudgetedSummaryRequest, FoldBilling
from mainstay.core.errors import MainstayError
from mainstay.core.events import Event, Folded
from mainstay.core.memory_tiers import Fact, Summary, combine_origins
from mainstay.core.messages import Message, Usage
from mainstay.core.ports import Clock, Summariser, SummaryRequest, SummaryResult, Tokenizer
from mainstay.core.session import Session
from mainstay.core.supervision import must_end_task
from mainstay.core.usage_bounds import bound_charge
from mainstay.lane.journal_writer import JournalWriter

log = logging.getLogger("mainstay.lane")

RETRY_S = 60.0  # after a failed summary, doubled each time
RETRY_MAX_S = 3600.0
PASSAGE_TOKENS = 24_000  # per request to the summariser
FACTS_MAX = 100  # per fold


class FoldTask(msgspec.Struct, frozen=True):
    """A fold to be made: the plan, and the token budget of its summary."""

    fold: FoldPlan
    budget: TokenBudget
    rules: ContextSizeSettings
    tokenizer: Tokenizer
    focus: str = ""


class FoldRunner:
    """Runs the folds of a session, at most one at a time.

    While `is_suspended`, no fold is recorded: the in-memory session still has content that was deleted in the store.
    """

    __slots__ = (
        "_budget_manager",
        "_clock",
        "_failures",
        "_not_before",
        "_running_task",
        "_summariser",
        "extract_facts",
        "is_suspended",
    )

    def __init__(
        self,
        summariser: Summariser | None,
        clock: Clock,
        *,
        extract_facts: bool = True,
        budget_manager: BudgetManager | None = None,
    ) -> None:
        self._budget_manager = budget_manager
        self._summariser = summariser
        self._clock = clock
        self._running_task: asyncio.Task[bool] | None = None
        self._failures = 0
        self._not_before = 0.0
        self.extract_facts = extract_facts
        self.is_suspended = False

    @property
    def running_task(self) -> asyncio.Task[bool] | None:
        # also a task that was cancelled before it started
        if self._running_task is not None and self._running_task.done():
            self._running_task = None
        return self._running_task

    def start_fold(
        self, writer: JournalWriter, task: FoldTask, extra_events: Sequence[Event] = ()
    ) -> asyncio.Task[bool]:
        """Start a fold in the background, or return the running one; `extra_events` are recorded with the fold."""
        if self.running_task is None:
            self._running_task = asyncio.get_running_loop().create_task(
                self._run(writer, task, extra_events), name="fold"
            )
        assert self._running_task is not None
        return self._running_task

    @property
    def can_retry(self) -> bool:
        """True if no failure was recent enough to delay the next fold."""
        return self._clock.monotonic() >= self._not_before

    def record_outline(self, writer: JournalWriter, task: FoldTask, extra_events: Sequence[Event] = ()) -> bool:
        """Fold at once with an outline instead of a summary; False if the session was folded meanwhile."""
        return self._record_fold(writer, task, _build_outlined(writer.session, task), extra_events)

    async def close(self) -> None:
        if (running := self.running_task) is not None:
            running.cancel()
            await asyncio.wait((running,))

    async def _run(self, writer: JournalWriter, task: FoldTask, extra_events: Sequence[Event]) -> bool:
        """Make the fold; return True if it was recorded. Failures are logged and delay the next fold."""
        try:
            if self._summariser is None:
                return self.record_outline(writer, task, extra_events)
            return await self._summarise(self._summariser, writer, task, extra_events)
        except BaseException as error:  # the summariser may be a plugin's: the conversation goes on without it
            if must_end_task(error):
                raise
            if not isinstance(error, MainstayError):
                log.exception("the summariser failed")
            self._failures += 1
            pause_s = min(RETRY_S * 2 ** (self._failures - 1), RETRY_MAX_S)
            self._not_before = self._clock.monotonic() + pause_s
            log.warning("session %s was not summarised, nothing is lost: %s", writer.session.key, error)
            return False

    async def _summarise(
        self, summariser: Summariser, writer: JournalWriter, task: FoldTask, extra_events: Sequence[Event]
    ) -> bool:
        """Summarise and record the fold, charged to the session's budgets."""
        turn_budget = (
            await self._budget_manager.open_turn_budget(writer.session) if self._budget_manager is not None else None
        )
        billing = FoldBilling(turn_budget, writer, count_for_model) if turn_budget is not None else None
        # reservations of a fold whose process stopped
        writer.record_nowait(
            *settle_lost(entry for entry in writer.session.reserved.values() if entry.id.startswith(FOLD_ID_PREFIX))
        )
        recorded = False
        try:
            folded = await self._build_summarised(summariser, writer.session, task, billing)
            self._failures = 0
            recorded = self._record_fold(writer, task, folded, extra_events)
        finally:
            if billing is not None:
                billing.close(recorded=recorded or writer.failure is not None)
        return recorded

    def _record_fold(
        self, writer: JournalWriter, task: FoldTask, folded: Folded, extra_events: Sequence[Event]
    ) -> bool:
        """Record the fold, unless the session has changed since its plan was made."""
        if self.is_suspended or writer.failure is not None or writer.session.fold_seq != task.fold.previous_fold_seq:
            return False
        writer.record_nowait(folded, *extra_events, flush_soon=True)
        return True

    async def _build_summarised(
        self, summariser: Summariser, session: Session, task: FoldTask, billing: FoldBilling | None = None
    ) -> Folded:
        before, model = session.summary, session.model
        origin = session.last_fold.origin if session.last_fold is not None else ""
        batches = list(_split_into_batches(task))
        share = max(task.budget.summary * 2 // (3 * len(batches)), 80)
        parts: list[Summary] = []
        facts: list[Fact] = []
        results: list[SummaryResult] = []
        for batch in batches:
            request = SummaryRequest(
                messages=batch,
                previous_summary=before,
                previous_origin=origin,
                tokens_max=share,
                focus=task.focus,
                extract_facts=self.extract_facts,
            )
            result = await summariser.summarise(_attach_billing(request, billing), model)
            results.append(result)
            parts.append(_build_summary(batch, result.text))
            facts += result.facts
            before, origin = result.text, origin or _find_worst_origin(batch)
        text = "\n\n".join(filter(None, (session.summary, *(part.text for part in parts))))
        if task.tokenizer.count(text) > task.budget.summary:  # the summaries are summarised again
            request = SummaryRequest(
                messages=(),
                previous_summary=text,
                tokens_max=task.budget.summary * 2 // 3,
                focus=task.focus,
                extract_facts=False,
            )
            results.append(await summariser.summarise(_attach_billing(request, billing), model))
            text = _trim_to_budget(results[-1].text, task)
        folded = _build_folded(session, task, text)
        usage, cost = sum((result.usage for result in results), Usage()), sum(result.cost for result in results)
        usage, cost = bound_charge(usage, cost)
        if billing is not None:
            known, cost = billing.total(usage, cost)
            usage = known or Usage()
        return msgspec.structs.replace(
            folded,
            by=results[-1].model,
            parts=tuple(parts),
            facts=tuple(facts[:FACTS_MAX]),
            usage=usage if usage.prompt or usage.completion or usage.correction else None,
            cost=cost,
        )


def _attach_billing(request: SummaryRequest, billing: FoldBilling | None) -> SummaryRequest:
    if billing is None:
        return request
    fields = {name: getattr(request, name) for name in request.__struct_fields__}
    return BudgetedSummaryRequest(billing=billing, **fields)


def _build_outlined(session: Session, task: FoldTask) -> Folded:
    outlined = build_outline(
        SummaryRequest(messages=task.fold.messages), task.budget.summary * 2 // 3, task.tokenizer.count
    )
    text = _trim_to_budget("\n\n".join(filter(None, (session.summary, outlined))), task)
    return _build_folded(session, task, text)


def _build_folded(session: Session, task: FoldTask, text: str) -> Folded:
    earlier = session.last_fold.origin if session.last_fold is not None else ""
    version = session.last_fold.version + 1 if session.last_fold is not None else 1
    return Folded(
        task.fold.upto_seq,
        text,
        through=max(task.fold.last_turn, session.last_fold.through if session.last_fold is not None else 0),
        version=version,
        origin=combine_origins((earlier, _find_worst_origin(task.fold.messages))),
    )


def _find_worst_origin(messages: Sequence[Message]) -> str:
    """Return the least trusted origin among these messages."""
    return combine_origins(part.origin for message in messages for part in message.parts)


def _build_summary(batch: Sequence[Message], text: str) -> Summary:
    ids = [message.id for message in batch]
    return Summary(min(ids), max(ids), batch[0].at, batch[-1].at, text)


def _trim_to_budget(text: str, task: FoldTask) -> str:
    """Cut the beginning of a summary that exceeds its budget; older messages can still be found by search."""
    most = task.budget.summary
    lines = text.split("\n")
    while len(lines) > 1 and task.tokenizer.count("\n".join(lines)) > most:
        lines = lines[max(1, len(lines) // 8) :]
    text = "\n".join(lines)
    while len(text) > 200 and task.tokenizer.count(text) > most:
        text = text[len(text) // 4 :]
    return text


def _split_into_batches(task: FoldTask) -> Iterator[tuple[Message, ...]]:
    """Yield batches of whole turns, about `batch_size` messages and at most about `PASSAGE_TOKENS` each."""
    batch: list[Message] = []
    size = 0
    for turn in _split_by_turn(task.fold.messages):
        tokens = sum(count_message_tokens(message, task.tokenizer) for message in turn)
        if batch and (len(batch) + len(turn) > task.rules.batch_size or size + tokens > PASSAGE_TOKENS):
            yield tuple(batch)
            batch, size = [], 0
        batch += turn
        size += tokens
    if batch:
        yield tuple(batch)


def _split_by_turn(messages: Sequence[Message]) -> Iterator[list[Message]]:
    turn: list[Message] = []
    for message in messages:
        begins = message.role == "user" if not message.turn else bool(turn) and message.turn != turn[-1].turn
        if turn and begins:
            yield turn
            turn = []
        turn.append(message)
    if turn:
        yield turn
