"""Pasted blocks of the chat: placeholders in the prompt, parts of their own when it is sent."""

from __future__ import annotations

from mainstay.core.messages import Text
from mainstay.trust.pasted_texts import KEPT_MAX, PASTE_ORIGIN, PastedTexts


def test_one_line_is_typed_text_and_several_are_a_block() -> None:
    pasted = PastedTexts()
    assert pasted.add("ana@example.org") == "ana@example.org"
    assert pasted.add("one line\n") == "one line\n"
    block = pasted.add("a\r\nb\rc\n")
    assert block == "[pasted 3 lines #1]"
    assert pasted.to_prompt(f"explain {block}") == ["explain ", Text("a\nb\nc\n", origin=PASTE_ORIGIN)]
    assert pasted.to_text(f"explain {block}") == "explain a\nb\nc\n"


def test_a_prompt_without_blocks_stays_as_it_is() -> None:
    pasted = PastedTexts()
    assert pasted.to_prompt("hello") == "hello"
    pasted.add("a\nb")
    assert pasted.to_prompt("hello") == "hello"
    assert pasted.to_prompt("[pasted 9 lines #7]") == "[pasted 9 lines #7]", "typed by hand: there is no such block"


def test_several_blocks_keep_their_order_and_old_ones_are_forgotten() -> None:
    pasted = PastedTexts()
    one, two = pasted.add("a\nb"), pasted.add("c\nd")
    parts = pasted.to_prompt(f"{two}x{one}{one}")
    assert [part if isinstance(part, str) else part.text for part in parts] == ["c\nd", "x", "a\nb", "a\nb"]
    for number in range(KEPT_MAX):
        pasted.add(f"{number}\n")
        pasted.add(f"{number}\n{number}")
    assert pasted.to_prompt(one) == one
