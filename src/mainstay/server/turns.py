"""Turns that a host asked for: listened to until they end, and ended when the host wants them no more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any

import msgspec

from mainstay.core.errors import MainstayError
from mainstay.core.events import (
    ApprovalAsked,
    Event,
    Judged,
    MessageAdded,
    StepRestarted,
    TextDelta,
    ToolCallReady,
    ToolFinished,
    ToolProgress,
    TurnEnded,
    Waiting,
    Warned,
)
from mainstay.core.messages import text_of
from mainstay.core.outcome import Outcome, Paused
from mainstay.server.operations import Operations

log = logging.getLogger("mainstay.server")

PROGRESS_S = 0.2  # how often a host hears of a turn
NEWS_CHARS_MAX = 4000  # of what it hears at once; the answer has all of it
ABORT_S = 5.0

Tell = Callable[[str], Awaitable[None]]


class Ended(msgspec.Struct, frozen=True):
    """What came of a turn; `asked` is what it waits for."""

    session: str
    turn: int
    outcome: Outcome
    text: str
    asked: ApprovalAsked | None = None


class Turns:
    """All that are listened to. Once `ending` is set, a request that breaks off is us going away, not the host's
    wish: the turn stays as it is in the journal, and goes on when the home is opened again."""

    def __init__(self, operations: Operations) -> None:
        self.ending = False
        self._operations = operations
        self._listening: set[asyncio.Task[Any]] = set()
        self._aborting: set[asyncio.Task[Any]] = set()

    async def run(self, session: str, prompt: str, tell: Tell) -> Ended:
        """Cancelling this aborts the turn, now or as soon as it begins. `tell` hears what is said meanwhile."""
        turn = _Turn(self, session, prompt)
        task = _kept(self._listening, turn.listen(self._operations))
        try:
            while not task.done():
                await asyncio.wait((task,), timeout=PROGRESS_S)
                if news := turn.news():
                    await tell(news)
        except asyncio.CancelledError:
            if not self.ending:
                turn.drop()
            raise
        ended: Ended = task.result()
        return ended

    def abort(self, session: str) -> None:
        _kept(self._aborting, self._abort(session))

    async def close(self) -> None:
        self.ending = True
        if self._aborting:
            await asyncio.wait(self._aborting, timeout=ABORT_S)
        tasks = (*self._listening, *self._aborting)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _abort(self, session: str) -> None:
        try:
            await self._operations.abort(session)
        except MainstayError as error:
            log.warning("a turn of %s was to be stopped: %s", session, error)


class _Turn:
    """One turn while it runs. The task that listens is nobody's but ours: a cancelled request does not touch it."""

    def __init__(self, turns: Turns, session: str, prompt: str) -> None:
        self._turns = turns
        self._session = session
        self._prompt = prompt
        self._news: list[str] = []
        self._began = False
        self._dropped = False
        self._turn = 0
        self._text = ""
        self._outcome: Outcome | None = None
        self._asked: ApprovalAsked | None = None

    async def listen(self, operations: Operations) -> Ended:
        async with aclosing(operations.turn(self._session, self._prompt)) as events:
            async for event in events:
                self._take(event)
        if self._outcome is None:
            assert self._asked is not None, "a stream ends with its turn, with a question, or raises"
            self._outcome = Paused(self._asked.id)
        return Ended(self._session, self._turn, self._outcome, self._text, self._asked)

    def drop(self) -> None:
        """Nobody wants it any more. One that waits for another turn to end is stopped when it begins: what runs in
        its place now is somebody else's."""
        self._dropped = True
        if self._began and self._outcome is None:
            self._turns.abort(self._session)

    def news(self) -> str:
        said, self._news = "".join(self._news), []
        return said[-NEWS_CHARS_MAX:]

    def _take(self, event: Event) -> None:
        if not self._began:
            self._began = True
            if self._dropped:
                self._turns.abort(self._session)
        self._turn = event.turn or self._turn
        match event:
            case TextDelta(text=text):
                self._news.append(text)
            case ToolCallReady(name=name):
                self._news.append(f"\n[{name}]\n")
            case ToolProgress(note=note):
                self._news.append(f"\n[{note}]\n")
            case Waiting(reason=reason):
                self._news.append(f"\n[waiting: {reason}]\n")
            case Warned(sentence=sentence):
                self._news.append(f"\n[{sentence}]\n")
            case StepRestarted(reason=reason):
                self._news.append(f"\n[the answer broke off and starts again: {reason}]\n")
            case MessageAdded(role="assistant", parts=parts):
                self._text, self._asked = text_of(parts), None
            case ToolFinished():
                self._text, self._asked = "", None
            case Judged(passed=False, last=False, score=score):
                self._text = ""
                self._news.append(f"\n[judged {score:.2f}, not good enough: trying again]\n")
            case ApprovalAsked():
                self._asked = event
            case TurnEnded(outcome=outcome):
                self._outcome, self._asked = outcome, None


def _kept(where: set[asyncio.Task[Any]], work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    task = asyncio.create_task(work)
    where.add(task)
    task.add_done_callback(where.discard)
    task.add_done_callback(_heard)
    return task


def _heard(task: asyncio.Task[Any]) -> None:
    """Whoever waited for it may have gone: its trouble is no surprise to anybody then."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.debug("a turn that was listened to broke off: %s", error)
