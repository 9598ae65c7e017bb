"""From what was signed to a prompt that is on disk, once.

A delivery is known by what was signed (its nonce) and by what its sender calls it (which nobody signed). Both lead to
one key, under which the door takes it once: bytes that are sent again under another name, and a delivery that was
signed again under the same name, are both repeats, also after a crash at any point, and also when the session they
went to is gone or called something else.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable

from mainstay.core.outcome import Reply
from mainstay.core.ports import Clock
from mainstay.core.triggers import Door, Hook, Name, Run, Trigger, TriggerLog
from mainstay.triggers.hooks import Delivered, Delivery

KEPT_MS = 30 * 86_400_000  # far longer than any window, and than senders go on trying


class Deliveries:
    """`follow` is told of what was taken, to see how it ends."""

    def __init__(
        self, door: Door, log: TriggerLog, clock: Clock, follow: Callable[[Run, Awaitable[Reply]], None]
    ) -> None:
        self._door = door
        self._log = log
        self._clock = clock
        self._follow = follow
        self._one: dict[str, asyncio.Lock] = {}  # by hook

    async def deliver(self, delivery: Delivery) -> Delivered:
        """Raises LaneFull, InputRefused, SessionArchived or a StoreError: it was not taken, and may be sent again."""
        hook = delivery.hook
        if (key := await self._known(hook, delivery.nonce)) is not None:
            return Delivered(key, duplicate=True)
        key = await self._key(hook, delivery)
        if key != delivery.nonce and await self._taken(hook, key):
            return Delivered(key, duplicate=True)
        async with self._one.setdefault(hook.name, asyncio.Lock()):  # or one would be accepted, and another recorded
            prompted = await self._door.accept(trigger_of(delivery), key)
            now = self._clock.now_ms()
            run = Run(trigger=hook.name, key=key, due=now, at=now, session=prompted.session, seq=prompted.seq)
            fresh = await self._log.record(run, name=self._name(hook, key, key))
        if prompted.reply is None or not fresh:
            return Delivered(key, duplicate=True)
        self._follow(run, prompted.reply)
        return Delivered(key)

    async def _known(self, hook: Hook, nonce: str) -> str | None:
        """The key of what was taken with this nonce. Nothing more is remembered of such a repeat: it may come from
        somebody who has no more than an old delivery, and wants a name to lead to it."""
        key = await self._log.named(hook.name, nonce)
        return key if key is None or key == nonce or await self._taken(hook, key) else None

    async def _taken(self, hook: Hook, key: str) -> bool:
        return await self._log.named(hook.name, key) == key

    async def _key(self, hook: Hook, delivery: Delivery) -> str:
        """What it is taken under. The names are kept first: a crash before it was taken leaves only names."""
        if not delivery.given:
            return await self._log.named(hook.name, delivery.nonce) or delivery.nonce
        given = hashlib.sha256(delivery.given.encode()).hexdigest()[:40]
        key = await self._log.name(self._name(hook, "given:" + given, delivery.nonce))
        return key if key == delivery.nonce else await self._log.name(self._name(hook, delivery.nonce, key))

    def _name(self, hook: Hook, name: str, key: str) -> Name:
        """What was signed without a time can be sent again for ever, and is kept for as long as there is room."""
        now = self._clock.now_ms()
        return Name(hook=hook.name, name=name, key=key, at=now, until=0 if hook.scheme == "github" else now + KEPT_MS)


def trigger_of(delivery: Delivery) -> Trigger:
    hook = delivery.hook
    return Trigger(name=hook.name, kind="webhook", text=hook.text, target=hook.target, data=delivery.shown)
