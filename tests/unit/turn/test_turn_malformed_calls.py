"""F13, F14, F15: every call of a model gets one result, and only a valid call runs."""

from __future__ import annotations

from typing import Any

import pytest
from support.kernel_world import World, virtual

from mainstay.core.limits import Limits
from mainstay.core.messages import FinishReason, ToolCall, ToolResult
from mainstay.core.outcome import Answered, Exhausted
from mainstay.core.ports import Context, Options, StreamFinished, TextPiece, ToolCallPiece
from mainstay.core.tools import tool
from mainstay.testing import Call, Pieces, Say

DEEP = 200_000

MALFORMED = {
    "trailing comma": '{"a": 1, "b": 2,}',
    "leading comma": '{,"a": 1, "b": 2}',
    "missing comma": '{"a": 1 "b": 2}',
    "missing colon": '{"a" 1, "b": 2}',
    "single quotes": "{'a': 1, 'b': 2}",
    "unquoted keys": "{a: 1, b: 2}",
    "comment": '{"a": 1, /* two */ "b": 2}',
    "python literals": '{"a": True, "b": None}',
    "NaN": '{"a": 1, "b": 2, "ratio": NaN}',
    "Infinity": '{"a": 1, "b": 2, "ratio": Infinity}',
    "minus Infinity": '{"a": 1, "b": 2, "ratio": -Infinity}',
    "NaN in anything": '{"a": 1, "b": 2, "anything": NaN}',
    "a float too large": '{"a": 1, "b": 2, "ratio": 1e999}',
    "repeated key": '{"a": 1, "b": 2, "a": 3}',
    "repeated key further down": '{"a": 1, "b": 2, "anything": {"x": 1, "x": 2}}',
    "repeated key by escape": '{"a": 1, "b": 2, "\\u0061": 3}',
    "deep arrays": '{"a": 1, "b": 2, "anything": ' + "[" * DEEP + "]" * DEEP + "}",
    "deep objects": '{"a": 1, "b": 2, "anything": ' + '{"x":' * DEEP + "1" + "}" * DEEP + "}",
    "deep and never closed": "[" * DEEP,
    "5,000 digits": '{"a": ' + "9" * 5000 + ', "b": 2}',
    "5,000 digits in anything": '{"a": 1, "b": 2, "anything": ' + "9" * 5000 + "}",
    "lone surrogate": '{"a": 1, "b": 2, "text": "\\ud800"}',
    "reversed surrogates": '{"a": 1, "b": 2, "text": "\\udc00\\ud800"}',
    "lone surrogate in anything": '{"a": 1, "b": 2, "anything": "x\\udfff"}',
    "lone surrogate in a key": '{"a": 1, "b": 2, "\\ud800": 1}',
    "a JSON string": '"a=1, b=2"',
    "an object as a string": '"{\\"a\\": 1, \\"b\\": 2}"',
    "array": "[1, 2]",
    "array of an object": '[{"a": 1, "b": 2}]',
    "null": "null",
    "number": "12",
    "true": "true",
    "nothing at all": "",
    "only spaces": "   ",
    "truncated in a value": '{"a": 1, "b": ',
    "truncated in a string": '{"a": 1, "b": 2, "text": "hel',
    "truncated in a key": '{"a": 1, "b',
    "only a brace": "{",
    "something after the end": '{"a": 1, "b": 2} and more',
    "two objects": '{"a": 1, "b": 2}{"a": 1, "b": 2}',
    "byte order mark": '\ufeff{"a": 1, "b": 2}',
    "NUL before": '\0{"a": 1, "b": 2}',
    "NUL inside": '{"a": 1, \0"b": 2}',
    "NUL in a string": '{"a": 1, "b": 2, "text": "x\0y"}',
    "raw newline in a string": '{"a": 1, "b": 2, "text": "x\ny"}',
    "bad escape": '{"a": 1, "b": 2, "text": "\\x41"}',
    "leading zero": '{"a": 01, "b": 2}',
    "plus sign": '{"a": +1, "b": 2}',
    "hex": '{"a": 0x1, "b": 2}',
    "fence": '```json\n{"a": 1, "b": 2}\n```',
    "full-width braces": '\uff5b"a": 1, "b": 2\uff5d',
    "typographic quotes": "{“a”: 1, “b”: 2}",
    "prose": "I would like a to be 1 and b to be 2",
    "XML": "<a>1</a><b>2</b>",
    "missing argument": '{"a": 1}',
    "missing both": "{}",
    "extra argument": '{"a": 1, "b": 2, "c": 3}',
    "number as text": '{"a": "1", "b": 2}',
    "float for integer": '{"a": 1.5, "b": 2}',
    "bool for integer": '{"a": true, "b": 2}',
    "null for integer": '{"a": null, "b": 2}',
    "list for integer": '{"a": [1], "b": 2}',
    "object for text": '{"a": 1, "b": 2, "text": {}}',
    "other case": '{"A": 1, "b": 2}',
    "look-alike key": '{"\u0430": 1, "b": 2}',
    "an extra key as long as a book": '{"a": 1, "b": 2, "' + "k" * 500_000 + '": 3}',
}


def recording() -> tuple[Any, list[dict[str, Any]]]:
    ran: list[dict[str, Any]] = []

    @tool(untrusted=False, sink=False)
    async def take(a: int, b: int, text: str = "", ratio: float = 1.0, anything: Any = None) -> str:
        ran.append({"a": a, "b": b})
        return "taken"

    return take, ran


def test_f13_the_table_has_at_least_forty_rows_and_each_is_different() -> None:
    assert len(MALFORMED) >= 40
    assert len(set(MALFORMED.values())) == len(MALFORMED)


@pytest.mark.parametrize("what", MALFORMED)
def test_f13_malformed_arguments_run_nothing_and_the_turn_goes_on(what: str) -> None:
    @virtual
    async def check() -> None:
        take, ran = recording()
        async with World([Call("take", MALFORMED[what]), Call("take", {"a": 1, "b": 2}), "done"], [take]) as world:
            reply = await world.ask("go")
            assert (reply.text, reply.outcome) == ("done", Answered())
            bad, good = await world.results()
            assert bad.is_error, "the model is told"
            assert bad.content.endswith("Nothing was run.") or "[cut here" in bad.content
            assert len(bad.content.encode()) < world.limits.tool_result_bytes_max + 100
            assert (good.content, good.is_error) == ("taken", False)
            assert ran == [{"a": 1, "b": 2}]
            await world.check_replay()

    check()


@virtual
async def test_f13_an_error_about_arguments_names_what_is_expected() -> None:
    take, _ = recording()
    async with World([Call("take", '{"a": "one", "b": 2}'), "done"], [take]) as world:
        await world.ask("go")
        (result,) = await world.results()
        assert "Expected `int`, got `str`" in result.content
        assert "$.a" in result.content
        assert "a, b, text, ratio, anything" in result.content


@virtual
async def test_f13_a_model_that_never_writes_a_sound_call_is_ended_by_the_bounds() -> None:
    take, ran = recording()
    rows = list(MALFORMED.values())

    def step(context: Context, options: Options) -> Any:
        return Call("take", rows[options.step % len(rows)]) if options.tool_choice == "auto" else "I give up."

    async with World(step, [take]) as world:
        reply = await world.ask("go")
        assert (reply.text, reply.outcome) == ("I give up.", Exhausted("25 steps"))
        assert ran == []
        assert len(await world.results()) == 25


@virtual
async def test_f13_a_tool_without_parameters_takes_an_empty_input() -> None:
    ran: list[int] = []

    @tool(untrusted=False, sink=False)
    async def ping() -> str:
        ran.append(1)
        return "pong"

    async with World(
        [[Call("ping", ""), Call("ping", "{}"), Call("ping", "[]"), Call("ping", '{"x":1}')], "."], [ping]
    ) as w:
        await w.ask("go")
        assert [result.is_error for result in await w.results()] == [False, False, True, True]
        assert len(ran) == 2


@virtual
async def test_f13_surrogates_that_no_file_can_keep_do_not_hurt_the_session() -> None:
    """A provider's own decoder may let them through in the text of a call, a name or an answer."""
    take, ran = recording()
    odd = [Call("take", '{"a": 1, "b": 2, "text": "\ud800"}'), Call("take\udfff", "{}")]
    async with World([odd, Say("fine \ud83d", thinking="hm \udc00"), "next"], [take]) as world:
        reply = await world.ask("go")
        assert reply.outcome == Answered()
        assert reply.text.startswith("fine ")
        assert [result.is_error for result in await world.results()] == [True, True]
        assert ran == []
        assert (await world.ask("and now?")).text == "next"
        assert "TurnResumed" not in await world.kinds()


@virtual
async def test_f13_a_character_split_into_two_pieces_is_whole() -> None:
    take, _ = recording()
    halves = Pieces([TextPiece("\ud83d"), TextPiece("\ude00!"), StreamFinished(FinishReason.END)])
    async with World([halves], [take]) as world:
        assert (await world.ask("smile")).text == "\U0001f600!"


@virtual
async def test_f14_ids_are_ours_unique_in_the_session_and_match_their_results() -> None:
    take, _ = recording()
    two = [Call("take", {"a": 1, "b": 1}), Call("take", {"a": 1, "b": 2})]
    async with World([two, two, "one", two, "two"], [take]) as world:
        await world.ask("first")
        await world.ask("second")
        calls = [part for message in await world.history() for part in message.calls]
        assert len({call.id for call in calls}) == len(calls) == 6
        assert [result.call_id for result in await world.results()] == [call.id for call in calls]
        await world.check_replay()


@virtual
async def test_f14_gaps_in_the_indexes_and_interleaved_pieces_make_whole_calls_in_the_order_they_began() -> None:
    take, ran = recording()
    woven = Pieces(
        [
            ToolCallPiece(7, "take", '{"a": 7,'),
            ToolCallPiece(-3, "take", '{"a": 3,'),
            ToolCallPiece(7, "", ' "b": 70}'),
            ToolCallPiece(900, "take"),
            ToolCallPiece(-3, "", ' "b": 30}'),
            ToolCallPiece(900, "", '{"a": 9, "b": 90}'),
            StreamFinished(FinishReason.TOOL_CALLS),
        ]
    )
    async with World([woven, "done"], [take]) as world:
        await world.ask("go")
        assert ran == [{"a": 7, "b": 70}, {"a": 3, "b": 30}, {"a": 9, "b": 90}]
        calls = (await world.history())[1].calls
        assert [call.id for call in calls] == ["call_1_1_0", "call_1_1_1", "call_1_1_2"]
        assert [result.call_id for result in await world.results()] == [call.id for call in calls]


@virtual
async def test_f14_a_call_in_a_later_turn_never_gets_an_old_result() -> None:
    ran = 0

    @tool(untrusted=False, sink=False)
    async def count() -> int:
        nonlocal ran
        ran += 1
        return ran

    async with World([Call("count"), "one", Call("count"), "two"], [count]) as world:
        await world.ask("first")
        await world.ask("second")
        assert [(result.call_id, result.content) for result in await world.results()] == [
            ("call_1_1_0", "1"),
            ("call_2_1_0", "2"),
        ]


@virtual
async def test_f14_a_call_without_a_name_is_an_unknown_tool() -> None:
    take, ran = recording()
    async with World([Call("", '{"a": 1, "b": 2}'), "done"], [take]) as world:
        await world.ask("go")
        (result,) = await world.results()
        assert result.is_error
        assert "There is no tool ''" in result.content
        assert ran == []


LOOKALIKES = ["Take", "TAKE", "take ", " take", "t\u0430ke", "\uff54\uff41\uff4b\uff45", "tak\u200be", "take\0", "tåke"]


@pytest.mark.parametrize("name", LOOKALIKES, ids=ascii)
def test_f15_a_name_in_other_case_or_with_look_alike_letters_is_not_run(name: str) -> None:
    @virtual
    async def check() -> None:
        take, ran = recording()
        async with World([Call(name, {"a": 1, "b": 2}), "done"], [take]) as world:
            assert (await world.ask("go")).text == "done"
            (result,) = await world.results()
            assert result.is_error
            assert "There is no tool" in result.content
            assert "Available: take" in result.content
            assert ran == []

    check()


@virtual
async def test_f15_an_unknown_tool_gets_an_error_result_that_names_it_and_the_nearest() -> None:
    take, ran = recording()
    async with World([[Call("taek"), Call("launch_rockets")], "sorry"], [take]) as world:
        assert (await world.ask("go")).text == "sorry"
        near, far = await world.results()
        assert "There is no tool 'taek'" in near.content
        assert "Did you mean 'take'?" in near.content
        assert "'launch_rockets'" in far.content
        assert "Did you mean" not in far.content
        assert ran == []


@virtual
async def test_f15_a_very_long_name_is_shown_cut_at_tool_name_chars_max() -> None:
    take, _ = recording()
    async with World([Call("x" * 100_000), "sorry"], [take], limits=Limits(tool_name_chars_max=16)) as world:
        await world.ask("go")
        (result,) = await world.results()
        assert f"There is no tool '{'x' * 16}'." in result.content


@virtual
async def test_u2_every_call_has_exactly_one_result_in_call_order_in_every_case() -> None:
    @tool(untrusted=False, sink=False)
    async def boom(n: int) -> str:
        raise RuntimeError(f"boom {n}")

    take, _ = recording()
    calls = [
        Call("boom", {"n": 1}),
        Call("take", {"a": 1, "b": 2}),
        Call("nope"),
        Call("take", "{"),
        Call("boom", {"n": 2}),
        Call("take", {"a": 1, "b": 2}),
    ]
    async with World([calls, "done"], [boom, take]) as world:
        assert (await world.ask("go")).outcome == Answered()
        history = await world.history()
        asked: list[str] = [call.id for call in history[1].calls]
        given: list[str] = [part.call_id for part in history[2].parts if isinstance(part, ToolResult)]
        assert asked == given
        assert [result.is_error for result in await world.results()] == [True, False, True, True, True, False]


@virtual
async def test_a_call_is_kept_as_the_model_wrote_it_valid_or_not() -> None:
    take, _ = recording()
    raw = '{"a" : 1,\n "b": 2 ,}'
    async with World([Call("take", raw), "done"], [take]) as world:
        await world.ask("go")
        assert (await world.history())[1].parts[0] == ToolCall("call_1_1_0", "take", raw)
