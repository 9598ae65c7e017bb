"""What only Anthropic's API does: blocks, signatures, inputs that come whole, and prompt caching."""

from __future__ import annotations

from typing import Any

from support.streams.formats import AnthropicFormat
from test_providers import HELLO, joined

from mainstay.core.errors import Overloaded, StreamBroken
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import Context, ModelInfo, Options, Piece
from mainstay.core.tools import tool
from mainstay.providers.anthropic.provider import AnthropicProvider
from mainstay.providers.anthropic.response import AnthropicResponseParser

api = AnthropicFormat()


def fed(events: list[bytes]) -> tuple[list[Any], AnthropicResponseParser]:
    answer = AnthropicResponseParser("anthropic")
    pieces: list[Piece] = answer.feed([event.partition(b"data: ")[2].strip() for event in events])
    return joined(pieces), answer


def test_f14_two_blocks_at_one_index_are_two_calls() -> None:
    said, _ = fed([*api.call(0, "a", '{"n":1}'), *api.call(0, "b", '{"n":2}'), *api.end("tool_calls")])
    assert said == [("call", "a", '{"n":1}'), ("call", "b", '{"n":2}')]


def test_f14_interleaved_blocks_are_separated() -> None:
    a, b = api.call(0, "a", '{"n"', ":1}"), api.call(1, "b", '{"n"', ":2}")
    said, _ = fed([piece for pair in zip(a, b, strict=True) for piece in pair])
    assert said == [("call", "a", '{"n":1}'), ("call", "b", '{"n":2}')]


def test_a_complete_input_is_read_and_a_repeated_one_is_read_once() -> None:
    whole = {"type": "tool_use", "name": "a", "input": {"n": 1}}
    said, _ = fed(api.block(0, whole))
    assert said == [("call", "a", '{"n":1}')]
    said, _ = fed(api.block(0, whole, {"type": "input_json_delta", "partial_json": '{"n":1}'}))
    assert said == [("call", "a", '{"n":1}')]


def test_f12_a_delta_without_its_block_is_ignored() -> None:
    delta = {"index": 3, "delta": {"type": "input_json_delta", "partial_json": "{}"}}
    said, _ = fed([api.event("content_block_delta", delta)])
    assert said == []


def test_redacted_thinking_and_unknown_events_are_ignored() -> None:
    redacted = api.block(0, {"type": "redacted_thinking", "data": "xx"})
    said, answer = fed([*redacted, api.event("sparkle", {"index": 1}), *api.text("x"), *api.end("end")])
    assert said == [("text", "x")]
    assert answer.error is None


def test_usage_sums_fresh_read_and_written_tokens() -> None:
    _, answer = fed([*api.begin(), *api.text("x"), *api.end("end")])
    finished = answer.final_piece()
    assert finished is not None
    assert finished.usage == Usage(prompt=50, completion=7, cached=30, written=5)


def test_pause_turn_is_an_end() -> None:
    _, answer = fed([api.event("message_delta", {"delta": {"stop_reason": "pause_turn"}})])
    finished = answer.final_piece()
    assert finished is not None
    assert finished.reason is FinishReason.END


def test_f16_an_overload_is_reported_before_the_first_text_and_breaks_the_stream_after() -> None:
    _, before = fed([*api.begin(), api.error(api.overloaded)])
    said, after = fed([*api.text("x"), api.error(api.overloaded)])
    assert isinstance(before.error, Overloaded)
    assert isinstance(after.error, StreamBroken)
    assert said == [("text", "x")]


def test_the_fixed_part_and_the_end_of_the_history_are_marked_for_the_cache() -> None:
    import json

    @tool(untrusted=False, sink=False)
    def add(a: int) -> int:
        """Add."""
        return a

    provider = AnthropicProvider("m", info=ModelInfo(name="m", output=123))
    mark = {"type": "ephemeral"}
    body = json.loads(provider.build_body(Context("sys", HELLO.messages, (add,)), Options()))
    assert body["system"] == [{"type": "text", "text": "sys", "cache_control": mark}]
    assert body["messages"][-1]["content"][-1]["cache_control"] == mark
    assert "cache_control" not in body["tools"][-1]
    assert body["max_tokens"] == 123
    bare = json.loads(provider.build_body(Context("", HELLO.messages, (add,)), Options()))
    assert "system" not in bare
    assert bare["tools"][-1]["cache_control"] == mark
