"""Plans the compaction of a context that is nearly full, cheapest steps first. Pure: returns what should be done.

1. large results of the open turn become stubs that can be paged through;
2. older results become stubs, by age;
3. the oldest whole turns are folded into a summary;
4. if that is not enough (one huge turn, a tiny window), texts and arguments are cut and the open turn's first steps are
   left out. The user's newest message is cut last.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mainstay.context.compiler import count_conversation
from mainstay.context.token_budget import ContextSizeSettings, TokenBudget
from mainstay.context.token_counts import count_message_tokens
from mainstay.core.events import Relieved
from mainstay.core.history_stubs import apply_relief, is_steps_note, is_stub
from mainstay.core.messages import Message, Text, Thinking, ToolCall, ToolResult
from mainstay.core.ports import Tokenizer
from mainstay.core.session import Session

STUB_AGES_TURNS = (16, 8, 4, 2, 1)  # in turns: results older than that become stubs
CUT_SIZES_CHARS = (16_000, 8_000, 4_000, 2_000, 1_000, 500, 250, 100)  # characters that texts are cut to
GAIN_SHARE_MIN = 0.02  # of the budget: a smaller gain is not worth invalidating the provider's prompt cache


class FoldPlan(msgspec.Struct, frozen=True):
    """Whole turns that should be folded into a summary, oldest first."""

    messages: tuple[Message, ...]
    last_turn: int  # the last of these turns
    upto_seq: int  # records up to this sequence are not needed any more
    previous_fold_seq: int  # sequence of the previous fold: if the session has a newer one by then, this plan is void


class CompactionInput:
    """Input for the planning functions: a session, its token budget and the tokens of its other sections."""

    def __init__(
        self,
        session: Session,
        overhead_tokens: int,
        budget: TokenBudget,
        rules: ContextSizeSettings,
        tokenizer: Tokenizer,
    ) -> None:
        self.session = session
        self.overhead_tokens = overhead_tokens  # tokens of the sections that are not history
        self.budget = budget
        self.rules = rules
        self._tokenizer = tokenizer

    @property
    def turn(self) -> int:
        """Return the open turn, or the next one if none is open."""
        session = self.session
        return session.open_turn.turn if session.open_turn is not None else session.turns + 1

    def count_message(self, message: Message) -> int:
        return count_message_tokens(message, self._tokenizer)

    def count_total(self, messages: list[Message] | None = None) -> int:
        """Return the tokens of a request with these messages; default: the session's."""
        return self.overhead_tokens + sum(self.count_message(message) for message in messages or self.session.messages)

    def messages_after(self, event: Relieved) -> list[Message]:
        """Return the history as it would be after this event."""
        session = self.session
        turn = session.open_turn.turn if session.open_turn is not None else 0
        return apply_relief(session.messages, event, session.key, turn, session.head + 1, 0)


# --- stubs ---------------------------------------------------------------------------------------


def plan_stubs(compaction: CompactionInput) -> Relieved | None:
    """Return which tool results should become stubs; None if that would save next to nothing."""
    best: Relieved | None = None
    before = compaction.count_total()
    for event in _stub_candidates(compaction):
        best = event
        if compaction.count_total(compaction.messages_after(event)) <= compaction.budget.low:
            break
    if (
        best is None
        or before - compaction.count_total(compaction.messages_after(best)) < compaction.budget.total * GAIN_SHARE_MIN
    ):
        return None
    return best


def _stub_candidates(compaction: CompactionInput) -> Iterator[Relieved]:
    """Yield candidates that save more and more: large results of this turn that the model has seen, then those that it
    has not, then results by age."""
    results = [message for message in compaction.session.messages if message.role == "tool"]
    current = [message for message in results if message.turn == compaction.turn]
    seen = tuple(_large_results(current[:-1], compaction.rules.large_chars))
    if seen:
        yield Relieved(seen)
    every = tuple(_large_results(current, compaction.rules.large_chars))
    if every:
        yield Relieved(every)
    oldest = min((message.turn for message in results if message.turn), default=compaction.turn)
    for age in STUB_AGES_TURNS:
        if oldest <= compaction.turn - age:
            yield Relieved(every, turns=compaction.turn - age)


def _large_results(messages: list[Message], chars_max: int) -> Iterator[str]:
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolResult) and len(part.content) > chars_max and not is_stub(part):
                yield part.call_id


# --- folds ---------------------------------------------------------------------------------------


def plan_fold(
    compaction: CompactionInput, *, keep_messages: int = 0, as_many_as_possible: bool = False
) -> FoldPlan | None:
    """Return the oldest whole turns to fold until the rest fits; the newest turn always stays. None: there are none.

    `as_many_as_possible`: fold recent turns too. `keep_messages`: fold all but that many messages (`active_window`).
    """
    turns = _split_turns(compaction.session)
    budget = compaction.budget
    if len(turns) < 2:
        return None
    recent = sum(compaction.count_message(message) for turn in turns for message in turn)
    total = compaction.overhead_tokens + budget.summary + recent
    left = sum(count_conversation(turn) for turn in turns)
    folded = 0
    for turn in turns[:-1]:
        size = sum(compaction.count_message(message) for message in turn)
        if keep_messages:
            if left - count_conversation(turn) < keep_messages:
                break
        elif not as_many_as_possible and (total <= budget.low or recent - size < budget.recent):
            break
        total, recent, left, folded = total - size, recent - size, left - count_conversation(turn), folded + 1
    if not folded:
        return None
    return _build_fold_plan(compaction.session, turns[:folded], turns[folded:])


def _build_fold_plan(session: Session, folded: list[list[Message]], remaining: list[list[Message]]) -> FoldPlan:
    messages = tuple(message for turn in folded for message in turn)
    needed = [message.since or message.id for turn in remaining for message in turn]
    upto = (
        min(
            (
                *needed,
                *session.queued_inputs,
                session.turn_floor_seq if session.open_turn is not None else session.head + 1,
            )
        )
        - 1
    )
    through = max(message.turn for message in messages)
    return FoldPlan(messages, through, upto, session.fold_seq)


def _split_turns(session: Session) -> list[list[Message]]:
    """Split the history into turns; in imported history every user message begins one."""
    messages = session.messages[1:] if session.last_fold is not None else session.messages
    turns: list[list[Message]] = []
    number = -1
    for message in messages:
        begins = message.role == "user" if not message.turn else message.turn != number
        if begins or not turns:
            turns.append([])
            number = message.turn
        turns[-1].append(message)
    return turns


# --- the last resort -----------------------------------------------------------------------------


def plan_cuts(compaction: CompactionInput) -> Relieved | None:
    """Return cuts of long texts, shorter and shorter, that finally leave out the open turn's first steps.

    The first that reaches the low mark, else the first that fits; None: it cannot fit.
    """
    fits: Relieved | None = None
    for event in _cut_candidates(compaction):
        tokens = compaction.count_total(compaction.messages_after(event))
        if tokens <= compaction.budget.low:
            return event
        if tokens <= compaction.budget.total and fits is None:
            fits = event
    return fits


def plan_shortest_cuts(compaction: CompactionInput) -> tuple[Relieved, int]:
    """Return the cuts that save the most, and the tokens of the request with them."""
    weighed = (
        (event, compaction.count_total(compaction.messages_after(event))) for event in _cut_candidates(compaction)
    )
    return min(weighed, key=lambda candidate: candidate[1])


def _cut_candidates(compaction: CompactionInput) -> Iterator[Relieved]:
    """Yield candidates that save more and more."""
    messages = compaction.session.messages
    newest = next((message.id for message in reversed(messages) if message.role == "user"), 0)
    current = [message for message in messages if message.turn == compaction.turn]
    results = tuple(
        part.call_id
        for message in current
        if message.role == "tool"
        for part in message.parts
        if isinstance(part, ToolResult)
    )
    steps = sum(1 for message in current if message.role == "assistant" and message.calls)
    for spared in (newest, 0):  # the user's newest message is cut last
        for room in CUT_SIZES_CHARS:
            long = tuple(
                message.id for message in messages if message.id != spared and _longest_text_chars(message) > room
            )
            yield Relieved(results, turns=compaction.turn - 1, texts=long, room=room)
        for count in range(1, steps):  # the newest step stays: the model has not responded to it yet
            yield Relieved(results, turns=compaction.turn - 1, texts=long, steps=count, room=CUT_SIZES_CHARS[-1])


def _longest_text_chars(message: Message) -> int:
    longest = 0
    for part in () if is_steps_note(message) else message.parts:
        match part:
            case Text(text=text) | Thinking(text=text):
                longest = max(longest, len(text))
            case ToolCall(input=input):
                longest = max(longest, len(input))
    return longest
