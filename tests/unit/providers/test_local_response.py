"""The response of a small model, parsed as it streams."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mainstay.core.errors import StreamBroken
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import Piece, TextPiece, ThinkingPiece, ToolCallPiece
from mainstay.providers.local.response import LocalResponseParser, PromptProgress

NAMES = frozenset({"read", "read_all", "say_it"})


def chunk(text: str = "", reason: str | None = None, **more: Any) -> bytes:
    return json.dumps({"choices": [{"delta": {"content": text}, "finish_reason": reason}]} | more).encode()


def parse_response(
    text: str, size: int, word: str = "say", reason: str = "stop"
) -> tuple[list[Piece], LocalResponseParser]:
    answer = LocalResponseParser("it", word, NAMES, lambda progress: None)
    pieces: list[Piece] = []
    for start in range(0, len(text), size):
        pieces += answer.feed([chunk(text[start : start + size])])
    pieces += answer.feed([chunk(reason=reason), b"[DONE]"])
    assert answer.is_over
    return pieces, answer


def words(pieces: list[Piece]) -> str:
    return "".join(one.text for one in pieces if isinstance(one, TextPiece))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_words_and_calls_are_the_same_however_they_are_cut(size: int) -> None:
    pieces, answer = parse_response("say Hello, read {} there!", size)
    assert words(pieces) == "Hello, read {} there!"
    assert not any(isinstance(one, ToolCallPiece) for one in pieces)
    finished = answer.final_piece()
    assert finished is not None
    assert finished.reason is FinishReason.END
    for name in NAMES:
        pieces, answer = parse_response(name + ' {"path":"a b"}', size)
        calls = [one for one in pieces if isinstance(one, ToolCallPiece)]
        assert [one.name for one in calls if one.name] == [name]
        assert "".join(one.input for one in calls) == '{"path":"a b"}'
        assert not words(pieces)
        finished = answer.final_piece()
        assert finished is not None
        assert finished.reason is FinishReason.TOOL_CALLS


def test_words_are_passed_on_as_they_come() -> None:
    answer = LocalResponseParser("it", "say", NAMES, lambda progress: None)
    assert answer.feed([chunk("sa")]) == []
    assert answer.feed([chunk("y Hel")]) == [TextPiece("Hel")]
    assert answer.feed([chunk("lo")]) == [TextPiece("lo")]


@pytest.mark.parametrize("text", ["Hello there", "saying so", "readme {", "{}", "reader"])
def test_an_answer_without_the_keyword_is_text(text: str) -> None:
    assert words(parse_response(text, 1)[0]) == text
    assert words(parse_response(text, 100)[0]) == text


@pytest.mark.parametrize(("text", "left"), [("say", ""), ("sa", "sa"), ("read", "read")])
def test_an_answer_that_ended_within_its_first_keyword_is_text(text: str, left: str) -> None:
    assert words(parse_response(text, 1)[0]) == left


def test_without_a_keyword_everything_is_text() -> None:
    assert words(parse_response("read {}", 1, word="")[0]) == "read {}"


def test_a_call_that_was_cut_by_the_limit_says_so() -> None:
    _, answer = parse_response('read {"path":"a', 2, reason="length")
    finished = answer.final_piece()
    assert finished is not None
    assert finished.reason is FinishReason.LENGTH


def test_tokens_that_were_known_from_before_are_counted_as_such() -> None:
    seen: list[PromptProgress] = []
    answer = LocalResponseParser("it", "say", NAMES, seen.append)
    answer.feed([chunk(prompt_progress={"total": 30, "cache": 20, "processed": 25, "time_ms": 7})])
    answer.feed([chunk("say x", "stop"), b'{"choices":[],"timings":{"cache_n":20,"prompt_n":10,"predicted_n":3}}'])
    assert seen == [PromptProgress(30, 20, 25, 7)]
    finished = answer.final_piece()
    assert finished is not None
    assert finished.usage == Usage(30, 3, 20)


def test_thinking_aloud_is_thinking() -> None:
    answer = LocalResponseParser("it", "", frozenset(), lambda progress: None)
    payload = b'{"choices":[{"delta":{"reasoning_content":"hm"},"finish_reason":null}]}'
    assert answer.feed([payload]) == [ThinkingPiece("hm")]


def test_an_invalid_event_and_an_error_are_errors() -> None:
    answer = LocalResponseParser("it", "say", NAMES, lambda progress: None)
    answer.feed([b"{nonsense"])
    assert isinstance(answer.error, StreamBroken)
    answer = LocalResponseParser("it", "say", NAMES, lambda progress: None)
    answer.feed([chunk("say half"), b'{"error":{"message":"out of memory"}}'])
    assert isinstance(answer.error, StreamBroken)
    assert "out of memory" in str(answer.error)
