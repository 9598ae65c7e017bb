"""Whoever sits at the terminal is the owner: a line is a message, and answers are written below it.

> what is 2 + 3?
< It is 5.
  And that is all.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from mainstay.channels.telling import tell
from mainstay.channels.terminal.lines import LINE_BYTES_MAX, Lines
from mainstay.core.addresses import Address
from mainstay.core.channels import Attached, Hear, Incoming, MaybeSent, NeverSent, NotSent, Sent, Shows
from mainstay.core.outside import Said
from mainstay.core.workers import in_thread
from mainstay.trust.guards.lines import one_line

ROOM = "terminal"
OWNER = "owner"  # the account of whoever sits there
WAITING_MAX = 100  # lines that were typed and not taken in yet
WRITE_S = 10.0
_SHOWS = Shows(markup="markdown", length=16_000)  # as it is written: a terminal's reader is used to Markdown


class TerminalChannel:
    """`source` and `target` are file descriptors that stay the caller's own."""

    kind = "terminal"

    def __init__(self, name: str, *, source: int = 0, target: int = 1, ids: Callable[[], str] | None = None) -> None:
        self.name = name
        self._source = source
        self._target = target
        self._ids = ids or _counted()
        self._sent = count(1)
        self._lines: Lines | None = None
        self._telling: asyncio.Task[None] | None = None
        self._typed: asyncio.Queue[Incoming] = asyncio.Queue(WAITING_MAX)
        self._writing = asyncio.Lock()
        self._state = "not started"

    @property
    def shows(self) -> Shows:
        return _SHOWS

    @property
    def state(self) -> str:
        return self._state

    async def start(self, hear: Hear) -> None:
        self._telling = asyncio.create_task(self._tell(hear), name="terminal")
        self._lines = Lines(self._source, self._take)
        self._state = "connected"

    async def close(self) -> None:
        self._state = "closed"
        lines, self._lines = self._lines, None
        if lines is not None:
            await in_thread(lines.close)
        telling, self._telling = self._telling, None
        if telling is not None:
            telling.cancel()
            await asyncio.wait((telling,))

    def app(self) -> Any:
        return None

    def format(self, text: str) -> str:
        return text

    # --- in --------------------------------------------------------------------------------------

    def _take(self, line: str | None) -> None:
        if self._lines is None:
            return
        if line is None:
            self._state = "nobody types any more"
        elif not line:
            self._complain(f"That line is longer than {LINE_BYTES_MAX} bytes, and was left out.")
        else:
            at = int(time.time() * 1000)
            message = Incoming(
                id=self._ids(), address=Address(self.name, ROOM), user=OWNER, text=line, at=at, direct=True
            )
            try:
                self._typed.put_nowait(message)
            except asyncio.QueueFull:
                self._complain("That line was left out: too many wait already.")

    async def _tell(self, hear: Hear) -> None:
        """One after another, in the order they were typed."""
        while True:
            await tell(hear, await self._typed.get())

    def _complain(self, sentence: str) -> None:
        try:
            os.write(self._target, f"! {sentence}\n".encode())
        except OSError:
            pass  # it is said to whoever would see it

    # --- out -------------------------------------------------------------------------------------

    async def post(self, to: Address, text: str, *, key: str) -> Sent:
        if to.room != ROOM or to.thread:
            raise NeverSent(f"There is one room here, {self.name}:{ROOM}.")
        if self._lines is None:
            raise NotSent(f"The terminal {self.name} is not open.")
        first, *rest = (one_line(line) for line in text.split("\n"))  # nothing that a terminal would obey
        shown = "\n".join([f"< {first}", *(f"  {line}" for line in rest)]) + "\n"
        async with self._writing:
            try:
                async with asyncio.timeout(WRITE_S):
                    await in_thread(lambda: _write(self._target, shown.encode(errors="replace")))
            except TimeoutError:
                raise MaybeSent(f"The terminal did not take it within {WRITE_S:g} s.") from None
            except OSError as error:
                raise NeverSent(f"The terminal is gone: {error.strerror}.") from None
            return Sent(id=str(next(self._sent)))

    async def find(self, to: Address, key: str) -> Sent | None:
        return None

    async def edit(self, to: Address, id: str, text: str) -> None:
        raise NeverSent("What stands on a terminal is not written over.")

    async def delete(self, to: Address, id: str) -> None:
        raise NeverSent("What stands on a terminal is not taken back.")

    async def upload(self, to: Address, path: str, name: str, comment: str, *, key: str) -> Sent:
        """It is on this very machine: where, is all that needs to be said."""
        where = f"{comment}\n{path}" if comment else path
        return await self.post(to, where, key=key)

    async def typing(self, to: Address, note: str = "") -> None:
        pass

    async def download(self, file: Attached, target: str, bytes_max: int) -> str:
        raise NeverSent("Nobody attaches files to a line.")

    async def history(self, at: Address, after: int, limit: int) -> Sequence[Incoming]:
        return ()

    async def search(self, at: Address, query: str, limit: int) -> Sequence[Said]:
        return ()


def _counted() -> Callable[[], str]:
    """No two have the same, in whichever process."""
    begun, numbers = time.time_ns(), count(1)
    return lambda: f"{begun:x}-{next(numbers)}"


def _write(target: int, data: bytes) -> None:
    while data:
        data = data[os.write(target, data) :]
