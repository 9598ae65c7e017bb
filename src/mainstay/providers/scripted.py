"""Scripted provider for tests: plays prepared answers and records the requests.

    provider = ScriptedProvider([[Call("add", {"a": 2, "b": 3})], "It is 5."])

Each step is one answer: a text, `Say`, a `Call` or a list of them, `Pieces`, `Raise`, or `Stall`, which waits until the
test releases it. A function of (context, options) may replace the list.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any

import msgspec

from mainstay.core.errors import ProviderError
from mainstay.core.messages import FinishReason, Message, Text, ToolCall, ToolResult, Usage
from mainstay.core.ports import (
    Clock,
    Context,
    ModelInfo,
    Options,
    Piece,
    StreamFinished,
    TextPiece,
    ThinkingPiece,
    ToolCallPiece,
)

DEFAULT_USAGE = Usage(prompt=10, completion=5)


class Say(msgspec.Struct, frozen=True):
    """A text answer."""

    text: str
    thinking: str = ""
    usage: Usage = DEFAULT_USAGE
    reason: FinishReason = FinishReason.END


class Call(msgspec.Struct, frozen=True):
    """A tool call. The input is an object, or JSON text that is sent unchanged."""

    name: str
    input: str | dict[str, Any] = "{}"


class Raise(msgspec.Struct, frozen=True):
    """Raise this error instead of answering."""

    error: ProviderError


class Stall:
    """Wait until `release()`, then continue with `then`. `await reached.wait()` returns once the wait has begun."""

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
    """An answer piece by piece, with stalls and errors in between. Without a `StreamFinished` the stream is cut."""

    def __init__(self, pieces: Sequence[Piece | Stall | Raise]) -> None:
        self.pieces = tuple(pieces)


Step = str | Say | Call | Sequence[Call] | Raise | Stall | Pieces
Script = Sequence[Step] | Callable[[Context, Options], Step]


class ScriptedRequest(msgspec.Struct, frozen=True):
    """A recorded request: what the model saw, as plain data."""

    system: str
    messages: list[tuple[str, str]]  # role and text; calls as name(input), tool results as their content
    tools: list[str]
    tool_choice: str
    turn: int
    step: int


class ScriptEnded(AssertionError):
    """The provider got more requests than the script has answers."""


class ScriptedProvider:
    """Plays a script. `asked` has all requests in order; `closed` counts the streams that were closed early."""

    def __init__(
        self, script: Script, *, info: ModelInfo | None = None, clock: Clock | None = None, delay_s: float = 0.0
    ) -> None:
        self._script = script
        self._info = info or ModelInfo(name="scripted")
        self._clock = clock
        self._delay_s = delay_s
        self._next_index = 0
        self.asked: list[ScriptedRequest] = []
        self.closed = 0

    def model(self) -> ModelInfo:
        return self._info

    async def close(self) -> None:
        pass

    async def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        self.asked.append(_record_request(context, options))
        step = self._next_step(context, options)
        finished = False
        try:
            if self._delay_s:
                await (self._clock.sleep(self._delay_s) if self._clock else asyncio.sleep(self._delay_s))
            for piece in _step_pieces(step):
                match piece:
                    case Stall():
                        await piece.hold()
                    case Raise(error=error):
                        raise error
                    case _:
                        finished = finished or isinstance(piece, StreamFinished)
                        yield piece
        finally:
            self.closed += not finished

    def _next_step(self, context: Context, options: Options) -> Step:
        if callable(self._script):
            return self._script(context, options)
        if self._next_index >= len(self._script):
            count = len(self._script)
            raise ScriptEnded(f"the script has {count} answers, and this is request {count + 1}: {self.asked[-1]}")
        self._next_index += 1
        return self._script[self._next_index - 1]


def _step_pieces(step: Step) -> Iterator[Piece | Stall | Raise]:
    match step:
        case str():
            yield from _text_pieces(Say(step))
        case Say():
            yield from _text_pieces(step)
        case Call():
            yield from _call_pieces([step])
        case Raise():
            yield step
        case Stall():
            yield step
            yield from _step_pieces(Say("") if step.then is None else step.then)
        case Pieces():
            for piece in step.pieces:
                yield piece
                if isinstance(piece, Stall) and piece.then is not None:
                    yield from _step_pieces(piece.then)
        case _:
            yield from _call_pieces(step)


def _text_pieces(step: Say) -> Iterator[Piece]:
    if step.thinking:
        yield ThinkingPiece(step.thinking)
    if step.text:
        yield TextPiece(step.text)
    yield StreamFinished(step.reason, step.usage)


def _call_pieces(calls: Sequence[Call]) -> Iterator[Piece]:
    for index, call in enumerate(calls):
        input_json = call.input if isinstance(call.input, str) else msgspec.json.encode(call.input).decode()
        yield ToolCallPiece(index, call.name, input_json)
    yield StreamFinished(FinishReason.TOOL_CALLS, DEFAULT_USAGE)


def _record_request(context: Context, options: Options) -> ScriptedRequest:
    return ScriptedRequest(
        context.system,
        [(message.role, _message_text(message)) for message in context.messages],
        [tool.name for tool in context.tools],
        options.tool_choice,
        options.turn,
        options.step,
    )


def _message_text(message: Message) -> str:
    lines: list[str] = []
    for part in message.parts:
        match part:
            case Text(text=text):
                lines.append(text)
            case ToolCall(name=name, input=input):
                lines.append(f"{name}({input})")
            case ToolResult(content=content):
                lines.append(content)
    return "\n".join(lines)
