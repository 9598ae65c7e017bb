"""A home with skills and triggers is served, used in a chat and killed repeatedly at moments chosen by a seed. In
the end every event has run once, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.cli_support import Command, FakeModel, Handler
from support.ports import choose_port

from mainstay import Agent
from mainstay.core.events import Received, TurnEnded
from mainstay.core.limits import Limits
from mainstay.core.messages import parts_text
from mainstay.core.outcome import Answered
from mainstay.io.webhook_signatures import IDEMPOTENCY_KEY_HEADER, sign_webhook
from mainstay.providers.scripted import Stall
from mainstay.store.sqlite.store import SqliteStore
from mainstay.testing import ScriptedProvider

PATIENCE_S = 120.0
SECRET = "a secret that nobody guesses"
SEEDS = range(6) if os.environ.get("MAINSTAY_TEST_ALL") else [20]
KILLS = 20 if os.environ.get("MAINSTAY_TEST_ALL") else 8
SESSIONS = ("main", "ops", "slack:kitchen:1")
CONFIG = """
skills:
  folders: [{folder}]
triggers:
  poll_s: 0.5
  webhooks:
    bugs: {{secret: {secret}, session: bugs, text: Triage this., template: "{{{{ title }}}}"}}
"""
SKILL = "---\nname: {name}\ndescription: How to {name}.\n---\nDo it well.\n"


class Brief(Handler):
    """Answers every prompt at once: no turn is so long that it would be given up."""

    def _stream(self, text: str) -> None:
        super()._stream("yes")


@pytest.fixture
def model() -> Iterator[FakeModel]:
    made = FakeModel()
    made._server.RequestHandlerClass = Brief
    yield made
    made.close()


class CrashRun:
    """What was done so far, and what has to come of it."""

    def __init__(self, mainstay: Command, seed: int) -> None:
        self.mainstay = mainstay
        self.home = mainstay.home
        self.random = random.Random(seed)
        self.port = choose_port()
        self.texts: list[str] = []  # of event files, each its own
        self.titles: dict[str, dict[str, str] | None] = {}  # of deliveries: how one was signed, None once it was taken
        self.bringing: list[str] = []  # skills whose installing was begun

    # --- a home ----------------------------------------------------------------------------------

    def furnish(self) -> None:
        workspace, folder = self.home / "workspaces" / "default", self.mainstay.folder / "shared"
        for place, name in (
            (self.home / "skills", "at-home"),
            (self.home / "skills", "brew"),
            (workspace / "skills", "brew"),
            (workspace / "slack" / "skills", "in-the-channel"),
            (workspace / "slack" / "kitchen" / "skills", "in-the-room"),
            (self.home / "workspaces" / "other" / "skills", "of-another"),
            (folder, "in-a-folder"),
        ):
            self.skill(place / name, name)
        given = (self.home / "mainstay.yaml").read_text() + CONFIG.format(folder=folder, secret=SECRET)
        self.mainstay.configure(given)
        (self.home / "mainstay.yaml").chmod(0o600)
        for name, more in (("stranger", []), ("friend", ["--trust"])):
            self.must("skill", "install", str(self.skill(self.mainstay.folder / "src" / name, name)), "--yes", *more)
        self.must("skill", "link", "of-another", "--from", "other", "--to", "default")
        (self.home / "patterns").mkdir()
        for number in range(3):
            (self.home / "patterns" / f"p{number}.yaml").write_text(
                f"name: p{number}\ndescription: Sweeping {number}.\n"
            )
        self.event("every-minute", type="periodic", schedule="* * * * *", threadId="ticks", text="tick")
        self.event("never", type="periodic", schedule="0 0 1 1 *", threadId="ticks", text="never", paused=True)

    def skill(self, place: Path, name: str) -> Path:
        place.mkdir(parents=True)
        (place / "SKILL.md").write_text(SKILL.format(name=name))
        (place / "references").mkdir()
        (place / "references" / "more.md").write_text(f"More of {name}.\n")
        return place

    def must(self, *arguments: str) -> None:
        done = self.mainstay(*arguments)
        assert done.returncode == 0, done.stderr

    # --- what happens in it ----------------------------------------------------------------------

    def event(self, name: str, **fields: Any) -> None:
        folder = self.home / "events"
        folder.mkdir(mode=0o700, exist_ok=True)
        draft = folder / f".{name}"
        draft.write_text(json.dumps(fields))
        draft.rename(folder / f"{name}.json")

    def happen(self) -> None:
        """One more thing that is to be done, now or in a moment."""
        number = len(self.texts)
        text, session = f"event number {number:03}", self.random.choice(SESSIONS)
        fields: dict[str, Any] = {"type": "immediate", "threadId": session, "text": text}
        if number % 3 == 1:
            at = datetime.now(UTC) + timedelta(seconds=self.random.choice([-3, 1, 2, 5]))
            fields |= {"type": "one-shot", "schedule": at.strftime("%Y-%m-%dT%H:%M:%S")}
        if number % 5 == 2:
            fields = {"type": "immediate", "adapterId": "slack", "channelId": "hall", "text": text}
        self.texts.append(text)
        self.event(f"event-{number:03}", **fields)

    def deliver(self, title: str, timeout_s: float) -> bool:
        """True once it was acknowledged. A sender without an answer sends it again: the same bytes, or signed anew
        under the same name."""
        body = json.dumps({"title": title}).encode()
        before = self.titles.get(title)
        headers = (
            before if before and self.random.random() < 0.5 else sign_webhook("timestamp", SECRET, body, at_s=_now())
        )
        self.titles[title] = headers
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/hooks/bugs",
            body,
            {**headers, IDEMPOTENCY_KEY_HEADER: title, "Content-Type": "text/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=max(timeout_s, 0.05)) as answer:
                taken = answer.status == 202
        except (OSError, urllib.error.URLError):
            return False
        if taken:
            self.titles[title] = None
        return taken

    def live(self, number: int) -> None:
        """A command serves, chats or installs, until it is killed."""
        lasts = time.monotonic() + self.random.uniform(0.2, 2.2)
        self.happen()
        kind = self.random.choices(["serve", "chat", "install"], [6, 3, 2])[0]
        process = self.start(kind, number)
        try:
            title = f"delivery number {number:03}"
            self.titles.setdefault(title, {})
            if self.random.random() < 0.7:
                time.sleep(self.random.uniform(0, 0.5))  # somewhere in between
                self.happen()
            while time.monotonic() < lasts:
                if kind == "serve":
                    for one in [one for one, waits in self.titles.items() if waits is not None]:
                        self.deliver(one, lasts - time.monotonic())
                time.sleep(0.02)
        finally:
            process.kill()
            process.communicate()

    def start(self, kind: str, number: int) -> subprocess.Popen[str]:
        if kind == "serve":
            return self.mainstay.start("trigger", "serve", "--port", str(self.port))
        if kind == "install":
            name = f"brought-{number}"
            self.bringing.append(name)
            source = self.skill(self.mainstay.folder / "src" / name, name)
            return self.mainstay.start("skill", "install", str(source), "--yes")
        process = subprocess.Popen(
            self.mainstay.argv("chat", "--session", "main"),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self.mainstay.env,
            cwd=self.mainstay.folder,
        )
        assert process.stdin is not None
        process.stdin.write(f"hello for the time {number}\n")
        process.stdin.flush()
        return process

    # --- what came of it -------------------------------------------------------------------------

    def settle(self) -> None:
        """Served in peace, until all is answered."""
        process = self.mainstay.start("trigger", "serve", "--port", str(self.port))
        try:
            until(self.listens)  # else it may be told to end before it hears
            until(lambda: all(waits is None or self.deliver(one, 5) for one, waits in self.titles.items()))
            until(lambda: self.answered() >= len(self.texts) + len(self.titles), self.unanswered)
            until(lambda: not list((self.home / "events" / "firing").iterdir()))
        finally:
            process.terminate()
            said = process.communicate(timeout=PATIENCE_S)[1]
        assert process.returncode == 0, said

    def listens(self) -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", self.port)) == 0

    def answered(self) -> int:
        """Runs that have an outcome; those of the clock do not count."""
        found = self.mainstay.json("trigger", "history", "--limit", "500")["runs"]
        return sum(bool(one.get("outcome")) for one in found if one["trigger"] != "every-minute")

    def unanswered(self) -> str:
        """What to print if not everything was answered."""
        runs = [
            one for one in self.mainstay.json("trigger", "history", "--limit", "500")["runs"] if not one.get("outcome")
        ]
        listed = [self.mainstay(*words).stdout for words in (["session", "list"], ["trigger", "list"])]
        return f"runs without an outcome: {runs}; {listed}; files: {sorted((self.home / 'events').rglob('*.json'))}"

    def sessions(self) -> dict[str, list[Any]]:
        return asyncio.run(_records(self.home / "workspaces" / "default" / "workspace.db"))


async def _records(path: Path) -> dict[str, list[Any]]:
    store = SqliteStore(str(path), read_only=True)
    await store.open()
    try:
        return {
            one.key: [record.event for record in await store.read_records(one.key, limit=100_000)]
            for one in await store.list_sessions(limit=1_000)
        }
    finally:
        await store.close()


def _now() -> int:
    return int(time.time())


def until(holds: Callable[[], Any], describe: Callable[[], str] = str) -> Any:
    end = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < end, f"it did not happen; {describe()}"
        time.sleep(0.2)
    return found


def list_skills(mainstay: Command) -> dict[tuple[str, str], str]:
    """Name and scope of every skill, and whose words it has."""
    listed = mainstay.json("skill", "list", "--workspace", "default")
    return {(one["name"], one["scope"]): one["trust"] for one in listed["skills"]}


@pytest.mark.parametrize("seed", SEEDS)
def test_f10_f29_f42_after_many_kills_every_event_happened_once_and_no_skill_is_lost(
    seed: int, tmp_path: Path, model: FakeModel
) -> None:
    mainstay = Command(tmp_path, model.url)
    life = CrashRun(mainstay, seed)
    life.furnish()
    before = list_skills(mainstay)
    assert set(before.values()) == {"own", "trusted", "untrusted"}
    for number in range(KILLS):
        life.live(number)
    life.settle()

    sessions = life.sessions()
    received = [one for events in sessions.values() for one in events if isinstance(one, Received)]
    said = Counter(parts_text(one.parts) for one in received)
    assert {text: said[text] for text in life.texts} == dict.fromkeys(life.texts, 1)
    for title in life.titles:
        assert sum(count for text, count in said.items() if title in text) == 1, title
    assert max(Counter(one.id for one in received if one.id).values()) == 1
    ends = [one for events in sessions.values() for one in events if isinstance(one, TurnEnded)]
    assert {type(one.outcome) for one in ends} == {Answered}

    events = life.home / "events"
    assert sorted(one.name for one in events.glob("*.json")) == ["every-minute.json", "never.json"]
    assert [one.stem for one in sorted((events / "done").glob("event-*.json"))] == [
        f"event-{number:03}" for number in range(len(life.texts))
    ]
    assert list((events / "failed").iterdir()) == []
    runs = mainstay.json("trigger", "history", "--limit", "500")["runs"]
    assert max(Counter((one["trigger"], one["key"]) for one in runs).values()) == 1
    fired = [one for one in runs if one.get("came", "fired") == "fired"]
    assert {one.get("outcome") for one in fired if one["trigger"] != "every-minute"} == {"answered"}
    ticks = {one.get("outcome") for one in fired if one["trigger"] == "every-minute"}
    assert ticks <= {"answered", None}, "the clock may have fired while the server was stopped"

    after = list_skills(mainstay)
    assert {key: trust for key, trust in after.items() if key[0] not in life.bringing} == before
    assert {trust for key, trust in after.items() if key[0] in life.bringing} <= {"untrusted"}  # whole, or not there
    assert len(mainstay.json("pattern", "list")["patterns"]) == 3
    doctor = mainstay.json("doctor")
    assert doctor["ok"], doctor
    assert {
        one["verdict"] for one in doctor["checks"] if one["check"] in ("Skills", "Patterns", "Triggers", "Webhook")
    } == {"ok"}


async def test_a_turn_and_prompts_behind_it_are_done_after_many_shutdowns(tmp_path: Path) -> None:
    """A shutdown in order does not count against the turn that it interrupts, nor against what waits behind it."""
    home, waiting = tmp_path / "home", []
    for number in range(Limits().resumes_max + 1):
        stuck = ScriptedProvider(lambda context, options: Stall())
        async with Agent(stuck, home=home) as agent:
            if number == 0:
                waiting = [asyncio.ensure_future(agent.run("s", text)) for text in ("what is stuck", "what waits")]
            while not stuck.asked:
                await asyncio.sleep(0.01)
    await asyncio.gather(*waiting, return_exceptions=True)
    async with Agent(ScriptedProvider(["Very well.", "And this."]), home=home) as agent:
        await agent.settled()
        ends = [one.event for one in await agent.sessions.records("s") if isinstance(one.event, TurnEnded)]
        assert [type(one.outcome) for one in ends] == [Answered, Answered]
