"""An asynchronous iterator, a step at a time, for whoever wants to know whether the next step has to be waited for."""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterator, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Ready(Generic[T]):
    """`take` gives what is there already, and None when there is nothing; `wait` then waits for it.

    `async for` cannot tell the two apart, and so whoever writes to a slow place would write each thing by itself. A
    step that cannot be finished at once is kept as far as it came, and finished by `wait`, in the same task.
    """

    def __init__(self, source: AsyncIterator[T]) -> None:
        self._source = source
        self._step: Any = None
        self._on: Any = None  # what it waits for

    def take(self) -> T | None:
        """Raises StopAsyncIteration at the end."""
        if self._step is not None:
            return None
        step: Any = self._source.__anext__().__await__()
        try:
            self._on = step.send(None)
        except StopIteration as done:
            value: T = done.value
            return value
        self._step = step
        return None

    @types.coroutine
    def wait(self) -> Generator[Any, Any, T]:
        """Raises StopAsyncIteration at the end."""
        step, on = self._step, self._on
        assert step is not None, "there was something to take"
        try:
            while True:
                try:
                    heard = yield on
                except BaseException as error:  # a cancellation, above all: it is for the source to end by
                    on = step.throw(error)
                else:
                    on = step.send(heard)
        except StopIteration as done:
            value: T = done.value
            return value
        finally:
            self._step = self._on = None

    async def aclose(self) -> None:
        """The source ends too, wherever it stands."""
        if self._step is not None:
            try:
                self._on = self._step.throw(asyncio.CancelledError())
                await self.wait()
            except (asyncio.CancelledError, StopAsyncIteration, StopIteration):
                pass
            self._step = None
        close = getattr(self._source, "aclose", None)
        if close is not None:
            await close()
