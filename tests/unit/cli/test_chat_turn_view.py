"""A turn on the screen and in a pipe, from events made by hand."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from mainstay.core.events import (
    ApprovalAsked,
    Event,
    Lagged,
    MessageAdded,
    Relieved,
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
from mainstay.core.messages import Finish, FinishReason, Message, Text, ToolCall, ToolResult, Usage
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed
from mainstay.terminal.formatters import format_price, to_plain_text
from mainstay.terminal.markdown_renderer import RichToAnsiRenderer
from mainstay.terminal.plain_printer import PlainPrinter
from mainstay.terminal.tool_calls import ToolCallLog, format_call, format_call_details, format_result
from mainstay.terminal.turn_view import TurnView
from mainstay.trust.approval_text import format_arguments


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Shown(TurnView):
    """A screen that hears of calls itself, as a conversation does for it."""

    def __init__(self, clock: Clock | None = None) -> None:
        now = clock or Clock()
        self.calls = ToolCallLog(now)
        super().__init__(now, self.calls, lambda cost: format_price("openai/x", cost))

    def show_event(self, event: Event) -> None:
        self.calls.apply_event(event)
        super().show_event(event)


def screen_of(events: Sequence[Event], clock: Clock | None = None) -> Shown:
    screen = Shown(clock)
    for event in events:
        screen.show_event(event)
    return screen


def printed(screen: TurnView, columns: int = 100) -> str:
    return _plain("".join(RichToAnsiRenderer().render(thing, columns) for thing in screen.take_finished()))


def live(screen: TurnView) -> str:
    thing = screen.render_live()
    return _plain(RichToAnsiRenderer().render(thing, 80)) if thing is not None else ""


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def said(text: str, step: int = 1) -> list[Event]:
    return [TextDelta(text[start : start + 4], turn=1, step=step) for start in range(0, len(text), 4)]


def message(text: str, *calls: ToolCall, step: int = 1) -> MessageAdded:
    return MessageAdded("assistant", (Text(text), *calls), usage=Usage(1200, 64, 1000), cost=0.0021, turn=1, step=step)


START = TurnStarted((1,), turn=1)
END = TurnEnded(Answered(), turn=1)


def test_an_answer_is_printed_once_and_followed_by_what_it_took() -> None:
    clock = Clock()
    screen = Shown(clock)
    screen.show_prompt("hello")
    clock.now += 0.4
    screen.show_event(TextDelta("", turn=1, step=1))
    clock.now += 1.0
    for event in [START, *said("First.\n\nSecond **one**."), message("First.\n\nSecond **one**."), END]:
        screen.show_event(event)
    text = printed(screen)
    assert text.count("First.") == text.count("Second one.") == 1
    assert "1.2k tokens in (1.0k cached), 64 out · $0.0021 · 1.4 s, first token after 0.4 s" in text
    assert screen.take_finished() == []
    assert screen.render_live() is None


def test_finished_blocks_are_settled_while_the_last_one_is_live() -> None:
    screen = screen_of([START, *said("Done.\n\nStill grow")])
    assert "Done." in printed(screen)
    assert live(screen) == "Still grow\n"


def test_a_turn_with_a_late_start_event_loses_nothing() -> None:
    screen = screen_of([*said("early words"), START, message("early words"), END])
    assert printed(screen).count("early words") == 1


def test_thinking_is_one_line_while_it_goes_on_and_one_line_after() -> None:
    clock = Clock()
    screen = screen_of([START, ThinkingDelta("Let me see.\nYes.", turn=1, step=1)], clock)
    assert live(screen).startswith("✻ thinking… Let me see. Yes.")
    clock.now += 2.1
    screen.show_event(TextDelta("Answer", turn=1, step=1))
    assert "✻ thought for 2.1 s: Let me see. Yes." in printed(screen)


def test_a_tool_call_is_shown_as_it_runs_and_with_its_result() -> None:
    clock = Clock()
    call = ToolCall("c1", "add", '{"a": 2, "b": 3}')
    screen = screen_of([START, ToolCallStarted("c1", "add", turn=1, step=1)], clock)
    assert live(screen) == "● add(…\n"
    screen.show_event(message("", call))
    screen.show_event(ToolCallReady("c1", "add", call.input, turn=1, step=1))
    screen.show_event(ToolProgress("c1", "half way", turn=1, step=1))
    assert live(screen) == "● add(a=2, b=3)\n  … half way\n"
    clock.now += 0.012
    screen.show_event(ToolFinished(ToolResult("c1", "add", "5"), turn=1, step=1))
    assert "● add(a=2, b=3) · 5 · 12 ms · #1 · Ctrl-O shows details\n" in printed(screen)
    assert screen.render_live() is None


def test_a_call_that_never_ran_is_shown_with_its_arguments() -> None:
    call = ToolCall("c1", "add", '{"a": 2}')
    result = ToolResult("c1", "add", "Skipped.", is_error=True)
    screen = screen_of([START, message("", call), ToolFinished(result, turn=1, step=1)])
    assert "● add(a=2) · ✗ · #1 · Ctrl-O shows details\n  └ Skipped.\n" in printed(screen)


def test_a_call_that_was_announced_and_then_refused_is_shown_with_its_arguments() -> None:
    call = ToolCall("c1", "bash", '{"command": "ls"}')
    asked = ApprovalAsked("id", "c1", "bash", call.input, turn=1, step=1)
    result = ToolResult("c1", "bash", "Not run.", is_error=True)
    begun = [START, ToolCallStarted("c1", "bash", turn=1, step=1), message("", call)]
    for events in ([*begun], [*begun, asked]):
        screen = screen_of([*events, ToolFinished(result, turn=1, step=1)])
        assert '● bash(command="ls") · ✗ · #1 · Ctrl-O shows details\n  └ Not run.' in printed(screen)


def test_a_call_that_was_made_before_the_screen_was_there_is_shown_with_its_arguments() -> None:
    asked = ApprovalAsked("id", "c1", "bash", '{"command": "ls"}', turn=3, step=1)
    screen = Shown()
    screen.calls.reset([Message(1, "assistant", (ToolCall("c2", "bash", '{"command": "pwd"}'),))])
    screen.show_event(asked)
    for id in ("c1", "c2"):
        screen.show_event(ToolFinished(ToolResult(id, "bash", "Not run.", is_error=True), turn=3, step=1))
    text = printed(screen)
    assert '● bash(command="ls") · ✗ · #2' in text
    assert '● bash(command="pwd") · ✗ · #1' in text


def test_tags_are_shown_while_they_come_and_when_they_are_settled() -> None:
    text = "use <b>bold</b> and <div class=x> then <script>alert(1)</script>"
    screen = screen_of([START, *said(text)])
    assert live(screen) == f"{text}\n"
    screen.show_event(message(text))
    assert text in printed(screen)


def test_a_call_fits_one_row_however_narrow_and_what_came_of_it_is_never_cut() -> None:
    call = ToolCall("c1", "read", '{"path": "a/very/long/path/to/some/file/that/is/read.txt"}')
    result = ToolResult("c1", "read", "1\n2\n3")
    for columns in (50, 60, 100):
        screen = screen_of([START, message("", call), ToolFinished(result, turn=1, step=1)])
        row = printed(screen, columns).strip()
        assert len(row.splitlines()) == 1
        assert row.endswith("· 3 lines · #1" + (" · Ctrl-O shows details" if columns == 100 else ""))
    assert "Ctrl-O" not in printed(screen_of([ToolFinished(result, turn=1, step=1)] * 2)).splitlines()[-1]


def test_a_call_unfolds_into_all_that_went_in_and_came_out() -> None:
    call = ToolCall("c1", "bash", '{"command": "ls\\npwd\\u001b[2J", "n": 3}')
    result = ToolResult("c1", "bash", "one\n\x1b]0;title\x07two\tthree\n")
    screen = screen_of([START, message("", call), ToolFinished(result, turn=1, step=1)])
    found = screen.calls.find_by_number(1)
    assert found is not None
    assert [to_plain_text(line) for line in format_call_details(found)] == [
        "#1 bash",
        "  command: ls",
        "         │ pwd\\x1b[2J",
        "  n: 3",
        "  result, 2 lines",
        "  │ one",
        "  │ two three",
    ]


def test_calls_are_numbered_through_all_turns_and_the_oldest_are_forgotten() -> None:
    calls = ToolCallLog(Clock())
    for turn in range(1, 151):  # a model may begin to count anew in every turn
        calls.apply_event(MessageAdded("assistant", (ToolCall("c0", "add", f'{{"a": {turn}}}'),), turn=turn))
        calls.apply_event(ToolFinished(ToolResult("c0", "add", str(turn)), turn=turn))
    assert [call.number for call in calls.by_number] == list(range(51, 151))
    assert [(call.input, call.summary) for call in calls.by_number[:1]] == [('{"a": 51}', "51")]
    assert calls.find_by_number(50) is None


def test_a_wait_is_shown_with_what_for_and_since_when_and_leaves_a_line() -> None:
    clock = Clock()
    screen = Shown(clock)
    screen.show_prompt("hello")
    screen.show_event(START)
    clock.now += 2
    assert screen.status == "waiting for the first token 2 s"
    screen.show_event(Waiting("the provider is busy\x1b[2J", 8.0, turn=1))
    clock.now += 3
    assert screen.status == "waiting 3 s of 8: the provider is busy\\x1b[2J"
    clock.now += 5
    screen.show_event(TextDelta("Hello", turn=1, step=1))
    assert "waited 8.0 s: the provider is busy" in printed(screen)
    clock.now += 1
    assert screen.status == "writing 11 s"
    screen.show_event(Waiting("the conversation is being summarised", turn=1))
    assert screen.status == "waiting 0 s: the conversation is being summarised"
    screen.show_event(message("Hello", ToolCall("c1", "bash", "{}")))
    screen.show_event(ToolCallReady("c1", "bash", "{}", turn=1, step=1))
    clock.now += 4
    assert screen.status == "running bash 4 s"
    assert "waited" not in printed(screen)  # what was over at once is not told
    notes: list[str] = []
    PlainPrinter(lambda text: None, notes.append).show_event(Waiting("the provider is busy", 4.0, turn=1))
    assert notes == ["(waiting 4 s: the provider is busy)"]


def test_f17_an_answer_with_a_missing_end_is_marked() -> None:
    cut = MessageAdded("assistant", (Text("So it"), Finish(FinishReason.LENGTH)), turn=1, step=1)
    notes: list[str] = []
    printer = PlainPrinter(lambda text: None, notes.append)
    for event in (cut, END, message("whole"), END):
        printer.show_event(event)
    assert [note.startswith("(the answer is cut off ") for note in notes] == [True]
    screen = screen_of([START, cut, END], Clock())
    assert "the answer is cut off " in printed(screen)


def test_the_time_of_an_approval_does_not_count_as_the_turns() -> None:
    clock = Clock()
    screen = screen_of([START, ApprovalAsked("id", "c1", "bash", "{}", turn=1, step=1)], clock)
    clock.now += 60
    screen.show_event(ToolCallReady("c1", "bash", "{}", turn=1, step=1))
    clock.now += 2
    screen.show_event(END)
    assert "2.0 s" in printed(screen)


def test_an_unknown_price_is_not_shown_as_free() -> None:
    free = MessageAdded("assistant", (Text("Hi."),), usage=Usage(3, 1), turn=1, step=1)
    assert "3 tokens in, 1 out · price unknown · 0.0 s" in printed(screen_of([START, free, END]))
    assert format_price("local/qwen", 0.0) == "free"
    assert format_price("openai/gpt", 0.0021) == "$0.0021"


def test_a_long_result_is_cut_to_a_few_lines() -> None:
    lines = format_result("\n".join(f"line {n}" for n in range(100)))
    assert lines == ["  └ line 0", "    line 1", "    line 2", "    line 3", "    … 96 more lines"]
    assert format_result("1\n2\n3\n4\n5")[-1] == "    … 1 more line"


def test_arguments_hide_nothing() -> None:
    assert format_call("bash", '{"command": "ls\\u001b[8m; rm x"}') == '● bash(command="ls\\u001b[8m; rm x")'
    assert format_call("x", "not json\n\x1b[2J") == "● x(not json\\n\\x1b[2J)"


@pytest.mark.parametrize("depth", [985, 990, 991, 1_000, 100_000])
def test_arguments_that_are_nested_without_end_are_shown_as_they_are(depth: int) -> None:
    input = '{"a":' * depth + "1" + "}" * depth
    assert format_call("x", input).startswith("● x(")
    assert len(format_arguments(input)) == 1


def test_a_restarted_step_drops_what_was_live() -> None:
    screen = screen_of([START, *said("Half an ans"), StepRestarted("the connection broke", turn=1, step=1)])
    assert live(screen) == ""
    assert "was interrupted and starts again: the connection broke" in printed(screen)


def test_missed_pieces_are_made_up_for_by_the_whole_message() -> None:
    screen = screen_of([START, TextDelta("One ", turn=1, step=1), Lagged(3), message("One two three."), END])
    assert "One two three." in printed(screen)
    gap = [START, *said("One\n\n"), TextDelta("three.", turn=1, step=1), message("One\n\ntwo three."), END]
    assert "here it is in full" in printed(screen_of(gap))


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (Stuck("tool add", 40.0, turn=1), "seems stuck: tool add, 40 s past its limit"),
        (TurnEnded(Aborted(), turn=1), "stopped"),
        (TurnEnded(Exhausted("25 steps"), turn=1), "stopped at a limit: 25 steps"),
        (TurnEnded(Failed("The model could not answer."), turn=1), "The model could not answer."),
    ],
)
def test_other_events_are_described_in_words(event: Event, sentence: str) -> None:
    assert sentence in printed(screen_of([START, event]))
    notes: list[str] = []
    PlainPrinter(lambda text: None, notes.append).show_event(event)
    assert any(sentence in note for note in notes)


def test_a_steer_stands_below_until_the_turn_takes_it_up() -> None:
    screen = screen_of([START, *said("Some words")])
    screen.show_pending_steer("in French")
    assert live(screen).endswith("↪ in French\n")
    assert printed(screen) == ""
    screen.show_event(message("Some words"))
    screen.show_event(Steered((3,), turn=1, step=1))
    assert printed(screen) == "\nSome words\n\n↪ in French\n"


def test_escape_sequences_do_not_reach_the_screen_however_they_are_cut() -> None:
    evil = "a\x1b]0;title\x07\x1b[2Jb\x9b31mc\u202ed"
    screen = screen_of([START, *(TextDelta(char, turn=1, step=1) for char in evil)])
    assert live(screen) == "abcd\n"


def test_in_a_pipe_the_words_come_as_they_come() -> None:
    out: list[str] = []
    printer = PlainPrinter(out.append, out.append)
    for event in [START, *said("You said\nhello"), message("You said\nhello"), END]:
        printer.show_event(event)
    assert "".join(out) == "You said\nhello\n"


def test_in_a_pipe_missed_pieces_come_with_the_message() -> None:
    out: list[str] = []
    printer = PlainPrinter(out.append, out.append)
    for event in [START, TextDelta("You ", turn=1, step=1), message("You said hello"), END]:
        printer.show_event(event)
    assert "".join(out) == "You said hello\n"


def test_without_streaming_only_a_complete_message_is_printed() -> None:
    out: list[str] = []
    notes: list[str] = []
    printer = PlainPrinter(out.append, notes.append, streams=False)
    for event in [START, *said("You said no"), StepRestarted("the connection broke", turn=1, step=1)]:
        printer.show_event(event)
    assert out == []
    for event in [*said("You said hello"), message("You said hello"), END]:
        printer.show_event(event)
    assert "".join(out) == "You said hello\n"
    assert notes == ["(the answer was interrupted and starts again: the connection broke)"]


def test_blocked_removals_of_a_command_are_shown_to_the_user() -> None:
    call = ToolCall("c1", "bash", '{"command": "rm *.py"}')
    result = ToolResult("c1", "bash", "done\n[held back, because content from outside is here: a.py]")
    text = printed(screen_of([START, message("", call), ToolFinished(result, turn=1, step=1)]))
    assert "[held back, because content from outside is here: a.py]" in text
    assert "done" not in text


def test_a_question_that_is_answered_with_other_words_does_not_turn_the_clock_back() -> None:
    clock = Clock()
    screen = screen_of([START, ApprovalAsked("id", "c1", "bash", "{}", turn=1, step=1)], clock)
    clock.now += 30.0
    screen.show_prompt("no, do something else")
    clock.now += 2.0
    screen.show_event(TextDelta("Fine.", turn=2, step=1))
    assert screen.status == "writing 2 s"


def test_a_user_who_pastes_more_than_the_window_is_told_that_it_is_cut() -> None:
    assert "beginning and end" in printed(screen_of([START, Relieved(texts=(1,), turn=1)]))
