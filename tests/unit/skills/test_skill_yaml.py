"""How headers of skills are read: every scalar as a text, or only what the strictest readers take."""

from __future__ import annotations

import pytest

from mainstay.io.yaml import YamlRefused, load_yaml


def test_with_strings_every_scalar_is_what_is_written() -> None:
    """F34"""
    text = "a: 1.0\nb: yes\nc: null\nd:\ne: 0x1f\nf: 2026-11-15\ng: [1, true, ~]\nh: 'x'\n3: 4\ni: !!int 5\n"
    assert load_yaml(text, scalars_as_text=True).data == {
        "a": "1.0",
        "b": "yes",
        "c": "null",
        "d": "",
        "e": "0x1f",
        "f": "2026-11-15",
        "g": ["1", "true", "~"],
        "h": "x",
        "3": "4",
        "i": "5",
    }
    assert load_yaml(text).data["a"] == 1.0


@pytest.mark.parametrize("text", ["a: !x b\n", "a: !!python/name:os.system b\n", "a: !!binary aGk=\n"])
def test_tags_stay_refused_among_strings(text: str) -> None:
    with pytest.raises(YamlRefused, match="tags"):
        load_yaml(text, scalars_as_text=True)


@pytest.mark.parametrize(
    "text",
    ["a: [b]\n", "a: {b: c}\n", "a: !!str b\n", "a: &x b\n", "a: &x b\nc: *x\n", "a:\tb\n", "a: b\tc\n", "[a, b]\n"],
)
def test_strictly_there_is_no_flow_no_tag_no_anchor_and_no_tab(text: str) -> None:
    load_yaml(text)
    with pytest.raises(YamlRefused):
        load_yaml(text, strict=True)


def test_strictly_blocks_are_read_as_ever() -> None:
    text = "a: b\nc:\n  - d\n  - e: f\ng: |\n  h\ni: 1\n"
    assert (
        load_yaml(text, strict=True).data
        == load_yaml(text).data
        == {"a": "b", "c": ["d", {"e": "f"}], "g": "h\n", "i": 1}
    )
