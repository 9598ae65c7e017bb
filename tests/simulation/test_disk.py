"""F4, F5, F7, F9, F48: the disk fails. A clear error, nothing lost, and it goes on when the fault is gone."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest
from support.crash_lab import SESSION, say, services
from support.faulty_vfs import Plan
from support.invariants import check_home_async, lines
from support.paths import PYTHONPATH

from mainstay.core.errors import (
    HomeTaken,
    HomeUnusable,
    MainstayError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreTooNew,
)
from mainstay.core.input_envelope import InputEnvelope, to_parts
from mainstay.core.limits import Limits
from mainstay.lane.registry import LaneRegistry
from mainstay.store.home import HomeLock, prepare_home
from mainstay.store.sqlite.connection import load_migrations
from mainstay.store.sqlite.store import SqliteStore

WHOLE = bool(os.environ.get("MAINSTAY_TEST_ALL"))
LIMITS = Limits(ride_along_s=0.001, store_busy_s=0.05, resumes_max=50)


async def send(lanes: LaneRegistry, home: Path, prompt: str) -> str:
    ticket = await lanes.get(SESSION).accept(InputEnvelope(parts=to_parts(prompt), thread=SESSION, id=prompt))
    say(home / "acked", prompt)
    return (await asyncio.wait_for(asyncio.shield(ticket.reply), 120)).text


@asynccontextmanager
async def opened(home: Path, plan: Plan, limits: Limits = LIMITS) -> AsyncIterator[LaneRegistry]:
    shared = services(home, plan, limits)
    await shared.store.open()
    lanes = LaneRegistry(shared)
    try:
        await lanes.resume_unfinished()
        yield lanes
        await lanes.wait_until_settled()
    finally:
        await lanes.close()
        await shared.store.close()


async def suffer(home: Path, plan: Plan) -> list[MainstayError]:
    """Send two prompts while the plan does its harm; each error ends the harm, and the prompt is sent again."""
    errors: list[MainstayError] = []
    for _ in range(5):
        try:
            async with opened(home, plan) as lanes:
                for prompt in ("first, with tools", "second"):
                    for _ in range(5):
                        try:
                            await send(lanes, home, prompt)
                            break
                        except MainstayError as error:
                            errors.append(error)
                            plan.action = ""
            return errors
        except MainstayError as error:  # it could not even be opened
            errors.append(error)
            plan.action = ""
    raise AssertionError(f"it never came back: {errors}")


async def operations() -> int:
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan()
        assert await suffer(Path(folder), plan) == []
        return plan.count


@pytest.mark.parametrize("sticky", [False, True])
@pytest.mark.parametrize("action", ["ioerr", "full"])
async def test_f4_f5_any_write_or_sync_may_fail_and_it_goes_on_afterwards(action: str, sticky: bool) -> None:
    most = await operations()
    assert most > 40
    step = 1 if WHOLE else 7
    seen: set[type[MainstayError]] = set()
    for at in range(1, most + 1, step):
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            errors = await suffer(home, Plan(action, at, sticky=sticky))
            assert all(isinstance(error, StoreError | HomeUnusable) for error in errors), errors
            assert all(str(home) in str(error) for error in errors), "an error names the file"
            seen |= {type(error) for error in errors}
            await check_home_async(home)
    assert seen & {StoreFailed, StoreFull}


async def test_f4_a_full_disk_refuses_new_prompts_reads_still_work_and_it_recovers_by_itself(tmp_path: Path) -> None:
    plan = Plan()
    async with opened(tmp_path, plan) as lanes:
        await send(lanes, tmp_path, "before")
        plan.action, plan.at, plan.sticky = "full", 0, True
        with pytest.raises(StoreFull, match="no space left"):
            await send(lanes, tmp_path, "during")
        store = lanes._services.store
        assert [standing.key for standing in await store.list_sessions()] == [SESSION]
        assert len(await store.read_records(SESSION)) == 4
        plan.action = ""
        assert "during" in await send(lanes, tmp_path, "during")
    await check_home_async(tmp_path)
    assert lines(tmp_path / "acked") == ["before", "during"]


async def test_f4_a_turn_interrupted_by_a_full_disk_finishes_when_there_is_space(tmp_path: Path) -> None:
    plan = Plan()
    async with opened(tmp_path, plan) as lanes:
        lane = lanes.get(SESSION)
        ticket = await lane.accept(InputEnvelope(parts=to_parts("with tools"), thread=SESSION, id="a"))
        plan.action, plan.at, plan.sticky = "full", 0, True
        with pytest.raises(StoreFull):
            await ticket.reply
        failed = plan.fired
        async with asyncio.timeout(120):
            while plan.fired < failed + 2:  # it tries, and waits, and tries
                await asyncio.sleep(0.001)
        plan.action = ""
        await asyncio.wait_for(lanes.wait_until_settled(), 120)
        assert "tools" in await send(lanes, tmp_path, "with tools")  # the same id: the reply, not another turn
    await check_home_async(tmp_path)


FILL = """
import asyncio, resource, signal, sys
from pathlib import Path
import test_disk
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    asyncio.run(test_disk.fill(Path(sys.argv[1])))
except test_disk.StoreError as error:
    print(type(error).__name__)
"""


async def fill(home: Path) -> None:
    async with opened(home, Plan()) as lanes:
        for number in range(500):
            await send(lanes, home, f"{number} " + "x" * 2000)


async def test_f4_a_file_size_limit_is_a_clear_error_not_a_crash(tmp_path: Path) -> None:
    """RLIMIT_FSIZE makes the kernel itself refuse the write."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((PYTHONPATH, str(Path(__file__).parent)))}
    words = [sys.executable, "-c", FILL, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=env)
    assert done.stdout.strip() in ("StoreFailed", "StoreFull"), done.stderr
    async with opened(tmp_path, Plan()):  # what was under way is finished where there is space
        pass
    await check_home_async(tmp_path)


async def test_f7_a_database_locked_by_another_process_is_a_clear_error_and_it_goes_on(tmp_path: Path) -> None:
    async with opened(tmp_path, Plan()) as lanes:
        await send(lanes, tmp_path, "before")
        other = apsw.Connection(str(tmp_path / "workspace.db"))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="another program holds"):
            await send(lanes, tmp_path, "during")
        other.execute("ROLLBACK")
        assert "during" in await send(lanes, tmp_path, "during")
        other.close()
    await check_home_async(tmp_path)


async def test_f7_a_short_hold_is_waited_for(tmp_path: Path) -> None:
    async with opened(tmp_path, Plan(), Limits(store_busy_s=5)) as lanes:
        await send(lanes, tmp_path, "before")
        other = apsw.Connection(str(tmp_path / "workspace.db"))
        other.execute("BEGIN IMMEDIATE")
        asyncio.get_running_loop().call_later(0.1, other.execute, "ROLLBACK")
        assert "during" in await send(lanes, tmp_path, "during")
        other.close()
    await check_home_async(tmp_path)


async def make_home(home: Path, prompts: int = 5) -> bytes:
    async with opened(home, Plan()) as lanes:
        for number in range(prompts):
            await send(lanes, home, f"{number} " + "y" * 1000)
    return (home / "workspace.db").read_bytes()


async def test_f9_damaged_pages_are_reported_and_the_file_is_not_touched(tmp_path: Path) -> None:
    whole = await make_home(tmp_path)
    path = tmp_path / "workspace.db"
    reported = 0
    for seed in range(40):
        chance = random.Random(seed)
        damaged = bytearray(whole)
        for _ in range(64):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            async with opened(tmp_path, Plan()) as lanes:
                await send(lanes, tmp_path, f"after {seed}")
        except (StoreCorrupt, StoreFailed, StoreTooNew) as error:
            reported += str(path) in str(error) or "journal" in str(error)
    assert reported > 10


@pytest.mark.parametrize("content", [b"", b"not a database" * 500, b"SQLite format 3\0" + b"\xff" * 5000])
async def test_f9_something_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "workspace.db"
    path.write_bytes(content)
    store = SqliteStore(str(path))
    if not content:  # an empty file is a new database
        await store.open()
        await store.close()
        return
    with pytest.raises(StoreError):
        await store.open()
    assert path.read_bytes() == content


async def test_f9_a_truncated_log_loses_no_more_than_its_tail(tmp_path: Path) -> None:
    """A write-ahead log that was cut is read up to its last whole commit."""
    source = tmp_path / "source"
    source.mkdir()
    async with opened(source, Plan()) as lanes:
        for number in range(5):
            await send(lanes, source, f"{number}")
        wal = (source / "workspace.db-wal").read_bytes()
        main = (source / "workspace.db").read_bytes()
    before = -1
    for cut in range(0, len(wal), max(1, len(wal) // 60)):
        home = tmp_path / f"cut{cut}"
        home.mkdir()
        (home / "workspace.db").write_bytes(main)
        (home / "workspace.db-wal").write_bytes(wal[:cut])
        async with opened(home, Plan()) as lanes:
            kept = len(await lanes._services.store.read_records(SESSION))
            assert kept >= before, "a longer log holds at least as much"
            before = kept
            await send(lanes, home, "more")


async def test_f9_f54_a_file_of_a_newer_release_is_refused_and_untouched(tmp_path: Path) -> None:
    await make_home(tmp_path, 1)
    path = tmp_path / "workspace.db"
    db = apsw.Connection(str(path))
    db.execute(f"PRAGMA user_version = {len(load_migrations()) + 1}")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match="newer release"):
        await SqliteStore(str(path)).open()
    assert path.read_bytes() == before


def test_f8_the_second_owner_of_a_home_is_refused_and_told_the_first(tmp_path: Path) -> None:
    prepare_home(tmp_path)
    first = HomeLock(tmp_path)
    first.acquire()
    with pytest.raises(HomeTaken, match=str(os.getpid())):
        HomeLock(tmp_path).acquire()
    first.release()
    second = HomeLock(tmp_path)
    second.acquire()
    second.release()


HOLD = """
import sys, time
from pathlib import Path
from mainstay.store.home import HomeLock
lock = HomeLock(Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
time.sleep(60)
"""


def test_f8_a_lock_of_a_killed_process_is_no_lock(tmp_path: Path) -> None:
    prepare_home(tmp_path)
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(HomeTaken, match=str(holder.pid)):
        HomeLock(tmp_path).acquire()
    holder.kill()
    holder.wait()
    holder.stdout.close()
    lock = HomeLock(tmp_path)
    lock.acquire()
    lock.release()


def test_f48_a_home_that_others_can_read_is_made_private(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    home.chmod(0o755)
    prepare_home(home)
    assert home.stat().st_mode & 0o777 == 0o700


def test_f48_a_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(HomeUnusable):
        prepare_home(tmp_path / "home")
