"""One case for one subject in a process of its own; prints one line of JSON.

CPU is user and system time of all threads of this process (and its children), after a warm-up. Both subjects are
driven by the same functions under uvloop, and every answer is compared with what the model said.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import resource
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import uvloop
from model_server import ANSWER

CHAT = "Please tell me about item number %d, briefly."
TOOL = "tool: please add 2 and 3 for item number %d."
Result = dict[str, float]


class Subject(Protocol):
    async def open(self) -> None: ...
    async def turn(self, session: str, text: str) -> str: ...
    async def close(self) -> None: ...


class Meter:
    """CPU and wall time between entering and leaving."""

    def __enter__(self) -> Meter:
        gc.collect()
        self.wall_s, self.cpu_s = -time.perf_counter(), -cpu_s()
        return self

    def __exit__(self, *error: object) -> None:
        self.wall_s, self.cpu_s = self.wall_s + time.perf_counter(), self.cpu_s + cpu_s()


def cpu_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def rss_kb() -> float:
    """Memory in use now; where the system does not say, the most there ever was."""
    gc.collect()
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / 1024 if sys.platform == "darwin" else most
    return pages * resource.getpagesize() / 1024


async def checked(subject: Subject, session: str, text: str) -> None:
    answer = await subject.turn(session, text)
    if answer.strip() != ANSWER.strip():
        raise SystemExit(f"wrong answer in session {session}: {answer!r:.200}")


async def warm_up(subject: Subject, sessions: int = 5) -> None:
    async def one(session: str) -> None:
        await checked(subject, session, CHAT % 0)
        await checked(subject, session, TOOL % 0)

    await asyncio.gather(*(one(f"warm{os.getpid()}-{n}") for n in range(sessions)))
    if (followed := getattr(subject, "followed", None)) is not None:
        await followed()  # memory loads its model once in a process, after the first turns


async def spread(subject: Subject, sessions: range, at_once: int) -> None:
    """One chat turn in each session, so many at a time."""
    waiting = iter(sessions)

    async def some() -> None:
        for n in waiting:
            await checked(subject, f"s{n}", CHAT % n)

    await asyncio.gather(*(some() for _ in range(at_once)))


def per_turn(meter: Meter, turns: int) -> Result:
    return {
        "cpu_ms": 1000 * meter.cpu_s / turns,
        "wall_ms": 1000 * meter.wall_s / turns,
        "turns_s": turns / meter.wall_s,
        "rss_mb": rss_kb() / 1024,
    }


class Cases:
    """The cases, by the name they are asked for."""

    def __init__(self, subject: Subject, given: argparse.Namespace) -> None:
        self.subject, self.given = subject, given
        self.text = TOOL if given.tool else CHAT

    async def turns(self) -> Result:
        """Turns one after another."""
        given = self.given
        await warm_up(self.subject)
        with Meter() as meter:
            for s in range(given.sessions):
                for t in range(given.turns):
                    await checked(self.subject, f"s{s}", self.text % t)
        return per_turn(meter, given.sessions * given.turns)

    async def together(self) -> Result:
        """All sessions at once, the turns of each one after another."""
        given = self.given

        async def session(name: str) -> None:
            for t in range(given.turns):
                await checked(self.subject, name, self.text % t)

        await warm_up(self.subject)
        with Meter() as meter:
            await asyncio.gather(*(session(f"s{s}") for s in range(given.sessions)))
        return per_turn(meter, given.sessions * given.turns)

    async def flight(self) -> Result:
        """Memory of a turn that waits for its model."""
        await warm_up(self.subject, sessions=1)
        before = rss_kb()
        turns = [
            asyncio.ensure_future(checked(self.subject, f"s{s}", self.text % s)) for s in range(self.given.sessions)
        ]
        while (waiting := await asked(self.given.url)) < len(turns):
            if any(turn.done() for turn in turns):
                raise SystemExit(f"turns ended before all were in flight ({waiting} of {len(turns)})")
            await asyncio.sleep(0.05)
        grown = rss_kb() - before
        await asyncio.gather(*turns)
        return {"turn_kb": grown / len(turns)}

    async def lanes(self) -> Result:
        """Memory of sessions that are awake and idle."""
        few, many = self.given.sessions, self.given.more
        await warm_up(self.subject)
        await spread(self.subject, range(few), 20)
        before = rss_kb()
        await spread(self.subject, range(few, many), 20)
        return {"lane_kb": (rss_kb() - before) / (many - few)}

    async def disk(self) -> Result:
        """Bytes a turn leaves on disk once the log is folded into the database."""
        given = self.given
        await warm_up(self.subject)
        before = await self.kept()
        for s in range(given.sessions):
            for t in range(given.turns):
                await checked(self.subject, f"s{s}", self.text % t)
        return {"turn_kb": (await self.kept() - before) / 1024 / (given.sessions * given.turns)}

    async def kept(self) -> int:
        await self.subject.close()
        for path in self.given.home.rglob("*.db"):
            with contextlib.closing(sqlite3.connect(path)) as db:
                db.execute("pragma wal_checkpoint(truncate)")
        size: int = sum(path.stat().st_size for path in self.given.home.rglob("*") if path.is_file())
        await self.subject.open()
        return size

    async def first(self) -> Result:
        """The first turn of a session this process has not seen."""
        await warm_up(self.subject)
        with Meter() as meter:
            await checked(self.subject, self.given.session, CHAT % 1)
        return {"cpu_ms": 1000 * meter.cpu_s, "wall_ms": 1000 * meter.wall_s}


async def asked(url: str) -> int:
    """How many requests are waiting in the model server."""
    host, port = url.split("/")[2].split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /stats HTTP/1.1\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    stats: dict[str, int] = json.loads(await reader.readuntil(b"}"))
    writer.close()
    return stats["waiting"]


async def run(given: argparse.Namespace) -> Result:
    if given.subject == "limit":
        from limit import Limit

        subject: Subject = Limit(given.url, given.home)
    else:
        from ours import Ours

        subject = Ours(given)
    await subject.open()
    try:
        case: Callable[[], Awaitable[Result]] = getattr(Cases(subject, given), given.case, None) or getattr(
            subject, given.case
        )
        return await case()
    finally:
        await subject.close()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("case")
    options.add_argument("subject", choices=("limit", "mainstay"))
    options.add_argument("--url", default="http://127.0.0.1:1/v1")
    options.add_argument("--home", type=Path, required=True)
    options.add_argument("--sessions", type=int, default=1)
    options.add_argument("--turns", type=int, default=1, help="of each session")
    options.add_argument("--more", type=int, default=2, help="so many sessions in the end")
    options.add_argument("--session", default="long")
    options.add_argument("--messages", type=int, default=0)
    options.add_argument("--tool", action="store_true", help="ask for a tool call")
    options.add_argument("--idle-s", type=float, help="when a lane goes to sleep")
    options.add_argument("--memory", choices=("on", "off"), default="on")
    options.add_argument("--core", type=int)
    given = options.parse_args()
    if given.core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {given.core})
    print(json.dumps(uvloop.run(run(given))), flush=True)


if __name__ == "__main__":
    main()
