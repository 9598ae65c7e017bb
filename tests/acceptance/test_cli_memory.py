"""`mainstay memory …` as people run it: on a home of its own, and beside the process that owns the home."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.cli_support import Command, FakeModel

TRIP = [
    {"role": "user", "content": "We rented the flat in Lisbon, Rua das Flores 7."},
    {"role": "assistant", "content": "Noted: the flat in Lisbon. Shall I look for trains?"},
    {"role": "user", "content": "No, we fly. \x1b]0;owned\x07"},
]
WORDS = "storage: {vector: {backend: none}}\n"


@pytest.fixture(scope="module")
def model() -> Iterator[FakeModel]:
    made = FakeModel()
    yield made
    made.close()


@pytest.fixture
def mainstay(tmp_path: Path) -> Command:
    """No model is configured, and none is needed to look something up. By words: meaning always finds something."""
    made = Command(tmp_path)
    made.configure(WORDS)
    done = made("session", "import", "-", "--session", "trip", stdin=json.dumps(TRIP))
    assert done.returncode == 0, done.stderr
    return made


def on_a_terminal(command: Command, *arguments: str, typed: str = "") -> tuple[int, str]:
    """The command with a terminal of its own; what it printed there."""
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        command.argv(*arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=command.env, cwd=command.folder
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # the other side has closed it
        pass
    os.close(ours)
    return running.wait(120), shown.decode()


# --- looking -------------------------------------------------------------------------------------


def test_a_search_prints_where_when_and_who(mainstay: Command) -> None:
    done = mainstay("memory", "search", "rented", "flat")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].endswith("  trip#1  user")
    assert lines[1] == "  We rented the flat in Lisbon, Rua das Flores 7."
    assert "\x1b" not in done.stdout


def test_a_search_with_json_is_one_document(mainstay: Command) -> None:
    told = mainstay.json("memory", "search", "rented flat", "-k", "1")
    assert told["ok"] is True
    (hit,) = told["hits"]
    assert (hit["message_id"], hit["session"], hit["speaker"]) == ("trip#1", "trip", "user")
    assert hit["score"] > 0
    assert isinstance(told["note"], str)


def test_the_plural_is_the_same_noun(mainstay: Command) -> None:
    assert mainstay.json("memories", "search", "Lisbon")["hits"]


def test_a_search_can_be_narrowed(mainstay: Command) -> None:
    def found(*more: str) -> set[str]:
        return {hit["message_id"] for hit in mainstay.json("memory", "search", "flat", *more)["hits"]}

    assert "trip#1" in found()
    assert "trip#1" not in found("--speaker", "assistant")
    assert found("--session", "elsewhere") == set()
    assert found("--to", "2020-01-01") == set()
    assert "trip#1" in found("--from", "7d", "--to", "today")


def test_without_vectors_it_says_that_search_was_by_words(mainstay: Command) -> None:
    assert "only full-text search" in mainstay("memory", "search", "flat").stdout
    assert "only full-text search" in mainstay.json("memory", "status")["status"]["note"]


def test_with_vectors_meaning_finds_what_words_do_not(mainstay: Command) -> None:
    if find_spec("wordllama") is None or find_spec("sqlite_vec") is None:
        pytest.skip("the extra `memory` is not installed")
    mainstay.configure("")
    told = mainstay.json("memory", "search", "apartment", "--semantic", "-k", "1")
    assert told["note"] == ""
    assert "flat" in told["hits"][0]["text"]
    assert mainstay.json("memory", "status")["status"]["vectors"] == 3


def test_the_words_that_were_asked_for_stand_out_on_a_terminal(mainstay: Command) -> None:
    code, shown = on_a_terminal(mainstay, "memory", "search", "renting", "a", "flat")
    assert code == 0
    assert "We \x1b[1;33mrented\x1b[0m the \x1b[1;33mflat\x1b[0m in Lisbon" in shown
    mainstay.env["NO_COLOR"] = "1"
    assert "\x1b" not in on_a_terminal(mainstay, "memory", "search", "flat")[1]


def test_untrusted_text_cannot_command_the_terminal(mainstay: Command) -> None:
    for arguments in (("search", "fly"), ("get", "trip#3")):
        done = mainstay("memory", *arguments)
        assert "we fly" in done.stdout
        assert "\x1b]0" not in done.stdout
        assert "\x07" not in done.stdout


def test_get_prints_a_message_whole(mainstay: Command) -> None:
    text = "\n".join(f"line {number}" for number in range(5_000))
    mainstay("session", "import", "-", "--session", "long", stdin=json.dumps([{"role": "user", "content": text}]))
    assert mainstay("memory", "get", "long#1").stdout.splitlines()[1:] == [f"  {one}" for one in text.splitlines()]
    told = mainstay.json("memory", "get", "long#1")["item"]
    assert (told["text"], told["kind"], told["session"]) == (text, "message", "long")


def test_a_broken_configuration_sends_nothing_to_the_wrong_workspace(mainstay: Command) -> None:
    mainstay.configure("workspace: work\n")
    assert mainstay("memory", "remember", "the zebra is at work").returncode == 0
    mainstay.configure("workspace: work\ncontext: {windo: 4}\n")
    for verb in (("memory", "list"), ("memory", "remember", "astray"), ("session", "list")):
        refused = mainstay(*verb)
        assert refused.returncode != 0, verb
        assert "windo" in refused.stderr
    mainstay.configure("workspace: work\n")
    listed = mainstay("memory", "list").stdout
    assert "zebra" in listed
    assert "astray" not in listed + mainstay("memory", "list", "--workspace", "default").stdout


def test_empty_results_are_reported(mainstay: Command) -> None:
    assert mainstay("memory", "search", "unicorns").stdout.startswith("nothing was found\n")
    assert mainstay("memory", "recall", "unicorns").stdout == "no facts or memories about that\n"
    assert "no summaries" in mainstay("memory", "summary", "--from", "2026-11-01").stdout
    assert "there are no memories" in mainstay("memory", "list").stdout
    assert "no facts" in mainstay("memory", "list", "--facts").stdout


def test_the_status_says_how_much_there_is(mainstay: Command) -> None:
    assert mainstay.json("memory", "status")["status"]["messages"] == 3
    assert "messages   3\n" in mainstay("memory", "status").stdout


# --- keeping and forgetting ----------------------------------------------------------------------


def test_memories_are_listed_recalled_pinned_and_forgotten(mainstay: Command) -> None:
    kept = mainstay.json("memory", "remember", "Ana takes tea", "without milk", "--tag", "taste", "--tag", "ana")
    id = kept["memory"]["id"]
    assert kept["memory"]["tags"] == ["taste", "ana"]
    assert "Ana takes tea without milk" in mainstay("memory", "recall", "tea").stdout
    assert mainstay("memory", "pin", id).stdout == f"{id} is pinned\n"
    assert [one["id"] for one in mainstay.json("memory", "list", "--pinned")["memories"]] == [id]
    assert "taste ana" in mainstay("memory", "list", "--tag", "taste").stdout
    assert mainstay.json("memory", "list", "--tag", "other")["memories"] == []
    mainstay("memory", "unpin", id)
    assert mainstay.json("memory", "list", "--pinned")["memories"] == []
    assert mainstay("memory", "forget", id, "--yes").stdout == f"memory {id} was deleted\n"
    assert mainstay.json("memory", "list")["memories"] == []


def test_a_forgotten_message_is_not_found_and_is_in_no_file(mainstay: Command) -> None:
    gone = mainstay.json("memory", "forget", "trip#1", "--yes")["forgotten"]
    assert gone == [{"id": "trip#1", "kind": "message", "copies": []}]
    assert "Flores" not in mainstay("memory", "search", "rented flat").stdout
    assert "Flores" not in mainstay("session", "show", "trip").stdout
    kept = [path.read_bytes() for path in mainstay.home.rglob("*") if path.is_file()]
    assert not any(b"Flores" in one for one in kept)


def test_forgetting_asks_first_and_refuses_without_a_terminal(mainstay: Command) -> None:
    done = mainstay("memory", "forget", "trip#1")
    assert done.returncode == 2
    assert "add --yes" in done.stderr
    code, shown = on_a_terminal(mainstay, "memory", "forget", "trip#1", typed="n\n")
    assert code == 0
    assert "message trip#1: We rented" in shown
    assert "nothing was deleted" in shown
    assert mainstay.json("memory", "search", "Flores")["hits"]
    assert "was deleted" in on_a_terminal(mainstay, "memory", "forget", "trip#1", typed="y\n")[1]
    assert "Flores" not in mainstay("memory", "search", "Flores").stdout


def test_one_unknown_id_among_several_forgets_nothing(mainstay: Command) -> None:
    done = mainstay("memory", "forget", "trip#1", "trip#99", "--yes")
    assert done.returncode == 1
    assert "nothing has the id 'trip#99'" in done.stderr
    assert mainstay("memory", "get", "trip#1").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["get", "nobody#1"], 1, "nothing has the id 'nobody#1'"),
        (["pin", "m1"], 1, "there is no memory 'm1'"),
        (["remember", " "], 1, "nothing to remember"),
        (["search", "x", "--from", "whenever"], 1, "is not a time"),
        (["search", "x", "-k", "0"], 2, "is not a whole number above 0"),
        (["search"], 2, "required: QUERY"),
        (["forget", "--yes"], 2, "give the ids to delete"),
        (["forget", "trip#1", "--origin", "untrusted", "--yes"], 2, "give the ids to delete"),
        (["forget", "--origin", " ", "--yes"], 1, "name the origin"),
        (["serach", "x"], 2, "did you mean 'search'?"),
        (["search", "x", "--workspace", "../other"], 1, "must be 1 to 64 characters"),
    ],
)
def test_bad_input_is_one_sentence(mainstay: Command, arguments: list[str], code: int, sentence: str) -> None:
    done = mainstay("memory", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("query", ['"', "a NEAR b", "text:x", "') OR 1=1 --", "*", "\x01\x02", "x" * 100_000])
def test_a_hostile_query_finds_something_or_nothing(mainstay: Command, query: str) -> None:
    done = mainstay("memory", "search", "--", query)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_f41_another_workspace_cannot_be_seen(mainstay: Command) -> None:
    there = ["--workspace", "other"]
    mainstay("memory", "remember", "a canary of ours")
    assert mainstay.json("memory", "search", "flat Lisbon canary", *there)["hits"] == []
    assert mainstay.json("memory", "list", *there)["memories"] == []
    assert mainstay.json("session", "list", *there)["sessions"] == []
    assert mainstay("memory", "get", "trip#1", *there).returncode == 1
    kept = mainstay.json("memory", "remember", "a canary of theirs", *there)["memory"]["id"]
    assert mainstay("memory", "get", kept).returncode == 1
    assert mainstay("memory", "forget", kept, "--yes").returncode == 1
    assert [one["id"] for one in mainstay.json("memory", "list", *there)["memories"]] == [kept]


# --- beside the owner ----------------------------------------------------------------------------


def test_memory_works_through_the_socket_of_a_running_turn(tmp_path: Path, model: FakeModel) -> None:
    mainstay = Command(tmp_path, model.url)
    mainstay("session", "import", "-", "--session", "trip", stdin=json.dumps(TRIP))
    running = mainstay.start("run", "slow", "--session", "busy")
    model.wait_for_prompt("slow")
    assert mainstay.json("memory", "search", "rented flat")["hits"][0]["message_id"] == "trip#1"
    id = mainstay.json("memory", "remember", "Ana takes tea", "--pin")["memory"]["id"]
    assert [one["id"] for one in mainstay.json("memory", "list", "--pinned")["memories"]] == [id]
    refused = mainstay("memory", "search", "flat", "--workspace", "other")
    assert refused.returncode == 1
    assert "works in the workspace 'default', not in 'other'" in refused.stderr
    assert mainstay("memory", "get", "nobody#1").stderr.startswith("mainstay: nothing has the id")
    assert running.poll() is None, "all of this took place beside the turn"
    assert mainstay("session", "show", "busy").returncode == 0
    running.kill()
    running.communicate(timeout=120)


def test_the_context_of_a_session_is_shown_section_by_section(tmp_path: Path, model: FakeModel) -> None:
    mainstay = Command(tmp_path, model.url)
    mainstay("run", "hello there", "--session", "s")
    told = mainstay.json("session", "show", "s", "--context")
    names = [section["name"] for section in told["context"]["sections"]]
    assert names == ["fixed", "tools", "profile", "summary", "recent"]
    assert "hello there" in told["context"]["sections"][-1]["text"]
    shown = mainstay("session", "show", "s", "--context").stdout
    assert "hello there" in shown
    assert "recent" in shown


def test_a_chat_shows_its_context_and_stores_a_profile(tmp_path: Path, model: FakeModel) -> None:
    mainstay = Command(tmp_path, model.url)
    typed = (
        'hello\n/context\n/compact\n/profile name=Ana goal="learn Portuguese"\n/profile nonsense\nhello again\n/quit\n'
    )
    done = mainstay("chat", stdin=typed)
    assert done.returncode == 0, done.stderr
    assert "\n  ░ recent " in done.stdout
    assert "nothing is old enough" in done.stdout
    assert "goal  learn Portuguese\nname  Ana\n" in done.stdout
    assert "usage: /profile name=Ana" in done.stdout
    assert "learn Portuguese" in json.dumps(model.requests[-1]["messages"])
