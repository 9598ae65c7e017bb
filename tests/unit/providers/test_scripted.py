"""The scripted provider."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from mainstay.core.errors import Overloaded
from mainstay.core.messages import FinishReason, Message, Text, ToolCall, ToolResult, Usage
from mainstay.core.ports import Context, Options, Piece, StreamFinished, TextPiece, ThinkingPiece, ToolCallPiece
from mainstay.core.tools import tool
from mainstay.providers.scripted import Call, Pieces, Raise, Say, ScriptedProvider, ScriptEnded, Stall

HELLO = Context("be brief", [Message(1, "user", (Text("hello"),))])


async def read_stream(provider: ScriptedProvider, context: Context = HELLO) -> list[Piece]:
    return [piece async for piece in provider.stream(context, Options(turn=1, step=2))]


async def test_it_plays_its_script() -> None:
    usage = Usage(3, 4)
    both = [Call("a", {"n": 1}), Call("b", "{")]
    provider = ScriptedProvider(["hi", Say("yes", thinking="hm", usage=usage), Call("now"), both])
    assert (await read_stream(provider))[0] == TextPiece("hi")
    assert await read_stream(provider) == [
        ThinkingPiece("hm"),
        TextPiece("yes"),
        StreamFinished(FinishReason.END, usage),
    ]
    assert (await read_stream(provider))[0] == ToolCallPiece(0, "now", "{}")
    *calls, finished = await read_stream(provider)
    assert calls == [ToolCallPiece(0, "a", '{"n":1}'), ToolCallPiece(1, "b", "{")]
    assert isinstance(finished, StreamFinished)
    assert finished.reason is FinishReason.TOOL_CALLS


async def test_it_remembers_what_it_was_asked() -> None:
    @tool(untrusted=False, sink=False)
    def add(a: int) -> int:
        """Add."""
        return a

    provider = ScriptedProvider(["x"])
    history = [
        *HELLO.messages,
        Message(2, "assistant", (Text("so"), ToolCall("c", "add", '{"a":1}'))),
        Message(3, "tool", (ToolResult("c", "add", "1"),)),
    ]
    await read_stream(provider, Context("sys", history, (add,)))
    asked = provider.asked[0]
    assert asked.messages == [("user", "hello"), ("assistant", 'so\nadd({"a":1})'), ("tool", "1")]
    assert (asked.system, asked.tools, asked.turn, asked.step) == ("sys", ["add"], 1, 2)


async def test_it_fails_as_scripted_and_in_the_middle_too() -> None:
    provider = ScriptedProvider([Raise(Overloaded("busy")), Pieces([TextPiece("x"), Raise(Overloaded("busy"))])])
    with pytest.raises(Overloaded):
        await read_stream(provider)
    stream = provider.stream(HELLO, Options())
    assert await anext(stream) == TextPiece("x")
    with pytest.raises(Overloaded):
        await anext(stream)


async def test_a_stall_holds_until_it_is_released() -> None:
    stall = Stall(then="at last")
    provider = ScriptedProvider([Pieces([TextPiece("wait "), stall])])
    task = asyncio.create_task(read_stream(provider))
    await stall.reached.wait()
    assert not task.done()
    stall.release()
    assert [type(piece) for piece in await task] == [TextPiece, TextPiece, StreamFinished]


async def test_a_stream_that_is_left_early_is_counted() -> None:
    stall = Stall()
    provider = ScriptedProvider([Pieces([TextPiece("x"), stall])])
    async with aclosing(provider.stream(HELLO, Options())) as stream:
        await anext(stream)
    assert provider.closed == 1


async def test_a_script_may_be_a_function() -> None:
    provider = ScriptedProvider(lambda context, options: context.messages[-1].text + "!")
    assert (await read_stream(provider))[0] == TextPiece("hello!")


async def test_a_script_that_has_ended_says_so() -> None:
    with pytest.raises(ScriptEnded, match="the script has 0 answers"):
        await read_stream(ScriptedProvider([]))


async def test_a_delay_is_slept_on_the_given_clock() -> None:
    class Clock:
        slept = 0.0

        def now_ms(self) -> int:
            return 0

        def monotonic(self) -> float:
            return 0.0

        async def sleep(self, seconds: float) -> None:
            self.slept += seconds

    clock = Clock()
    await read_stream(ScriptedProvider(["x"], clock=clock, delay_s=3600))
    assert clock.slept == 3600
