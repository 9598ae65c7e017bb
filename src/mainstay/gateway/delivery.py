"""Posts messages to chat rooms in order, with retries: at least once, exactly once where the platform is idempotent.

The state "sending" is on disk before a message is posted. A process that finds it there without a receipt does not know
whether the message was posted: it posts again only with an idempotency key that the platform knows, or after a search.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

import msgspec
from msgspec.structs import replace

from mainstay.core.channels import (
    ChannelError,
    ChannelQueue,
    ChatChannel,
    Delivery,
    DeliveryDeferred,
    DeliveryRejected,
    DeliveryState,
    DeliveryUnknown,
    SentMessage,
    SupportsEphemeral,
    SupportsStreams,
)
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import MainstayError
from mainstay.core.message_chunks import split_message
from mainstay.core.ports import Clock
from mainstay.core.resource_errors import temporary_folder
from mainstay.core.supervision import start_supervised_task
from mainstay.core.worker_threads import run_in_thread

log = logging.getLogger("mainstay.delivery")

T = TypeVar("T")
RETRY_FOR_MS = 24 * 3600 * 1000
CALL_TIMEOUT_S = 300.0  # channels have shorter timeouts of their own; this is for one that has none
BACKOFF_FIRST_S = 1.0
BACKOFF_MAX_S = 60.0
RETRY_AFTER_MAX_S = 3600.0
NOTE_CHARS_MAX = 300
FINISHED_REMEMBERED_MAX = 10_000
PARTS_MAX = 200  # messages that one answer is split into

DeliveryCallback = Callable[[Delivery], Awaitable[None]]  # writes the result into the journal
OutdatedCheck = Callable[[Delivery], Awaitable[str]]  # why it need not be posted any more; "" if it must


class DeliveryJob(msgspec.Struct):
    """A delivery in progress. Without a channel queue it is in memory only."""

    delivery: Delivery
    channel: ChatChannel
    channel_queue: ChannelQueue | None
    on_finished: DeliveryCallback | None
    future: asyncio.Future[Delivery]
    check_outdated: OutdatedCheck | None = None


class RoomDeliveryQueue:
    """The queue of one room: deliveries that wait, and the task that posts them."""

    def __init__(self) -> None:
        self.jobs: deque[DeliveryJob] = deque()
        self.task: asyncio.Task[None] | None = None
        self.lock = asyncio.Lock()  # one post at a time
        self.delayed_until = 0.0  # monotonic time: the end of a delay that the platform asked for
        self.backoff_until = 0.0  # monotonic time: the end of the backoff after a failure
        self.wake = asyncio.Event()

    @property
    def ready_at(self) -> float:
        return max(self.delayed_until, self.backoff_until)


class Deliverer:
    """Posts deliveries, one at a time per room; rooms never wait for each other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._room_queues: dict[tuple[str, str], RoomDeliveryQueue] = {}
        self._jobs: dict[str, DeliveryJob] = {}
        self._finished: dict[str, Delivery] = {}  # by key: the latest finished deliveries, without their text

    # --- in --------------------------------------------------------------------------------------

    def deliver(
        self,
        delivery: Delivery,
        channel: ChatChannel,
        channel_queue: ChannelQueue | None,
        on_finished: DeliveryCallback | None = None,
        check_outdated: OutdatedCheck | None = None,
    ) -> asyncio.Future[Delivery]:
        """Queue a delivery that is in the channel queue already. The future's result is the delivery in its final
        state. A key that is in progress or was finished lately is not posted again."""
        if (in_progress := self._jobs.get(delivery.key)) is not None:
            return in_progress.future
        future: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
        if (ended := self._finished.get(delivery.key)) is not None:  # it finished after the caller read it
            future.set_result(ended)
            return future
        job = DeliveryJob(delivery, channel, channel_queue, on_finished, future, check_outdated)
        self._jobs[delivery.key] = job
        room = self.room_queue(delivery.to)
        room.jobs.append(job)
        if room.task is None:
            room_key = (delivery.to.channel, delivery.to.room)
            room.task = start_supervised_task(
                f"deliveries to {delivery.to}", lambda: self._drain_room(room, room_key), is_isolated=True
            )
        return future

    @property
    def pending_count(self) -> int:
        """The number of deliveries that are not finished."""
        return len(self._jobs)

    def room_queue(self, address: ChatAddress) -> RoomDeliveryQueue:
        return self._room_queues.setdefault((address.channel, address.room), RoomDeliveryQueue())

    def is_free(self, address: ChatAddress) -> bool:
        """True if nothing waits to be posted in the room and no delay or backoff is in force."""
        room = self.room_queue(address)
        return not room.jobs and not room.lock.locked() and self._clock.monotonic() >= room.ready_at

    def delay_room(self, address: ChatAddress, seconds: float) -> None:
        """Post nothing in the room for so many seconds, at most `RETRY_AFTER_MAX_S`."""
        room = self.room_queue(address)
        room.delayed_until = max(room.delayed_until, self._clock.monotonic() + min(seconds, RETRY_AFTER_MAX_S))

    def retry_soon(self, channel: str) -> None:
        """Shorten the backoff of a channel's rooms, because a message arrived and the platform is reachable again.
        Delays that the platform asked for stay in force."""
        soon = self._clock.monotonic() + BACKOFF_FIRST_S  # so that not every message causes an attempt
        for (name, _), room in self._room_queues.items():
            if name == channel and room.backoff_until > soon:
                room.backoff_until = soon
                room.wake.set()

    @property
    def is_busy(self) -> bool:
        return bool(self._jobs)

    async def wait_until_idle(self) -> None:
        while self._jobs:
            await asyncio.wait([job.future for job in self._jobs.values()])

    async def close(self) -> None:
        """Stop at once; unfinished deliveries stay in the channel queue."""
        tasks = [room.task for room in self._room_queues.values() if room.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for job in self._jobs.values():
            job.future.cancel()
        self._jobs.clear()
        self._room_queues.clear()

    # --- one room --------------------------------------------------------------------------------

    async def _drain_room(self, room: RoomDeliveryQueue, room_key: tuple[str, str]) -> None:
        while room.jobs:
            job = room.jobs[0]
            await self._run_job(room, job)
            room.jobs.popleft()
            self._jobs.pop(job.delivery.key, None)
            self._remember_finished(job.delivery)
            if not job.future.done():
                job.future.set_result(job.delivery)
        room.task = None
        if (
            self._room_queues.get(room_key) is room
            and not room.lock.locked()
            and self._clock.monotonic() >= room.ready_at
        ):
            del self._room_queues[room_key]

    def _remember_finished(self, delivery: Delivery) -> None:
        self._finished[delivery.key] = replace(delivery, text="", attached=())
        while len(self._finished) > FINISHED_REMEMBERED_MAX:
            del self._finished[next(iter(self._finished))]

    async def _run_job(self, room: RoomDeliveryQueue, job: DeliveryJob) -> None:
        """Post a delivery and record its result; retries store errors without limit."""
        tries = 0
        while True:
            try:
                if not _is_finished(job.delivery.state):
                    await self._post_parts(room, job)
                await self._record_result(job)
                return
            except MainstayError as error:  # of the store; parts that were posted are not posted again
                log.warning("a delivery to %s is retried: %s", job.delivery.to, error)
                tries += 1
                await self._clock.sleep(_compute_backoff_s(tries))

    async def _record_result(self, job: DeliveryJob) -> None:
        """Write the receipt into the journal, then clear the text in the channel queue."""
        if job.on_finished is not None:
            await job.on_finished(job.delivery)
        if job.channel_queue is not None:
            await job.channel_queue.update_delivery(replace(job.delivery, text="", attached=()))

    async def _post_parts(self, room: RoomDeliveryQueue, job: DeliveryJob) -> None:
        channel = job.channel
        pieces = split_message(job.delivery.text, channel.format, channel.capabilities.length_max)[:PARTS_MAX]
        maybe_posted = job.delivery.state == "sending"  # this part was begun before and may have been posted
        while (delivery := job.delivery).part < len(pieces) + len(delivery.files) + len(delivery.attached):
            await self._wait_until_ready(room)
            if job.check_outdated is not None and not delivery.part and (why := await job.check_outdated(delivery)):
                job.delivery = _finish_delivery(delivery, "unknown" if maybe_posted else "sent", why)
                return
            try:
                async with room.lock:
                    await self._post_part(job, pieces, maybe_posted=maybe_posted)
                maybe_posted = False
            except DeliveryRejected as error:
                job.delivery = _finish_delivery(job.delivery, "failed", str(error))
                return
            except DeliveryUnknown as error:
                if self._idempotency(job) == "none" and not _is_draft_edit(job.delivery):
                    job.delivery = _finish_delivery(job.delivery, "unknown", str(error))
                    return
                maybe_posted = True
                if not await self._schedule_retry(room, job, error, maybe_posted=True):
                    return
            except ChannelError as error:  # this attempt did not post it; an earlier one may have
                if not await self._schedule_retry(room, job, error, maybe_posted=maybe_posted):
                    return
        job.delivery = _finish_delivery(job.delivery, "sent", "")

    async def _wait_until_ready(self, room: RoomDeliveryQueue) -> None:
        while (wait_s := room.ready_at - self._clock.monotonic()) > 0:
            room.wake.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await room.wake.wait()
            except TimeoutError:
                pass

    async def _schedule_retry(
        self, room: RoomDeliveryQueue, job: DeliveryJob, error: ChannelError, *, maybe_posted: bool
    ) -> bool:
        """Save the failed attempt and set the time of the next one. Returns False if the delivery is given up."""
        delivery, now = job.delivery, self._clock.now_ms()
        reason = str(error)[:NOTE_CHARS_MAX]
        if now - delivery.at > RETRY_FOR_MS:
            job.delivery = _finish_delivery(
                delivery, "unknown" if maybe_posted else "failed", f"it was tried for a day: {reason}"
            )
            return False
        attempts = delivery.attempts + 1
        retry_after_s = error.retry_after_s if isinstance(error, DeliveryDeferred) else None
        if retry_after_s is not None:
            wait_s = min(retry_after_s, RETRY_AFTER_MAX_S)
            room.delayed_until = max(room.delayed_until, self._clock.monotonic() + wait_s)
        else:
            wait_s = _compute_backoff_s(attempts)
            room.backoff_until = self._clock.monotonic() + wait_s
        state: DeliveryState = "sending" if maybe_posted else "pending"
        next_at = now + int(wait_s * 1000)
        await self._save(job, replace(delivery, state=state, attempts=attempts, next_at=next_at, note=reason))
        return True

    # --- one message or file ---------------------------------------------------------------------

    async def _post_part(self, job: DeliveryJob, pieces: list[str], *, maybe_posted: bool) -> None:
        channel, delivery = job.channel, job.delivery
        part, key = delivery.part, part_key(delivery)
        if delivery.draft and part == 0:
            if await self._finish_draft(job, pieces, maybe_posted=maybe_posted):
                return
        elif maybe_posted and (existing := await self._find_posted(job, key)) is not None:
            await self._record_posted(job, existing)
            return
        if job.channel_queue is not None:
            await job.channel_queue.update_delivery(replace(job.delivery, state="sending"))
        to = job.delivery.to
        if part < len(pieces):
            text = channel.format(pieces[part])
            ephemeral = _ephemeral_channel(job)
            posting = (
                ephemeral.post_ephemeral(to, delivery.ephemeral_user, text)
                if ephemeral
                else channel.post(to, text, key=key)
            )
            sent = await with_call_timeout(posting)
        elif part < len(pieces) + len(delivery.files):
            path, name = delivery.files[part - len(pieces)]
            sent = await with_call_timeout(channel.upload(to, path, name, "", key=key))
        else:
            name, attached = delivery.attached[part - len(pieces) - len(delivery.files)]
            with temporary_folder() as folder:  # no other user can write to it
                path = os.path.join(folder, name)
                await run_in_thread(lambda: _write_text(path, attached))
                sent = await with_call_timeout(channel.upload(to, path, name, "", key=key))
        await self._record_posted(job, sent)

    def _idempotency(self, job: DeliveryJob) -> Literal["key", "look", "none"]:
        """Return how a repeated post is recognised: by its key, by a search, or not at all ("none"), which includes a
        key that the platform may have forgotten by now."""
        if _ephemeral_channel(job) is not None:
            return "none"
        shows = job.channel.capabilities
        expired = (
            shows.idempotency_window_s and self._clock.now_ms() - job.delivery.at > shows.idempotency_window_s * 1000
        )
        return "none" if shows.idempotency == "key" and expired else shows.idempotency

    async def _find_posted(self, job: DeliveryJob, key: str) -> SentMessage | None:
        """Return the message if it was posted already. None if it must be posted, again with the same key where the
        platform knows keys. Raises DeliveryUnknown if that cannot be found out."""
        match self._idempotency(job):
            case "key":
                return None
            case "look":
                return await with_call_timeout(job.channel.find_posted(job.delivery.to, key))
            case "none":
                raise DeliveryUnknown(job.delivery.note or "it is not known whether it was posted")

    async def _finish_draft(self, job: DeliveryJob, pieces: list[str], *, maybe_posted: bool) -> bool:
        """Edit the draft message into the first part of the answer. Returns False if there is no draft to edit."""
        channel, delivery = job.channel, job.delivery
        id = delivery.ids[0] if delivery.ids else ""
        if not id and maybe_posted:  # the process stopped while the draft was posted
            id = await self._find_lost_draft(job)
        if id and pieces:
            try:
                if not await _finish_stream(channel, delivery.to, id, pieces[0]):
                    await with_call_timeout(channel.edit(delivery.to, id, channel.format(pieces[0])))
            except DeliveryRejected:  # the message was deleted
                id = ""
        if not id or not pieces:
            await self._save(job, replace(job.delivery, draft=False, ids=(), state="pending"))
            return False
        await self._save(job, replace(job.delivery, draft=False, ids=(id,), part=1, state="pending"))
        return True

    async def _find_lost_draft(self, job: DeliveryJob) -> str:
        """Return the id of a draft that may have been posted; "" if that cannot be found out: then the draft stays
        where it is, and the answer is posted as a new message."""
        channel, delivery = job.channel, job.delivery
        if (idempotency := self._idempotency(job)) == "none":
            return ""
        if idempotency == "key":
            first = split_message(delivery.text, channel.format, channel.capabilities.length_max)[:1]
            sent = await with_call_timeout(
                channel.post(delivery.to, channel.format("".join(first)), key=draft_key(delivery))
            )
            return sent.id
        existing = await with_call_timeout(channel.find_posted(delivery.to, draft_key(delivery)))
        existing = existing or await find_lost_stream(channel, delivery)
        return existing.id if existing is not None else ""

    async def _record_posted(self, job: DeliveryJob, sent: SentMessage) -> None:
        delivery, to, opened = job.delivery, job.delivery.to, job.delivery.opened
        if not to.thread and sent.thread:  # the post began a thread: the other parts go there
            to, opened = replace(to, thread=sent.thread), True
        updated = replace(
            delivery,
            to=to,
            opened=opened,
            ids=(*delivery.ids, sent.id),
            part=delivery.part + 1,
            state="pending",
            attempts=0,
        )
        await self._save(job, updated)

    async def _save(self, job: DeliveryJob, delivery: Delivery) -> None:
        """Set the delivery's state in memory first: it is true even if the store fails now."""
        job.delivery = delivery
        if job.channel_queue is not None:
            await job.channel_queue.update_delivery(delivery)


def part_key(delivery: Delivery) -> str:
    """Return the idempotency key of the current part."""
    return f"{delivery.key}.{delivery.part}"


def draft_key(delivery: Delivery) -> str:
    """Return the idempotency key of the draft. It differs from the first part's, which is needed if the draft was
    deleted."""
    return f"{delivery.key}.draft"


async def with_call_timeout(call: Awaitable[T]) -> T:
    """Await a channel's call, for at most `CALL_TIMEOUT_S`. Raises DeliveryUnknown on timeout, and for an exception
    that a channel must not raise."""
    try:
        async with asyncio.timeout(CALL_TIMEOUT_S):
            return await call
    except TimeoutError:
        raise DeliveryUnknown("the platform did not answer in time") from None
    except MainstayError:
        raise
    except Exception as error:  # a channel of another distribution may raise anything
        log.exception("a channel failed while it posted")
        raise DeliveryUnknown(f"the channel's code failed: {type(error).__name__}: {error}") from error


async def find_lost_stream(channel: object, delivery: Delivery) -> SentMessage | None:
    """Return the stream of a draft that was started but not recorded, on a platform with message streams."""
    if not isinstance(channel, SupportsStreams):
        return None
    return await with_call_timeout(channel.find_stream(delivery.to, delivery.at))


async def _finish_stream(channel: object, to: ChatAddress, id: str, text: str) -> bool:
    """Finish the stream of a draft with this text; False if the message has to be edited."""
    return isinstance(channel, SupportsStreams) and await with_call_timeout(channel.finish_stream(to, id, text))


def _write_text(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)


def _ephemeral_channel(job: DeliveryJob) -> SupportsEphemeral | None:
    """Return the channel if the delivery is for one user only and the channel supports ephemeral messages."""
    return job.channel if job.delivery.ephemeral_user and isinstance(job.channel, SupportsEphemeral) else None


def _is_draft_edit(delivery: Delivery) -> bool:
    """True if the next post is an edit of the draft, which can be repeated safely."""
    return delivery.draft and delivery.part == 0 and bool(delivery.ids)


def _is_finished(state: DeliveryState) -> bool:
    return state not in ("pending", "sending")


def _finish_delivery(delivery: Delivery, state: DeliveryState, note: str) -> Delivery:
    return replace(delivery, state=state, note=note[:NOTE_CHARS_MAX], draft=False)


def _compute_backoff_s(attempts: int) -> float:
    """Return the backoff before the next attempt: exponential, with jitter."""
    return min(BACKOFF_FIRST_S * 2.0 ** min(attempts - 1, 10), BACKOFF_MAX_S) * random.uniform(0.75, 1.0)
