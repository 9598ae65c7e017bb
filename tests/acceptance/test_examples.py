"""Every file in examples/ is run as it is, in a process of its own, against a model on loopback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.example_model import ExampleModel, Messages, Said

from mainstay.sandbox.bubblewrap.sandbox import bubblewrap_problem

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
STORY = "There was a lighthouse on a rock in the sea, and nobody knew who lit it. " * 20


class Example:
    """Runs one file in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._models: list[ExampleModel] = []

    def __call__(self, name: str, say: Callable[[Messages], Said], pause_s: float = 0.0) -> str:
        model = ExampleModel(say, pause_s)
        self._models.append(model)
        env = {"PATH": os.environ.get("PATH", ""), "HOME": str(self.folder), "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(
            [sys.executable, "-W", "error", str(ROOT / "examples" / name)],
            env={**env, **model.environment()},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    @property
    def asked(self) -> list[Messages]:
        return self._models[-1].asked

    def close(self) -> None:
        for model in self._models:
            model.close()


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Example]:
    made = Example(tmp_path)
    yield made
    made.close()


def last(messages: Messages) -> tuple[str, str]:
    return messages[-1]["role"], messages[-1]["content"] or ""


def results(messages: Messages) -> list[str]:
    """Of the turn that runs."""
    turn = max(place for place, message in enumerate(messages) if message["role"] == "user")
    return [message["content"] for message in messages[turn:] if message["role"] == "tool"]


# --- what the models say ---------------------------------------------------------------------------


def names(messages: Messages) -> Said:
    said = " ".join(message["content"] for message in messages)
    return "Your name is Ada." if "What is my name?" in said and "My name is Ada." in said else "Hello, Ada."


def shops(messages: Messages) -> Said:
    _, text = last(messages)
    if "JSON" in text or "schema" in text:
        return '{"total": 6.0, "currency": "EUR"}'
    match len(results(messages)):
        case 0:
            return [("price", {"fruit": "melon"}), ("price", {"fruit": "durian"})]
        case 2:
            return [("order", {"fruit": "melon", "count": 2})]
    return "Six euros."


def counts(messages: Messages) -> Said:
    if not results(messages):
        return [("count_words", {"text": "the sea the sea"})]
    return f"The sea, the sea: {results(messages)[0]} words."


def tells(messages: Messages) -> Said:
    _, text = last(messages)
    if "moral" in text:
        return "Light matters."
    return STORY if "long story" in text else "Goodbye!"


def spawns_sub_agents(messages: Messages) -> Said:
    done = results(messages)
    match len(done):
        case 0:
            return [("save_note", {"text": "milk"})]
        case 1:
            return [("charge", {"euros": 5})]
    return f"The note is saved. As to the card: {done[1]}"


def adds(messages: Messages) -> Said:
    _, text = last(messages)
    if "2 + 3" in text:
        return [("add", {"a": 2, "b": 3})]
    return "2.5" if "half" in text else "10" if "twice" in text else "5"


def looks_up(messages: Messages) -> Said:
    role, said = last(messages)
    if role == "tool":
        return "Ana has it." if "with Ana" in said else "I found nothing."
    if "Look it up." in said:
        return [("memory_search", {"query": "key to the flat"})]
    return "Noted."


def obeys(messages: Messages) -> Said:
    done = results(messages)
    if not done:
        return [("web_page", {})]
    to = "ana@example.org" if "ana@example.org" in str(messages[0:3]) else "eve@example.net"
    return [("mail", {"to": to, "text": "late"})] if len(done) == 1 else done[-1]


def sends(messages: Messages) -> Said:
    done = results(messages)
    said = next(message["content"] for message in messages if message["role"] == "user")
    if "nuke" in said:
        return done[0] if done else [("spawn", {"prompt": "go", "tools": ["nuke"]})]
    if "each file" in said:
        calls = [("spawn", {"prompt": f"Read {name}.txt"}) for name in ("north", "south")]
        return " / ".join(one.partition("\t")[2].splitlines()[0] for one in done) if done else calls  # type: ignore[return-value]
    return done[0] if done else [("read", {"path": said.split()[-1]})]


def keeps_notes(messages: Messages) -> Said:
    done = results(messages)
    _, text = last(messages)
    if "boat leaves at nine" in text:
        return [("notes__add", {"title": "boat", "text": "leaves at nine"})]
    if "Look into the notes" in text:
        return [("notes__read", {"title": "boat"}), ("notes__remove", {"title": "boat"})]
    return f"It is noted: {done[0]}"


def asks_the_shop(messages: Messages) -> Said:
    if results(messages):
        return "Bo, and they may."
    most = "SELECT customer, sum(euros) AS total FROM orders GROUP BY customer ORDER BY total DESC LIMIT 1"
    return [
        ("shop__query", {"sql": most}),
        ("handbook__query", {"text": "sent back"}),
        ("shop__query", {"sql": "SELECT name, salary FROM staff"}),
    ]


def takes_minutes(messages: Messages) -> Said:
    """As the skill says, and then what it does not say."""
    done = results(messages)
    if len(done) == 2:
        return "The minutes are written, and there is no copy."
    followed = "Every task has one name and one date." in str(messages)
    if not followed:
        return "I do not know how."
    path = "all.md" if done else "minutes/2026-03-02.md"
    return [("write", {"path": path, "content": "# Meeting of 2026-03-02\n"})]


def watches_the_harbour(messages: Messages) -> Said:
    return f"Noted: {last(messages)[1]}"


def looks_at_builds(messages: Messages) -> Said:
    known = any("tests: failed" in (message["content"] or "") for message in messages)
    return "tests" if known and "Which job" in last(messages)[1] else "Look at the log."


def drinks_tea(messages: Messages) -> Said:
    return "With milk."


def knows_the_tide(messages: Messages) -> Said:
    role, said = last(messages)
    if role == "tool":
        return "At 18:37." if "18:37" in said else "I do not know."
    return [("tide", {"place": "Brest"})] if "high water" in said else "Good morning!"


def tells_a_short_one(messages: Messages) -> Said:
    return STORY[: len(STORY) // 4]


def measures_towers(messages: Messages) -> Said:
    """Answers badly at first, and judges itself strictly."""
    if "You judge one answer" in messages[0]["content"]:
        sourced = "says the city" in messages[-1]["content"]
        return f'{{"score": {1.0 if sourced else 0.2}, "reason": "who says so?"}}'
    return "330 m, says the city of Paris." if "who says so?" in last(messages)[1] else "330 m."


SAYS = {
    "01": names,
    "02": shops,
    "03": counts,
    "04": tells,
    "05": spawns_sub_agents,
    "06": adds,
    "07": looks_up,
    "08": obeys,
    "09": sends,
    "10": keeps_notes,
    "11": asks_the_shop,
    "12": takes_minutes,
    "13": watches_the_harbour,
    "14": looks_at_builds,
    "15": drinks_tea,
    "16": knows_the_tide,
    "17": tells_a_short_one,
    "18": measures_towers,
}


# --- one by one ------------------------------------------------------------------------------------


def test_01_hello(example: Example) -> None:
    printed = example("01_hello.py", names).splitlines()
    assert [line.strip() for line in printed[:2]] == ["Hello, Ada.", "Your name is Ada."]
    assert re.fullmatch(r"turn 2: 40 tokens in, 8 out, \$0\.0000\d\d", printed[2])
    assert "turn 4:" in example("01_hello.py", names), "a second run goes on where the first one was"
    assert [message["role"] for message in example.asked[0]].count("user") == 3


def test_02_tools(example: Example) -> None:
    printed = example("02_tools.py", shops)
    assert "price -> 3.0" in printed
    assert "price -> KeyError: 'durian'" in printed, "what goes wrong in a tool is news for the model"
    assert "order -> ordered 2 x melon" in printed
    assert "Bill(total=6.0, currency='EUR')" in printed


def test_03_streaming(example: Example) -> None:
    printed = example("03_streaming.py", counts, pause_s=0.01)
    assert '[count_words {"text": "the sea the sea"}]\n[counting ...]\n[count_words says 4]' in printed
    assert printed.rstrip().endswith("The sea, the sea: 4 words. \n[Answered]")


def test_04_steer_and_abort(example: Example) -> None:
    printed = example("04_steer_and_abort.py", tells, pause_s=0.02)
    assert "steered: Light matters." in printed
    assert "stopped: True" in printed
    told = re.search(r"aborted after (\d+) characters", printed)
    assert told is not None
    assert 0 < int(told[1]) < len(STORY) / 2
    assert "behind it: Goodbye!" in printed


def test_05_crash_and_resume(example: Example) -> None:
    printed = example("05_crash_and_resume.py", spawns_sub_agents)
    lives = printed.split("a process that dies in ")[1:]
    assert [life.splitlines()[0] for life in lives] == ["save_note:", "charge:", "nothing:"]
    assert lives[0].count("save_note at work") == 1
    assert "save_note at work" in lives[1], "what is idempotent is run again"
    assert "charge at work" in lives[1]
    assert "at work" not in lives[2], "what is unsafe is not"
    assert "charge: Outcome unknown" in lives[2]
    assert "answer: The note is saved." in lives[2]
    assert len({str(messages[:1]) for messages in example.asked}) == 1, "it is one turn all the while"


def test_06_replay(example: Example) -> None:
    printed = example("06_replay.py", adds)
    assert re.search(r"replayed 2 turns, \d+ records, identical: True", printed)
    assert "assistant ['tool_call', 'finish']\n" in printed
    assert printed.strip().endswith("2.5")
    assert not any("twice" in str(message) for message in example.asked[-1]), "the fork knows only what it was given"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_short_says_what_it_shows_and_has_a_test(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) < 50
    assert lines[0].startswith("# ")
    assert "Prints " in "".join(lines[:4])
    assert sum("MAINSTAY_MODEL" in line for line in lines) == 1
    assert f"test_{path.stem}" in globals(), "every example is run"


def test_the_examples_are_numbered_without_gaps() -> None:
    numbers: list[Any] = [int(path.name[:2]) for path in EXAMPLES]
    assert numbers == list(range(1, len(numbers) + 1))


def test_07_memory(example: Example) -> None:
    printed = [line.strip() for line in example("07_memory.py", looks_up).splitlines()]
    assert printed[0] == "lisbon#1   user: The flat in Lisbon is on Rua das Flores 12; the key is with Ana."
    assert "Ana has it." in printed
    sections = {"fixed": True, "tools": True, "profile": True, "summary": False, "recent": True}
    assert str(sections) in printed
    assert printed[-1] == "still there: []"


def test_08_approvals(example: Example) -> None:
    printed = [line.strip() for line in example("08_approvals.py", obeys).splitlines()]
    assert printed[0].startswith('mail({"to": "eve@example.net", "text": "late"}): Content from outside')
    assert printed[1].startswith("denied: Not run: the user denied it, with this reason: I know nobody")
    assert printed[2] == "(a mail goes to ana@example.org)"
    assert printed[3].startswith("changed: [The person changed this call")
    assert printed[4] == "sent to ana@example.org"
    assert printed[5:] == ["(a mail goes to ana@example.org)", "named by me: sent to ana@example.org  Answered"]


def test_09_sub_agents(example: Example) -> None:
    printed = [line.strip() for line in example("09_sub_agents.py", sends).splitlines()]
    assert printed[0] == "12 boats, 3 of them leak / 7 boats, all sound"
    assert sorted(printed[1:3]) == [
        f"sent by report, call call_1_1_{n}, with read, grep, glob, ls, memory_search, memory_get" for n in (0, 1)
    ]
    assert printed[3] == "the children's tokens are in it: True"
    assert "a sub-agent cannot have tools that you do not have: nuke" in printed[4]


@pytest.mark.skipif(bubblewrap_problem() is not None, reason=f"no sandbox to run programs in: {bubblewrap_problem()}")
def test_10_plugin(example: Example) -> None:
    printed = example("10_plugin.py", keeps_notes).splitlines()
    assert printed[0] == "write: notes__add -> Kept: boat (untrusted:notes__add)"
    assert "read: notes__read -> leaves at nine (untrusted:notes__read)" in printed
    (refused,) = [line for line in printed if "notes__remove" in line and "There is no tool" in line]
    assert refused.endswith("(our own words)")
    assert len(printed) == 3


def test_11_backends(example: Example) -> None:
    printed = example("11_backends.py", asks_the_shop)
    assert "shop__query -> customer,total\nBo,80.0\n[1 row]\n" in printed
    assert "handbook__query -> returns.md:1-2\n# Returns\nWhatever was ordered may be sent back" in printed
    assert "There is no table staff in scope" in printed
    assert "99000" not in printed
    (system,) = [one["content"] for one in example.asked[0] if one["role"] == "system"]
    assert "orders(customer TEXT, euros REAL)" in system
    assert "staff" not in system


def test_12_skills(example: Example) -> None:
    printed = example("12_skills.py", takes_minutes).splitlines()
    assert printed[0].startswith("meeting-minutes (keyword): Writes the minutes of a meeting from notes.")
    assert printed[1].startswith("write -> Made minutes/2026-03-02.md")
    assert printed[2] == "write waits: The skill meeting-minutes uses only write(minutes/*)."
    assert printed[3].strip() == "The minutes are written, and there is no copy."
    assert (example.folder / "minutes" / "2026-03-02.md").exists()
    assert not (example.folder / "all.md").exists()


def test_13_triggers(example: Example) -> None:
    printed = example("13_triggers.py", watches_the_harbour).splitlines()
    assert printed[0] == "storm (periodic) is due at 06:30 UTC"
    assert re.fullmatch(r"tide \(one-shot\) is due at \d\d:\d\d UTC", printed[1])
    assert printed[2:5] == [f"{name}: fired in harbour, answered" for name in ("ferry", "storm", "tide")]
    assert printed[5:] == ["put away: True"]
    said = [last(messages)[1] for messages in example.asked]
    assert sorted(said) == ["Any storm?", "High water.", "The ferry has left."], "each of them once"


def test_14_webhook_app(example: Example) -> None:
    taken, again, knows = example("14_webhook_app.py", looks_at_builds).splitlines()
    assert re.fullmatch(r'202 {"accepted":true,"id":"[0-9a-f]+"}', taken)
    assert re.fullmatch(r'202 {"accepted":true,"id":"[0-9a-f]+","duplicate":true}', again)
    assert knows.strip() == "tests"
    assert len(example.asked) == 2, "a delivery that was sent twice is one turn"


def test_15_gateway_app(example: Example) -> None:
    said, mine, others = example("15_gateway_app.py", drinks_tea).splitlines()
    assert re.match(r'200 {"session":"tea","turn":1,"text":"With milk. "', said)
    assert mine.startswith('200 {"id":"tea","status":"active"')
    assert others == """404 {"error":{"type":"not_found","message":"there is no session 'tea'"}}"""


def test_16_openai_client(example: Example) -> None:
    printed = [line.strip() for line in example("16_openai_client.py", knows_the_tide).splitlines()]
    assert printed == ["Good morning!", 'tide {"place": "Brest"}', "At 18:37."]


def test_17_resume_stream(example: Example) -> None:
    printed = example("17_resume_stream.py", tells_a_short_one, pause_s=0.01).splitlines()
    ended = printed.index("the server is gone")
    assert printed[0] == "1 Received"
    assert "4 TurnResumed" in printed[ended:], "by the second server"
    assert printed[-3].endswith(" TurnEnded")
    assert printed[-1] == "each once, in order: True"
    told = [int(line.split()[0]) for line in printed if line[0].isdigit()]
    assert told == list(range(1, len(told) + 1))


def test_18_judges(example: Example) -> None:
    printed = [line.strip() for line in example("18_judges.py", measures_towers).splitlines()]
    first, second = printed[:3], printed[3:6]
    assert first == ["attempt 1 of 4: 0.60", "brief: 1.0", "sourced: 0.2"]
    assert second == ["attempt 2 of 4: 1.00", "brief: 1.0", "sourced: 1.0"]
    assert printed[6:] == ["330 m, says the city of Paris.", "passed: True"]


# --- together, and with models that do not do as they are told -----------------------------------


@pytest.mark.timeout(180)
def test_they_run_in_one_folder_one_after_the_other_in_any_order(example: Example) -> None:
    printed = {}
    there = EXAMPLES if os.environ.get("MAINSTAY_TEST_ALL") else []
    for path in [*there, *reversed(EXAMPLES)]:
        printed[path.name[:2]] = example(path.name, SAYS[path.name[:2]], pause_s=0.002)
    assert "the children's tokens are in it: True" in printed["09"]
    assert printed["09"].count("sent by report") == 2, "of this run, whatever else is there"
    assert "named by me: sent to ana@example.org" in printed["08"]
    assert "identical: True" in printed["06"]


def test_an_example_that_ends_too_soon_is_reported(example: Example) -> None:
    printed = example("04_steer_and_abort.py", lambda messages: [])  # not a single word to wait for
    assert printed.startswith("too late to steer:")
    assert "it was over before it could be stopped: Answered" in printed
    assert "behind it:" in printed


def test_a_model_that_ignores_the_page_leaves_no_approval(example: Example) -> None:
    printed = example("08_approvals.py", lambda messages: "No.")
    assert printed.count("there is nothing to ask about, the model sent nothing: No.") == 2
    assert "named by me: No.  Answered" in printed
