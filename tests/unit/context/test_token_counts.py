"""Token counts: exact where the vocabulary is known, and never too low where only a bound is needed."""

from __future__ import annotations

import base64
import time

import pytest
import splintr
from hypothesis import given
from hypothesis import strategies as st

from mainstay.context.token_counts import (
    MESSAGE_TOKENS,
    count_message_tokens,
    count_tools_tokens,
    describe_tool,
    message_token_bound,
    tools_token_bound,
)
from mainstay.context.tokenizers import (
    CALIBRATION_FACTOR_MAX,
    ByteTokenizer,
    CalibrationRegistry,
    TokenCalibration,
    split_slices,
    tokenizer_for,
)
from mainstay.core.budgeted_side_calls import estimate_tokens
from mainstay.core.messages import Binary, Message, Text, Thinking, ToolCall, ToolResult
from mainstay.core.ports import ModelInfo
from mainstay.core.tools import FunctionTool

EXACT = tokenizer_for(ModelInfo(name="gpt-4.1-mini"))
PROSE = "The quick brown fox jumps over the lazy dog, again and again; naïve café, 東京 and привет.\n" * 400


@pytest.mark.parametrize(
    ("name", "vocabulary"),
    [
        ("gpt-4o", "o200k_base"),
        ("gpt-4.1-mini", "o200k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("o3", "o200k_base"),
        ("claude-sonnet-4-5", "o200k_base"),
        ("llama3.3:70b", "llama3"),
        ("qwen2.5-coder", "qwen3"),
        ("deepseek-chat", "deepseek_v3"),
        ("mistral-large", "mistral_v3"),
        ("gemini-2.5-flash", "gemma3"),
        ("somebody-elses", "o200k_base"),
    ],
)
def test_a_model_is_counted_with_the_vocabulary_of_its_family(name: str, vocabulary: str) -> None:
    assert tokenizer_for(ModelInfo(name=name)).name == vocabulary


def test_models_with_an_unpublished_vocabulary_are_counted_on_the_safe_side() -> None:
    assert tokenizer_for(ModelInfo(name="claude-opus-4")).scale > 1.1
    assert tokenizer_for(ModelInfo(name="somebody-elses")).scale > 1.0
    assert EXACT.scale == 1.0


def test_a_long_text_counts_within_a_thousandth_of_the_true_number() -> None:
    true = len(splintr.Tokenizer.from_pretrained("o200k_base").encode_ordinary(PROSE))
    assert len(PROSE) > 30_000
    assert abs(EXACT.count(PROSE) - true) <= true / 1000


@given(st.text(max_size=20_000))
def test_slices_are_the_text(text: str) -> None:
    assert "".join(split_slices(text)) == text


def test_one_endless_word_is_counted_in_little_time() -> None:
    began = time.process_time()
    assert EXACT.count("0123456789abcdef" * 16_000) > 1000
    assert time.process_time() - began < 1.0


def test_half_characters_do_not_stop_the_count() -> None:
    assert EXACT.count("a\ud800b") > 0


def test_without_a_vocabulary_bytes_are_counted_and_never_characters() -> None:
    assert ByteTokenizer().count("你好" * 100) >= 180
    assert ByteTokenizer().count("hello") == 2


PARTS = st.one_of(
    st.text(max_size=300).map(Text),
    st.text(max_size=300).map(Thinking),
    st.tuples(st.text(max_size=30), st.text(max_size=300)).map(lambda t: ToolCall("call_1_1_0", *t)),
    st.text(max_size=300).map(lambda t: ToolResult("call_1_1_0", "look", t)),
    st.sampled_from([Binary("image/png", b"x"), Binary("text/plain", b"", "a/b.txt")]),
)


@given(st.lists(PARTS, max_size=5))
def test_the_bound_is_never_less_than_the_weight(parts: list) -> None:
    message = Message(1, "assistant", tuple(parts))
    assert message_token_bound(message) >= count_message_tokens(message, EXACT)
    assert message_token_bound(message) == message.tokens, "once it was weighed, that is the bound"


def test_calls_arguments_results_and_schemas_are_counted() -> None:
    call = Message(1, "assistant", (ToolCall("c", "look", '{"where":"' + "far away " * 100 + '"}'),))
    assert count_message_tokens(call, EXACT) > 200

    async def look(where: str, how_long: int = 3) -> str:
        """Look somewhere for a while."""
        return ""

    tool = FunctionTool(look)
    assert "how_long" in describe_tool(tool)
    assert 20 < count_tools_tokens((tool,), EXACT) <= tools_token_bound((tool,))


def test_a_message_counts_its_words_and_about_four_tokens_more() -> None:
    words = EXACT.count("hello there")
    assert words + 3 <= count_message_tokens(Message(1, "user", (Text("hello there"),)), EXACT) <= words + 6


def test_usage_reported_by_the_provider_corrects_the_count_upwards_and_never_down() -> None:
    scale = TokenCalibration(EXACT, 1.0)
    scale.learn(1000, 1300)
    assert scale.factor == pytest.approx(1.3)
    scale.learn(1000, 900)
    assert scale.factor == pytest.approx(1.3)
    scale.learn(10, 10_000)
    assert scale.factor == CALIBRATION_FACTOR_MAX


def test_every_model_has_one_scale_for_all_lanes() -> None:
    scales = CalibrationRegistry()
    assert scales.for_model(ModelInfo(name="a")) is scales.for_model(ModelInfo(name="a"))
    assert scales.for_model(ModelInfo(name="a")) is not scales.for_model(ModelInfo(name="b"))


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        (ModelInfo(name="openai/gpt-4o-mini"), 36_835),
        (ModelInfo(name="openai/gpt-4o"), 1445),
        (ModelInfo(name="anthropic/claude-sonnet-4-5"), 1600),
        (ModelInfo(name="nobody/knows", window=128_000), 4096),
        (ModelInfo(name="nobody/knows", window=8192), 1024),
    ],
    ids=["4o-mini", "4o", "claude", "unknown", "small"],
)
def test_an_image_weighs_what_the_family_of_the_model_takes_it_for(model: ModelInfo, tokens: int) -> None:
    image = Message(1, "user", (Binary("image/png", path="a.png"),))
    assert message_token_bound(image) >= count_message_tokens(image, tokenizer_for(model)) == MESSAGE_TOKENS + tokens


def test_numbers_and_encoded_bytes_are_never_counted_too_low_without_a_vocabulary() -> None:
    figures = [f"{number * 7919 % 10_007 / 10_007:.4f}" for number in range(1600)]
    numbers = "\n".join(",".join(figures[start : start + 8]) for start in range(0, 1600, 8))
    encoded = base64.b64encode(bytes((n * n * 31 + n * 17) % 251 for n in range(9000))).decode()
    exact = tokenizer_for(ModelInfo(name="gpt-4o"))
    for text in (numbers, encoded, encoded.encode().hex()):
        assert estimate_tokens(text) >= exact.count(text)
