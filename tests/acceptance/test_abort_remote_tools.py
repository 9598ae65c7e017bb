"""Abort during tools that send data out, before, during and after the call: each call has exactly one result."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mainstay import Agent
from mainstay.core.events import ToolFinished
from mainstay.core.outcome import Aborted, Answered
from mainstay.core.tool_ports import OutgoingMessage, RoomMessage, ScheduledPrompt, SessionFolders
from mainstay.store.memory.file_labels import InMemoryFileLabels
from mainstay.testing import Call, ScriptedProvider
from mainstay.tools.base import SessionFileAccess
from mainstay.tools.message import create_message_tool
from mainstay.tools.schedule import create_schedule_tool
from mainstay.tools.search_channel import create_search_channel_tool
from mainstay.tools.upload import create_upload_tool


class Slow:
    """A slow external service: an outbox, a channel and a scheduler in one. Each piece of work is done or
    not, and never twice."""

    name = "slow"

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.go = asyncio.Event()
        self.done: list[str] = []

    async def _work(self, key: str) -> None:
        self.began.set()
        await self.go.wait()
        self.done.append(key)

    def check_time(self, when: str, timezone: str) -> None:
        """Any time will do."""

    async def send(self, message: OutgoingMessage) -> str:
        await self._work(message.key)
        return "r1"

    async def search(self, session: str, query: str, limit: int) -> list[RoomMessage]:
        await self._work(session)
        return [RoomMessage(author="ana", at=0, text="hi")]

    async def add(self, prompt: ScheduledPrompt) -> str:
        await self._work(prompt.key)
        return "a1"

    async def list(self, session: str) -> list[ScheduledPrompt]:
        return []

    async def remove(self, session: str, id: str) -> bool:
        return False


CALLS = {
    "message": Call("message", {"to": "slow:room", "text": "x"}),
    "upload": Call("upload", {"path": "file.txt"}),
    "search_channel": Call("search_channel", {"query": "x"}),
    "schedule": Call("schedule", {"action": "add", "when": "2099-01-01T09:00", "text": "x"}),
}


def tool_of(name: str, other: Slow, work: Path) -> Any:
    grounds = SessionFolders(cwd=str(work), writable=(str(work),))
    files = SessionFileAccess(lambda session: grounds, InMemoryFileLabels())
    return {
        "message": lambda: create_message_tool(other),
        "upload": lambda: create_upload_tool(files, other),
        "search_channel": lambda: create_search_channel_tool(lambda session: other),
        "schedule": lambda: create_schedule_tool(other),
    }[name]()


@pytest.mark.parametrize("stage", ["before", "while", "after"])
@pytest.mark.parametrize("name", CALLS)
async def test_abort_during_a_tool_that_sends_data_out_leaves_exactly_one_result(
    name: str, stage: str, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "file.txt").write_text("x")
    other = Slow()
    script = [CALLS[name], "done"]
    async with Agent(ScriptedProvider(script), tools=[tool_of(name, other, work)], home=tmp_path / "home") as agent:
        running = asyncio.ensure_future(agent.run("s", "go"))
        if stage != "before":
            await asyncio.wait_for(other.began.wait(), 120)
        if stage == "after":
            other.go.set()
            await asyncio.wait_for(running, 120)
        await asyncio.sleep(0)
        await agent.abort("s")
        reply = await asyncio.wait_for(running, 120)
        assert isinstance(reply.outcome, Answered if stage == "after" else Aborted)
        events = [record.event for record in await agent.sessions.records("s")]
        finished = [event.result for event in events if isinstance(event, ToolFinished)]
        calls = sum(1 for event in events for part in getattr(event, "parts", ()) if type(part).__name__ == "ToolCall")
        assert len(finished) == calls <= 1
        assert len(other.done) == (1 if stage == "after" else 0)
        if finished:
            assert finished[0].is_error == (stage != "after")
