"""A model that says again what a journal recorded: the same parts, the same end, the same usage."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

from mainstay.core.errors import RequestRefused
from mainstay.core.messages import AnyPart, Finish, FinishReason, Text, Thinking, ToolCall, Usage
from mainstay.core.ports import CallPiece, Context, Finished, ModelInfo, Options, Piece, TextPiece, ThinkingPiece

Recorded = tuple[tuple[AnyPart, ...], Usage]


class ReplayProvider:
    """Answers by turn and step, whatever the question is: whether it is the same is for others to compare."""

    def __init__(self, answers: Mapping[tuple[int, int], Recorded], *, info: ModelInfo | None = None) -> None:
        self._answers = answers
        self._info = info or ModelInfo(name="replay")

    def model(self) -> ModelInfo:
        return self._info

    async def close(self) -> None:
        pass

    async def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        recorded = self._answers.get((options.turn, options.step))
        if recorded is None:
            raise RequestRefused(f"nothing was recorded for turn {options.turn}, step {options.step}")
        parts, usage = recorded
        calls = 0
        reason: FinishReason | None = None
        for part in parts:
            match part:
                case Text(text=text):
                    yield TextPiece(text)
                case Thinking(text=text, signature=signature):
                    yield ThinkingPiece(text, signature)
                case ToolCall(name=name, input=input):
                    yield CallPiece(calls, name, input)
                    calls += 1
                case Finish(reason=reason):
                    pass
        yield Finished(reason or (FinishReason.TOOL_CALLS if calls else FinishReason.END), usage)
