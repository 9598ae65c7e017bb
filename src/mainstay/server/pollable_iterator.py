"""Wraps an asynchronous iterator so that its next item can be polled without waiting."""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterator, Generator
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class PollableIterator(Generic[ItemT]):
    """`poll` returns an item that is available now, or None; `wait_next` then waits for it.

    `async for` does not tell the two apart, so a writer could not join available items into one write. A step
    (`__anext__`) that has to wait stays suspended, and `wait_next` finishes it in the same task.
    """

    def __init__(self, source: AsyncIterator[ItemT]) -> None:
        self._source = source
        self._step: Generator[object, object, ItemT] | None = None
        self._awaited: object = None  # the future that it waits for

    def poll(self) -> ItemT | None:
        """Return the next item if it is available now. Raises StopAsyncIteration at the end."""
        if self._step is not None:
            return None
        step: Generator[object, object, ItemT] = self._source.__anext__().__await__()
        try:
            self._awaited = step.send(None)
        except StopIteration as done:
            value: ItemT = done.value
            return value
        self._step = step
        return None

    @types.coroutine
    def wait_next(self) -> Generator[object, object, ItemT]:
        """Wait for the item that `poll` did not have. Raises StopAsyncIteration at the end."""
        step, awaited = self._step, self._awaited
        assert step is not None, "`poll` returns None first"
        try:
            while True:
                try:
                    result = yield awaited
                except BaseException as error:  # mostly a cancellation: passed on to the source
                    awaited = step.throw(error)
                else:
                    awaited = step.send(result)
        except StopIteration as done:
            value: ItemT = done.value
            return value
        finally:
            self._step = self._awaited = None

    async def aclose(self) -> None:
        """Close the source too, also in the middle of a step."""
        if self._step is not None:
            try:
                self._awaited = self._step.throw(asyncio.CancelledError())
                await self.wait_next()
            except (asyncio.CancelledError, StopAsyncIteration, StopIteration):
                pass
            self._step = None
        close = getattr(self._source, "aclose", None)
        if close is not None:
            await close()
