"""What only chat-completions servers do: calls without indexes, repeated ids, names in parts, and so on."""

from __future__ import annotations

from typing import Any

import pytest
from support.streams.formats import KEY, OpenAIFormat, ask, sse
from support.streams.server import Loopback, chunked
from test_providers import HELLO, joined

from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import ModelInfo, Piece, StreamFinished
from mainstay.providers.openai.provider import OpenAIProvider
from mainstay.providers.openai.response import ChatCompletionParser

api = OpenAIFormat()


def said(*deltas: dict[str, Any], reason: str = "tool_calls", together: bool = True) -> list[Any]:
    """What an answer makes of deltas, whether they arrive together or one by one."""
    events = [api.delta(delta)[6:-2] for delta in deltas] + [api.delta({}, reason)[6:-2]]
    answer = ChatCompletionParser("openai")
    pieces: list[Piece] = []
    for batch in [events] if together else [[event] for event in events]:
        pieces += answer.feed(batch)
    assert answer.error is None
    finished = answer.final_piece()
    assert finished is not None
    return [*joined(pieces), finished.reason.value]


def call(arguments: Any = None, *, index: int | None = None, id: Any = None, name: str | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"function": {"name": name, "arguments": arguments}, "type": "function"}
    if index is not None:
        made["index"] = index
    if id is not None:
        made["id"] = id
    return {"tool_calls": [made]}


F14 = {
    "index missing, told apart by id": (
        [call("", id="x", name="a"), call('{"n":1}'), call("", id="y", name="b"), call('{"n":2}')],
        [("call", "a", '{"n":1}'), ("call", "b", '{"n":2}')],
    ),
    "index missing, interleaved by id": (
        [call('{"n"', id="x", name="a"), call('{"n"', id="y", name="b"), call(":1}", id="x"), call(":2}", id="y")],
        [("call", "a", '{"n":1}'), ("call", "b", '{"n":2}')],
    ),
    "index and id missing": (
        [call("{}", name="a"), call('{"n":', name="b"), call("2}")],
        [("call", "a", "{}"), ("call", "b", '{"n":2}')],
    ),
    "every call at index 0": (
        [call('{"n":1}', index=0, id="x", name="a"), call('{"n":2}', index=0, id="y", name="a")],
        [("call", "a", '{"n":1}'), ("call", "a", '{"n":2}')],
    ),
    "a new id with every delta": (
        [call("", index=0, id="x", name="a"), call('{"n"', index=0, id="y"), call(":1}", index=0, id="z")],
        [("call", "a", '{"n":1}')],
    ),
    "a new id and the name with every delta": (
        [call('{"n"', index=0, id="x", name="a"), call(":1}", index=0, id="y", name="a")],
        [("call", "a", '{"n":1}')],
    ),
    "the same id twice": (
        [call("{}", index=0, id="x", name="a"), call("{}", index=1, id="x", name="b")],
        [("call", "a", "{}"), ("call", "b", "{}")],
    ),
    "empty ids": (
        [call("{}", index=0, id="", name="a"), call("{}", index=1, id="", name="b")],
        [("call", "a", "{}"), ("call", "b", "{}")],
    ),
    "indexes out of order, with gaps": (
        [
            call("", index=7, id="x", name="a"),
            call("", index=2, id="y", name="b"),
            call('{"n":2}', index=2),
            call('{"n":1}', index=7),
        ],
        [("call", "a", '{"n":1}'), ("call", "b", '{"n":2}')],
    ),
    "interleaved by index": (
        [call('{"n"', index=0, name="a"), call('{"n"', index=1, name="b"), call(":1}", index=0), call(":2}", index=1)],
        [("call", "a", '{"n":1}'), ("call", "b", '{"n":2}')],
    ),
    "a name in parts": (
        [call(index=0, id="x", name="get_"), call(index=0, name="weather"), call("{}", index=0)],
        [("call", "get_weather", "{}")],
    ),
    "a name repeated with every delta": (
        [call("", index=0, id="x", name="add"), call("", index=0, name="add"), call("{}", index=0, name="add")],
        [("call", "add", "{}")],
    ),
    "arguments as an object": ([call({"n": 1}, index=0, id="x", name="a")], [("call", "a", '{"n":1}')]),
    "no arguments at all": ([call(index=0, id="x", name="a")], [("call", "a", "")]),
    "the old function_call": (
        [{"function_call": {"name": "a", "arguments": '{"n"'}}, {"function_call": {"arguments": ":1}"}}],
        [("call", "a", '{"n":1}')],
    ),
    "a number for an id": ([call("{}", index=0, id=5, name="a")], [("call", "a", "{}")]),
}


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "one by one"])
@pytest.mark.parametrize("case", F14)
def test_f14_calls_are_separated(case: str, together: bool) -> None:
    deltas, expected = F14[case]
    assert said(*deltas, together=together) == [*expected, "tool_calls"]


def test_text_and_calls_in_one_delta_are_both_read() -> None:
    made = said({"content": "well", **call("{}", index=0, name="a")})
    assert made == [("text", "well"), ("call", "a", "{}"), "tool_calls"]


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ([{"reasoning_content": "hm"}, {"content": "yes"}], [("thinking", "hm", ""), ("text", "yes")]),
        ([{"reasoning": "hm"}, {"content": "yes"}], [("thinking", "hm", ""), ("text", "yes")]),
        ([{"refusal": "I will "}, {"refusal": "not"}], [("text", "I will not")]),
        ([{"content": None}, {"content": "a"}, {}, {"content": "b"}], [("text", "ab")]),
        (
            [{"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}, {"content": "yes"}],
            [("thinking", "hm", ""), ("text", "yes")],
        ),
    ],
    ids=["reasoning_content", "reasoning", "refusal", "null and missing content", "content in parts"],
)
def test_text_is_found_in_every_field_that_servers_use(deltas: list[dict[str, Any]], expected: list[Any]) -> None:
    assert said(*deltas, reason="stop") == [*expected, "end"]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("stop", "end"), ("tool_calls", "end"), ("length", "length"), ("content_filter", "filtered"), ("eos", "end")],
)
def test_finish_reasons_without_calls(reason: str, expected: str) -> None:
    assert said({"content": "x"}, reason=reason)[-1] == expected


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "function_call"])
def test_finish_reasons_with_calls(reason: str) -> None:
    assert said(call("{}", index=0, name="a"), reason=reason)[-1] == "tool_calls"


async def test_empty_choices_and_missing_deltas_are_nothing() -> None:
    events = [sse({"choices": []}), sse({"choices": [{"delta": None}]}), sse({"choices": None}), sse({"id": 1})]
    async with Loopback(chunked(*events, *api.text("x"), *api.end("end"))) as server:
        provider = api.make(server.url)
        pieces, error = await ask(provider, HELLO)
        await provider.close()
    assert error is None
    assert joined(pieces) == [("text", "x"), StreamFinished(FinishReason.END)]


async def test_usage_with_every_chunk_counts_once() -> None:
    chunks = [
        sse({"choices": [{"delta": {"content": "x"}}], "usage": {"prompt_tokens": 5, "completion_tokens": count}})
        for count in (1, 2, 3)
    ]
    async with Loopback(chunked(*chunks, *api.end("end"), b"data: [DONE]\n\n")) as server:
        provider = api.make(server.url)
        pieces, _ = await ask(provider, HELLO)
        await provider.close()
    assert pieces[-1] == StreamFinished(FinishReason.END, Usage(5, 3))


async def test_no_key_means_no_authorization_header() -> None:
    async with Loopback(chunked(*api.text("x"), *api.end("end"))) as server:
        provider = OpenAIProvider("m", base_url=server.url)
        await ask(provider, HELLO)
        await provider.close()
    assert "authorization" not in server.asked[0].headers


async def test_a_key_may_be_a_function_that_is_asked_every_time() -> None:
    keys = iter(["one", "two"])

    async def fetch() -> str:
        return next(keys)

    async with Loopback(chunked(*api.text("x"), *api.end("end"))) as server:
        provider = OpenAIProvider("m", base_url=server.url, api_key=fetch)
        for _ in range(2):
            await ask(provider, HELLO)
        _, error = await ask(provider, HELLO)
        await provider.close()
    assert [asked.headers["authorization"] for asked in server.asked] == ["Bearer one", "Bearer two"]
    assert type(error).__name__ == "Unauthorised"


def test_the_output_bound_is_named_as_each_server_wants_it() -> None:
    from mainstay.core.ports import Options

    bound = Options(output_tokens_max=9)
    own = OpenAIProvider("m", api_key=KEY, info=ModelInfo(name="m"))
    other = OpenAIProvider("m", base_url="http://127.0.0.1:1/v1")
    assert b'"max_completion_tokens":9' in own.build_body(HELLO, bound)
    assert b'"max_tokens":9' in other.build_body(HELLO, bound)
    assert b"max_" not in own.build_body(HELLO, Options())
