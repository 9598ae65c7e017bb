"""From what was signed to a prompt that is on disk, once.

A delivery is known by what was signed (its nonce) and by what its sender calls it (which nobody signed). Both lead to
one key, under which the door takes it once: bytes that are sent again under another name, and a delivery that was
signed again under the same name, are both repeats, also after a crash at any point.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable

from mainstay.core.outcome import Reply
from mainstay.core.ports import Clock
from mainstay.core.triggers import Door, Hook, Run, Trigger, TriggerLog
from mainstay.triggers.hooks import Delivered, Delivery

NAMES = "/names"  # no hook is called so: under HOOK/names the log keeps which name leads to which key


class Deliveries:
    """`follow` is told of what was taken, to see how it ends."""

    def __init__(
        self, door: Door, log: TriggerLog, clock: Clock, follow: Callable[[Run, Awaitable[Reply]], None]
    ) -> None:
        self._door = door
        self._log = log
        self._clock = clock
        self._follow = follow

    async def deliver(self, delivery: Delivery) -> Delivered:
        """Raises LaneFull, InputRefused, SessionArchived or a StoreError: it was not taken, and may be sent again."""
        hook = delivery.hook
        if (key := await self._known(hook, delivery.nonce)) is not None:
            return Delivered(key, duplicate=True)
        key = await self._key(hook, delivery)
        prompted = await self._door.accept(trigger_of(delivery), key)
        now = self._clock.now_ms()
        run = Run(trigger=hook.name, key=key, due=now, at=now, session=prompted.session, seq=prompted.seq)
        fresh = await self._log.record(run)  # of several at the same instant, for one
        if prompted.reply is None or not fresh:
            return Delivered(key, duplicate=True)
        self._follow(run, prompted.reply)
        return Delivered(key)

    async def _known(self, hook: Hook, nonce: str) -> str | None:
        """The key of what was taken under this nonce. Nothing more is remembered of such a repeat: it may come from
        somebody who has no more than an old delivery, and wants a name to lead to it."""
        if await self._log.find(hook.name, nonce) is not None:
            return nonce
        named = await self._log.find(hook.name + NAMES, nonce)
        if named is not None and await self._log.find(hook.name, named.note) is not None:
            return named.note
        return None

    async def _key(self, hook: Hook, delivery: Delivery) -> str:
        """What it is taken under. The names are kept first: a crash before it was taken leaves only names."""
        if not delivery.given:
            return await self._named(hook, delivery.nonce) or delivery.nonce
        given = hashlib.sha256(delivery.given.encode()).hexdigest()[:40]
        key = await self._name(hook, "given:" + given, delivery.nonce)
        return key if key == delivery.nonce else await self._name(hook, delivery.nonce, key)

    async def _name(self, hook: Hook, name: str, key: str) -> str:
        """From now on this name leads to this key, unless it has led to another."""
        now = self._clock.now_ms()
        kept = Run(trigger=hook.name + NAMES, key=name, at=now, came="asleep", note=key, outcome="named")
        if await self._log.record(kept):
            return key
        return await self._named(hook, name) or key

    async def _named(self, hook: Hook, name: str) -> str | None:
        found = await self._log.find(hook.name + NAMES, name)
        return found.note if found is not None else None


def trigger_of(delivery: Delivery) -> Trigger:
    hook = delivery.hook
    return Trigger(name=hook.name, kind="webhook", text=hook.text, target=hook.target, data=delivery.shown)
