"""What a long answer leaves on its way: memory is not called for a part of a message."""

from __future__ import annotations

from mainstay.core.events import MessageAdded, Received, StepCheckpointed, TurnStarted
from mainstay.core.messages import Text
from mainstay.core.session import Session
from mainstay.lane.event_hub import EventHub
from mainstay.lane.journal_writer import JournalWriter
from mainstay.testing import MemoryStore, VirtualClock


async def test_checkpoints_of_a_message_are_stored_and_not_indexed_but_the_message_is() -> None:
    store, touched = MemoryStore(), list[str]()
    pen = JournalWriter(Session("s"), store, VirtualClock(), 0.02, EventHub(64), touched.append)
    await pen.record(Received((Text("hello"),)), TurnStarted((1,), turn=1))
    assert touched == ["s"]
    for number in range(3):
        await pen.record(StepCheckpointed(f"part {number}", turn=1, step=1))
    assert touched == ["s"]
    pen.record_nowait(StepCheckpointed("the last", turn=1, step=1))
    await pen.record(MessageAdded("assistant", (Text("whole"),), turn=1, step=1))
    assert touched == ["s", "s"]
    assert len(await store.read_records("s")) == 7
