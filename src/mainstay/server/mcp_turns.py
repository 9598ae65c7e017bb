"""Turns of MCP requests: reports progress until they end, and aborts them when their request is cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TypeVar

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
from mainstay.core.messages import parts_text
from mainstay.core.outcome import Outcome, Paused
from mainstay.operations.client_protocol import OperationClient
from mainstay.operations.turns import Abort, Prompt
from mainstay.server.mcp_operations import McpOperations

log = logging.getLogger("mainstay.server")

T = TypeVar("T")

PROGRESS_S = 0.2  # between two progress reports of a turn
PROGRESS_CHARS_MAX = 4000  # of one progress report; the answer is complete
ABORT_S = 5.0  # for aborts to finish at the end

OnProgress = Callable[[str], Awaitable[None]]


class EndedTurn(msgspec.Struct, frozen=True):
    """Result of a turn; `approval` is the request that it waits for, if any."""

    session: str
    turn: int
    outcome: Outcome
    text: str
    approval: ApprovalAsked | None = None


class McpTurns:
    """Running turns of one MCP server. Once `stopping` is set, a cancelled request means that the server ends, not that
    the host cancelled: the turn is not aborted, and resumes when the home is opened again."""

    def __init__(self, client: OperationClient) -> None:
        self.stopping = False
        self._operations = McpOperations(client)
        self._follow_tasks: set[asyncio.Task[object]] = set()
        self._abort_tasks: set[asyncio.Task[object]] = set()

    async def run(self, session: str, prompt: str, on_progress: OnProgress) -> EndedTurn:
        """Run a turn and return its result. `on_progress` gets the text meanwhile. Cancelling this aborts the turn,
        now or as soon as it starts."""
        turn = _McpTurn(self, session, prompt)
        task = _start_task(self._follow_tasks, turn.follow(self._operations))
        try:
            while not task.done():
                await asyncio.wait((task,), timeout=PROGRESS_S)
                if progress := turn.take_progress():
                    await on_progress(progress)
        except asyncio.CancelledError:
            if not self.stopping:
                turn.abandon()
            raise
        return task.result()

    def abort(self, session: str) -> None:
        _start_task(self._abort_tasks, self._abort(session))

    async def close(self) -> None:
        self.stopping = True
        if self._abort_tasks:
            await asyncio.wait(self._abort_tasks, timeout=ABORT_S)
        tasks = (*self._follow_tasks, *self._abort_tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _abort(self, session: str) -> None:
        try:
            await self._operations.execute(Abort(session=session))
        except MainstayError as error:
            log.warning("cannot abort the turn of %s: %s", session, error)


class _McpTurn:
    """One running turn. A task of its own follows it, so cancelling the request does not cancel that."""

    def __init__(self, turns: McpTurns, session: str, prompt: str) -> None:
        self._turns = turns
        self._session = session
        self._prompt = prompt
        self._progress: list[str] = []
        self._started = False
        self._abandoned = False
        self._turn_number = 0
        self._text = ""
        self._outcome: Outcome | None = None
        self._approval: ApprovalAsked | None = None

    async def follow(self, client: OperationClient) -> EndedTurn:
        stream = client.open_stream(Prompt(session=self._session, text=self._prompt, shared=True))
        async with closing_stream(stream) as events:
            async for event in events:
                self._handle_event(event)
        if self._outcome is None:
            assert self._approval is not None, "a stream ends with its turn, with an approval request, or raises"
            self._outcome = Paused(self._approval.id)
        return EndedTurn(self._session, self._turn_number, self._outcome, self._text, self._approval)

    def abandon(self) -> None:
        """Abort the turn, or mark it for abort if it still waits in the lane: the turn that runs now is another one."""
        self._abandoned = True
        if self._started and self._outcome is None:
            self._turns.abort(self._session)

    def take_progress(self) -> str:
        """Return the progress since the last call, at most the last PROGRESS_CHARS_MAX characters."""
        text, self._progress = "".join(self._progress), []
        return text[-PROGRESS_CHARS_MAX:]

    def _handle_event(self, event: Event) -> None:
        if event.turn and not self._started:  # the input itself belongs to no turn yet
            self._started = True
            if self._abandoned:
                self._turns.abort(self._session)
        self._turn_number = event.turn or self._turn_number
        match event:
            case TextDelta(text=text):
                self._progress.append(text)
            case ToolCallReady(name=name):
                self._progress.append(f"\n[{name}]\n")
            case ToolProgress(note=note):
                self._progress.append(f"\n[{note}]\n")
            case Waiting(reason=reason):
                self._progress.append(f"\n[waiting: {reason}]\n")
            case Warned(sentence=sentence):
                self._progress.append(f"\n[{sentence}]\n")
            case StepRestarted(reason=reason):
                self._progress.append(f"\n[the answer was interrupted and starts again: {reason}]\n")
            case MessageAdded(role="assistant", parts=parts):
                self._text, self._approval = parts_text(parts), None
            case ToolFinished():
                self._text, self._approval = "", None
            case Judged(passed=False, last=False, score=score):
                self._text = ""
                self._progress.append(f"\n[score {score:.2f}, too low: trying again]\n")
            case ApprovalAsked():
                self._approval = event
            case TurnEnded(outcome=outcome):
                self._outcome, self._approval = outcome, None


@asynccontextmanager
async def closing_stream(stream: AsyncIterator[Event]) -> AsyncIterator[AsyncIterator[Event]]:
    """Close a stream when the block ends, also where it is not read to its end."""
    try:
        yield stream
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()


def _start_task(tasks: set[asyncio.Task[object]], work: Coroutine[object, None, T]) -> asyncio.Task[T]:
    """Start a task and keep it in the set until it is done."""
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    task.add_done_callback(_retrieve_exception)
    return task


def _retrieve_exception(task: asyncio.Task[object]) -> None:
    """Retrieve the exception: the request that awaited the task may have been cancelled."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.debug("the task of a turn failed: %s", error)
