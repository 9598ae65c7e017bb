"""Schedules of a conversation are event files of its own."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import msgspec
import pytest

from mainstay.core.errors import InputRefused
from mainstay.core.memory_tiers import is_untrusted
from mainstay.core.ports import ToolContext
from mainstay.core.tool_ports import ScheduledPrompt, Scheduler
from mainstay.tools.schedule import create_schedule_tool
from mainstay.triggers.event_folder import EventFolder
from mainstay.triggers.file_scheduler import SESSION_PROMPTS_MAX, WORKSPACE_PROMPTS_MAX, FileScheduler


class HandClock:
    def __init__(self) -> None:
        self.at = time.time()

    def now_ms(self) -> int:
        return int(self.at * 1000)

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


class World:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = HandClock()
        self.fired: set[str] = set()
        self.folder = EventFolder(str(path), self.clock)
        self.scheduler = self.open("home")

    def open(self, workspace: str) -> FileScheduler:
        async def fired(name: str) -> bool:
            return name in self.fired

        return FileScheduler(self.folder, self.clock, fired, workspace=workspace)

    def files(self) -> list[str]:
        return sorted(one.name for one in self.path.glob("*.json"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "events")


ONCE = ScheduledPrompt(
    when="2099-01-01T09:00", text="look again", session="s", timezone="Europe/Lisbon", key="k", person="ann"
)


async def test_an_appointment_is_an_event_file_to_its_own_conversation(world: World) -> None:
    id = await world.scheduler.add(ONCE)
    assert world.files() == [f"{id}.json"]
    assert json.loads((world.path / f"{id}.json").read_text()) == {
        "type": "one-shot",
        "threadId": "s",
        "text": "look again",
        "schedule": "2099-01-01T09:00",
        "timezone": "Europe/Lisbon",
        "person": "ann",
        "origin": "schedule",  # no person typed it
        "workspace": "home",
    }
    (one,) = await world.scheduler.list("s")
    assert one == msgspec.structs.replace(ONCE, id=id, key="", origin="schedule")
    daily = await world.scheduler.add(ScheduledPrompt(when="0 9 * * MON-FRI", text="news", session="s", key="other"))
    assert world.folder.scan().triggers[daily][0].kind == "periodic"


async def test_a_schedule_made_under_taint_stays_untrusted(world: World) -> None:
    id = await world.scheduler.add(msgspec.structs.replace(ONCE, origin="untrusted:conversation"))
    assert is_untrusted(world.folder.scan().triggers[id][0].origin)
    assert [is_untrusted(one.origin) for one in await world.scheduler.list("s")] == [True]


async def test_the_same_key_is_taken_once_also_after_it_has_fired(world: World) -> None:
    id = await world.scheduler.add(ONCE)
    before = (world.path / f"{id}.json").stat()
    other = msgspec.structs.replace(ONCE, text="something else", when="@daily")
    assert await world.scheduler.add(other) == id
    assert (world.path / f"{id}.json").stat() == before
    claim = world.folder.claim(id, world.folder.scan().triggers[id][1])
    assert claim is not None
    assert await world.scheduler.add(ONCE) == id  # on its way
    world.folder.move_to_done(claim)
    assert await world.scheduler.add(ONCE) == id  # done
    (world.path / "done" / f"{id}.json").unlink()
    world.fired.add(id)
    world.clock.at += 200 * 366 * 86_400
    assert await world.scheduler.add(ONCE) == id  # long ago, and its time is over
    assert world.files() == []
    assert await world.scheduler.list("s") == []


async def test_at_the_same_moment_the_same_key_makes_one_file_and_no_key_makes_several(world: World) -> None:
    ids = await asyncio.gather(*(world.scheduler.add(ONCE) for _ in range(20)))
    assert len(set(ids)) == 1
    assert len(world.files()) == 1
    nameless = msgspec.structs.replace(ONCE, key="")
    assert await world.scheduler.add(nameless) != await world.scheduler.add(nameless)
    assert await world.scheduler.add(msgspec.structs.replace(ONCE, session="t")) != ids[0]


@pytest.mark.parametrize(
    ("when", "zone", "said"),
    [
        ("tomorrow", "UTC", "five cron fields"),
        ("2020-01-01T09:00", "UTC", "is in the past"),
        ("2099-02-30T09:00", "UTC", "no such day"),
        ("0 0 30 2 *", "UTC", "never comes"),
        ("* * * * * *", "UTC", "seconds are not supported"),
        ("@daily", "Europe/Lisbn", "did you mean Europe/Lisbon"),
        ("", "UTC", "needs a `schedule`"),
    ],
)
async def test_an_invalid_time_is_refused_and_nothing_is_written(world: World, when: str, zone: str, said: str) -> None:
    with pytest.raises(InputRefused) as caught:
        await world.scheduler.add(msgspec.structs.replace(ONCE, when=when, timezone=zone))
    assert said in str(caught.value)
    assert str(caught.value).endswith("Nothing was scheduled.")
    assert world.files() == []


async def test_a_conversation_sees_and_removes_its_own_alone(world: World) -> None:
    mine = await world.scheduler.add(ONCE)
    theirs = await world.scheduler.add(msgspec.structs.replace(ONCE, session="t"))
    elsewhere = await world.open("work").add(msgspec.structs.replace(ONCE, key="w"))
    by_hand = {"type": "immediate", "threadId": "s", "text": "the owner's", "paused": True}
    (world.path / "schedule-mine.json").write_text(json.dumps(by_hand))
    assert [one.id for one in await world.scheduler.list("s")] == [mine]
    for id in (theirs, elsewhere, "schedule-mine", "nothing", "../x", ""):
        assert not await world.scheduler.remove("s", id)
    assert len(world.files()) == 4
    assert await world.scheduler.remove("s", mine)
    assert not await world.scheduler.remove("s", mine)
    assert len(world.files()) == 3


async def test_there_is_a_bound_for_each_conversation_and_for_all(world: World) -> None:
    await world.scheduler.add(ONCE)
    (raw,) = (one.read_text() for one in world.path.glob("*.json"))

    def fill(sessions: range, each: range) -> None:
        for session in sessions:
            for number in each:
                fields = {**json.loads(raw), "threadId": f"s{session}"}
                (world.path / f"schedule-{session}-{number}.json").write_text(json.dumps(fields))

    fill(range(1), range(SESSION_PROMPTS_MAX))
    full = msgspec.structs.replace(ONCE, session="s0", key="one more")
    with pytest.raises(InputRefused, match=f"this session has {SESSION_PROMPTS_MAX} scheduled prompts already"):
        await world.scheduler.add(full)
    await world.scheduler.add(msgspec.structs.replace(ONCE, key="another"))  # others may go on
    fill(range(1, 10), range(WORKSPACE_PROMPTS_MAX // 10))
    with pytest.raises(InputRefused, match=f"there are {WORKSPACE_PROMPTS_MAX} scheduled prompts already"):
        await world.scheduler.add(msgspec.structs.replace(ONCE, key="yet another"))
    assert await world.scheduler.remove("s0", "schedule-0-0")


async def test_the_schedule_tool_works_on_it(world: World) -> None:
    tool = create_schedule_tool(world.scheduler)

    async def call(arguments: dict[str, str]) -> str:
        context = ToolContext("s", 1, 1, "c1", lambda event: None)
        return str(await tool.run(tool.parse(json.dumps(arguments)), context))

    said = await call({"action": "add", "when": "2099-01-01T09:00", "text": "look", "timezone": "Europe/Lisbon"})
    (one,) = await world.scheduler.list("s")
    assert one.id in said
    assert one.id in await call({"action": "list"})
    assert await call({"action": "remove", "id": one.id}) == f"Removed {one.id}."
    assert await world.scheduler.list("s") == []


def test_it_is_the_port_that_tools_know(world: World) -> None:
    port: Scheduler = world.scheduler
    assert port


async def test_two_workspaces_with_sessions_of_one_name_have_appointments_of_their_own(world: World) -> None:
    red, blue = world.open("red"), world.open("blue")
    assert len({await red.add(ONCE), await blue.add(ONCE)}) == 2
    assert len(await red.list("s")) == len(await blue.list("s")) == 1
