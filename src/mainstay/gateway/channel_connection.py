"""Keeps one chat channel connected: starts it, retries with backoff, and restarts it if its receive loop fails.

A channel may be code of another distribution. Whatever it raises is logged and shown as the channel's state, and ends
neither the server nor another channel.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

from mainstay.core.channels import ChannelError, ChatChannel, MessageHandler
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.core.ports import Clock
from mainstay.core.supervision import TaskHealth, start_supervised_task

log = logging.getLogger("mainstay.channels")

RETRY_S = 2.0
RETRY_MAX_S = 300.0  # longest wait; a channel that was connected for longer begins again with the shortest


class ChannelCrashed(ChannelError):
    """The code of a channel raised an exception that is not an error of a chat platform."""


async def start_channel(channel: ChatChannel, on_message: MessageHandler) -> None:
    """Start a channel. Raises only MainstayErrors: ChannelCrashed for an exception that `start` must not raise."""
    try:
        await channel.start(on_message)
    except MainstayError:
        raise
    except Exception as error:  # a channel of another distribution may raise anything
        raise ChannelCrashed(f"its code failed in start: {_describe_exception(error)}") from error


class ChannelConnection:
    """One channel and the tasks that keep it connected."""

    def __init__(self, channel: ChatChannel, on_message: MessageHandler, clock: Clock) -> None:
        self.channel = channel
        self._on_message = on_message
        self._clock = clock
        self._problem = ""  # why it is not connected; empty: the channel's own state is true
        self._failures = 0
        self._reported = ""  # the last failure that was logged: the same one is not logged again
        self._connected_at = 0.0
        self._retry_task: asyncio.Task[None] | None = None
        self._watched_tasks: set[asyncio.Task[object]] = set()
        self._is_closing = False
        self._health = TaskHealth(f"channel {channel.name}")

    @property
    def state(self) -> str:
        """Return "connected", or what is wrong in a few words."""
        if self._problem:
            return self._problem
        try:
            return self.channel.state
        except Exception as error:  # as above
            return f"its code failed in state: {_describe_exception(error)}"

    async def open(self) -> None:
        """Connect. If that is not possible now, go on in the background; `state` says why."""
        if not await self._try_start() and not self._is_closing:
            self._retry_task = start_supervised_task(f"connection of {self.channel.name}", self._retry)

    async def stop_retrying(self) -> None:
        task, self._retry_task = self._retry_task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def close(self) -> None:
        self._is_closing = True
        self._health.close()
        await self.stop_retrying()
        await self._close_channel()

    # --- attempts --------------------------------------------------------------------------------

    async def _try_start(self) -> bool:
        """Try to connect. Returns False if a retry may help, True if it is connected or cannot be."""
        try:
            await start_channel(self.channel, self._on_message)
        except ConfigError as error:
            self._problem = str(error)
            log.error(
                "%s is not connected: %s; it is tried again after a change of its settings or a restart",
                self.channel.name,
                _without_period(error),
            )
            return True
        except MainstayError as error:
            self._report_failure(error)
            if isinstance(error, ChannelCrashed):
                await self._close_channel()  # it may be half started
            return False
        if self._problem:
            log.info("%s is connected", self.channel.name)
        self._problem = ""
        self._health.mark_running()
        self._connected_at = self._clock.monotonic()
        self._watch_tasks()
        return True

    def _report_failure(self, error: MainstayError) -> None:
        reason = _without_period(error)
        self._problem = f"{reason}; it is tried again"
        if reason != self._reported:
            self._reported = reason
            log.error(
                "%s is not connected: %s; it is tried again in %g s, then at longer intervals of at most %g s",
                self.channel.name,
                reason,
                self._wait_s(),
                RETRY_MAX_S,
                exc_info=error.__cause__ if isinstance(error, ChannelCrashed) else None,
            )

    def _wait_s(self) -> float:
        return min(RETRY_S * 2.0 ** min(self._failures, 16), RETRY_MAX_S)

    async def _retry(self) -> None:
        while True:
            await self._clock.sleep(self._wait_s())
            self._failures += 1
            if await self._try_start():
                return

    # --- the receive loop ------------------------------------------------------------------------

    def _watch_tasks(self) -> None:
        for task in _list_tasks(self.channel):
            if task not in self._watched_tasks and not self._is_closing:
                self._watched_tasks.add(task)
                task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[object]) -> None:
        self._watched_tasks.discard(task)
        if self._is_closing or self._problem or (task.cancelled() and task.cancelling()):
            return
        error = asyncio.CancelledError() if task.cancelled() else task.exception()  # nobody cancelled it
        if error is None:
            self._watch_tasks()  # another task may have taken its place
        elif not isinstance(error, MainstayError) or self.state == "connected":  # else the channel reports it itself
            self._restart(error)

    def _restart(self, error: BaseException) -> None:
        if self._clock.monotonic() - self._connected_at > RETRY_MAX_S:
            self._failures, self._reported = 0, ""
        crash = ChannelCrashed(f"its code failed while it received messages: {_describe_exception(error)}")
        crash.__cause__ = error
        self._report_failure(crash)
        self._health.set_failure(str(crash))
        self._retry_task = start_supervised_task(f"restart of {self.channel.name}", self._close_and_retry)

    async def _close_and_retry(self) -> None:
        await self._close_channel()
        await self._retry()

    async def _close_channel(self) -> None:
        try:
            await self.channel.close()
        except Exception as error:  # as above
            log.error("%s failed in close: %s", self.channel.name, _describe_exception(error), exc_info=error)


def _list_tasks(channel: ChatChannel) -> Iterator[asyncio.Task[object]]:
    """Yield the tasks in the channel's attributes: its receive loop."""
    for value in list(getattr(channel, "__dict__", {}).values()):
        if isinstance(value, asyncio.Task):
            yield value


def _describe_exception(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _without_period(error: MainstayError) -> str:
    return str(error).removesuffix(".")
