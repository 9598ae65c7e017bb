"""The event folder, beside the loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from mainstay.core.workers import in_thread
from mainstay.triggers.folder import Claim, EventFolder, Scan


class Files:
    """`aside` has done what waits for a disk: in a thread, unless it is told otherwise."""

    def __init__(self, folder: EventFolder, aside: Callable[[Callable[[], Any]], Awaitable[Any]] = in_thread) -> None:
        self._folder = folder
        self._aside = aside

    async def scan(self) -> Scan:
        found: Scan = await self._aside(self._folder.scan)
        return found

    async def claim(self, name: str, digest: str) -> Claim | None:
        claim: Claim | None = await self._aside(partial(self._folder.claim, name, digest))
        return claim

    async def done(self, claim: Claim, note: str) -> None:
        await self._aside(partial(self._folder.done, claim, note))

    async def failed(self, claim: Claim, reason: str) -> None:
        await self._aside(partial(self._folder.failed, claim, reason))
