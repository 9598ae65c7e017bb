"""One model call beside the turn's own (a verdict, a summary), paid for: what it may cost is put aside and on disk
before it is sent, and settled after, whatever becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from msgspec import structs

from mainstay.core.accounts import Purse, Wish
from mainstay.core.errors import ModelSilent, StreamBroken
from mainstay.core.events import Reserved, Settled
from mainstay.core.messages import Usage
from mainstay.core.ports import (
    CallPiece,
    Finished,
    ModelInfo,
    Options,
    Passage,
    Piece,
    Provider,
    Scribe,
    TextPiece,
    ThinkingPiece,
)
from mainstay.core.reservations import FOLD, in_full

FRAME_TOKENS = 64  # of a prompt, that a provider may add of its own
FRAME_TOKENS_TOOLS = 512  # and where there are tools
OVERRUN = 2  # so many times what it was granted, and an answer is cut
CHARS_A_TOKEN = 4  # in the length of an answer that goes on and on: more than most texts have


Count = Callable[[str, ModelInfo], int]  # the tokens of a text, for a model


def cautious(text: str, model: ModelInfo | None = None) -> int:
    """Of a text that nobody can count, rather more than less: numbers, and what is encoded, have three to
    four bytes."""
    return -(-len(text.encode(errors="replace")) * 3 // 4)


class Said:
    """What has come of an answer that may have so many tokens."""

    __slots__ = ("_most", "_texts", "chars", "thought")

    def __init__(self, output: int | None) -> None:
        self._most = output * OVERRUN * CHARS_A_TOKEN if output is not None else None
        self._texts: list[str] = []
        self.chars = 0
        self.thought = False  # and let it be seen

    def hear(self, piece: Piece) -> bool:
        """True if it is far longer than it may be."""
        match piece:
            case TextPiece(text=text):
                pass
            case ThinkingPiece(text=text):
                self.thought = self.thought or bool(text)
            case CallPiece(name=name, input=input):
                text = name + input
            case _:
                return False
        self._texts.append(text)
        self.chars += len(text)
        return self.is_over

    @property
    def is_over(self) -> bool:
        return self._most is not None and self.chars > self._most

    @property
    def text(self) -> str:
        return "".join(self._texts)


def estimate(reserved: Reserved, said: Said, count: Callable[[str], int], *, unseen: bool) -> Usage:
    """What a call took whose provider does not say: the prompt, and of the answer what came. `unseen`: it broke off,
    and before that may have thought for as long as it was let. Never more than was put aside, but for an answer that
    went far beyond it."""
    if unseen and not said.thought:
        return in_full(reserved)
    tokens = count(said.text)
    return Usage(reserved.prompt, max(tokens, reserved.output) if said.is_over else min(tokens, reserved.output))


def priced(provider: Provider) -> ModelInfo:
    """Its model, at the highest prices of all that may answer in its place: one that fails over has a `dearest()`."""
    model: ModelInfo = getattr(provider, "dearest", provider.model)()
    return model


def says_when_sent(provider: Provider) -> bool:
    """Who may hold a call back (and fail over) calls `Options.sent` when it goes out; any other sends it at once."""
    return hasattr(provider, "dearest")


class Patience:
    """How long something may take. What it waits for a budget, or for room at its provider, is not its time."""

    __slots__ = ("_notice", "scope")

    def __init__(self, seconds: float, notice: Callable[[str, float], None] | None = None) -> None:
        self.scope = asyncio.timeout(seconds)
        self._notice = notice

    def notice(self, sentence: str, seconds: float) -> None:
        if (when := self.scope.when()) is not None and not self.scope.expired():
            self.scope.reschedule(when + seconds)
        if self._notice is not None:
            self._notice(sentence, seconds)

    @contextmanager
    def paused(self) -> Iterator[None]:
        loop, when = asyncio.get_running_loop(), self.scope.when()
        if when is None or self.scope.expired():
            yield
            return
        left_s = when - loop.time()
        self.scope.reschedule(None)
        yield
        self.scope.reschedule(loop.time() + left_s)


class PaidCall:
    """`async with PaidCall(...) as call`, then ask with `call.granted(...)` and let it `hear` every piece.

    Afterwards `usage` and `cost` are for the record that tells of the call. One that is cancelled has no such record:
    then what it came to is noted here, and they are nothing.
    """

    def __init__(
        self,
        wish: Wish,
        provider: Provider,
        purse: Purse | None,
        scribe: Scribe | None,
        *,
        count: Count = cautious,
        patience: Patience | None = None,
    ) -> None:
        self.usage: Usage | None = None
        self.cost = 0.0
        self.output = wish.output
        self._wish = wish
        self._model = provider.model()
        self._purse = purse
        self._scribe = scribe
        self._count = count
        self._patience = patience
        self._reserved: Reserved | None = None
        self._said = Said(None)
        self._sent = not says_when_sent(provider)
        self.is_open = False  # something was put aside, and no record has told what became of it

    async def __aenter__(self) -> Self:
        """Raises BudgetExhausted."""
        if self._purse is not None:
            if self._patience is None:
                reserved = await self._purse.reserve(self._wish)
            else:
                with self._patience.paused():
                    reserved = await self._purse.reserve(self._wish)
            self._reserved, self._said = reserved, Said(reserved.output)
            self.output, self.is_open = reserved.output, True
            try:
                if self._scribe is not None:
                    await self._scribe.record(reserved)
            except BaseException:
                self._purse.settle(reserved, None, 0.0)
                self.is_open = False
                raise
        return self

    def granted(self, options: Options) -> Options:
        notice = self._patience.notice if self._patience is not None else options.notice
        return structs.replace(options, output_tokens=self.output, sent=self._goes_out, notice=notice)

    def _goes_out(self) -> None:
        self._sent = True

    def hear(self, piece: Piece) -> None:
        """Raises StreamBroken if there is no end to it."""
        self._sent = True
        if isinstance(piece, Finished):
            if piece.usage.prompt or piece.usage.completion:
                self._bill(piece.usage, piece.by or self._model)
        elif self._said.hear(piece):
            raise StreamBroken(f"the answer was cut: it was to have {self.output} tokens, and went on far beyond that")

    def _counted(self, text: str) -> int:
        return self._count(text, self._wish.model)

    def _bill(self, usage: Usage, model: ModelInfo) -> None:
        self.usage, self.cost = usage, model.cost(usage)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        reserved, purse = self._reserved, self._purse
        if reserved is None or purse is None:
            return
        cancelled = isinstance(error, asyncio.CancelledError)
        begun = error is None or self._said.chars > 0 or isinstance(error, ModelSilent | StreamBroken)
        if self.usage is None and self._sent and (begun or cancelled):
            most = self._wish.model
            usage = estimate(reserved, self._said, self._counted, unseen=error is not None and most.thinking)
            self._bill(usage, self._model if error is None else most)  # who it was that broke off is not known
        purse.settle(reserved, self.usage, self.cost)
        if cancelled and self._scribe is not None:
            self._scribe.note(Settled(reserved.id, self.usage, self.cost), soon=True)
            self.usage, self.cost, self.is_open = None, 0.0, False


class Paying:
    """The calls of one fold. The record of the fold closes them all; if there is none, each is closed by itself."""

    def __init__(self, purse: Purse, scribe: Scribe, count: Count = cautious) -> None:
        self._purse = purse
        self._scribe = scribe
        self._count = count
        self._calls: list[tuple[str, PaidCall]] = []
        self._own: tuple[Usage, float] | None = None

    def call(self, provider: Provider, asked: str, output: int | None, patience: Patience) -> PaidCall:
        id, most = f"{FOLD}{len(self._calls) + 1}", priced(provider)
        wish = Wish(id, most, self._count(asked, most) + FRAME_TOKENS, output, patience.notice)
        made = PaidCall(wish, provider, self._purse, self._scribe, count=self._count, patience=patience)
        self._calls.append((id, made))
        return made

    def total(self, usage: Usage, cost: float) -> tuple[Usage | None, float]:
        """What the calls came to. A summariser that makes its own says what they did, and that is booked."""
        if not self._calls:
            self._own = usage, cost
            return usage, cost
        usages = [call.usage for _, call in self._calls if call.usage is not None]
        return sum(usages[1:], usages[0]) if usages else None, sum(call.cost for _, call in self._calls)

    def close(self, *, told: bool) -> None:
        """`told`: a record tells of all of them."""
        if not told:
            settled = [Settled(id, call.usage, call.cost) for id, call in self._calls if call.is_open]
            self._scribe.note(*settled, soon=True)
        if self._own is not None:
            self._purse.spend(*self._own)
            if not told:
                self._scribe.note(Settled(FOLD, *self._own), soon=True)
        self._purse.close()


class PaidPassage(Passage, frozen=True, kw_only=True):
    """A passage whose summary is paid for."""

    paying: Paying
