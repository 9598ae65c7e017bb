"""Halves of characters in JSON: named where a client can mend them, replaced where the message would be lost."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.core.errors import InputRefused
from mainstay.core.surrogates import decode_repaired, describe_json_error, refuse_surrogates_in, repair_escapes
from mainstay.core.tool_arguments import parse_arguments
from mainstay.core.tools import BadArguments, tool

ESCAPES = st.sampled_from(
    [r"\ud83d", r"\uDE00", r"\ud83d\ude00", r"\\", r"\\ud800", r"\n", r"\"", "a", "é", r"\uD800\uD800", r"\udfff"]
)


@given(st.lists(ESCAPES, max_size=12).map("".join))
def test_json_with_any_escapes_is_repaired_as_the_standard_decoder_reads_it(text: str) -> None:
    data = f'{{"text":"{text}"}}'.encode()
    expected = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in json.loads(data)["text"])
    found = decode_repaired(data, msgspec.json.decode)["text"]
    assert found == expected
    assert (repair_escapes(data) is data) == ("\ufffd" not in found)


def test_other_mistakes_are_reported_as_they_are() -> None:
    for data in (b'{"a":', b'{"a": "\\\\ud800"', b"[1,]"):
        with pytest.raises(msgspec.DecodeError) as caught:
            decode_repaired(data, msgspec.json.decode)
        assert describe_json_error(data, caught.value) == str(caught.value)


def test_a_half_at_any_depth_is_refused_with_what_it_is_in() -> None:
    refuse_surrogates_in(["é", {"a": ("\U0001f600",)}, 5, None], "the list")
    for value in (["a", {"b": ("\ud800",)}], {"\udc00": 1}, "x\udfff"):
        with pytest.raises(InputRefused, match=r"^the list is not valid text: character \d is a lone surrogate"):
            refuse_surrogates_in(value, "the list")


class _Arguments(msgspec.Struct):
    text: str


def test_arguments_of_a_call_with_half_a_character_are_refused_with_the_true_reason() -> None:
    @tool(untrusted=False, sink=False)
    def say(text: str) -> str:
        """Say."""
        return text

    for parse in (say.parse, lambda input: parse_arguments(input, _Arguments, {})):
        with pytest.raises(BadArguments, match=r"do not fit: the escape \\ud83d is a lone surrogate") as caught:
            parse('{"text": "a\\ud83d"}')
        assert "truncated" not in str(caught.value)
