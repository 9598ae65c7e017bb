"""Approvals with the real command: a turn that waits, and every way to answer it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cli_support import Command
from support.example_model import ExampleModel, Messages, Said
from test_cli_chat import CTRL_C, CTRL_D, MARK, Tty

ASKS = "policy:\n  ask: [write]\n"
CALL = ("write", {"path": "out.txt", "content": "made\n"})
Project = Callable[..., tuple[Command, ExampleModel]]


def results(messages: Messages) -> list[str]:
    """Of the turn that runs."""
    turn = max(place for place, message in enumerate(messages) if message["role"] == "user")
    return [message["content"] for message in messages[turn:] if message["role"] == "tool"]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """The command in a folder, and a model that makes this call in every turn and then answers with its result."""
    models: list[ExampleModel] = []

    def made(call: tuple[str, dict[str, Any]] = CALL, config: str = ASKS) -> tuple[Command, ExampleModel]:
        def say(messages: Messages) -> Said:
            if any(message["role"] == "tool" for message in messages[-2:]):  # also if a message came after it
                return "So: " + [one["content"] for one in messages if one["role"] == "tool"][-1]
            return [call]

        model = ExampleModel(say)
        models.append(model)
        command = Command(tmp_path, model.url)
        command.configure((command.home / "mainstay.yaml").read_text() + config)
        command.folder = tmp_path / "project"
        command.folder.mkdir(exist_ok=True)
        return command, model

    yield made
    for model in models:
        model.close()


def waiting(mainstay: Command) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = mainstay.json("approvals", "list")["approvals"]
    return found


def asked(mainstay: Command) -> str:
    done = mainstay("run", "write it")
    assert done.returncode == 5, done.stderr
    [one] = waiting(mainstay)
    return str(one["asked"]["id"])


# --- mainstay run, mainstay approval ------------------------------------------------------------


def test_a_run_that_needs_approval_ends_with_5_and_says_how_to_answer(project: Project) -> None:
    mainstay, _ = project()
    done = mainstay("run", "write it")
    assert done.returncode == 5
    assert done.stdout == ""
    [one] = waiting(mainstay)
    id = one["asked"]["id"]
    assert f"write needs approval ({id}): A rule says to ask: write." in done.stderr
    assert "  path: out.txt\n" in done.stderr
    assert f"`mainstay approval approve {id}` approves the call, `mainstay approval deny {id}` denies it" in done.stderr
    assert f"`mainstay approval approve {id} --always` always allows calls like this: " in done.stderr
    assert "y approves, n denies" not in done.stderr, "nobody can type it here"
    listed = mainstay("session", "list").stdout
    assert f"active, waiting for approval ({id})" in listed
    assert "unfinished" not in listed
    assert not (mainstay.folder / "out.txt").exists()
    listed = mainstay("approvals", "list").stdout
    assert listed.startswith(f"{id}  {one['session']}  until ")
    assert "  path: out.txt" in listed
    approved = mainstay("approvals", "approve", id[:4])
    assert approved.returncode == 0, approved.stderr
    assert approved.stdout.startswith("So: Made out.txt")
    assert (mainstay.folder / "out.txt").read_text() == "made\n"
    assert waiting(mainstay) == []
    assert "no approvals are pending" in mainstay("approvals", "list").stderr


def test_an_answer_that_meets_the_next_question_shows_it_whole(project: Project) -> None:
    mainstay, model = project()

    def say(messages: Messages) -> Said:
        done = len(results(messages))
        return "Enough." if done == 3 else [("write", {"path": f"{done}.txt", "content": f"line\n{done}"})]

    model.say = say
    first = asked(mainstay)
    done = mainstay("approvals", "approve", first)
    assert (done.returncode, done.stdout) == (5, "")
    [one] = waiting(mainstay)
    second = one["asked"]["id"]
    assert second != first
    assert f"write needs approval ({second}): A rule says to ask: write." in done.stderr
    assert "  path: 1.txt\n  content: line\n         │ 1\n" in done.stderr
    assert f"  in {mainstay.folder}\n" in done.stderr
    assert f"`mainstay approval approve {second}` approves the call" in done.stderr
    done = mainstay("approvals", "deny", second, "--json")
    said = json.loads(done.stdout)
    [one] = waiting(mainstay)
    assert (done.returncode, said["outcome"], said["approval"]) == (5, "Paused", one["asked"]["id"])
    done = mainstay("approvals", "deny", one["asked"]["id"])
    assert (done.returncode, done.stdout.strip(), waiting(mainstay)) == (0, "Enough.", [])


def test_a_run_in_json_says_that_it_waits(project: Project) -> None:
    mainstay, _ = project()
    done = mainstay("run", "write it", "--json")
    said = json.loads(done.stdout)
    assert (done.returncode, said["ok"], said["outcome"]) == (5, False, "Paused")
    [one] = waiting(mainstay)
    assert one["asked"]["id"] == said["approval"]
    answered = mainstay("approvals", "approve", one["asked"]["id"], "--json")
    said = json.loads(answered.stdout)
    assert (answered.returncode, said["ok"], said["outcome"]) == (0, True, "Answered")
    assert said["session"] == one["session"]
    assert said["text"].startswith("So: Made out.txt")


def test_a_denial_tells_the_model_why(project: Project) -> None:
    mainstay, _ = project()
    done = mainstay("approvals", "deny", asked(mainstay), "not", "on a Sunday")
    assert done.returncode == 0
    assert "the user denied it" in done.stdout
    assert "not on a Sunday" in done.stdout
    assert not (mainstay.folder / "out.txt").exists()


def test_other_arguments_run_instead(project: Project) -> None:
    mainstay, _ = project()
    id = asked(mainstay)
    wrong = mainstay("approvals", "approve", id, "--input", "{nonsense")
    assert wrong.returncode == 1
    assert "not JSON" in wrong.stderr
    assert len(waiting(mainstay)) == 1, "the question stays open"
    both = mainstay("approvals", "approve", id, "--always", "--input", "{}")
    assert both.returncode == 1
    assert "approved once" in both.stderr
    done = mainstay("approvals", "approve", id, "--input", '{"path": "other.txt", "content": "yours"}')
    assert done.returncode == 0
    assert (mainstay.folder / "other.txt").read_text() == "yours"
    assert not (mainstay.folder / "out.txt").exists()


def test_always_is_a_rule_that_can_be_seen_and_revoked(project: Project) -> None:
    mainstay, _ = project()
    id = asked(mainstay)
    [one] = waiting(mainstay)
    assert mainstay("approvals", "approve", id, "--always").returncode == 0
    [rule] = mainstay.json("approvals", "rules")["rules"]
    assert rule == one["asked"]["always"]
    assert mainstay("approvals", "rules").stdout == f"{rule}\n"
    assert mainstay("run", "again").returncode == 0, "it is not asked about any more"
    assert mainstay("approvals", "revoke", rule).returncode == 0
    entries = mainstay.json("audit", "show", "--kind", "grant.revoked")["entries"]
    assert [entry["what"] for entry in entries] == [rule], "the audit log has it, also without a running server"
    assert mainstay.json("approvals", "rules")["rules"] == []
    assert "no calls are always allowed" in mainstay("approvals", "rules").stderr
    assert mainstay("run", "and again").returncode == 5
    gone = mainstay("approvals", "revoke", rule)
    assert (gone.returncode, "there is no such rule" in gone.stderr) == (1, True)


def test_an_approval_that_is_unknown_or_was_answered_is_one_sentence(project: Project) -> None:
    """U23, F38: a yes is used up."""
    mainstay, _ = project()
    id = asked(mainstay)
    assert mainstay("approvals", "deny", id).returncode == 0
    for verb, given in (("approve", id), ("deny", "nonsense"), ("approve", "")):
        done = mainstay("approvals", verb, given)
        assert done.returncode == 1
        assert "is pending; it was answered, or it expired" in done.stderr
        assert "Traceback" not in done.stderr
    done = mainstay("approvals", "approve", id, "--json")
    assert (done.returncode, json.loads(done.stdout)["error"]["type"]) == (1, "ApprovalUnknown")
    assert not (mainstay.folder / "out.txt").exists()


def test_the_beginning_of_an_id_must_be_enough_to_tell_it_from_others(project: Project) -> None:
    mainstay, _ = project()
    seen: dict[str, str] = {}
    while True:  # until two ids begin alike: at the latest with the seventeenth
        new = json.loads(mainstay("run", "write it", "--json").stdout)["approval"]
        if new[0] in seen:
            break
        seen[new[0]] = new
        assert len(seen) <= 16
    done = mainstay("approvals", "approve", new[0])
    assert done.returncode == 1
    assert "more than one approval begins with" in done.stderr
    assert {one["asked"]["id"] for one in waiting(mainstay)} == {*seen.values(), new}


def test_u23_an_approval_from_another_folder_runs_the_call_where_it_was_asked_about(project: Project) -> None:
    """F38: the call that was shown, in the place where it was shown."""
    mainstay, _ = project()
    id = asked(mainstay)
    home, mainstay.folder = mainstay.folder, mainstay.folder.parent / "elsewhere"
    mainstay.folder.mkdir()
    assert f"  in {home}\n" in mainstay("approvals", "list").stdout
    assert mainstay("approvals", "approve", id).returncode == 0
    assert (home / "out.txt").read_text() == "made\n"
    assert list(mainstay.folder.iterdir()) == []


def test_f38_a_chat_that_goes_on_in_another_folder_does_not_run_there_what_was_asked_about_here(
    project: Project,
) -> None:
    mainstay, _ = project()
    assert talk(mainstay).returncode == 0
    home, mainstay.folder = mainstay.folder, mainstay.folder.parent / "elsewhere"
    mainstay.folder.mkdir()
    done = mainstay("chat", stdin="y\n")
    assert f"  in {home}\n" in done.stderr
    assert "So: Made out.txt" in done.stdout
    assert (home / "out.txt").read_text() == "made\n"
    assert list(mainstay.folder.iterdir()) == []


def test_f38_the_whole_call_is_shown_with_nothing_hidden(project: Project) -> None:
    """F37, F38: long, broken into lines, turned around, with escapes: all of it is there, and nothing is obeyed."""
    content = "safe\n" + "\n" * 80 + "x" * 5000 + "\x1b[2J\x1b]52;c;aGk=\x07\u202etxt.exe\u200b\rrm -rf /\nTHE END"
    mainstay, _ = project(("write", {"path": "a\x1b[8mhidden", "content": content}))
    done = mainstay("run", "write it")
    assert done.returncode == 5
    for shown in (done.stderr, mainstay("approvals", "list").stdout):
        assert "x" * 5000 in shown
        assert "\\x1b[2J\\x1b]52;c;aGk=\\x07\\u202etxt.exe\\u200b\\rrm -rf /" in shown
        assert "a\\x1b[8mhidden" in shown
        assert "THE END" in shown
        assert not {"\x1b", "\x07", "\r", "\u202e", "\u200b"} & set(shown)
        assert shown.count("│") == 82, "a line break is seen to be one"
    raw = mainstay("approvals", "list", "--json").stdout
    assert not {"\x1b", "\x07", "\u202e"} & set(raw)


# --- a chat in a pipe ----------------------------------------------------------------------------


def talk(mainstay: Command, *lines: str) -> subprocess.CompletedProcess[str]:
    return mainstay("chat", "--new", stdin="".join(f"{line}\n" for line in ("write it", *lines)))


@pytest.mark.parametrize("word", ["y", "YES", "/approve"])
def test_chat_yes_lets_it_run(project: Project, word: str) -> None:
    mainstay, _ = project()
    done = talk(mainstay, word)
    assert done.returncode == 0
    assert "y approves, n denies, a always allows calls like this" in done.stderr
    assert "So: Made out.txt: 1 line, 5 bytes." in done.stdout
    assert (mainstay.folder / "out.txt").read_text() == "made\n"


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("n", "the user denied it"),
        ("/deny too early", "with this reason: too early"),
        ("rather tell me what it is for", "with this reason: rather tell me what it is for"),
        ("y please", "with this reason: y please"),
    ],
)
def test_chat_any_other_answer_denies(project: Project, word: str, told: str) -> None:
    mainstay, _ = project()
    done = talk(mainstay, word)
    assert done.returncode == 0, done.stderr
    assert told in done.stdout
    assert not (mainstay.folder / "out.txt").exists()


@pytest.mark.parametrize("word", ["a", "/approve always"])
def test_chat_always_is_asked_once(project: Project, word: str) -> None:
    mainstay, _ = project()
    done = talk(mainstay, word, "again")
    assert done.stdout.count("So: ") == 2
    assert done.stderr.count("write needs approval") == 1
    assert len(mainstay.json("approvals", "rules")["rules"]) == 1


def test_chat_other_arguments_run_instead(project: Project) -> None:
    mainstay, _ = project()
    done = talk(mainstay, "/approve {", '/approve {"path": "b.txt", "content": "b"}', "/approve")
    assert "not JSON" in done.stderr
    assert "no tool call is waiting for approval" in done.stdout
    assert '● write(path="b.txt", content="b")' in done.stderr, "the call that ran"
    assert '● write(path="out.txt"' not in done.stderr
    assert (mainstay.folder / "b.txt").read_text() == "b"
    assert not (mainstay.folder / "out.txt").exists()


def test_a_chat_left_during_an_approval_is_continued_by_the_next(project: Project) -> None:
    mainstay, _ = project()
    assert talk(mainstay).returncode == 0
    assert len(waiting(mainstay)) == 1
    done = mainstay("chat", stdin="y\n")
    assert "write needs approval" in done.stderr, "it is asked again, word for word"
    assert "So: Made out.txt" in done.stdout


def test_status_says_what_is_waited_for(project: Project) -> None:
    mainstay, _ = project()
    done = talk(mainstay, "/status", "/sessions", "y", "/status")
    id = re.search(r"write needs approval \((\w+)\)", done.stderr)
    assert id is not None
    assert done.stdout.count(f"waiting for approval ({id[1]})") == 2
    assert ", idle" in done.stdout.partition("So: ")[2]


def test_stop_ends_a_turn_that_waits(project: Project) -> None:
    mainstay, _ = project()
    done = talk(mainstay, "/stop", "/approve")
    assert "no tool call is waiting for approval" in done.stdout
    assert not (mainstay.folder / "out.txt").exists()
    assert waiting(mainstay) == []


# --- another process owns the home ----------------------------------------------------------------


def until(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 120
    while not (what := found()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)
    return what


def test_a_call_of_a_chat_that_goes_on_is_answered_from_another_command(project: Project) -> None:
    mainstay, _ = project()
    chat = subprocess.Popen(
        mainstay.argv("chat", "--session", "s"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=mainstay.env,
        cwd=mainstay.folder,
    )
    try:
        assert chat.stdin is not None
        chat.stdin.write("write it\n")
        chat.stdin.flush()
        until(lambda: (mainstay.home / "workspaces").exists())
        [one] = until(lambda: waiting(mainstay))
        assert one["session"] == "s"
        done = mainstay("approvals", "approve", one["asked"]["id"], "--always")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("So: Made out.txt")
        [rule] = mainstay.json("approvals", "rules")["rules"]
        assert mainstay("approvals", "revoke", rule).returncode == 0
        chat.stdin.write("and again\n")
        chat.stdin.flush()
        [two] = until(lambda: waiting(mainstay))  # the owner has heard that the rule is gone
        gone = mainstay("approvals", "deny", one["asked"]["id"])
        assert (gone.returncode, "is pending; it was answered, or it expired" in gone.stderr) == (1, True)
        assert "for now" in mainstay("approvals", "deny", two["asked"]["id"], "not", "for", "now").stdout
        out, err = chat.communicate(timeout=120)
        assert out.count("So: ") == 2, "the chat shows what became of it"
        assert "Traceback" not in err
    finally:
        chat.kill()
        chat.wait()


class Talking:
    """A chat in a pipe whose other end is held, so that things can happen meanwhile."""

    def __init__(self, mainstay: Command) -> None:
        self._mainstay = mainstay
        self.process = subprocess.Popen(
            mainstay.argv("chat", "--session", "s"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=mainstay.env,
            cwd=mainstay.folder,
        )

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def question(self) -> str:
        until(lambda: (self._mainstay.home / "workspaces").exists())
        return str(until(lambda: waiting(self._mainstay))[0]["asked"]["id"])


@pytest.fixture
def talking(project: Project) -> Iterator[tuple[Command, ExampleModel, Talking]]:
    mainstay, model = project()
    chat = Talking(mainstay)
    yield mainstay, model, chat
    chat.process.kill()
    chat.process.communicate()


@pytest.mark.parametrize("word", ["y", "No", "a"])
def test_f38_a_late_answer_to_an_approval_answered_by_another_command_is_not_a_prompt(
    talking: tuple[Command, ExampleModel, Talking], word: str
) -> None:
    mainstay, model, chat = talking
    chat.write("write it")
    assert mainstay("approvals", "approve", chat.question()).returncode == 0
    asked_before = len(model.asked)
    out, err = chat.process.communicate(f"{word}\n", timeout=120)
    assert "no approval is pending" in err
    assert out.count("So: ") == 1
    assert len(model.asked) == asked_before


def test_text_after_an_answered_approval_is_a_prompt_again(project: Project) -> None:
    """The model may ask things too."""
    mainstay, _ = project()
    done = talk(mainstay, "y", "n")
    assert "no approval is pending" not in done.stderr
    assert done.stderr.count("write needs approval") == 2


def test_an_interrupt_at_the_question_stops_the_turn_and_the_next_one_leaves(
    talking: tuple[Command, ExampleModel, Talking],
) -> None:
    mainstay, _, chat = talking
    chat.write("write it")
    chat.question()
    chat.process.send_signal(signal.SIGINT)
    until(lambda: not waiting(mainstay))
    assert chat.process.poll() is None, "the chat goes on"
    chat.process.send_signal(signal.SIGINT)
    assert chat.process.wait(timeout=120) == 0
    assert chat.process.stderr is not None
    assert "stopped\n" in chat.process.stderr.read()
    assert not (mainstay.folder / "out.txt").exists()


# --- on a terminal -------------------------------------------------------------------------------


def test_f37_f38_a_terminal_shows_the_whole_call_and_obeys_none_of_it(project: Project) -> None:
    content = "one\n" + "y" * 300 + "\x1b]0;owned\x07\x1b[2J\u202e\rlast words"
    mainstay, _ = project(("write", {"path": "out.txt", "content": content}))
    tty = Tty(mainstay)
    try:
        tty.expect("Ctrl-D exits")
        tty.expect(MARK)
        tty.send("write it\r")
        tty.expect("write needs approval")
        shown = tty.expect("last words")
        assert "y" * 300 in shown.replace("\n", "").replace(" ", "")
        assert "\\x1b]0;owned\\x07\\x1b[2J\\u202e\\r" in shown.replace("\n", "").replace(" ", "")
        assert b"\x1b]" not in tty.raw
        assert b"\x1b[2J" not in tty.raw
        assert "\u202e".encode() not in tty.raw
        tty.expect("y approves, n denies")
        tty.send("y\r")
        tty.expect("So: Made out.txt")
        assert (mainstay.folder / "out.txt").read_bytes().decode() == content
        tty.send("\x04")
        assert tty.leave() == 0
    finally:
        tty.close()


def test_an_interrupt_at_the_question_stops_the_turn_on_a_terminal_and_the_next_one_leaves(project: Project) -> None:
    mainstay, _ = project()
    tty = Tty(mainstay)
    try:
        tty.expect("Ctrl-D exits")
        tty.expect(MARK)
        tty.send("write it\r")
        tty.expect("y approves, n denies")
        tty.send(CTRL_C)
        tty.expect("stopped")
        assert waiting(mainstay) == []
        assert tty.process.poll() is None
        tty.send(CTRL_C)
        assert tty.leave() == 0
        assert not (mainstay.folder / "out.txt").exists()
    finally:
        tty.close()


def test_on_a_dumb_terminal_too_an_interrupt_at_the_question_stops_the_turn(project: Project) -> None:
    mainstay, _ = project()
    mainstay.env["TERM"] = "dumb"
    tty = Tty(mainstay)
    try:
        tty.expect(MARK)
        tty.send("write it\n")
        tty.expect("y approves, n denies")
        tty.expect(MARK)
        tty.send(CTRL_C)
        tty.expect("\nstopped\n" + MARK)
        assert waiting(mainstay) == []
        tty.send(CTRL_C)
        assert tty.leave() == 0
    finally:
        tty.close()


def test_coming_back_to_a_question_says_that_it_waits_and_a_no_shows_what_was_refused(project: Project) -> None:
    mainstay, _ = project()
    assert talk(mainstay).returncode == 0
    id = waiting(mainstay)[0]["asked"]["id"]
    tty = Tty(mainstay)
    try:
        tty.expect(f"the session is waiting for approval ({id})")
        tty.expect("y approves, n denies")
        tty.send("/status\r")
        tty.expect("2 messages, waiting for approval")
        tty.expect(f"({id})")
        tty.send("n\r")
        tty.expect('● write(path="out.txt", content="made\\n")')
        tty.expect("the user denied it")
        tty.expect("tokens in")
        assert "now continues" not in tty.screen
        tty.send(CTRL_D)
        assert tty.leave() == 0
    finally:
        tty.close()


def test_f38_on_a_terminal_too_a_late_answer_is_no_prompt(project: Project) -> None:
    mainstay, model = project()
    tty = Tty(mainstay)
    try:
        tty.expect("Ctrl-D exits")
        tty.send("write it\r")
        tty.expect("y approves, n denies")
        assert mainstay("approvals", "approve", waiting(mainstay)[0]["asked"]["id"]).returncode == 0
        tty.expect("tokens in")
        asked_before = len(model.asked)
        tty.send("y\r")
        tty.expect("no approval is pending")
        tty.send("go on\r")
        tty.expect("y approves, n denies")
        assert len(model.asked) == asked_before + 1
    finally:
        tty.close()


def test_an_answer_without_an_open_approval_is_refused_even_without_a_model(tmp_path: Path) -> None:
    mainstay = Command(tmp_path)
    done = mainstay("approvals", "approve", "nosuch")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no approval 'nosuch' is pending" in done.stderr
