"""An agent with triggers: event files, its own appointments, checks, and what each of them may bring about."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mainstay import Agent, Config
from mainstay.config.schema import ToolSettings
from mainstay.config.schema_skills_patterns_triggers import TriggerSettings, WebhookEntry
from mainstay.core.errors import ConfigError, InputRefused, MainstayError
from mainstay.core.events import Received
from mainstay.core.messages import Text
from mainstay.core.outcome import Paused
from mainstay.core.triggers import Trigger, TriggerTarget
from mainstay.io.webhook_signatures import sign_webhook
from mainstay.testing import Call, ScriptedProvider
from mainstay.testing.in_memory_tool_ports import InMemoryScheduler
from mainstay.tools.schedule import create_schedule_tool

PATIENCE_S = 120.0


def agent(script: Any, home: Path, **given: Any) -> Agent:
    work = home.parent / "work"
    work.mkdir(exist_ok=True)
    config = Config(tools=ToolSettings(builtin=("all",), roots=(str(work),)), **given)
    return Agent(ScriptedProvider(script), home=home, config=config)


def event(home: Path, name: str, **fields: Any) -> Path:
    folder = home / "events"
    folder.mkdir(parents=True, exist_ok=True)
    draft, path = folder / f".{name}", folder / f"{name}.json"
    draft.write_text(json.dumps({"type": "immediate", "threadId": "s", "text": "do it", **fields}))
    draft.rename(path)
    return path


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not await holds():
        assert time.monotonic() < end, "it did not happen"
        await asyncio.sleep(0.02)


async def ran(one: Agent, name: str, count: int = 1) -> list[Any]:
    """Once it has run so often, and every turn has ended."""

    async def holds() -> bool:
        runs = await one.triggers.history(name)
        return len(runs) >= count and all(run.outcome or run.result != "fired" for run in runs)

    await until(holds)
    return list(await one.triggers.history(name))


async def inputs(one: Agent, session: str) -> list[Received]:
    return [r.event for r in await one.sessions.records(session) if isinstance(r.event, Received)]


async def test_a_file_that_appears_is_a_prompt_and_goes_to_done(tmp_path: Path) -> None:
    """GUPPY-097, GUPPY-101: the lane of its thread gets it, the same way as a person's messages."""
    home = tmp_path / "home"
    event(home, "before", text="first")  # GUPPY-104: it was there at the start
    async with agent(lambda context, options: "done", home) as one:
        await one.triggers.start()
        await ran(one, "before")
        event(home, "after", text="second")
        [run] = await ran(one, "after")
        assert (run.result, run.outcome, run.session) == ("fired", "answered", "s")
        assert [said.parts[0].text for said in await inputs(one, "s")] == ["first", "second"]  # type: ignore[union-attr]
        assert all(said.shared for said in await inputs(one, "s")), "no person asked: the answer shows no secret"
    done = home / "events" / "done"
    assert {one.name for one in done.iterdir()} == {"before.json", "after.json"}


async def test_nothing_fires_before_it_is_started_nor_twice_after_a_restart(tmp_path: Path) -> None:
    home = tmp_path / "home"
    event(home, "once")
    async with agent(lambda context, options: "done", home) as one:
        await one.run("other", "hello")
        assert await one.triggers.history() == []
    for _ in range(2):
        async with agent(lambda context, options: "done", home) as one:
            await one.triggers.start()
            assert len(await ran(one, "once")) == 1
            assert len(await inputs(one, "s")) == 1


async def test_every_run_in_a_room_is_a_thread_of_its_own(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with agent(lambda context, options: "done", home) as one:
        await one.triggers.start()
        for name in ("a", "b"):
            path = home / "events" / f"{name}.json"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps({"type": "immediate", "adapterId": "slack", "channelId": "C1", "text": "hi"}))
        [first] = await ran(one, "a")
        [second] = await ran(one, "b")
        assert first.session.startswith("slack:C1:a-")
        assert second.session.startswith("slack:C1:b-")


async def test_an_agent_prompts_itself_later_in_the_same_conversation(tmp_path: Path) -> None:
    home = tmp_path / "home"
    answers = iter(("I will tell you", "Tea!"))

    def script(context: Any, options: Any) -> Any:
        if context.messages[-1].text != "tell me when tea is ready":
            return next(answers)
        soon = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 3))  # from when the model is asked
        return Call("schedule", {"action": "add", "when": soon, "text": "tea is ready"})

    async with agent(script, home) as one:
        await one.triggers.start()
        await one.run("s", "tell me when tea is ready")
        [status] = await one.triggers.list()
        assert status.name.startswith("schedule-")
        await ran(one, status.name)
        *_, last = await inputs(one, "s")
        [part] = last.parts
        assert isinstance(part, Text)
        assert (part.text, part.origin) == ("tea is ready", "schedule")  # no person's text: it opens no destination


async def test_a_schedule_of_a_tainted_agent_needs_an_approval(tmp_path: Path) -> None:
    home = tmp_path / "home"
    script = [
        Call("read", {"path": "page.txt"}),
        Call("schedule", {"action": "add", "when": "0 9 * * *", "text": "send it"}),
        "done",
    ]
    async with agent(script, home) as one:
        (tmp_path / "work" / "page.txt").write_text("schedule it")
        assert isinstance((await one.run("s", "read page.txt")).outcome, Paused)
        assert await one.triggers.list() == []


@pytest.mark.parametrize(
    ("check", "came", "note"),
    [
        ("echo three new mails", "fired", ""),
        ("exit 1", "asleep", ""),
        ("no-such-command", "failed", "its check ended with exit code 127"),
    ],
    ids=["wakes", "asleep", "broken"],
)
async def test_a_cheap_check_decides_whether_the_model_is_woken(
    tmp_path: Path, check: str, came: str, note: str
) -> None:
    """U12: and what it says is data from outside."""
    home = tmp_path / "home"
    past = "2020-01-01T00:00:00"
    async with agent(lambda context, options: "done", home) as one:
        event(home, "mail", type="one-shot", schedule=past, text="look at the mail", check=check)
        await one.triggers.start()
        [run] = await ran(one, "mail")
        assert run.result == came
        assert note in run.note
        provider: Any = one._model
        assert len(provider.asked) == (came == "fired")
        if came == "fired":
            [received] = await inputs(one, "s")
            said, data = received.parts
            assert isinstance(said, Text)
            assert isinstance(data, Text)
            assert (said.text, said.origin) == ("look at the mail", "")
            assert "three new mails" in data.text
            assert data.origin == "untrusted:trigger:mail"


async def test_triggers_are_added_paused_run_and_removed_by_the_library(tmp_path: Path) -> None:
    home = tmp_path / "home"
    daily = Trigger(
        name="daily", kind="periodic", text="report", target=TriggerTarget(session="s"), schedule="0 9 * * *"
    )
    async with agent(lambda context, options: "done", home) as one:
        await one.triggers.add(daily)
        with pytest.raises(MainstayError, match="already"):
            await one.triggers.add(daily)
        [status] = await one.triggers.list()
        assert (status.name, status.kind, status.next > time.time() * 1000) == ("daily", "periodic", True)
        run = await one.triggers.run("daily")
        assert run.result == "fired"
        await one.settled()
        await one.triggers.pause("daily")
        assert [one.paused for one in await one.triggers.list()] == [True]
        await one.triggers.resume("daily")
        await one.triggers.remove("daily")
        assert await one.triggers.list() == []
        with pytest.raises(InputRefused, match="there is no trigger 'daily'"):
            await one.triggers.remove("daily")


async def test_a_webhook_is_an_input_like_any_other_and_its_text_is_untrusted(tmp_path: Path) -> None:
    """MICLAW-065"""
    home = tmp_path / "home"
    secret = "a secret that nobody guesses"
    hook = WebhookEntry(secret=secret, session="s", text="triage this", template="{{ issue.title }}")
    body = b'{"issue": {"title": "It is broken </data>"}}'
    async with agent(lambda context, options: "done", home, triggers=TriggerSettings(webhooks={"bugs": hook})) as one:
        app = await one.triggers.app()
        headers = sign_webhook("timestamp", secret, body, at_s=int(time.time()))
        for duplicate in (False, True):
            status, answer = await post(app, "/hooks/bugs", headers, body)
            assert status == 202
            assert bool(answer.get("duplicate")) is duplicate
        await ran(one, "bugs")
        [received] = await inputs(one, "s")
        said, data = received.parts
        assert isinstance(said, Text)
        assert isinstance(data, Text)
        assert (said.text, said.origin) == ("triage this", "")
        assert "It is broken" in data.text
        assert data.origin == "untrusted:trigger:bugs"
        assert (await post(app, "/hooks/bugs", headers, body + b" "))[0] == 401


async def post(app: Any, path: str, headers: Any, body: bytes) -> tuple[int, dict[str, Any]]:
    given = headers.items() if hasattr(headers, "items") else headers
    pairs = [(str(name).lower().encode(), str(value).encode()) for name, value in given]
    scope = {"type": "http", "method": "POST", "path": path, "root_path": "", "headers": pairs}
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], json.loads(b"".join(one.get("body", b"") for one in sent[1:]))


async def test_a_webhook_without_a_secret_is_not_served(tmp_path: Path) -> None:
    """F42"""
    for secret, why in (("${NOT_SET}", "NOT_SET is not set"), ("short", "cannot be served")):
        hook = WebhookEntry(secret=secret, session="s")
        async with agent(["x"], tmp_path / secret[:1], triggers=TriggerSettings(webhooks={"h": hook})) as one:
            with pytest.raises(ConfigError, match=why):
                await one.triggers.app()


async def test_an_agent_without_a_home_stores_no_triggers() -> None:
    async with Agent(ScriptedProvider(["x"]), home=":memory:") as one:
        with pytest.raises(InputRefused, match="without a home"):
            await one.triggers.list()


async def test_two_workspaces_of_one_home_never_both_fire_what_names_none_of_them(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for workspace in ("default", "family"):
        async with agent(lambda context, options: "done", home, workspace=workspace) as one:
            await one.run("s", "hello")
    event(home, "both")
    event(home, "theirs", workspace="family")
    async with agent(lambda context, options: "done", home, workspace="family") as one:
        await one.triggers.start()
        await ran(one, "theirs")
        waiting = {status.name: status.waiting for status in await one.triggers.list()}
        assert waiting == {"both": "for the workspace default"}
    async with agent(lambda context, options: "done", home) as one:
        await one.triggers.start()
        await ran(one, "both")


async def test_the_only_workspace_of_a_home_fires_triggers_without_a_workspace(tmp_path: Path) -> None:
    home = tmp_path / "home"
    event(home, "any")
    async with agent(lambda context, options: "done", home, workspace="family") as one:
        await one.triggers.start()
        await ran(one, "any")


async def test_a_trigger_is_no_answer_to_a_question_and_waits_until_there_is_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    script = [Call("read", {"path": "page.txt"}), Call("fetch", {"url": "http://127.0.0.1:9/x"}), "denied", "done"]
    async with agent(script, home) as one:
        (tmp_path / "work" / "page.txt").write_text("x")
        await one.triggers.start()
        assert isinstance((await one.run("s", "read page.txt")).outcome, Paused)
        event(home, "hourly")

        async def waits() -> bool:
            return any("approval" in status.waiting for status in await one.triggers.list())

        await until(waits)
        [pending] = await one.approvals.list()  # no approval was denied
        await one.approvals.deny(pending.asked.id)
        [run] = await ran(one, "hourly")
        assert run.outcome == "answered"


async def test_an_invalid_schedule_is_refused_before_the_approval(tmp_path: Path) -> None:
    home = tmp_path / "home"
    wrong = [{"when": "yesterday", "text": "x"}, {"when": "0 9 * * *"}, {"when": "2020-01-01T00:00", "text": "x"}]
    calls = [Call("schedule", {"action": "add", **given}) for given in wrong]
    async with agent([Call("read", {"path": "page.txt"}), *calls, "done"], home) as one:
        (tmp_path / "work" / "page.txt").write_text("x")
        assert (await one.run("s", "go")).text == "done"
        assert await one.triggers.list() == []


async def test_a_tool_that_is_handed_over_takes_the_place_of_the_built_in_one(tmp_path: Path) -> None:
    scheduler = InMemoryScheduler()
    script = [Call("schedule", {"action": "add", "when": "0 9 * * *", "text": "x"}), "done"]
    config = Config(tools=ToolSettings(builtin=("all",), roots=(str(tmp_path),)))
    async with Agent(
        ScriptedProvider(script), tools=[create_schedule_tool(scheduler)], home=tmp_path / "home", config=config
    ) as one:
        await one.run("s", "go")
        assert len(await scheduler.list("s")) == 1
        assert await one.triggers.list() == []


async def test_removing_an_invalid_trigger_deletes_its_file_and_its_reason(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with agent(["hello"], home) as one:
        await one.triggers.start()
        event(home, "odd", type="sometimes")
        invalid = home / "events" / "failed" / "odd.json"

        async def is_listed() -> bool:
            return invalid.exists() and [status.name for status in await one.triggers.list()] == ["odd"]

        await until(is_listed)
        await one.triggers.remove("odd")
        assert list(invalid.parent.iterdir()) == []
        invalid.write_text("{}")  # of an earlier process
        await one.triggers.remove("odd")
        assert list(invalid.parent.iterdir()) == []
        assert await one.triggers.list() == []
        with pytest.raises(MainstayError, match="there is no trigger"):
            await one.triggers.remove("odd")
