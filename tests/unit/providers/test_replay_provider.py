"""A recorded answer, said again."""

from __future__ import annotations

import pytest

from mainstay.core.errors import RequestRefused
from mainstay.core.messages import AnyPart, Finish, FinishReason, Text, Thinking, ToolCall, Usage
from mainstay.core.ports import CallPiece, Context, Finished, Options, TextPiece, ThinkingPiece
from mainstay.providers.replay import ReplayProvider


async def test_the_parts_come_back_as_they_were() -> None:
    parts: tuple[AnyPart, ...] = (
        Thinking("hm", "sig"),
        Text("so"),
        ToolCall("c0", "add", '{"a":1'),
        ToolCall("c1", "add", "{}"),
        Finish(FinishReason.LENGTH),
    )
    provider = ReplayProvider({(2, 1): (parts, Usage(1, 2, 3, 4))})
    said = [piece async for piece in provider.stream(Context("", []), Options(turn=2, step=1))]
    assert said == [
        ThinkingPiece("hm", "sig"),
        TextPiece("so"),
        CallPiece(0, "add", '{"a":1'),
        CallPiece(1, "add", "{}"),
        Finished(FinishReason.LENGTH, Usage(1, 2, 3, 4)),
    ]


async def test_what_was_not_recorded_is_refused() -> None:
    with pytest.raises(RequestRefused, match="turn 1, step 9"):
        await anext(ReplayProvider({}).stream(Context("", []), Options(turn=1, step=9)))
