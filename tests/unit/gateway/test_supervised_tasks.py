"""Every long-lived task of a gateway fails once: it is reported, starts again, and nobody's answer is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mainstay import Agent
from mainstay.agent.observability import WorkspaceObservability
from mainstay.config.loader import load_config
from mainstay.core import supervision
from mainstay.core.audit import AuditEvent
from mainstay.core.errors import StoreFailed
from mainstay.core.supervision import list_task_failures
from mainstay.gateway.channel_connection import ChannelConnection
from mainstay.gateway.delivery import Deliverer
from mainstay.gateway.inbound_handler import InboundHandler
from mainstay.gateway.service import GatewayService
from mainstay.gateway.workspace_answer_poster import WorkspaceAnswerPoster
from mainstay.io.file_watcher import FileWatcher
from mainstay.lane.registry import LaneRegistry
from mainstay.memory.indexer import MemoryIndexer
from mainstay.observe.admin_audit_recorder import BufferedAuditRecorder
from mainstay.observe.error_log_handler import ErrorLogHandler
from mainstay.observe.projection_runner import ProjectionRunner
from mainstay.observe.span_exporter import CollectorResponse, SpanExporter
from mainstay.skills.tree_hash_cache import TreeHashCache
from mainstay.store.sqlite.writer_thread import WriterThread
from mainstay.testing import ScriptedProvider, VirtualClock
from mainstay.testing.channel_rig import eventually
from mainstay.testing.loopback_channel import LoopbackRig
from mainstay.triggers.engine import TriggerEngine

TASKS: list[tuple[type, str]] = [
    (ProjectionRunner, "_run"),
    (WorkspaceObservability, "_run_maintenance"),
    (ErrorLogHandler, "_run"),
    (TriggerEngine, "run"),
    (MemoryIndexer, "_run"),
    (MemoryIndexer, "_flush_periodically"),
    (LaneRegistry, "_maintain"),
    (WorkspaceAnswerPoster, "_watch_events"),
    (WorkspaceAnswerPoster, "_sweep_periodically"),
    (WorkspaceAnswerPoster, "_run_poster"),
    (Deliverer, "_drain_room"),
    (GatewayService, "_start_triggers"),
    (InboundHandler, "_drain_queue"),
]


@pytest.fixture(autouse=True)
def _restart_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "RESTART_MIN_S", 0.01)


def fail_once(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[str]:
    """Make a coroutine function raise at its first call; the list grows with every call."""
    calls: list[str] = []
    original: Callable[..., Any] = getattr(owner, name)

    async def run(self: object, *arguments: object) -> None:
        calls.append(name)
        if len(calls) == 1:
            raise ZeroDivisionError
        await original(self, *arguments)

    monkeypatch.setattr(owner, name, run)
    return calls


async def test_f57_every_long_lived_task_of_a_gateway_starts_again_and_the_answer_is_posted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = {f"{owner.__name__}.{name}": fail_once(monkeypatch, owner, name) for owner, name in TASKS}
    home, rig = tmp_path / "home", LoopbackRig()
    home.mkdir(mode=0o700)
    people = f"people:\n  ann:\n    role: admin\n    identities: {{chat: {rig.user}}}\n"
    (home / "mainstay.yaml").write_text(people)
    service = GatewayService(
        home,
        load_config(home, env={}),
        lambda config: Agent(ScriptedProvider(lambda context, options: "here it is"), home=home, config=config),
        [rig.channel],
    )
    await service.open()
    try:
        await rig.send_message("C1", "tell me", mention=True)

        async def look() -> bool:
            return any("here it is" in one.text for one in await rig.posted_messages("C1"))

        await eventually(look, "the answer is posted")

        async def is_restarted() -> bool:
            return all(len(called) != 1 for called in calls.values())

        await eventually(is_restarted, "all tasks that failed run again")
        unready, isolated = await service.find_unready(), (await service.status()).failed_tasks
        assert [name for name, called in calls.items() if not called] == []
        assert len(unready) == len(TASKS) - 4, "the poster, the room, the queue and the start have ended well since"
        assert "journal follower of workspace 'default'" in unready
        assert all("ZeroDivisionError" in reason for reason in (*unready.values(), *isolated.values()))
    finally:
        await service.close()
    assert (list_task_failures(), list_task_failures(is_isolated=True)) == ({}, {})


async def test_f57_a_dead_writer_makes_the_server_unready_and_prompts_fail_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    service = GatewayService(
        home,
        load_config(home, env={}),
        lambda config: Agent(ScriptedProvider(lambda context, options: "fine"), home=home, config=config),
    )
    await service.open()
    try:
        agent = (await service.workspaces.get_workspace("default")).agent
        await agent.run("s", "hi")
        assert await service.find_unready() == {}
        monkeypatch.setattr(WriterThread, "_collect_batch", lambda thread: 1 // 0)

        async def prompt() -> None:
            for _ in range(3):  # the first may still be in the batch that the thread waits for
                await asyncio.wait_for(agent.run("s", "hello"), 60)

        with pytest.raises(StoreFailed):
            await prompt()
        assert any(name.startswith("writer of") for name in await service.find_unready())
    finally:
        monkeypatch.undo()
        await service.close()


async def test_f57_a_channel_whose_receive_loop_fails_is_listed_until_it_is_connected_again() -> None:
    rig, clock = LoopbackRig(), VirtualClock()

    async def hear(message: object) -> None:
        pass

    connection = ChannelConnection(rig.channel, hear, clock)
    await connection.open()
    connection._restart(ZeroDivisionError("broken"))
    assert "broken" in list_task_failures()[f"channel {rig.channel.name}"]
    await connection.close()
    assert list_task_failures() == {}


async def test_f57_the_exporter_of_traces_sends_later_spans_after_a_failure() -> None:
    sent: list[bytes] = []

    async def send(request: bytes) -> CollectorResponse:
        sent.append(request)
        if len(sent) == 1:
            raise ZeroDivisionError
        return CollectorResponse(200)

    exporter = SpanExporter(send, b"".join)
    exporter.enqueue([b"a"])
    await eventually(lambda: _is(bool(exporter.dropped_counts)), "the first request failed")
    exporter.enqueue([b"b"])
    await eventually(lambda: _is(exporter.sent_count == 1), "the second span is sent")
    assert exporter.dropped_counts == {"failed": 1}
    await exporter.close()


async def _is(value: bool) -> bool:
    return value


async def test_f57_buffered_audit_events_are_written_after_a_failure_of_the_retry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = fail_once(monkeypatch, BufferedAuditRecorder, "_retry_writes")
    written: list[AuditEvent] = []

    class Log:
        is_broken = True

        async def add(self, events: list[AuditEvent]) -> None:
            if self.is_broken:
                raise StoreFailed("no disk")
            written.extend(events)

    audit_log = Log()
    recorder = BufferedAuditRecorder(audit_log, VirtualClock(), str)  # type: ignore[arg-type]
    await recorder.record("configured")
    audit_log.is_broken = False
    await eventually(lambda: _is(len(calls) == 2), "the retry runs again")
    await recorder.close()
    assert [event.kind for event in written] == ["configured"]


def test_f57_a_watcher_and_the_hashing_of_skills_go_on_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, noticed = [0, 0], threading.Event()
    take_snapshot, hash_now = FileWatcher._take_snapshot, TreeHashCache.hash_now
    hashed = threading.Event()

    def fail_snapshot(watcher: FileWatcher) -> Any:
        failed[0] += 1
        if failed[0] == 1:
            raise ZeroDivisionError
        return take_snapshot(watcher)

    def fail_hash(cache: TreeHashCache, folder: str) -> None:
        failed[1] += 1
        if failed[1] == 1:
            raise ZeroDivisionError
        hash_now(cache, folder)
        hashed.set()

    monkeypatch.setattr(FileWatcher, "_take_snapshot", fail_snapshot)
    monkeypatch.setattr(TreeHashCache, "hash_now", fail_hash)
    watcher = FileWatcher([str(tmp_path)], noticed.set, poll_s=0.05)
    watcher.start()
    assert noticed.wait(60)
    watcher.close()
    cache = TreeHashCache()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        cache.request_hash(str(tmp_path / name))
    assert hashed.wait(60)
