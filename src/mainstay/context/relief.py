"""What to do when a context is nearly full, cheapest first. Pure: it looks at a session and says what should happen.

1. large results of the running turn become stubs that can be paged through;
2. results become stubs by age;
3. the oldest whole turns are folded into a summary;
4. and if what is left is still too much (one huge turn, a tiny window), texts and arguments are cut and the running
   turn's first steps left out. The newest words of the person are the last to be touched.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mainstay.context.rules import Budget, Rules
from mainstay.context.weigh import weigh
from mainstay.core.events import Relieved
from mainstay.core.messages import Message, Text, Thinking, ToolCall, ToolResult
from mainstay.core.ports import Tokenizer
from mainstay.core.session import Session
from mainstay.core.stubs import is_note_of_steps, is_stub, relieve

AGES = (16, 8, 4, 2, 1)
ROOMS = (16_000, 8_000, 4_000, 2_000, 1_000, 500, 250, 100)
WORTHWHILE = 0.02  # of the budget: less is not worth a break of the provider's cache


class Fold(msgspec.Struct, frozen=True):
    """Whole turns that should leave the window, oldest first."""

    messages: tuple[Message, ...]
    through: int  # the last turn of them
    upto: int  # records that are needed no more
    basis: int  # the fold that this one follows: if there is another meanwhile, this one is void


class Case:
    """A session, what surrounds its history, and what there is room for."""

    def __init__(self, session: Session, overhead: int, budget: Budget, rules: Rules, tokenizer: Tokenizer) -> None:
        self.session = session
        self.overhead = overhead  # tokens of everything that is not history
        self.budget = budget
        self.rules = rules
        self._tokenizer = tokenizer

    @property
    def turn(self) -> int:
        """The one under way, or else the one that would be next."""
        session = self.session
        return session.open.turn if session.open is not None else session.turns + 1

    def weigh(self, message: Message) -> int:
        return weigh(message, self._tokenizer)

    def total(self, messages: list[Message] | None = None) -> int:
        return self.overhead + sum(self.weigh(one) for one in messages or self.session.messages)

    def after(self, event: Relieved) -> list[Message]:
        session = self.session
        turn = session.open.turn if session.open is not None else 0
        return relieve(session.messages, event, session.key, turn, session.head + 1, 0)


# --- stubs ---------------------------------------------------------------------------------------


def stub(case: Case) -> Relieved | None:
    """Results that can be read again with a tool go first; None if that would gain next to nothing."""
    best: Relieved | None = None
    before = case.total()
    for event in _stubs(case):
        best = event
        if case.total(case.after(event)) <= case.budget.low:
            break
    if best is None or before - case.total(case.after(best)) < case.budget.total * WORTHWHILE:
        return None
    return best


def _stubs(case: Case) -> Iterator[Relieved]:
    """Ever more of them: large ones of this turn that the model has seen, the one it has not, then by age."""
    current = [one for one in case.session.messages if one.role == "tool" and one.turn == case.turn]
    seen = tuple(_large(current[:-1], case.rules.large_chars))
    if seen:
        yield Relieved(seen)
    every = tuple(_large(current, case.rules.large_chars))
    if every:
        yield Relieved(every)
    oldest = min((one.turn for one in case.session.messages if one.role == "tool" and one.turn), default=case.turn)
    for age in AGES:
        if oldest <= case.turn - age:
            yield Relieved(every, turns=case.turn - age)


def _large(messages: list[Message], chars: int) -> Iterator[str]:
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolResult) and len(part.content) > chars and not is_stub(part):
                yield part.call_id


# --- folds ---------------------------------------------------------------------------------------


def fold(case: Case, *, all_but: int = 0, most: bool = False) -> Fold | None:
    """The oldest whole turns, until the rest is light enough; the newest turn always stays.

    `most`: as many as can be, however recent. `all_but` so many messages: for the simple rule."""
    turns = _turns(case.session)
    budget = case.budget
    if len(turns) < 2:
        return None
    rest = case.overhead + budget.summary + sum(case.weigh(one) for turn in turns for one in turn)
    recent = sum(case.weigh(one) for turn in turns for one in turn)
    left = sum(len(turn) for turn in turns)
    taken = 0
    for turn in turns[:-1]:
        size = sum(case.weigh(one) for one in turn)
        if all_but:
            if left - len(turn) < all_but:
                break
        elif not most and (rest <= budget.low or recent - size < budget.recent):
            break
        rest, recent, left, taken = rest - size, recent - size, left - len(turn), taken + 1
    if not taken:
        return None
    return _fold_of(case.session, turns[:taken], turns[taken:])


def _fold_of(session: Session, out: list[list[Message]], kept: list[list[Message]]) -> Fold:
    messages = tuple(message for turn in out for message in turn)
    needed = [message.since or message.id for turn in kept for message in turn]
    upto = min((*needed, *session.waiting, session.turn_floor if session.open is not None else session.head + 1)) - 1
    through = max(message.turn for message in messages)
    return Fold(messages, through, upto, session.fold)


def _turns(session: Session) -> list[list[Message]]:
    """The history turn by turn; what was brought from elsewhere begins one with every message of the user."""
    messages = session.messages[1:] if session.folded is not None else session.messages
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


def squeeze(case: Case) -> Relieved | None:
    """Cut whatever is long, ever shorter, and at last leave out the running turn's first steps. None: it cannot fit."""
    fits: Relieved | None = None
    for event in _squeezes(case):
        weight = case.total(case.after(event))
        if weight <= case.budget.low:
            return event
        if weight <= case.budget.total and fits is None:
            fits = event
    return fits


def _squeezes(case: Case) -> Iterator[Relieved]:
    messages = case.session.messages
    newest = next((one.id for one in reversed(messages) if one.role == "user"), 0)
    current = tuple(
        part.call_id
        for one in messages
        if one.role == "tool" and one.turn == case.turn
        for part in one.parts
        if isinstance(part, ToolResult)
    )
    steps = sum(1 for one in messages if one.turn == case.turn and one.role == "assistant" and one.calls)
    for spare in (newest, 0):  # the newest words last
        for room in ROOMS:
            long = tuple(one.id for one in messages if one.id != spare and _longest(one) > room)
            yield Relieved(current, turns=case.turn - 1, texts=long, room=room)
        for count in range(1, steps):  # the newest step stays: the model has not answered to it yet
            yield Relieved(current, turns=case.turn - 1, texts=long, steps=count, room=ROOMS[-1])


def _longest(message: Message) -> int:
    longest = 0
    for part in () if is_note_of_steps(message) else message.parts:
        match part:
            case Text(text=text) | Thinking(text=text):
                longest = max(longest, len(text))
            case ToolCall(input=input):
                longest = max(longest, len(input))
    return longest
