"""A summary without a model: a list that is never above its bound."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.context.fallback_summary import build_outline
from mainstay.core.messages import AnyPart, Message, Role, Text, ToolCall
from mainstay.core.ports import SummaryRequest


def said(id: int, role: Role, what: str | AnyPart) -> Message:
    return Message(id, role, (Text(what) if isinstance(what, str) else what,))


TALK = (
    said(3, "user", "I am Ana and I live in Lisbon. Please write the report on the mill."),
    said(4, "assistant", "On it."),
    said(6, "assistant", "The report is done: the mill was built in 1887."),
)


def by_bytes(text: str) -> int:
    return (len(text.encode(errors="replace")) + 3) // 4


def test_an_outline_lists_what_people_and_the_model_said_by_number() -> None:
    calls_only = said(8, "assistant", ToolCall("c", "search", "{}"))
    text = build_outline(
        SummaryRequest(messages=(*TALK, said(7, "user", "a\nb" + "c" * 200), calls_only)), 500, by_bytes
    )
    assert text.splitlines()[1:] == [
        "[3] user: I am Ana and I live in Lisbon. Please write the report on the mill.",
        "[4] assistant: On it.",
        "[6] assistant: The report is done: the mill was built in 1887.",
        "[7] user: a b" + "c" * 76 + "…",
        "[8] assistant: called search",
    ]


def test_an_outline_that_does_not_fit_keeps_the_newest_and_says_how_to_find_the_rest() -> None:
    messages = tuple(said(n, "user", f"message number {n}") for n in range(1, 101))
    text = build_outline(SummaryRequest(messages=messages), 100, by_bytes)
    assert "[100] user: message number 100" in text
    assert "[1] user" not in text
    shown = len(text.splitlines()) - 1
    assert f"{100 - shown} earlier messages are not listed; memory_search finds them" in text


def test_an_outline_of_summaries_keeps_the_newest_of_them() -> None:
    text = build_outline(
        SummaryRequest(messages=(), previous_summary="\n\n".join(f"Part {n}." for n in range(100))), 60, by_bytes
    )
    assert "Part 99." in text
    assert "Part 1." not in text


counts: dict[str, Callable[[str], int]] = {
    "bytes": by_bytes,
    "characters": len,
    "words": lambda text: len(text.split()),
    "odd": lambda text: len(text) // 3 + 7 * text.count("\n") ** 2,
}


@pytest.mark.parametrize("name", list(counts))
@given(texts=st.lists(st.text(max_size=200), max_size=40), tokens=st.integers(0, 400), before=st.text(max_size=400))
def test_an_outline_is_never_above_its_bound(name: str, texts: list[str], tokens: int, before: str) -> None:
    messages = [said(n + 1, "assistant" if n % 2 else "user", text) for n, text in enumerate(texts)]
    for passage in (
        SummaryRequest(messages=messages, previous_summary=before),
        SummaryRequest(messages=(), previous_summary=before),
    ):
        text = build_outline(passage, tokens, counts[name])
        assert not text or counts[name](text) <= tokens
