"""What has come and is not yet taken in. The daemon tells everything once, so it is held here until then."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

from mainstay.channels.telling import tell
from mainstay.core.channels import Hear, Incoming

WAITING_MAX = 1000  # then nothing more is read
KNOWN_MAX = 5000


class Inbox:
    """Rooms do not wait for each other; within one, messages are told one after the other."""

    def __init__(self, hear: Hear) -> None:
        self._hear = hear
        self._rooms: dict[str, deque[Incoming]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(WAITING_MAX)
        self._known: OrderedDict[str, None] = OrderedDict()

    @property
    def full(self) -> bool:
        return self._places.locked()

    async def put(self, message: Incoming) -> None:
        """A daemon that receives by itself tells everything twice to those who ask for it."""
        known = f"{message.address.room} {message.id}"
        if known in self._known:
            return
        self._known[known] = None
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        await self._places.acquire()
        room = message.address.room
        if room in self._rooms:
            self._rooms[room].append(message)
            return
        self._rooms[room] = deque([message])
        task = asyncio.create_task(self._serve(room))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, room: str) -> None:
        waiting = self._rooms[room]
        while waiting:
            await tell(self._hear, waiting[0])
            waiting.popleft()
            self._places.release()
        del self._rooms[room]

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
