"""The pages about skills, patterns and triggers: each command runs as written, in an empty folder with an empty
home, and its output is compared; each configuration is checked; each table is compared with the code."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import get_args
from zoneinfo import ZoneInfo

import pytest
from support.cli_support import Command
from support.example_model import ExampleModel, Messages, Said
from test_docs_plugins import Block, Reader, blocks, like

from mainstay.cli.parser.root import build_parser
from mainstay.core.triggers import MissedPolicy
from mainstay.sandbox.bubblewrap.sandbox import bubblewrap_problem
from mainstay.skills.skill import SkillTrigger as SkillTrigger
from mainstay.skills.validator import FIELDS as SKILL_FIELDS
from mainstay.skills.validator import validate_skill
from mainstay.triggers.schedule import TriggerSchedule
from mainstay.triggers.trigger_json import FIELDS, KINDS, parse_trigger

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SKILLS, PATTERNS, TRIGGERS, WEBHOOKS = (
    DOCS / "how-to" / f"{name}.md" for name in ("skills", "patterns", "triggers", "webhooks")
)
CONCEPTS = (DOCS / "concepts" / "skills-and-patterns.md", DOCS / "concepts" / "triggers.md")
SANDBOXED = pytest.mark.skipif(
    bubblewrap_problem() is not None, reason=f"no sandbox to run commands in: {bubblewrap_problem()}"
)
SERVE = "mainstay trigger serve\n"
PATIENCE_S = 120.0
WAITS = 5  # how a run ends that waits for an approval
AGAIN = re.compile(r"mainstay trigger (history|list|show)\b.*\n|ls .*\n")  # only looks, and may be a moment early


def _undated(shown: str) -> str:
    """Whenever that was, and wherever."""
    return re.sub(", which is DATE here", "", re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "DATE", shown))


class Doer(Reader):
    """Runs the commands of a page in a home of its own, with a server in another terminal if the page says so."""

    def __init__(self, folder: Path, model: ExampleModel) -> None:
        super().__init__(folder, model)
        del self.env["MAINSTAY_HOME"]  # ~/.mainstay, as for every user
        self.env |= {"CI_SECRET": "a secret that nobody guesses"}
        self._serving: list[subprocess.Popen[str]] = []

    def does(self, page: Path) -> int:
        count, done, printed = 0, "", ""
        for block in blocks(page):
            where = f"{page.name}, line {block.line}"
            match block.kind:
                case "sh" if block.text == SERVE:
                    self._serve()
                case "sh":
                    done, printed = block.text, self._run(block.text, where)
                    count += 1
                case "text":
                    self._compare(block, done, printed, where)
        return count

    def _compare(self, block: Block, done: str, printed: str, where: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not like(_undated(block.text)).fullmatch(_undated(printed)):
            late = time.monotonic() > end or not AGAIN.fullmatch(done)
            assert not late, f"{where}: it is\n{printed}"
            time.sleep(0.2)
            printed = self._run(done, where)

    def _run(self, script: str, where: str) -> str:
        done = subprocess.run(
            ["sh", "-e", "-c", script],
            env=self.env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        lines = [line.rstrip() for line in done.stdout.strip("\n").split("\n")]
        told = done.returncode == 1 and lines[-1].startswith("mainstay: ")  # in a sentence, which the page shows
        assert told or done.returncode in (0, WAITS), f"{where}: {done.stdout}"
        return "\n".join(lines)

    def _serve(self) -> None:
        argv = [sys.executable, "-m", "mainstay", "trigger", "serve", "--port", "0"]
        made = subprocess.Popen(argv, env=self.env, cwd=self.folder, stderr=subprocess.PIPE, text=True)
        self._serving.append(made)
        assert made.stderr is not None
        said = made.stderr.readline()
        assert said.split()[2:3] == ["active;"], said

    def close(self) -> None:
        for made in self._serving:
            made.send_signal(signal.SIGTERM)
            try:
                assert made.wait(PATIENCE_S) == 0
            finally:
                made.kill()
                made.wait()
                assert made.stderr is not None
                made.stderr.close()


def _is_ours(block: Block) -> bool:
    """A configuration, and not a pattern."""
    return re.match(r"(# mainstay.yaml\n)?(skills|patterns|triggers):\n  ", block.text) is not None


def say(messages: Messages) -> Said:
    """Does what the pages ask."""
    asked = [message["content"] or "" for message in messages if message["role"] == "user"]
    said = next(text for text in reversed(asked) if not text.startswith("[note"))
    followed = any("Leave out what nobody notices." in text for text in asked)
    if messages[-1]["role"] == "tool":
        return "The notes are in NOTES.md." if "NOTES.md" in messages[-1]["content"] else "It could not be done."
    if "push it" in said and followed:
        return [("bash", {"command": "git push"})]
    if "changelog" in said and followed:
        return [("write", {"path": "NOTES.md", "content": "- Nothing yet."})]
    return {"Hello.": "Hello.", "Say good morning.": "Good morning!"}.get(said.split("\n")[0], "Very well.")


@pytest.fixture
def doer(tmp_path: Path) -> Iterator[Doer]:
    model = ExampleModel(say)
    made = Doer(tmp_path, model)
    yield made
    made.close()
    model.close()


@SANDBOXED
@pytest.mark.parametrize(("page", "least"), [(SKILLS, 9), (TRIGGERS, 8)], ids=["skills", "triggers"])
def test_every_command_of_the_page_does_what_the_page_says(page: Path, least: int, doer: Doer) -> None:
    assert doer.does(page) >= least


# --- configurations and files --------------------------------------------------------------------

CONFIGURED = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in (SKILLS, PATTERNS, TRIGGERS, WEBHOOKS)
    for number, block in enumerate(block for block in blocks(page) if block.kind == "yaml" and _is_ours(block))
]


@pytest.mark.parametrize("block", CONFIGURED)
def test_every_configuration_that_a_page_shows_is_valid(block: Block, tmp_path: Path) -> None:
    command = Command(tmp_path)
    command.env |= dict.fromkeys(re.findall(r"\$\{(\w+)\}", block.text), "a secret that nobody guesses")
    command.configure(block.text)
    done = command("config", "check")
    assert (done.returncode, done.stdout.startswith("ok: ")) == (0, True), done.stderr


def test_the_example_of_a_skill_is_valid() -> None:
    (example,) = (ROOT / "examples" / "skills").iterdir()
    assert validate_skill(example) == []


def test_the_unit_of_systemd_starts_a_command_that_there_is() -> None:
    (unit,) = (block.text for block in blocks(TRIGGERS) if block.kind == "ini")
    (started,) = re.findall(r"^ExecStart=(\S+) (.+)$", unit, re.MULTILINE)
    assert started[0].endswith("/bin/mainstay")
    parsed = build_parser().parse_args(started[1].split())
    assert (parsed.host, parsed.port) == ("127.0.0.1", 7460)


# --- tables --------------------------------------------------------------------------------------


def names_in(page: Path, heading: str) -> set[str]:
    """What stands in code quotes in the first cells of the first table below a heading."""
    below = page.read_text().partition(f"\n## {heading}\n")[2]
    table = re.search(r"(?:^\|.*\n)+", below, re.MULTILINE)
    assert table is not None, heading
    cells = [line.split("|")[1] for line in table[0].splitlines()[2:]]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_the_table_has_exactly_the_fields_of_an_event_file() -> None:
    assert names_in(TRIGGERS, "The trigger file") == set(FIELDS)


def test_every_trigger_type_and_every_policy_is_in_its_table() -> None:
    assert names_in(TRIGGERS, "Add a trigger") == set(KINDS)
    assert names_in(TRIGGERS, "Missed runs") == set(get_args(MissedPolicy))


def test_the_table_has_exactly_the_fields_of_a_skill() -> None:
    ours = {name for name in names_in(SKILLS, "Write a skill") if name.startswith("gateway:")}
    assert names_in(SKILLS, "Write a skill") - ours == set(SKILL_FIELDS)
    assert ours == {"gateway:trigger", "gateway:keywords", "gateway:workspace"}
    assert names_in(SKILLS, "When a skill is used") == set(get_args(SkillTrigger))


def test_the_table_of_daylight_saving_says_what_the_schedules_do() -> None:
    """F29: the written policy is the one that holds."""
    below = TRIGGERS.read_text().partition("**Daylight saving time.**")[2]
    found = re.findall(r"^\| `([^`]+)` \(\w+\) \| (.*?) \| (.*?) \|$", below, re.MULTILINE)
    assert len(found) == 5
    for schedule, spring, autumn in found:
        for day, said in (("2026-03-29", spring), ("2026-10-25", autumn)):
            shown = _on_the_wall(schedule, day)
            if times := re.findall(r"\d\d:\d\d", said):
                assert shown == times, (schedule, day)
            elif number := re.match(r"(\d+) times", said):
                assert len(shown) == int(number[1]), (schedule, day)
            else:
                assert (said, shown) == ("not at all", []), (schedule, day)


def _on_the_wall(schedule: str, day: str) -> list[str]:
    """What the clock shows whenever it is due on that day."""
    berlin = ZoneInfo("Europe/Berlin")
    begins = datetime.fromisoformat(day).replace(tzinfo=berlin)
    ends = begins + timedelta(days=1)  # by the clock
    moments = TriggerSchedule(schedule, "Europe/Berlin").between(_ms(begins) - 1, _ms(ends) - 1, 100)
    return [f"{datetime.fromtimestamp(ms / 1000, berlin):%H:%M}" for ms in moments]


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def test_the_events_that_a_page_shows_are_read() -> None:
    shown = re.findall(r'^{"type".*}$', TRIGGERS.read_text(), re.MULTILINE)
    assert [parse_trigger("shown", one.encode()).kind for one in shown] == ["immediate"]


@pytest.mark.parametrize("page", CONCEPTS, ids=lambda page: page.stem)
def test_the_concepts_name_no_fault_that_is_not_tested(page: Path) -> None:
    named = set(re.findall(r"\bF\d+\b", page.read_text()))
    tested = " ".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if "docs" not in path.name)
    assert [fault for fault in sorted(named) if not re.search(rf"\b{fault}\b", tested)] == []
