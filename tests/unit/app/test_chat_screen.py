"""A turn on the screen and in a pipe, from events made by hand."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from mainstay.app.chat.calls import call_line, result_lines
from mainstay.app.chat.markdown import Ink
from mainstay.app.chat.plain import Printer
from mainstay.app.chat.screen import Screen
from mainstay.core.events import (
    ApprovalAsked,
    Event,
    Lagged,
    MessageAdded,
    Steered,
    StepRestarted,
    Stuck,
    TextDelta,
    ThinkingDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolFinished,
    ToolProgress,
    TurnEnded,
    TurnStarted,
    Waiting,
)
from mainstay.core.messages import Text, ToolCall, ToolResult, Usage
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def screen_of(events: Sequence[Event], clock: Clock | None = None) -> Screen:
    screen = Screen(clock or Clock())
    for event in events:
        screen.show(event)
    return screen


def printed(screen: Screen) -> str:
    return _plain("".join(Ink().lines(thing, 80) for thing in screen.take()))


def live(screen: Screen) -> str:
    thing = screen.live()
    return _plain(Ink().lines(thing, 80)) if thing is not None else ""


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def said(text: str, step: int = 1) -> list[Event]:
    return [TextDelta(text[start : start + 4], turn=1, step=step) for start in range(0, len(text), 4)]


def message(text: str, *calls: ToolCall, step: int = 1) -> MessageAdded:
    return MessageAdded("assistant", (Text(text), *calls), usage=Usage(1200, 64), cost=0.0021, turn=1, step=step)


START = TurnStarted((1,), turn=1)
END = TurnEnded(Answered(), turn=1)


def test_an_answer_is_printed_once_and_followed_by_what_it_took() -> None:
    clock = Clock()
    screen = Screen(clock)
    screen.asked("hello")
    clock.now += 1.4
    for event in [START, *said("First.\n\nSecond **one**."), message("First.\n\nSecond **one**."), END]:
        screen.show(event)
    text = printed(screen)
    assert text.count("First.") == text.count("Second one.") == 1
    assert "1.2k tokens in, 64 out · $0.0021 · 1.4 s" in text
    assert screen.take() == []
    assert screen.live() is None


def test_finished_blocks_are_settled_while_the_last_one_is_live() -> None:
    screen = screen_of([START, *said("Done.\n\nStill grow")])
    assert "Done." in printed(screen)
    assert live(screen) == "Still grow\n"


def test_a_turn_whose_start_is_heard_late_loses_nothing() -> None:
    screen = screen_of([*said("early words"), START, message("early words"), END])
    assert printed(screen).count("early words") == 1


def test_thinking_is_one_line_while_it_goes_on_and_one_line_after() -> None:
    clock = Clock()
    screen = screen_of([START, ThinkingDelta("Let me see.\nYes.", turn=1, step=1)], clock)
    assert live(screen).startswith("✻ thinking… Let me see. Yes.")
    clock.now += 2.1
    screen.show(TextDelta("Answer", turn=1, step=1))
    assert "✻ thought for 2.1 s: Let me see. Yes." in printed(screen)


def test_a_tool_call_is_shown_as_it_runs_and_with_its_result() -> None:
    clock = Clock()
    call = ToolCall("c1", "add", '{"a": 2, "b": 3}')
    screen = screen_of([START, ToolCallStarted("c1", "add", turn=1, step=1)], clock)
    assert live(screen) == "● add(…\n"
    screen.show(message("", call))
    screen.show(ToolCallReady("c1", "add", call.input, turn=1, step=1))
    screen.show(ToolProgress("c1", "half way", turn=1, step=1))
    assert live(screen) == "● add(a=2, b=3)\n  … half way\n"
    clock.now += 0.012
    screen.show(ToolFinished(ToolResult("c1", "add", "5"), turn=1, step=1))
    assert "● add(a=2, b=3)\n  └ 5  12 ms\n" in printed(screen)
    assert screen.live() is None


def test_a_call_that_never_ran_is_shown_with_its_arguments() -> None:
    call = ToolCall("c1", "add", '{"a": 2}')
    result = ToolResult("c1", "add", "Skipped.", is_error=True)
    screen = screen_of([START, message("", call), ToolFinished(result, turn=1, step=1)])
    assert "● add(a=2)\n  └ Skipped.\n" in printed(screen)


def test_a_call_that_was_announced_and_then_refused_is_shown_with_its_arguments() -> None:
    call = ToolCall("c1", "bash", '{"command": "ls"}')
    asked = ApprovalAsked("id", "c1", "bash", call.input, turn=1, step=1)
    result = ToolResult("c1", "bash", "Not run.", is_error=True)
    begun = [START, ToolCallStarted("c1", "bash", turn=1, step=1), message("", call)]
    for events in ([*begun], [*begun, asked]):
        screen = screen_of([*events, ToolFinished(result, turn=1, step=1)])
        assert '● bash(command="ls")\n  └ Not run.' in printed(screen)


def test_a_call_that_was_made_before_the_screen_was_there_is_shown_with_its_arguments() -> None:
    asked = ApprovalAsked("id", "c1", "bash", '{"command": "ls"}', turn=3, step=1)
    screen = Screen(Clock())
    screen.know({"c2": '{"command": "pwd"}'})
    screen.show(asked)
    for id in ("c1", "c2"):
        screen.show(ToolFinished(ToolResult(id, "bash", "Not run.", is_error=True), turn=3, step=1))
    text = printed(screen)
    assert '● bash(command="ls")\n' in text
    assert '● bash(command="pwd")\n' in text


def test_tags_are_shown_while_they_come_and_when_they_are_settled() -> None:
    text = "use <b>bold</b> and <div class=x> then <script>alert(1)</script>"
    screen = screen_of([START, *said(text)])
    assert live(screen) == f"{text}\n"
    screen.show(message(text))
    assert text in printed(screen)


def test_a_long_result_is_cut_to_a_few_lines() -> None:
    lines = result_lines("\n".join(f"line {n}" for n in range(100)))
    assert lines == ["  └ line 0", "    line 1", "    line 2", "    line 3", "    … 96 more lines"]
    assert result_lines("1\n2\n3\n4\n5")[-1] == "    … 1 more line"


def test_arguments_hide_nothing() -> None:
    assert call_line("bash", '{"command": "ls\\u001b[8m; rm x"}') == '● bash(command="ls\\u001b[8m; rm x")'
    assert call_line("x", "not json\n\x1b[2J") == "● x(not json\\n\\x1b[2J)"


def test_a_restarted_step_drops_what_was_live() -> None:
    screen = screen_of([START, *said("Half an ans"), StepRestarted("the connection broke", turn=1, step=1)])
    assert live(screen) == ""
    assert "broke off and starts again: the connection broke" in printed(screen)


def test_missed_pieces_are_made_up_for_by_the_whole_message() -> None:
    screen = screen_of([START, TextDelta("One ", turn=1, step=1), Lagged(3), message("One two three."), END])
    assert "One two three." in printed(screen)
    gap = [START, *said("One\n\n"), TextDelta("three.", turn=1, step=1), message("One\n\ntwo three."), END]
    assert "here is all of it" in printed(screen_of(gap))


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (Waiting("the provider is busy", 4.0, turn=1), "waiting 4 s: the provider is busy"),
        (Stuck("tool add", 40.0, turn=1), "seems stuck: tool add, 40 s past its bound"),
        (TurnEnded(Aborted(), turn=1), "stopped"),
        (TurnEnded(Exhausted("25 steps"), turn=1), "stopped at its limit: 25 steps"),
        (TurnEnded(Failed("The model could not answer."), turn=1), "The model could not answer."),
    ],
)
def test_what_else_happens_is_said_in_words(event: Event, sentence: str) -> None:
    assert sentence in printed(screen_of([START, event]))
    notes: list[str] = []
    Printer(lambda text: None, notes.append).show(event)
    assert any(sentence in note for note in notes)


def test_a_steer_stands_below_until_the_turn_takes_it_up() -> None:
    screen = screen_of([START, *said("Some words")])
    screen.steered("in French")
    assert live(screen).endswith("↪ in French\n")
    assert printed(screen) == ""
    screen.show(message("Some words"))
    screen.show(Steered((3,), turn=1, step=1))
    assert printed(screen) == "\nSome words\n\n↪ in French\n"


def test_escape_sequences_do_not_reach_the_screen_however_they_are_cut() -> None:
    evil = "a\x1b]0;title\x07\x1b[2Jb\x9b31mc\u202ed"
    screen = screen_of([START, *(TextDelta(char, turn=1, step=1) for char in evil)])
    assert live(screen) == "abcd\n"


def test_in_a_pipe_the_words_come_as_they_come() -> None:
    out: list[str] = []
    printer = Printer(out.append, out.append)
    for event in [START, *said("You said\nhello"), message("You said\nhello"), END]:
        printer.show(event)
    assert "".join(out) == "You said\nhello\n"


def test_in_a_pipe_missed_pieces_come_with_the_message() -> None:
    out: list[str] = []
    printer = Printer(out.append, out.append)
    for event in [START, TextDelta("You ", turn=1, step=1), message("You said hello"), END]:
        printer.show(event)
    assert "".join(out) == "You said hello\n"
