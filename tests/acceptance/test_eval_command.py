"""`mainstay eval` as a team runs it: the real command, models on loopback, baselines, reports, and misuse."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest
from support.cli_support import Command
from support.example_model import ExampleModel, Messages, Said

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "eval" / "cases.yaml"
WAIT_S = 120.0


def say(messages: Messages) -> Said:
    """A polite model, and a judge who likes thanks."""
    system, said = messages[0]["content"] or "", messages[-1]["content"] or ""
    if "You judge one answer" in system:
        return json.dumps({"score": 0.9 if "Thank you" in said else 0.3, "reason": "It is about thanks."})
    if "slow" in said:
        return "word " * 2_000
    return "Thank you, it is blue." if "sea" in said else "Hm."


@pytest.fixture
def model() -> Iterator[ExampleModel]:
    made = ExampleModel(say)
    yield made
    made.close()


@pytest.fixture
def mainstay(tmp_path: Path) -> Command:
    made = Command(tmp_path)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    made.env["TMPDIR"] = str(temporary)
    return made


def with_model(mainstay: Command, model: ExampleModel, more: str = "") -> None:
    price = "models:\n  - {model: openai/fake, price_prompt: 1000, price_completion: 0}\n"
    mainstay.configure(f"providers:\n  openai: {{base_url: {model.url}, api_key: '${{KEY}}'}}\n{price}{more}")
    mainstay.env["KEY"] = "sk-test"


def written(mainstay: Command, text: str, name: str = "cases.yaml") -> str:
    (mainstay.folder / name).write_text(text)
    return name


def scripted(*answers: str) -> str:
    case = "  - {{name: case {}, prompt: x, script: [{}], checks: {{contains: fine}}}}\n"
    return "cases:\n" + "".join(case.format(number, one) for number, one in enumerate(answers))


def test_the_example_passes_and_leaves_nothing_behind(mainstay: Command) -> None:
    done = mainstay("eval", str(EXAMPLE))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["CASE", "RESULT", "SCORE", "TOKENS", "COST", "TIME"]
    assert [line.split("  ")[0] for line in lines[1:5]] == [
        "it greets people",
        "it looks before it answers",
        "it answers in JSON",
        "it remembers what was said",
    ]
    assert lines[-1].startswith("4 cases: 4 passed · score 1.00 · 90 tokens · ")
    assert len(done.stderr.splitlines()) == 4, "in a pipe, a line a case tells how it goes"
    assert not mainstay.home.exists(), "nothing was kept"
    assert list((mainstay.folder / "tmp").iterdir()) == []


def test_a_team_records_a_baseline_and_is_told_about_regressions(mainstay: Command) -> None:
    cases = written(mainstay, scripted("all is fine", "not so good", "fine"))
    first = mainstay("eval", cases)
    assert first.returncode == 1, "without a baseline, what fails fails"
    assert "failed case 1\n  contains 'fine': the answer is 'not so good'\n" in first.stdout

    kept = mainstay("eval", cases, "--save-baseline")
    assert (kept.returncode, "baseline saved in cases.baseline.json" in kept.stderr) == (0, True)
    same = mainstay("eval", cases)
    assert same.returncode == 0
    assert "failed case 1 (as before)" in same.stdout
    assert "nothing is worse than cases.baseline.json; 1 case failed before too" in same.stdout
    assert mainstay("eval", cases, "--strict").returncode == 1

    written(mainstay, scripted("all is fine", "not so good", "bad", "fine"))
    worse = mainstay("eval", cases)
    assert worse.returncode == 1
    assert "worse than cases.baseline.json\n  case 2: it passed before\n" in worse.stdout
    assert "not in cases.baseline.json yet: case 3" in worse.stdout
    written(mainstay, scripted("all is fine", "fine now"))
    better = mainstay("eval", cases)
    assert better.returncode == 0
    assert "better than cases.baseline.json\n  case 1: it passes now\n" in better.stdout
    assert "in cases.baseline.json, but no longer a case: case 2" in better.stdout


def test_results_are_one_json_document_and_junit(mainstay: Command) -> None:
    cases = written(mainstay, scripted("fine", "bad"))
    done = mainstay("eval", cases, "--json", "--junit", "junit.xml", "--out", "report.json", "--jobs", "1")
    assert (done.returncode, done.stderr) == (1, "")
    document = json.loads(done.stdout)
    assert document == json.loads((mainstay.folder / "report.json").read_text())
    assert (document["ok"], document["passed"], document["failed"], document["model"]) == (False, 1, 1, "scripted")
    assert [one["result"] for one in document["results"]] == ["passed", "failed"]
    assert document["results"][1]["tries"][0]["answer"] == "bad"
    suite = xml.parse(mainstay.folder / "junit.xml").getroot()[0]
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("cases", "2", "1")
    assert suite[1].find("failure") is not None


def test_a_real_model_is_asked_and_judged_by_another(mainstay: Command, model: ExampleModel) -> None:
    with_model(mainstay, model)
    cases = written(
        mainstay,
        "judges: {thankful: {criteria: Does it say thanks?}}\n"
        "cases:\n"
        "  - {name: sea, prompt: What colour is the sea?, expected: blue}\n"
        "  - {name: land, prompt: And land?}\n",
    )
    document = json.loads(mainstay("eval", cases, "--json").stdout)
    assert [(one["result"], one["score"]) for one in document["results"]] == [("passed", 0.9), ("failed", 0.3)]
    assert document["results"][1]["reasons"] == ["thankful gave 0.30: It is about thanks."]
    assert document["model"] == "fake"
    assert (document["cost"], document["judging"]) == (pytest.approx(0.08), pytest.approx(0.08))
    assert len(model.asked) == 4
    spent = mainstay("eval", cases, "--money", "0.01", "--jobs", "1")
    assert spent.returncode == 1
    assert "the money limit is reached: 2 cases not run" in spent.stdout
    assert "skipped sea\n  not judged: the budget (--money) is spent\n" in spent.stdout
    assert len(model.asked) == 5, "one answer, and then nothing more"


JUDGES = "def said(exhibit):\n    return (1.0 if 'Thank' in exhibit.answer else 0.0), f'{exhibit.prompt} was asked'\n"


def test_recorded_sessions_are_judged_as_they_stand_replayed_and_asked_again(
    mainstay: Command, model: ExampleModel
) -> None:
    with_model(mainstay, model, "judges: {panel: {said: {function: 'judges.py:said'}}, corrections: 1}\n")
    (mainstay.home / "judges.py").write_text(JUDGES)
    mainstay.env["MAINSTAY__JUDGES__PANEL"] = "{}"
    assert mainstay("run", "--session", "talk", "the sea").returncode == 0
    assert mainstay("run", "--session", "talk", "the land").returncode == 0
    del mainstay.env["MAINSTAY__JUDGES__PANEL"]
    asked = len(model.asked)
    before = {path: path.stat().st_mtime_ns for path in mainstay.home.rglob("*") if path.is_file()}

    done = mainstay("eval", "--session", "talk")
    assert done.returncode == 1, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:3]] == [["talk#1", "passed"], ["talk#2", "failed"]]
    assert "  said gave 0.00: the land was asked" in done.stdout
    assert mainstay("eval", "--sessions", "--json").returncode == 1
    replayed = mainstay("eval", "--sessions", "--replay")
    assert replayed.returncode == 0, replayed.stdout
    assert len(model.asked) == asked, "no model was asked"
    case = written(mainstay, "cases:\n  - {name: sea, session: talk, checks: {contains: blue}}\n")
    assert mainstay("eval", case, "--replay").returncode == 1, "its last answer is about land"

    assert mainstay("eval", "--session", "talk", "--model", "openai/fake", "--case", "x").returncode == 2
    again = mainstay("eval", "--session", "talk", "--model", "openai/fake", "--json")
    assert [one["name"] for one in json.loads(again.stdout)["results"]] == ["talk"]
    assert len(model.asked) == asked + 2
    after = {path: path.stat().st_mtime_ns for path in mainstay.home.rglob("*") if path.is_file()}
    changed = {path.name for path in after if after[path] != before.get(path)}
    assert changed <= {f"{name}.db-{kind}" for name in ("gateway", "workspace") for kind in ("shm", "wal")}, (
        "it is only read"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give exactly one of: a file of cases, --session S, --sessions"),
        (["cases.yaml", "--sessions"], "give exactly one of"),
        (["nowhere.yaml"], "nowhere.yaml cannot be read: No such file or directory"),
        (["."], ". cannot be read: Is a directory"),
        (["bad.yaml"], "bad.yaml line 3: unknown key 'cases.0.promt'; did you mean 'cases.0.prompt'?"),
        (["cases.yaml", "--judge", "nobody"], "--judge names an unknown judge: 'nobody'"),
        (["cases.yaml", "--baseline", "nowhere.json"], "the baseline nowhere.json cannot be read"),
        (["cases.yaml", "--baseline", "bad.yaml"], "bad.yaml is not a baseline file"),
        (["cases.yaml", "--junit", "nowhere/junit.xml"], "nowhere/junit.xml cannot be written"),
        (["cases.yaml", "--tag", "nothing"], "no case in cases.yaml matches --case and --tag"),
        (["cases.yaml", "--replay", "--model", "openai/x"], "argument --model: not allowed with argument --replay"),
        (["plain.yaml", "--replay"], "--replay: the case 'a' has neither a 'session' nor a 'script' to repeat"),
        (["plain.yaml", "--model", "nonsense"], "'nonsense' does not name a model"),
        (["plain.yaml", "--script", "script.yaml"], "the script names the case 'other', which does not exist"),
        (["--session", "nobody"], "there is no session 'nobody'"),
        (["--sessions"], "there are no judges: configure `judges.panel`, or use --replay"),
        (["--sessions", "--replay", "--save-baseline"], "--save-baseline needs --baseline FILE"),
        (["cases.yaml", "--jobs", "65"], "argument --jobs: '65' is more than 64"),
        (["cases.yaml", "--money", "0"], "argument --money: '0' is not an amount above 0"),
    ],
    ids=range(19),
)
def test_bad_input_is_one_sentence_and_nothing_is_done(mainstay: Command, arguments: list[str], said: str) -> None:
    written(mainstay, scripted("fine"))
    written(mainstay, "cases:\n  - name: a\n    promt: x\n", "bad.yaml")
    written(mainstay, "cases:\n  - name: a\n    prompt: x\n", "plain.yaml")
    written(mainstay, "other: [x]\n", "script.yaml")
    before = sorted(mainstay.folder.rglob("*"))
    done = mainstay("eval", *arguments)
    assert done.returncode == 2
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert done.stderr.startswith(f"mainstay: {said}"), done.stderr
    assert sorted(mainstay.folder.rglob("*")) == before


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminated"])
def test_an_interrupted_eval_prints_its_results_and_leaves_no_home_of_a_case(
    mainstay: Command, model: ExampleModel, stop: signal.Signals
) -> None:
    with_model(mainstay, model)
    model.pause_s = 0.05
    slow = "  - {name: slow, prompt: be slow}\n  - {name: never begun, prompt: x, script: [fine]}\n"
    cases = written(mainstay, scripted("fine") + slow)
    process = mainstay.start("eval", cases, "--jobs", "1", "--save-baseline")
    assert process.stderr is not None
    assert process.stderr.readline() == "1/3 passed: case 0\n"
    deadline = WAIT_S
    while not model.asked and deadline > 0:
        deadline -= 0.05
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.05)
    process.send_signal(stop)
    out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130
    assert [line.split("  ")[0] for line in out.splitlines()[1:4]] == ["case 0", "slow", "never begun"]
    assert "interrupted: 2 cases not run" in out
    assert err == "cases.baseline.json was not changed, because not all cases ran\n"
    assert not (mainstay.folder / "cases.baseline.json").exists()
    assert list((mainstay.folder / "tmp").iterdir()) == []


def test_the_table_fits_a_narrow_terminal(mainstay: Command) -> None:
    name = "a case with a name that is a good deal longer than any terminal of sixty columns has room for"
    cases = written(mainstay, f"cases:\n  - {{name: {name}, prompt: x, script: [fine]}}\n")
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    process = subprocess.Popen(
        mainstay.argv("eval", cases),
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=subprocess.PIPE,
        env=mainstay.env,
        cwd=mainstay.folder,
    )
    os.close(slave)
    process.communicate(timeout=WAIT_S)
    shown = b""
    with open(master, "rb", buffering=0) as screen:
        try:
            while piece := screen.read(4096):
                shown += piece
        except OSError:  # the other end is closed
            pass
    row = next(line for line in shown.decode().splitlines() if line.startswith("a case"))
    assert len(row) <= 60
    assert row.split()[-2:] == [row.split()[-2], "ms"]
    assert "…" in row
    assert " passed " in row
