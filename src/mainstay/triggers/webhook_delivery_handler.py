"""Turns verified webhook deliveries into prompts, exactly once.

A delivery has a nonce, which the signature covers, and may have a delivery id from its sender, which it does not cover.
Both are aliases of one idempotency key, under which the prompt is accepted once. So the same bytes under another id,
and the same id signed again, are duplicates: also after a crash at any point, and after the session was deleted or
renamed.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable

from mainstay.core.outcome import Reply
from mainstay.core.ports import Clock
from mainstay.core.triggers import PromptSubmitter, Trigger, TriggerLog, TriggerRun, Webhook, WebhookDeliveryId
from mainstay.triggers.webhook_app import DeliveryReceipt, WebhookDelivery

ALIAS_LIFETIME_MS = 30 * 86_400_000  # far longer than any replay window, and than senders retry


class WebhookDeliveryHandler:
    """`follow` is called with each run that is recorded, and its reply if there is one, to record the outcome."""

    def __init__(
        self,
        submitter: PromptSubmitter,
        log: TriggerLog,
        clock: Clock,
        follow: Callable[[TriggerRun, Awaitable[Reply] | None], None],
    ) -> None:
        self._submitter = submitter
        self._log = log
        self._clock = clock
        self._follow = follow
        self._locks: dict[str, asyncio.Lock] = {}  # by hook

    async def deliver(self, delivery: WebhookDelivery) -> DeliveryReceipt:
        """Submit a delivery, or recognise it as a duplicate. Raises LaneFull, InputRefused, SessionArchived or a
        StoreError: it was not accepted, and may be sent again."""
        hook = delivery.webhook
        if (key := await self._find_accepted(hook, delivery.nonce)) is not None:
            return DeliveryReceipt(key, duplicate=True)
        key = await self._resolve_key(hook, delivery)
        if key != delivery.nonce and await self._is_accepted(hook, key):
            return DeliveryReceipt(key, duplicate=True)
        async with self._locks.setdefault(hook.name, asyncio.Lock()):  # or one could be accepted and another recorded
            prompted = await self._submitter.submit(build_trigger(delivery), key)
            now = self._clock.now_ms()
            run = TriggerRun(trigger=hook.name, key=key, due=now, at=now, session=prompted.session, seq=prompted.seq)
            fresh = await self._log.record_run(run, alias=self._build_alias(hook, key, key))
        if fresh:  # without a reply, an earlier process took the prompt and ended before it recorded the run
            self._follow(run, prompted.reply)
        return DeliveryReceipt(key, duplicate=prompted.reply is None or not fresh)

    async def _find_accepted(self, webhook: Webhook, nonce: str) -> str | None:
        """Return the key of an accepted delivery with this nonce. No alias is stored for such a duplicate: an attacker
        who replays an old delivery could otherwise attach another delivery id to it."""
        key = await self._log.resolve_alias(webhook.name, nonce)
        return key if key is None or key == nonce or await self._is_accepted(webhook, key) else None

    async def _is_accepted(self, webhook: Webhook, key: str) -> bool:
        return await self._log.resolve_alias(webhook.name, key) == key

    async def _resolve_key(self, webhook: Webhook, delivery: WebhookDelivery) -> str:
        """Return the idempotency key of a delivery. Aliases are stored before it is accepted: a crash in between leaves
        only aliases."""
        if not delivery.delivery_id:
            return await self._log.resolve_alias(webhook.name, delivery.nonce) or delivery.nonce
        id_hash = hashlib.sha256(delivery.delivery_id.encode()).hexdigest()[:40]
        key = await self._log.add_alias(self._build_alias(webhook, "given:" + id_hash, delivery.nonce))
        return (
            key if key == delivery.nonce else await self._log.add_alias(self._build_alias(webhook, delivery.nonce, key))
        )

    def _build_alias(self, webhook: Webhook, name: str, key: str) -> WebhookDeliveryId:
        """Build an alias. GitHub's signatures have no timestamp and stay valid for ever, so their aliases never
        expire."""
        now = self._clock.now_ms()
        return WebhookDeliveryId(
            hook=webhook.name,
            name=name,
            key=key,
            at=now,
            until=0 if webhook.scheme == "github" else now + ALIAS_LIFETIME_MS,
        )


def build_trigger(delivery: WebhookDelivery) -> Trigger:
    hook = delivery.webhook
    return Trigger(name=hook.name, kind="webhook", text=hook.text, target=hook.target, data=delivery.payload_text)
