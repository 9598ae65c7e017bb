"""One model call beside the turn's own (a verdict, a summary), paid for: what it may cost is put aside and on disk
before it is sent, and settled after, whatever becomes of it."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from mainstay.core.accounts import Purse, Wish
from mainstay.core.events import Reserved, Settled
from mainstay.core.messages import Usage
from mainstay.core.ports import (
    CallPiece,
    Finished,
    ModelInfo,
    Passage,
    Piece,
    Provider,
    Scribe,
    TextPiece,
    ThinkingPiece,
)
from mainstay.core.reservations import FOLD, NANO, in_full


def estimate(reserved: Reserved, said: int) -> Usage:
    """What a call took whose provider does not say: the prompt, and of the answer the bytes that came, rather more
    tokens than less. Never more than was put aside."""
    return Usage(reserved.prompt, min(-(-said * 3 // 10), reserved.output))


def size_of(piece: Piece) -> int:
    match piece:
        case TextPiece(text=text) | ThinkingPiece(text=text):
            return len(text.encode(errors="replace"))
        case CallPiece(name=name, input=input):
            return len((name + input).encode(errors="replace"))
    return 0


def priced(provider: Provider) -> ModelInfo:
    """Its model, at the highest prices of all that may answer in its place: one that fails over has a `dearest()`."""
    model: ModelInfo = getattr(provider, "dearest", provider.model)()
    return model


class PaidCall:
    """`async with PaidCall(...) as call`, then ask with `call.output` and let it `hear` every piece.

    Afterwards `usage` and `cost` are for the record that tells of the call. One that is cancelled has no such record:
    then what it came to is noted here, and they are nothing.
    """

    def __init__(self, wish: Wish, model: ModelInfo, purse: Purse | None, scribe: Scribe | None) -> None:
        self.usage: Usage | None = None
        self.cost = 0.0
        self.output = wish.output
        self._wish = wish
        self._model = model
        self._purse = purse
        self._scribe = scribe
        self._reserved: Reserved | None = None
        self._said = 0
        self.is_open = False  # something was put aside, and no record has told what became of it

    async def __aenter__(self) -> Self:
        """Raises BudgetExhausted."""
        if self._purse is not None:
            self._reserved = reserved = await self._purse.reserve(self._wish)
            self.output, self.is_open = reserved.output, True
            try:
                if self._scribe is not None:
                    await self._scribe.record(reserved)
            except BaseException:
                self._purse.settle(reserved, None, 0.0)
                self.is_open = False
                raise
        return self

    def hear(self, piece: Piece) -> None:
        if isinstance(piece, Finished):
            if piece.usage.prompt or piece.usage.completion:
                self._bill(piece.usage, piece.by or self._model)
        else:
            self._said += size_of(piece)

    def _bill(self, usage: Usage, model: ModelInfo) -> None:
        self.usage, self.cost = usage, model.cost(usage)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        reserved, purse = self._reserved, self._purse
        if reserved is None or purse is None:
            return
        cancelled = isinstance(error, asyncio.CancelledError)
        if self.usage is None and (error is None or cancelled or self._said):  # it was asked, and may have thought
            self._bill(estimate(reserved, self._said), self._model)
        purse.settle(reserved, self.usage, self.cost)
        if cancelled and self._scribe is not None:
            self._scribe.note(Settled(reserved.id, self.usage, self.cost))
            self.usage, self.cost, self.is_open = None, 0.0, False


def full_cost(reserved: Reserved) -> tuple[Usage, float]:
    return in_full(reserved), reserved.cost / NANO


class Paying:
    """The calls of one fold. The record of the fold closes them all; if there is none, each is closed by itself."""

    def __init__(self, purse: Purse, scribe: Scribe) -> None:
        self._purse = purse
        self._scribe = scribe
        self._calls: list[tuple[str, PaidCall]] = []

    def call(self, model: ModelInfo, most: ModelInfo, prompt: int, output: int | None) -> PaidCall:
        """`most` is the model at the highest price that it may come to."""
        id = f"{FOLD}{len(self._calls) + 1}"
        made = PaidCall(Wish(id, most, prompt, output), model, self._purse, self._scribe)
        self._calls.append((id, made))
        return made

    def total(self) -> tuple[Usage | None, float]:
        usages = [call.usage for _, call in self._calls if call.usage is not None]
        return sum(usages[1:], usages[0]) if usages else None, sum(call.cost for _, call in self._calls)

    def close(self, *, told: bool) -> None:
        """`told`: a record tells of all of them."""
        if not told:
            self._scribe.note(*(Settled(id, call.usage, call.cost) for id, call in self._calls if call.is_open))
        self._purse.close()


class PaidPassage(Passage, frozen=True, kw_only=True):
    """A passage whose summary is paid for."""

    paying: Paying
