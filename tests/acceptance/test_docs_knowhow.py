"""The pages about know-how and triggers: each command is run as it stands there, in an empty folder with an empty home,
and what it prints is compared; each configuration is checked; each table is compared with what it is about."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from cli_support import Command
from example_model import ExampleModel, Messages, Said
from test_docs_plugins import Block, Reader, blocks, like, rows

from mainstay.app.schema_knowhow import PatternSettings, SkillSettings, TriggerSettings, WebhookEntry
from mainstay.sandbox.choose import trouble
from mainstay.skills.validate import FIELDS as SKILL_FIELDS
from mainstay.skills.validate import validate
from mainstay.triggers.definition import FIELDS, KINDS, read_trigger

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SKILLS, PATTERNS, TRIGGERS, WEBHOOKS = (
    DOCS / "how-to" / f"{name}.md" for name in ("skills", "patterns", "triggers", "webhooks")
)
CONCEPTS = (DOCS / "concepts" / "know-how.md", DOCS / "concepts" / "triggers.md")
SANDBOXED = pytest.mark.skipif(trouble() is not None, reason=f"no sandbox to run commands in: {trouble()}")
SERVE = "mainstay trigger serve\n"
PATIENCE_S = 60.0
WAITS = 5  # how a run ends that waits for an approval
AGAIN = re.compile(r"mainstay trigger (history|list|show)\b.*\n|ls .*\n")  # only looks, and may be a moment early


def _undated(shown: str) -> str:
    """Whenever that was, and wherever."""
    return re.sub(", which is DATE here", "", re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "DATE", shown))


class Doer(Reader):
    """Somebody who does what a page says in a home of their own, with a server in another terminal if it says so."""

    def __init__(self, folder: Path, model: ExampleModel) -> None:
        super().__init__(folder, model)
        del self.env["MAINSTAY_HOME"]  # ~/.mainstay, as for everybody
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
        assert said.startswith("firing "), said

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
