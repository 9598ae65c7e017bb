"""`mainstay trigger …` as people use it: files, a process that fires them, webhooks, and kill -9 in between."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cli_support import Command, FakeModel

from mainstay.io.webhook_signatures import sign_webhook

PATIENCE_S = 120.0
SECRET = "a secret that nobody guesses"
HOOK = f"triggers:\n  webhooks:\n    bugs:\n      secret: {SECRET}\n      session: bugs\n      text: Triage this.\n"


@pytest.fixture
def model() -> Iterator[FakeModel]:
    made = FakeModel()
    yield made
    made.close()


@pytest.fixture
def mainstay(tmp_path: Path, model: FakeModel) -> Command:
    return Command(tmp_path, model.url)


class Serving:
    """`mainstay trigger serve`, until it is ended or killed."""

    def __init__(self, mainstay: Command, *arguments: str) -> None:
        self.process = mainstay.start("trigger", "serve", "--port", "0", *arguments)
        self.said = ""
        self.wait_for(" active")

    def wait_for(self, word: str) -> str:
        assert self.process.stderr is not None
        end = time.monotonic() + PATIENCE_S
        while word not in self.said:
            assert self.process.poll() is None, f"it ended: {self.said}{self.process.stderr.read()}"
            assert time.monotonic() < end, self.said
            if select.select([self.process.stderr], [], [], 0.2)[0]:
                self.said += os.read(self.process.stderr.fileno(), 65536).decode()
        return self.said

    @property
    def url(self) -> str:
        found = re.search(r"webhooks at (http://\S+?)/hooks", self.wait_for("/hooks/NAME"))
        assert found is not None
        return found[1]

    def end(self, how: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(PATIENCE_S)
        finally:
            for stream in (self.process.stdout, self.process.stderr):
                if stream is not None:
                    stream.close()

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *raised: object) -> None:
        if self.process.returncode is None:
            self.end(signal.SIGKILL)


def until(holds: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)
    return found


def runs(mainstay: Command, *name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = mainstay.json("trigger", "history", *name)["runs"]
    return found


def ended(mainstay: Command, name: str, count: int = 1) -> list[dict[str, Any]]:
    found = runs(mainstay, name)
    return found if len(found) >= count and all(one.get("outcome") for one in found) else []


def post(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_a_trigger_is_added_shown_paused_and_removed(mainstay: Command) -> None:
    made = mainstay(
        "trigger", "add", "morning", "Say good morning", "--cron", "0 9 * * mon-fri", "--timezone", "Asia/Tokyo"
    )
    assert made.returncode == 0, made.stderr
    assert "(Asia/Tokyo)" in made.stdout
    assert "trigger serve" in made.stderr  # no process fires it yet
    file = json.loads((mainstay.home / "events" / "morning.json").read_text())
    assert file == {
        "type": "periodic", "threadId": "morning", "text": "Say good morning", "schedule": "0 9 * * mon-fri",
        "timezone": "Asia/Tokyo",
    }  # fmt: skip
    [listed] = mainstay.json("triggers", "list")["triggers"]
    assert (listed["name"], listed["kind"]) == ("morning", "periodic")
    assert mainstay("trigger", "pause", "morning").stdout == "morning: paused\n"
    assert "paused" in mainstay("trigger", "list").stdout
    assert mainstay("trigger", "resume", "morning").returncode == 0
    assert "Say good morning" in mainstay("trigger", "show", "morning").stdout
    assert mainstay("trigger", "remove", "morning").returncode == 0
    again = mainstay("trigger", "remove", "morning")
    assert (again.returncode, again.stderr) == (1, "mainstay: there is no trigger 'morning'\n")


def test_beside_a_process_that_owns_the_home_changes_are_its_operations(mainstay: Command) -> None:
    with Serving(mainstay) as serving:
        made = mainstay("trigger", "add", "morning", "Say good morning", "--cron", "0 9 * * *", "--timezone", "UTC")
        assert (made.returncode, made.stderr.count("until")) == (0, 0), made.stderr
        file = json.loads((mainstay.home / "events" / "morning.json").read_text())
        assert file["workspace"] == "default", "the operation writes the workspace of its caller"
        again = mainstay("trigger", "add", "morning", "Say good night", "--cron", "0 9 * * *")
        assert "exists already; --force replaces it" in again.stderr
        forced = mainstay("trigger", "add", "morning", "Say good night", "--cron", "0 9 * * *", "--force")
        assert forced.returncode == 0, forced.stderr
        assert mainstay("trigger", "pause", "morning").stdout == "morning: paused\n"
        [listed] = mainstay.json("triggers", "list")["triggers"]
        assert (listed["trigger"]["text"], listed["paused"]) == ("Say good night", True)
        assert mainstay("trigger", "resume", "morning").returncode == 0
        assert mainstay("trigger", "remove", "morning").returncode == 0
        for word in ("remove", "pause", "resume"):
            unknown = mainstay("trigger", word, "morning")
            assert (unknown.returncode, unknown.stderr) == (1, "mainstay: there is no trigger 'morning'\n")
        assert serving.end() == 0


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("--cron", "0 9 * *"), "five"),
        (("--cron", "0 9 30 2 *"), "never"),
        (("--cron", "* * * * * *"), "seconds"),
        (("--cron", "0 9 * * *", "--timezone", "Europe/Lisbo"), "Europe/Lisbon"),
        (("--at", "yesterday"), "ISO"),
        (("--at", "2020-01-01T00:00"), "is in the past"),
        (("--now", "--channel", "slack"), "--room"),
        ((), "required"),
    ],
    ids=["four fields", "never", "six fields", "zone", "no time", "past", "no room", "no time at all"],
)
def test_nonsense_is_one_sentence_and_changes_nothing(mainstay: Command, given: tuple[str, ...], why: str) -> None:
    done = mainstay("trigger", "add", "odd", "text", *given)
    assert done.returncode != 0
    assert why in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (mainstay.home / "events" / "odd.json").exists()


def test_files_are_fired_while_it_serves_and_their_results_are_shown(mainstay: Command, model: FakeModel) -> None:
    """GUPPY-061: every file in the events folder."""
    events = mainstay.home / "events"
    with Serving(mainstay) as serving:
        (events / "deploy.json").write_text('{"type": "immediate", "threadId": "ops", "text": "Deploy it"}')
        [run] = until(lambda: ended(mainstay, "deploy"))
        assert (run.get("came", "fired"), run["outcome"], run["session"]) == (
            "fired",
            "answered",
            "ops",
        )
        (events / "bad.json").write_text('{"type": "sometimes", "text": "x"}')
        reason = events / "failed" / "bad.json.reason.txt"
        until(lambda: list((events / "failed").glob("bad*reason*")))
        assert "immediate" in next((events / "failed").glob("bad*reason*")).read_text(), reason
        listed = mainstay("trigger", "list").stdout
        assert "bad" in listed
        assert serving.wait_for("deploy: answered (session ops)")
        assert mainstay("trigger", "remove", "bad").returncode == 0
        assert not list((events / "failed").glob("bad*"))
        assert "Deploy it" in mainstay("session", "show", "ops").stdout
        assert serving.end() == 0
    assert (events / "done" / "deploy.json").exists()


def test_a_trigger_is_run_by_hand_and_its_answer_printed(mainstay: Command) -> None:
    mainstay("trigger", "add", "later", "Say it", "--at", "2099-01-01T00:00")
    done = mainstay("trigger", "run", "later")
    assert (done.returncode, done.stdout) == (0, "You said **Say it**.\n"), done.stderr
    assert (mainstay.home / "events" / "later.json").exists()  # its time is still to come
    with Serving(mainstay):
        beside = mainstay("trigger", "run", "later")  # through the process that owns the home
        assert (beside.returncode, beside.stdout) == (0, "You said **Say it**.\n"), beside.stderr


def test_webhooks_are_taken_once_across_kill_9(mainstay: Command, model: FakeModel) -> None:
    """F42: signed by what the configuration names; replays are known after a restart."""
    mainstay.configure((mainstay.home / "mainstay.yaml").read_text() + HOOK)
    (mainstay.home / "mainstay.yaml").chmod(0o600)
    body = json.dumps({"issue": {"title": "It is broken"}}).encode()
    headers = sign_webhook("timestamp", SECRET, body, at_s=int(time.time()))
    with Serving(mainstay) as serving:
        url = f"{serving.url}/hooks/bugs"
        assert post(url, body, headers)[0] == 202
        assert post(url, body + b" ", headers)[0] == 401
        assert post(f"{serving.url}/hooks/other", body, headers)[0] == 404
        serving.end(signal.SIGKILL)
    with Serving(mainstay) as serving:
        status, answer = post(f"{serving.url}/hooks/bugs", body, headers)
        assert (status, answer.get("duplicate")) == (202, True)
        until(lambda: [one for one in model.requests if "It is broken" in json.dumps(one)])
        until(lambda: runs(mainstay, "bugs"))
        assert "bugs" in mainstay("trigger", "list").stdout
    shown = mainstay("session", "show", "bugs").stdout
    assert "1 turn" in shown
    everything = serving.said + shown + mainstay("config", "show").stdout
    assert SECRET not in everything


def test_a_home_with_a_secret_in_a_file_that_others_can_read_is_refused(mainstay: Command) -> None:
    mainstay.configure((mainstay.home / "mainstay.yaml").read_text() + HOOK)
    (mainstay.home / "mainstay.yaml").chmod(0o644)
    done = mainstay("trigger", "list")
    assert done.returncode == 1
    assert "chmod 600" in done.stderr


def test_serving_needs_the_secret_and_a_chat_does_not(mainstay: Command) -> None:
    mainstay.configure((mainstay.home / "mainstay.yaml").read_text() + HOOK.replace(SECRET, "${HOOK_SECRET}"))
    refused = mainstay("trigger", "serve", "--port", "0")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "HOOK_SECRET is not set" in refused.stderr
    assert mainstay("run", "hello").returncode == 0


def test_a_running_chat_fires_what_is_due(mainstay: Command) -> None:
    chat = subprocess.Popen(
        mainstay.argv("chat", "--session", "main"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=mainstay.env,
        cwd=mainstay.folder,
    )
    try:
        until(lambda: (mainstay.home / "socket").exists())
        assert mainstay("trigger", "add", "tea", "Tea is ready", "--now", "--session", "main").stderr == ""
        until(lambda: ended(mainstay, "tea"))
        said, _ = chat.communicate("", timeout=PATIENCE_S)
        assert "You said Tea is ready" in said.replace("*", "")
    finally:
        if chat.poll() is None:
            chat.kill()
            chat.communicate()
