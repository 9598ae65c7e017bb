"""The gateway under load while it is killed, stopped and told to read its configuration again (F47)."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.gateway_chaos import MARK, Follower, Model, Platform, Poster, ServerRestarts, Talker, ask, kind_of, until

from mainstay.core.events import Received, Steered, TurnEnded, TurnResumed, TurnStarted
from mainstay.core.journal import Record

KILLS = 50 if os.environ.get("MAINSTAY_TEST_ALL") else 3
SESSIONS, ROOMS = 6, 2


class PatientServer(ServerRestarts):
    """Sets no turn aside: on a slow machine, a turn may make no progress between several kills."""

    def configure(self, instructions: str = "Be terse.", more: str = "") -> None:
        super().configure(instructions, f"limits: {{resumes_max: 1000}}\n{more}")


@asynccontextmanager
async def running(*works: Any) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(found, Exception):
                raise found


@pytest.mark.timeout(600 + 40 * KILLS)
async def test_a_server_that_is_killed_repeatedly_loses_nothing_and_posts_nothing_twice(tmp_path: Path) -> None:
    chance = random.Random(7)
    async with Model() as model, Platform() as platform, PatientServer(tmp_path, model, platform) as server:
        talkers = [Talker(server.port, f"s{n}") for n in range(SESSIONS)]
        followers = [Follower(server.port, one.session) for one in talkers]
        posters = [Poster(server.port, f"room{n}", platform) for n in range(ROOMS)]
        async with running(*(one.run() for one in followers)):
            async with running(*(one.run() for one in (*talkers, *posters))) as saying:
                for _ in range(KILLS):
                    await asyncio.sleep(chance.uniform(0.2, 1.0))  # at any moment of what is going on
                    await server.end()
                    await server.start()
                for one in (*talkers, *posters):
                    one.stopping = True
                await asyncio.wait_for(asyncio.gather(*saying), 300)
            await server.settled()
            marks = [mark for one in posters for mark in one.taken]
            await until(lambda: len(platform.shown) >= len(marks), lambda: server.said)
            told = {one.session: await server.events(one.session) for one in talkers}
            for one in followers:
                await until(lambda one=one: len(one.heard) >= len(told[one.session]), lambda: server.said)  # type: ignore[misc]
        await server.settled()
        assert await server.end(signal.SIGTERM) == 0
        for talker, follower in zip(talkers, followers, strict=True):
            records = await server.journal(talker.session)
            check_turns(records, talker.taken)
            assert told[talker.session] == [(one.seq, kind_of(one)) for one in records]
            assert follower.heard == told[talker.session]
            for id, heard in talker.heard.items():
                assert heard == turn_of(records, id)
        assert sum(len(one.taken) for one in talkers) > KILLS
        assert any(one.broken for one in talkers)
        # each message has one answer, under one key, however often it was sent
        answers = [MARK.findall(text) for text in platform.shown.values()]
        assert sorted(answers) == sorted([mark] for mark in marks)
        assert len(marks) > ROOMS
        assert platform.came > len(platform.shown)


def check_turns(records: list[Record], taken: list[str]) -> None:
    """Every accepted prompt is there once, and was answered in one turn that ended."""
    received = {one.event.id: one.seq for one in records if isinstance(one.event, Received)}
    assert [one.event.id for one in records if isinstance(one.event, Received)] == list(received), "one came twice"
    ended = [one.event.turn for one in records if isinstance(one.event, TurnEnded)]
    assert len(ended) == len(set(ended)), "a turn ended twice"
    for id in taken:
        assert id in received, f"{id} was taken, and is lost"
        turns = [one.event.turn for one in records if _takes(one, received[id])]
        assert len(turns) == 1, f"{id} is in the turns {turns}"
        assert turns[0] in ended, f"the turn of {id} has no end"


def _takes(record: Record, seq: int) -> bool:
    return isinstance(record.event, TurnStarted | Steered) and seq in record.event.inputs


def turn_of(records: list[Record], id: str) -> list[tuple[int, str]]:
    """From a prompt to the end of its turn, without events of other turns."""
    begin = next(one.seq for one in records if isinstance(one.event, Received) and one.event.id == id)
    turn = next(one.event.turn for one in records if _takes(one, begin))
    end = next(one.seq for one in records if isinstance(one.event, TurnEnded) and one.event.turn == turn)
    return [(one.seq, kind_of(one)) for one in records if begin <= one.seq <= end and one.event.turn in (0, turn)]


async def test_sigterm_lets_short_turns_end_and_the_next_start_ends_the_long_ones_once(tmp_path: Path) -> None:
    """F47: drained, or parked and taken up."""
    async with Model() as model, ServerRestarts(tmp_path, model, drain_s=2.5) as server:
        slow = [Talker(server.port, f"slow{n}") for n in range(4)]
        quick = [Talker(server.port, f"quick{n}") for n in range(4)]
        model.pause_s = 0.02
        works = (*(one.stream(1, "slowly") for one in slow), *(one.stream(1) for one in quick))
        async with running(*works) as hearing:
            await until(lambda: model.asked == len(works), lambda: server.said)
            code = await server.end(signal.SIGTERM)
            assert code == 0
            assert all(one.done() for one in hearing[len(slow) :])
            assert not any(one.done() for one in hearing[: len(slow)])
            assert [one.broken for one in quick] == [0] * len(quick)
            model.pause_s = 0.001
            await server.start()
            await asyncio.wait_for(asyncio.gather(*hearing), 120)
        await server.settled()
        await server.end(signal.SIGTERM)
        for talker in (*slow, *quick):
            records = await server.journal(talker.session)
            check_turns(records, talker.taken)
            assert talker.heard["p1"] == turn_of(records, "p1")
            assert any(isinstance(one.event, TurnResumed) for one in records) == (talker in slow)


async def test_sighup_under_load_drops_nothing_and_a_broken_configuration_changes_nothing(tmp_path: Path) -> None:
    """F47."""
    async with Model() as model, ServerRestarts(tmp_path, model) as server, AsyncExitStack() as stack:
        talkers = [Talker(server.port, f"s{n}") for n in range(SESSIONS)]
        saying = await stack.enter_async_context(running(*(one.run() for one in talkers)))

        async def told(sentence: str) -> str:
            """The answer to a new client, once the signal was handled."""
            before = server.said.count(sentence)
            server.send(signal.SIGHUP)
            await until(lambda: server.said.count(sentence) > before, lambda: server.said)
            name = f"new{model.asked}"
            _, found = await ask(server.port, f"POST /api/sessions/{name}/prompt", {"text": f"say #{name}-1"})
            return str(found["text"])

        await until(lambda: all(len(one.taken) > 1 for one in talkers))
        for who in ("Be kind.", "Be bold."):
            server.configure(who)
            assert (await told("the configuration was reloaded; changed: workspace default")).startswith(f"[{who}]")
        server.configure("Be broken.", more="limits: {no_such_limit: 1}")
        assert (await told("the configuration was not reloaded")).startswith("[Be bold.]")
        for one in talkers:
            one.stopping = True
        await asyncio.wait_for(asyncio.gather(*saying), 120)
        assert [one.broken for one in talkers] == [0] * SESSIONS
        await server.settled()
        assert await server.end(signal.SIGTERM) == 0
        for one in talkers:
            records = await server.journal(one.session)
            check_turns(records, one.taken)
            assert not any(isinstance(found.event, TurnResumed) for found in records)
