"""The command's output about judged answers and spending, for people and as JSON."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli_support import COMMAND_S, Command, FakeModel

PANEL = "judges: {corrections: 1, panel: {kind: {function: 'rules.py:score'}}}\n"
SPENT = "budgets: {workspace: {day: {money: 0.000001}}}\n"
PRICE = "models: [{model: openai/fake, price_prompt: 1, price_completion: 1}]\n"


@pytest.fixture(scope="module")
def model() -> Iterator[FakeModel]:
    made = FakeModel()
    yield made
    made.close()


@pytest.fixture
def mainstay(tmp_path: Path, model: FakeModel) -> Command:
    return Command(tmp_path, model.url)


def add(mainstay: Command, text: str) -> None:
    with (mainstay.home / "mainstay.yaml").open("a") as file:
        file.write(text)


def judge(mainstay: Command, score: str) -> None:
    add(mainstay, PANEL)
    (mainstay.home / "rules.py").write_text(f"def score(exhibit):\n    return {score}\n")


def test_an_answer_that_did_not_pass_is_marked(mainstay: Command) -> None:
    judge(mainstay, "0.25, 'it is curt'")
    told = mainstay.json("run", "hello", "--session", "s")
    assert (told["ok"], told["outcome"], told["score"], told["passed"]) == (True, "Answered", 0.25, False)
    done = mainstay("run", "again", "--session", "t")
    assert done.returncode == 0
    assert done.stderr.splitlines()[-1] == "(score 0.25, too low: no attempt was better)"
    shown = mainstay("session", "show", "s").stdout.splitlines()
    assert shown[-2:] == ["— score 0.25, too low: no attempt was better", "  kind 0.25: it is curt"]
    assert "— score 0.25, too low: trying again (2 of 2)" in shown
    verdicts = mainstay.json("session", "show", "s")["verdicts"]
    assert [(one["score"], one["passed"], one.get("last", False)) for one in verdicts] == [
        (0.25, False, False),
        (0.25, False, True),
    ]


def test_a_judge_that_raises_does_not_count_as_a_failed_attempt(mainstay: Command) -> None:
    judge(mainstay, "1 / 0")
    done = mainstay("run", "hello")
    assert "no attempt was better" not in done.stderr
    assert "no more attempts; judge kind failed: it raised ZeroDivisionError" in done.stderr


def test_an_answer_without_judges_has_no_score(mainstay: Command) -> None:
    assert not {"score", "passed"} & set(mainstay.json("run", "hello"))


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("rules.py:score", ""),
        ("rules.py:scores", "there is no function 'scores' in rules.py"),
        ("gone.py:score", "there is no file 'gone.py' below the home "),
        ("../rules.py:score", "the judge's file '../rules.py' is not below the home"),
        ("broken.py:score", "broken.py is not Python: "),
        ("no_such_module:score", "there is no module 'no_such_module'"),
        ("json:loads", ""),
    ],
    ids=["there", "no function", "no file", "outside", "broken", "no module", "module"],
)
def test_a_configuration_check_looks_for_judges_and_runs_no_judge(mainstay: Command, function: str, said: str) -> None:
    add(mainstay, f"judges: {{panel: {{kind: {{function: '{function}'}}}}}}\n")
    (mainstay.home / "rules.py").write_text("open('was_run', 'w')\ndef score(exhibit):\n    return 1\n")
    (mainstay.home / "broken.py").write_text("def score(:\n")
    done = mainstay("config", "check")
    assert done.returncode == (1 if said else 0)
    assert done.stderr.startswith(f"mainstay: 'judges.panel.kind.function': {said}" if said else "")
    assert not list(mainstay.folder.rglob("was_run"))


@pytest.mark.parametrize(
    ("function", "verdict", "says"),
    [
        ("rules.py:score", "ok", "1 judge on the panel"),
        ("gone.py:score", "FAIL", "'judges.panel.kind.function': there is no file"),
    ],
)
def test_the_doctor_looks_at_judges(mainstay: Command, function: str, verdict: str, says: str) -> None:
    add(mainstay, f"judges: {{panel: {{kind: {{function: '{function}'}}}}}}\n")
    (mainstay.home / "rules.py").write_text("def score(exhibit):\n    return 1\n")
    (found,) = [one for one in json.loads(mainstay("doctor", "--json").stdout)["checks"] if one["check"] == "Judges"]
    assert found["verdict"] == verdict
    assert found["says"].startswith(says)


def test_a_number_that_cannot_be_written_is_refused_in_a_true_sentence(mainstay: Command) -> None:
    before = (mainstay.home / "mainstay.yaml").read_text()
    done = mainstay("config", "set", "budgets.turn.money", "1e400")
    assert done.returncode == 1
    assert done.stderr == "mainstay: mainstay.yaml was left unchanged: 'budgets.turn.money' must be a finite number\n"
    assert (mainstay.home / "mainstay.yaml").read_text() == before


def test_a_budget_refusal_is_printed_once_without_a_price_warning(mainstay: Command) -> None:
    add(mainstay, SPENT + PRICE)
    done = mainstay("run", "hello")
    assert done.returncode == 3
    assert done.stdout.startswith("I had to stop: the workspace's budget of $0.000001")
    assert done.stderr == "stopped at a limit: workspace.day.money\n"
    chat = mainstay("chat", "--new", stdin="hello\n/usage\n")
    assert (chat.stdout + chat.stderr).count("too small for a call") == 1
    assert "1 turn: 0 tokens in, 0 out\n" in chat.stdout
    assert "price unknown" not in chat.stdout


def test_budgets_of_an_unknown_workspace_are_an_error(mainstay: Command) -> None:
    done = mainstay("budget", "show", "--workspace", "nope")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "mainstay: there is no workspace 'nope'; workspaces: default\n"


def test_budgets_fit_a_narrow_terminal(mainstay: Command) -> None:
    add(mainstay, SPENT)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    env = {**mainstay.env, "LC_ALL": "C", "NO_COLOR": "1"}
    subprocess.run(
        mainstay.argv("budget", "show"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=env,
        timeout=COMMAND_S,
        check=True,
    )
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    lines = shown.replace("\r", "").splitlines()
    assert "workspace.day.money" in lines
    assert any(line.startswith("  limit   $0.000001") for line in lines)
    assert shown.isascii()
    assert max(map(len, lines)) <= 40
