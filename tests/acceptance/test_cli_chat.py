"""The chat on a real terminal: a pseudo-terminal, keys in, screen out."""

from __future__ import annotations

import re
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.chat_tty import ALT_ENTER, CTRL_C, CTRL_D, MARK, Tty
from support.cli_support import Command, FakeModel

Open = Callable[..., Tty]


@pytest.fixture(scope="module")
def model() -> Iterator[FakeModel]:
    made = FakeModel()
    yield made
    made.close()


@pytest.fixture
def mainstay(tmp_path: Path, model: FakeModel) -> Command:
    return Command(tmp_path, model.url)


@pytest.fixture
def chat(mainstay: Command) -> Iterator[Open]:
    opened: list[Tty] = []

    def open_one(*arguments: str) -> Tty:
        tty = Tty(mainstay, *arguments)
        opened.append(tty)
        tty.expect("Ctrl-D exits")
        tty.expect(MARK)
        tty.ready()
        return tty

    yield open_one
    for tty in opened:
        tty.close()


def test_a_conversation_from_banner_to_leaving(chat: Open, mainstay: Command) -> None:
    tty = chat()
    assert "openai/fake" in tty.screen
    assert "chat-" in tty.screen
    tty.send("hello there\r")
    tty.expect("You said hello there.")
    tty.expect("12 tokens in, 4 out")
    tty.send("slow\r")
    tty.expect("word word")
    tty.send(CTRL_C)
    tty.expect("stopped")
    tty.send("/help\r")
    tty.expect("/sessions")
    tty.expect("Ctrl-D exits")
    tty.send(CTRL_C)
    tty.expect("press Ctrl-C again to exit")
    tty.send(CTRL_C)
    assert tty.leave() == 0
    assert "`mainstay chat` continues chat-" in tty.screen
    assert "Traceback" not in tty.screen
    assert termios.tcgetattr(tty.slave) == tty.before
    history = mainstay.home / "history"
    assert "hello there" in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600
    assert mainstay.json("session", "list")["sessions"][0]["turns"] == 2


def test_the_next_chat_goes_on_where_the_last_one_was_left(chat: Open, model: FakeModel) -> None:
    tty = chat()
    tty.send("remember me\r")
    tty.expect("tokens in")
    tty.send(CTRL_D)
    assert tty.leave() == 0
    again = chat()
    assert "1 turn so far" in again.screen
    assert "remember me" in again.screen
    again.send("and now?\r")
    again.expect("tokens in")
    assert [one["role"] for one in model.requests[-1]["messages"]] == ["system", "user", "assistant", "user"]
    again.send("/new\r")
    again.expect("new session")
    again.send("fresh\r")
    again.expect("tokens in")
    assert [one["role"] for one in model.requests[-1]["messages"]] == ["system", "user"]
    again.send("/quit\r")
    assert again.leave() == 0


def test_text_typed_during_a_turn_steers_it(chat: Open, model: FakeModel) -> None:
    tty = chat()
    tty.send("slow\r")
    tty.expect("word word")
    tty.send("rather this\r")
    tty.expect("You said rather this.")
    tty.expect("tokens in")
    said = [one["content"] for one in model.requests[-1]["messages"] if one["role"] != "system"]
    assert said[0] == "slow"
    assert said[1].startswith("word")
    assert said[2] == "rather this"
    tty.send("slow\r")
    tty.expect("word word")
    tty.send("/steer or that\r")
    tty.expect("You said or that.")


def test_two_quick_interrupts_leave_even_during_a_turn(chat: Open, mainstay: Command) -> None:
    tty = chat()
    tty.send("slow\r")
    tty.expect("word word")
    tty.send(CTRL_C)
    tty.send(CTRL_C)
    assert tty.leave() == 0
    assert "unfinished" not in mainstay("session", "list").stdout


def test_a_prompt_may_have_several_lines(chat: Open, model: FakeModel) -> None:
    tty = chat()
    tty.send("one\\\r" + "two")
    tty.send(ALT_ENTER)
    tty.send("three\r")
    tty.expect("tokens in")
    assert model.requests[-1]["messages"][-1]["content"] == "one\ntwo\nthree"
    tty.send(b"\x1b[200~pasted\r\nlines\x1b[201~\r")
    tty.expect("tokens in")
    assert model.requests[-1]["messages"][-1]["content"] == "pasted\nlines"


def test_an_answer_longer_than_the_screen_is_printed_once(chat: Open) -> None:
    tty = chat()
    tty.send("long\r")
    tty.expect("THE END")
    tty.expect("tokens in")
    for number in (0, 7, 29):
        line = rf"Paragraph {number}: some words with code and weight in them, to fill a line\.\n"
        assert len(re.findall(line, tty.screen)) == 1


def test_a_model_cannot_command_the_terminal(chat: Open) -> None:
    """F37: no title, no clipboard, no hyperlink, no overwriting."""
    tty = chat()
    tty.send("evil\r")
    tty.expect("before redover")
    tty.expect("tokens in")
    tty.send("table\r")
    tty.expect("https://example.com/page")
    tty.send(CTRL_D)
    tty.leave()
    assert b"\x1b]" not in tty.raw
    assert "\u202e".encode() not in tty.raw
    assert b"\x1b[2J" not in tty.raw


def test_an_error_is_printed_and_the_chat_goes_on(chat: Open) -> None:
    tty = chat()
    tty.send("refuse\r")
    tty.expect("refused the API key")
    tty.send("/model nonsense\r")
    tty.expect("does not name a model")
    tty.send("/approve\r")
    tty.expect("no tool call is waiting for approval")
    tty.send("hello\r")
    tty.expect("You said hello.")


def test_a_polite_kill_leaves_the_terminal_as_it_was(chat: Open) -> None:
    tty = chat()
    tty.process.terminate()
    assert tty.leave() == 0
    assert termios.tcgetattr(tty.slave) == tty.before


def test_without_the_extra_the_chat_is_plain(mainstay: Command, tmp_path: Path) -> None:
    blind = tmp_path / "blind"
    blind.mkdir()
    (blind / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name in ('rich', 'prompt_toolkit') else find(name, *rest)\n"
    )
    mainstay.env["PYTHONPATH"] += f":{blind}"
    tty = Tty(mainstay)
    try:
        tty.expect("pip install -e '.[chat]'")
        tty.send("hello\r")
        tty.expect("You said **hello**.")
        tty.send("slow\r")
        tty.expect("word word")
        tty.send(CTRL_C)
        tty.expect("stopped")
        tty.send("/help\r")
        tty.expect("/sessions")
        tty.send(CTRL_D)
        assert tty.leave() == 0
    finally:
        tty.close()
