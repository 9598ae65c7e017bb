"""In-memory test doubles of the ports that tools use: outbox, channel search and scheduler."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

import msgspec

from mainstay.core.errors import InputRefused
from mainstay.core.tool_ports import OutgoingMessage, RoomMessage, ScheduledPrompt

_CRON_FIELD_PATTERN = re.compile(r"(\*|[0-9]+(-[0-9]+)?)(/[0-9]+)?(,(\*|[0-9]+(-[0-9]+)?)(/[0-9]+)?)*")


class InMemoryOutbox:
    """Records sent messages, once per idempotency key."""

    def __init__(self) -> None:
        self.sent: list[OutgoingMessage] = []
        self._receipts: dict[str, str] = {}

    async def send(self, message: OutgoingMessage) -> str:
        if message.key and message.key in self._receipts:
            return self._receipts[message.key]
        self.sent.append(message)
        receipt = f"m{len(self.sent)}"
        if message.key:
            self._receipts[message.key] = receipt
        return receipt


class InMemoryChannelSearch:
    """A room with messages. A message matches if it contains all words of the query."""

    def __init__(self, messages: Sequence[RoomMessage] = (), name: str = "memory") -> None:
        self.name = name
        self.messages = list(messages)

    async def search(self, session: str, query: str, limit: int) -> list[RoomMessage]:
        words = query.casefold().split()
        matches = [message for message in self.messages if all(word in message.text.casefold() for word in words)]
        return sorted(matches, key=lambda message: -message.at)[:limit]


class InMemoryScheduler:
    """Stores scheduled prompts, which never become due. A time is ISO 8601, or five cron fields of numbers."""

    def __init__(self) -> None:
        self._prompts: dict[str, ScheduledPrompt] = {}
        self._count = 0

    def check_time(self, when: str, timezone: str) -> None:
        if not _is_time(when):
            raise InputRefused(f"{when!r} is neither an ISO time nor five cron fields")

    async def add(self, prompt: ScheduledPrompt) -> str:
        self.check_time(prompt.when, prompt.timezone)
        for id, stored in self._prompts.items():
            if prompt.key and stored.key == prompt.key:
                return id
        self._count += 1
        id = f"a{self._count}"
        self._prompts[id] = msgspec.structs.replace(prompt, id=id)
        return id

    async def list(self, session: str) -> list[ScheduledPrompt]:
        return [prompt for prompt in self._prompts.values() if prompt.session == session]

    async def remove(self, session: str, id: str) -> bool:
        if id not in self._prompts or self._prompts[id].session != session:
            return False
        del self._prompts[id]
        return True


def _is_time(when: str) -> bool:
    fields = when.split()
    if len(fields) == 5:
        return all(_CRON_FIELD_PATTERN.fullmatch(field) for field in fields)
    try:
        datetime.fromisoformat(when)
    except ValueError:
        return False
    return True
