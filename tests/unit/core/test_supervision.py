"""Long-lived tasks and threads: an exception is reported, the work starts again, and health checks see it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mainstay.core import supervision
from mainstay.core.supervision import TaskHealth, list_task_failures, run_supervised, start_supervised_task
from mainstay.core.worker_threads import WorkerThreads


@pytest.fixture(autouse=True)
def _restart_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "RESTART_MIN_S", 0.001)


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_f57_a_task_that_raises_is_reported_starts_again_and_recovers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runs, again = 0, asyncio.Event()

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs <= 3:
            raise KeyError("broken")
        again.set()
        await asyncio.Event().wait()

    task = start_supervised_task("poller", work)
    await again.wait()
    assert runs == 4
    assert "poller" in list_task_failures(), "it has not run for long enough again"
    assert [record.levelname for record in caplog.records if record.name == "mainstay.supervision"] == [
        "ERROR",
        "WARNING",
        "WARNING",
    ]
    monkeypatch.setattr(supervision.time, "monotonic", lambda: float("inf"))
    assert list_task_failures() == {}
    await end(task)


async def test_f57_a_cancellation_that_the_owner_did_not_ask_for_counts_as_a_failure() -> None:
    runs, again = 0, asyncio.Event()

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            lost.cancel()
            await lost
        again.set()
        await asyncio.Event().wait()

    task = start_supervised_task("reader", work)
    await again.wait()
    assert "reader" in list_task_failures()
    await end(task)
    assert list_task_failures() == {}


class Panic(BaseException):
    """As extensions in Rust raise it."""


async def test_f57_an_exception_that_is_no_ordinary_one_counts_as_a_failure() -> None:
    runs, again = 0, asyncio.Event()

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise Panic
        again.set()
        await asyncio.Event().wait()

    task = start_supervised_task("indexer", work)
    await again.wait()
    assert "indexer" in list_task_failures()
    await end(task)


@pytest.mark.parametrize("error", [Panic, SystemExit])
def test_f57_no_exception_ends_the_work_of_a_thread_silently(error: type[BaseException]) -> None:
    runs, stop = 0, threading.Event()

    def work() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise error
        assert "watcher" in list_task_failures()

    run_supervised(TaskHealth("watcher"), work, stop)
    assert runs == 2


async def test_work_that_returns_is_done_and_is_not_listed() -> None:
    async def work() -> None:
        pass

    task = start_supervised_task("short", work)
    await task
    assert "short" not in list_task_failures()


async def test_the_failure_of_an_isolated_task_is_listed_on_request_only() -> None:
    async def work() -> None:
        raise ValueError("broken")

    task = start_supervised_task("room", work, is_isolated=True)
    while "room" not in list_task_failures(is_isolated=True):
        await asyncio.sleep(0)
    assert "room" not in list_task_failures()
    await end(task)


def test_f57_the_work_of_a_thread_starts_again_until_it_is_stopped() -> None:
    runs, stop = 0, threading.Event()
    health = TaskHealth("watcher")

    def work() -> None:
        nonlocal runs
        runs += 1
        if runs == 3:
            stop.set()
        raise OSError("broken")

    run_supervised(health, work, stop)
    assert runs == 3
    assert "watcher" not in list_task_failures()


async def test_f57_threads_that_cannot_be_started_fail_the_caller_and_later_jobs_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = WorkerThreads(threads_max=1, abandon=False)
    ran: list[str] = []

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            await threads.run(ran.append, {})
    assert await asyncio.wait_for(threads.submit(lambda: "ran"), 60) == "ran"
    assert ran == []
