"""Virtual time stands still while a thread works for the loop, so that a slow machine lets no timer fire early."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path

from support.kernel_world import World

import mainstay
from mainstay.core.worker_threads import run_in_thread
from mainstay.store.sqlite.workspace_database import StandaloneDatabase
from mainstay.testing import virtual_run
from mainstay.testing.virtual_time import _THREAD_MODULES

SLOW_S = 0.2  # of real time, which is an hour of virtual time if the loop does not wait for the thread


def work_slowly(*_: object) -> str:
    threading.Event().wait(SLOW_S)
    return "done"


def test_a_timer_does_not_fire_while_a_thread_works() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(0.001):
            assert await run_in_thread(work_slowly) == "done"
        async with asyncio.timeout(0.001):
            assert await loop.run_in_executor(None, work_slowly) == "done"
        assert loop.time() == 0
        await asyncio.sleep(3600)
        assert loop.time() == 3600

    virtual_run(main())


def test_a_timer_does_not_fire_while_the_thread_of_a_store_works() -> None:
    async def main() -> None:
        database = StandaloneDatabase(":memory:", World([]).limits)
        await database.open()
        async with asyncio.timeout(0.001):
            assert await database.write(work_slowly) == "done"
        await database.close()

    virtual_run(main())


def test_a_thread_that_never_returns_does_not_stop_virtual_time() -> None:
    async def main() -> bool:
        released = threading.Event()
        try:
            await asyncio.wait_for(run_in_thread(released.wait), 60)
        except TimeoutError:
            return True
        finally:
            released.set()
        return False

    assert virtual_run(main(), stuck_thread_s=0.05)


def test_every_module_whose_futures_a_thread_of_a_store_resolves_is_known() -> None:
    folder = Path(mainstay.__file__).parent
    handing = {
        "mainstay." + path.relative_to(folder).with_suffix("").as_posix().replace("/", ".")
        for path in folder.glob("store/**/*.py")
        if re.search(r"(?:WriteJob|BackgroundJob|JournalAppend)\(.*\bdone\b", path.read_text())
    }
    assert handing - {"mainstay.store.sqlite.writer_thread"} <= _THREAD_MODULES  # it answers only itself
