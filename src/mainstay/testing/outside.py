"""The outside in memory: an outbox, a channel and a scheduler that behave, for tests of whatever uses them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

import msgspec

from mainstay.core.errors import InputRefused
from mainstay.core.outside import Appointment, Outgoing, Said

_FIELD = re.compile(r"(\*|[0-9]+(-[0-9]+)?)(/[0-9]+)?(,(\*|[0-9]+(-[0-9]+)?)(/[0-9]+)?)*")


class MemoryOutbox:
    """Keeps what is sent, once for each key."""

    def __init__(self) -> None:
        self.sent: list[Outgoing] = []
        self._receipts: dict[str, str] = {}

    async def send(self, message: Outgoing) -> str:
        if message.key and message.key in self._receipts:
            return self._receipts[message.key]
        self.sent.append(message)
        receipt = f"m{len(self.sent)}"
        if message.key:
            self._receipts[message.key] = receipt
        return receipt


class MemoryChannel:
    """A room with messages in it. A message is found if it holds all words of the query."""

    def __init__(self, said: Sequence[Said] = (), name: str = "memory") -> None:
        self.name = name
        self.said = list(said)

    async def search(self, session: str, query: str, limit: int) -> list[Said]:
        words = query.casefold().split()
        found = [one for one in self.said if all(word in one.text.casefold() for word in words)]
        return sorted(found, key=lambda one: -one.at)[:limit]


class MemoryScheduler:
    """Keeps appointments; nothing comes due. A time is ISO, or five cron fields of numbers."""

    def __init__(self) -> None:
        self._kept: dict[str, Appointment] = {}
        self._made = 0

    def check(self, when: str, timezone: str) -> None:
        if not _is_time(when):
            raise InputRefused(f"{when!r} is neither an ISO time nor five cron fields")

    async def add(self, appointment: Appointment) -> str:
        self.check(appointment.when, appointment.timezone)
        for id, one in self._kept.items():
            if appointment.key and one.key == appointment.key:
                return id
        self._made += 1
        id = f"a{self._made}"
        self._kept[id] = msgspec.structs.replace(appointment, id=id)
        return id

    async def list(self, session: str) -> list[Appointment]:
        return [one for one in self._kept.values() if one.session == session]

    async def remove(self, session: str, id: str) -> bool:
        if id not in self._kept or self._kept[id].session != session:
            return False
        del self._kept[id]
        return True


def _is_time(when: str) -> bool:
    fields = when.split()
    if len(fields) == 5:
        return all(_FIELD.fullmatch(field) for field in fields)
    try:
        datetime.fromisoformat(when)
    except ValueError:
        return False
    return True
