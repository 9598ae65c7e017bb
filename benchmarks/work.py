"""Run one case for one subject in this process and print the result as one line of JSON.

CPU is user and system time of all threads of this process and of its children, after a warm-up. The same functions run
both subjects under uvloop, and every answer is compared with the model's text.
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
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol

import uvloop
from model_server import ANSWER

CHAT_PROMPT = "Please tell me about item number %d, briefly."
TOOL_PROMPT = "tool: please add 2 and 3 for item number %d."
Result = dict[str, float]
Case = Callable[[], Awaitable[Result]]


class Subject(Protocol):
    """What is measured: the limit or Mainstay. `cases` are those that only this subject has."""

    @property
    def cases(self) -> Mapping[str, Case]: ...
    async def open(self) -> None: ...
    async def run_turn(self, session: str, text: str) -> str: ...
    async def wait_until_indexed(self) -> None: ...
    async def close(self) -> None: ...


class Meter:
    """Measure CPU and wall time of a `with` block."""

    def __enter__(self) -> Meter:
        gc.collect()
        self.wall_s, self.cpu_s = -time.perf_counter(), -read_cpu_s()
        return self

    def __exit__(self, *error: object) -> None:
        self.wall_s, self.cpu_s = self.wall_s + time.perf_counter(), self.cpu_s + read_cpu_s()


def read_cpu_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def read_rss_kb() -> float:
    """The resident set after a garbage collection; its maximum on systems that report only that."""
    gc.collect()
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        maximum = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return maximum / 1024 if sys.platform == "darwin" else maximum
    return pages * resource.getpagesize() / 1024


async def run_checked_turn(subject: Subject, session: str, text: str) -> None:
    answer = await subject.run_turn(session, text)
    if answer.strip() != ANSWER.strip():
        raise SystemExit(f"wrong answer in session {session}: {answer!r:.200}")


async def warm_up(subject: Subject, sessions: int = 5) -> None:
    async def run_session(session: str) -> None:
        await run_checked_turn(subject, session, CHAT_PROMPT % 0)
        await run_checked_turn(subject, session, TOOL_PROMPT % 0)

    await asyncio.gather(*(run_session(f"warm{os.getpid()}-{n}") for n in range(sessions)))
    await subject.wait_until_indexed()  # memory loads its model once per process, after the first turns


async def run_turn_in_each(subject: Subject, sessions: range, concurrency: int) -> None:
    """Run one chat turn in each session, `concurrency` of them at a time."""
    remaining = iter(sessions)

    async def run_turns() -> None:
        for n in remaining:
            await run_checked_turn(subject, f"s{n}", CHAT_PROMPT % n)

    await asyncio.gather(*(run_turns() for _ in range(concurrency)))


def compute_per_turn_figures(meter: Meter, turns: int) -> Result:
    return {
        "cpu_ms": 1000 * meter.cpu_s / turns,
        "wall_ms": 1000 * meter.wall_s / turns,
        "turns_s": turns / meter.wall_s,
        "rss_mb": read_rss_kb() / 1024,
    }


class CommonCases:
    """The cases that any subject can run."""

    def __init__(self, subject: Subject, arguments: argparse.Namespace) -> None:
        self.subject, self.arguments = subject, arguments
        self.prompt = TOOL_PROMPT if arguments.tool else CHAT_PROMPT
        self.cases: dict[str, Case] = {
            "turns": self.measure_sequential_turns,
            "together": self.measure_concurrent_sessions,
            "flight": self.measure_memory_of_waiting_turns,
            "lanes": self.measure_memory_of_idle_lanes,
            "disk": self.measure_disk_usage,
            "first": self.measure_first_turn,
        }

    async def measure_sequential_turns(self) -> Result:
        """All turns one after another."""
        await warm_up(self.subject)
        with Meter() as meter:
            await self._run_turns()
        return compute_per_turn_figures(meter, self._total_turns)

    async def measure_concurrent_sessions(self) -> Result:
        """All sessions concurrently, the turns of each one after another."""

        async def run_session(session: str) -> None:
            for turn in range(self.arguments.turns):
                await run_checked_turn(self.subject, session, self.prompt % turn)

        await warm_up(self.subject)
        with Meter() as meter:
            await asyncio.gather(*(run_session(f"s{n}") for n in range(self.arguments.sessions)))
        return compute_per_turn_figures(meter, self._total_turns)

    async def measure_memory_of_waiting_turns(self) -> Result:
        """Memory of a turn that waits for the model."""
        await warm_up(self.subject, sessions=1)
        before_kb = read_rss_kb()
        turns = [
            asyncio.ensure_future(run_checked_turn(self.subject, f"s{n}", self.prompt % n))
            for n in range(self.arguments.sessions)
        ]
        while (waiting := await count_waiting_requests(self.arguments.url)) < len(turns):
            if any(turn.done() for turn in turns):
                raise SystemExit(f"turns ended before all were in flight ({waiting} of {len(turns)})")
            await asyncio.sleep(0.05)
        added_kb = read_rss_kb() - before_kb
        await asyncio.gather(*turns)
        return {"turn_kb": added_kb / len(turns)}

    async def measure_memory_of_idle_lanes(self) -> Result:
        """Memory of sessions that are loaded and idle."""
        first, total = self.arguments.sessions, self.arguments.more
        await warm_up(self.subject)
        await run_turn_in_each(self.subject, range(first), 20)
        before_kb = read_rss_kb()
        await run_turn_in_each(self.subject, range(first, total), 20)
        return {"lane_kb": (read_rss_kb() - before_kb) / (total - first)}

    async def measure_disk_usage(self) -> Result:
        """Bytes that a turn adds to the home after a checkpoint of the write-ahead log."""
        await warm_up(self.subject)
        before_bytes = await self._close_and_measure_home()
        await self._run_turns()
        added_bytes = await self._close_and_measure_home() - before_bytes
        return {"turn_kb": added_bytes / 1024 / self._total_turns}

    async def measure_first_turn(self) -> Result:
        """The first turn of a session that this process has not loaded before."""
        await warm_up(self.subject)
        with Meter() as meter:
            await run_checked_turn(self.subject, self.arguments.session, CHAT_PROMPT % 1)
        return {"cpu_ms": 1000 * meter.cpu_s, "wall_ms": 1000 * meter.wall_s}

    @property
    def _total_turns(self) -> int:
        turns: int = self.arguments.sessions * self.arguments.turns
        return turns

    async def _run_turns(self) -> None:
        for session in range(self.arguments.sessions):
            for turn in range(self.arguments.turns):
                await run_checked_turn(self.subject, f"s{session}", self.prompt % turn)

    async def _close_and_measure_home(self) -> int:
        """Close the subject, checkpoint its databases, add up the sizes of all files, and open the subject again."""
        await self.subject.close()
        for path in self.arguments.home.rglob("*.db"):
            with contextlib.closing(sqlite3.connect(path)) as db:
                db.execute("pragma wal_checkpoint(truncate)")
        size: int = sum(path.stat().st_size for path in self.arguments.home.rglob("*") if path.is_file())
        await self.subject.open()
        return size


async def count_waiting_requests(url: str) -> int:
    """The number of requests that the model server has received and not yet answered."""
    host, port = url.split("/")[2].split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /stats HTTP/1.1\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    stats: dict[str, int] = json.loads(await reader.readuntil(b"}"))
    writer.close()
    return stats["waiting"]


async def run_case(arguments: argparse.Namespace) -> Result:
    if arguments.subject == "limit":
        from hand_written_loop import HandWrittenLoop

        subject: Subject = HandWrittenLoop(arguments.url, arguments.home)
    else:
        from mainstay_subject import MainstaySubject

        subject = MainstaySubject(arguments)
    await subject.open()
    try:
        cases = {**subject.cases, **CommonCases(subject, arguments).cases}
        return await cases[arguments.case]()
    finally:
        await subject.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case")
    parser.add_argument("subject", choices=("limit", "mainstay"))
    parser.add_argument("--url", default="http://127.0.0.1:1/v1")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--sessions", type=int, default=1)
    parser.add_argument("--turns", type=int, default=1, help="turns of each session")
    parser.add_argument("--more", type=int, default=2, help="total number of sessions at the end")
    parser.add_argument("--session", default="long")
    parser.add_argument("--messages", type=int, default=0)
    parser.add_argument("--tool", action="store_true", help="use prompts that cause a tool call")
    parser.add_argument("--idle-s", type=float, help="seconds until an idle lane is unloaded")
    parser.add_argument("--memory", choices=("on", "off"), default="on")
    parser.add_argument("--core", type=int, help="run on this core only")
    arguments = parser.parse_args()
    if arguments.core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {arguments.core})
    print(json.dumps(uvloop.run(run_case(arguments))), flush=True)


if __name__ == "__main__":
    main()
