"""Queues of received messages until the handler accepts them, because signal-cli delivers each only once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

from mainstay.channels.incoming_dispatch import dispatch_message
from mainstay.core.channels import IncomingMessage, MessageHandler
from mainstay.core.supervision import start_supervised_task

QUEUED_MAX = 1000  # messages; at this number the connection is not read any more
DEDUP_ENTRIES_MAX = 5000  # recent message ids, for deduplication


class SignalInbox:
    """Handles the messages of a room in order, and those of different rooms concurrently."""

    def __init__(self, on_message: MessageHandler) -> None:
        self._on_message = on_message
        self._queues: dict[str, deque[IncomingMessage]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._free_slots = asyncio.Semaphore(QUEUED_MAX)
        self._seen: OrderedDict[str, None] = OrderedDict()

    @property
    def is_full(self) -> bool:
        return self._free_slots.locked()

    async def put(self, message: IncomingMessage) -> None:
        """Queue a message; waits while the inbox is full. Duplicates are ignored, because a daemon that also receives
        automatically sends everything twice to subscribers."""
        known = f"{message.address.room} {message.id}"
        if known in self._seen:
            return
        self._seen[known] = None
        if len(self._seen) > DEDUP_ENTRIES_MAX:
            self._seen.popitem(last=False)
        await self._free_slots.acquire()
        room = message.address.room
        if room in self._queues:
            self._queues[room].append(message)
            return
        self._queues[room] = deque([message])
        task = start_supervised_task(f"messages of {message.address}", lambda: self._drain_room(room), is_isolated=True)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drain_room(self, room: str) -> None:
        waiting = self._queues[room]
        while waiting:
            await dispatch_message(self._on_message, waiting[0])
            waiting.popleft()
            self._free_slots.release()
        del self._queues[room]

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
