"""A model that says what a test tells it to, and remembers what it was asked.

    provider = ScriptedProvider([[Call("add", {"a": 2, "b": 3})], "It is 5."])

Each step is one answer: a text, `Say`, a `Call` or a list of them, `Pieces`, `Raise`, or `Stall`, which holds
until the test lets go. A function of (context, options) may stand in for the list.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any

import msgspec

from mainstay.core.errors import ProviderError
from mainstay.core.messages import FinishReason, Message, Text, ToolCall, ToolResult, Usage
from mainstay.core.ports import (
    CallPiece,
    Clock,
    Context,
    Finished,
    ModelInfo,
    Options,
    Piece,
    TextPiece,
    ThinkingPiece,
)

DEFAULT_USAGE = Usage(prompt=10, completion=5)


class Say(msgspec.Struct, frozen=True):
    """An answer in words."""

    text: str
    thinking: str = ""
    usage: Usage = DEFAULT_USAGE
    reason: FinishReason = FinishReason.END


class Call(msgspec.Struct, frozen=True):
    """A tool call. The input is JSON text, sent as it is, or an object."""

    name: str
    input: str | dict[str, Any] = "{}"


class Raise(msgspec.Struct, frozen=True):
    """Fail instead of answering."""

    error: ProviderError


class Stall:
    """Stop here until `release()`; then go on with `then`. `await reached.wait()` knows when it has come to it."""

    def __init__(self, then: Step | None = None) -> None:
        self.then = then
        self.reached = asyncio.Event()
        self.released = asyncio.Event()

    def release(self) -> None:
        self.released.set()

    async def hold(self) -> None:
        self.reached.set()
        await self.released.wait()


class Pieces:
    """An answer piece by piece, with stalls and errors in between; without a `Finished` it is cut there."""

    def __init__(self, pieces: Sequence[Piece | Stall | Raise]) -> None:
        self.pieces = tuple(pieces)


Step = str | Say | Call | Sequence[Call] | Raise | Stall | Pieces
Script = Sequence[Step] | Callable[[Context, Options], Step]


class Asked(msgspec.Struct, frozen=True):
    """What a model was shown, as plain data."""

    system: str
    messages: list[tuple[str, str]]  # role and text; calls as name(input), results as their content
    tools: list[str]
    tool_choice: str
    turn: int
    step: int


class ScriptEnded(AssertionError):
    """The model was asked more often than the script has answers."""


class ScriptedProvider:
    """Plays a script. `asked` holds every question in order; `closed` counts the streams that were left early."""

    def __init__(
        self, script: Script, *, info: ModelInfo | None = None, clock: Clock | None = None, delay_s: float = 0.0
    ) -> None:
        self._script = script
        self._info = info or ModelInfo(name="scripted")
        self._clock = clock
        self._delay_s = delay_s
        self._next = 0
        self.asked: list[Asked] = []
        self.closed = 0

    def model(self) -> ModelInfo:
        return self._info

    async def close(self) -> None:
        pass

    async def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        self.asked.append(_plain(context, options))
        step = self._take(context, options)
        finished = False
        try:
            if self._delay_s:
                await (self._clock.sleep(self._delay_s) if self._clock else asyncio.sleep(self._delay_s))
            for piece in _pieces(step):
                match piece:
                    case Stall():
                        await piece.hold()
                    case Raise(error=error):
                        raise error
                    case _:
                        finished = finished or isinstance(piece, Finished)
                        yield piece
        finally:
            self.closed += not finished

    def _take(self, context: Context, options: Options) -> Step:
        if callable(self._script):
            return self._script(context, options)
        if self._next >= len(self._script):
            said = len(self._script)
            raise ScriptEnded(f"the script has {said} answers, and this is question {said + 1}: {self.asked[-1]}")
        self._next += 1
        return self._script[self._next - 1]


def _pieces(step: Step) -> Iterator[Piece | Stall | Raise]:
    match step:
        case str():
            yield from _said(Say(step))
        case Say():
            yield from _said(step)
        case Call():
            yield from _called([step])
        case Raise():
            yield step
        case Stall():
            yield step
            yield from _pieces(Say("") if step.then is None else step.then)
        case Pieces():
            for piece in step.pieces:
                yield piece
                if isinstance(piece, Stall) and piece.then is not None:
                    yield from _pieces(piece.then)
        case _:
            yield from _called(step)


def _said(step: Say) -> Iterator[Piece]:
    if step.thinking:
        yield ThinkingPiece(step.thinking)
    if step.text:
        yield TextPiece(step.text)
    yield Finished(step.reason, step.usage)


def _called(calls: Sequence[Call]) -> Iterator[Piece]:
    for index, call in enumerate(calls):
        written = call.input if isinstance(call.input, str) else msgspec.json.encode(call.input).decode()
        yield CallPiece(index, call.name, written)
    yield Finished(FinishReason.TOOL_CALLS, DEFAULT_USAGE)


def _plain(context: Context, options: Options) -> Asked:
    return Asked(
        context.system,
        [(message.role, _text(message)) for message in context.messages],
        [tool.name for tool in context.tools],
        options.tool_choice,
        options.turn,
        options.step,
    )


def _text(message: Message) -> str:
    said: list[str] = []
    for part in message.parts:
        match part:
            case Text(text=text):
                said.append(text)
            case ToolCall(name=name, input=input):
                said.append(f"{name}({input})")
            case ToolResult(content=content):
                said.append(content)
    return "\n".join(said)
