"""Warnings to people about a nearly used budget."""

from __future__ import annotations

from mainstay.core.events import MessageAdded, TurnEnded, TurnStarted, Warned
from mainstay.core.messages import Finish, FinishReason, Text
from mainstay.core.outcome import Answered
from mainstay.gateway.turn_answer import TurnAnswerBuilder
from mainstay.terminal.formatters import describe_event

SENTENCE = "81 % of the home's budget of $1.00 a day is used ($0.81) until 2026-11-17 00:00 UTC"


def said(text: str) -> MessageAdded:
    return MessageAdded("assistant", (Text(text), Finish(FinishReason.END)), turn=1, step=1)


def test_a_warning_stands_below_the_answer_in_a_room() -> None:
    telling = TurnAnswerBuilder()
    for event in (TurnStarted((1,), turn=1), Warned(SENTENCE, turn=1), said("It is 5.")):
        telling.observe(event)
    assert telling.build_answer(TurnEnded(Answered(), turn=1)).text == f"It is 5.\n\n_({SENTENCE})_"


def test_where_nothing_is_said_nothing_is_said_of_budgets_either() -> None:
    telling = TurnAnswerBuilder()
    telling.observe(Warned(SENTENCE, turn=1))
    assert telling.build_answer(TurnEnded(Answered(), turn=1)).text == ""


def test_a_chat_shows_it_as_it_is() -> None:
    assert describe_event(Warned(SENTENCE)) == SENTENCE
