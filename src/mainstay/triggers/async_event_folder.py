"""Asynchronous access to the event folder: its blocking methods run in a thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

from mainstay.core.worker_threads import run_in_thread
from mainstay.triggers.event_folder import EventFileClaim, EventFolder, EventFolderScan

T = TypeVar("T")


class BlockingFunctionRunner(Protocol):
    """Runs a blocking function without blocking the event loop."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


class AsyncEventFolder:
    """`run_blocking` runs a blocking function; by default in a thread."""

    def __init__(self, folder: EventFolder, run_blocking: BlockingFunctionRunner = run_in_thread) -> None:
        self._folder = folder
        self._run_blocking = run_blocking

    async def scan(self) -> EventFolderScan:
        return await self._run_blocking(self._folder.scan)

    async def claim(self, name: str, digest: str) -> EventFileClaim | None:
        return await self._run_blocking(partial(self._folder.claim, name, digest))

    async def move_to_done(self, claim: EventFileClaim, note: str) -> None:
        await self._run_blocking(partial(self._folder.move_to_done, claim, note))

    async def move_to_failed(self, claim: EventFileClaim, reason: str) -> None:
        await self._run_blocking(partial(self._folder.move_to_failed, claim, reason))
