"""A person at a terminal: the other end of a pseudo-terminal, which types lines and reads what is written there."""

from __future__ import annotations

import asyncio
import os
import pty
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from mainstay.channels.terminal.channel import OWNER, ROOM, TerminalChannel
from mainstay.testing.channel_rig import PostedMessage, wait_until

NAME = "here"


class TerminalRig:
    delivers_missed = True  # the terminal itself does
    room = direct_room = ROOM
    user = other_user = OWNER

    def __init__(self, keyboard: int, screen: int) -> None:
        self._keyboard = keyboard
        self._screen = screen
        self._typed = 0
        self._taken = 0
        self._marks = 0
        self.seen = b""
        asyncio.get_running_loop().add_reader(keyboard, self._look)
        self.recreate_channel()

    def _look(self) -> None:
        try:
            self.seen += os.read(self._keyboard, 65536)
        except OSError:
            asyncio.get_running_loop().remove_reader(self._keyboard)

    def _next(self) -> str:
        self._taken += 1
        return f"m{self._taken}"

    def recreate_channel(self) -> TerminalChannel:
        self.channel = TerminalChannel(NAME, source=self._screen, target=self._screen, next_id=self._next)
        return self.channel

    async def send_message(
        self,
        room: str,
        text: str,
        *,
        user: str = "",
        thread: str = "",
        mention: bool = False,
        files: Sequence[tuple[str, bytes]] = (),
    ) -> str:
        self._typed += 1
        os.write(self._keyboard, f"{text}\n".encode())
        return f"m{self._typed}"

    async def redeliver(self, id: str) -> None:
        """A line is told again by the channel itself, until it is taken in."""

    async def posted_messages(self, room: str) -> Sequence[PostedMessage]:
        self._marks += 1
        mark = f"mark {self._marks}\r\n".encode()
        os.write(self._screen, mark.replace(b"\r", b""))  # what was written before it has come once it has
        await wait_until(lambda: mark in self.seen, "the screen is seen")
        found: list[str] = []
        for line in self.seen.decode().split("\r\n"):
            if line.startswith("< "):
                found.append(line[2:])
            elif line.startswith("  ") and found:
                found[-1] += f"\n{line[2:]}"
        return [PostedMessage(id=str(number), text=text) for number, text in enumerate(found, 1)]

    async def count_typing(self, room: str) -> int:
        return 0

    async def drop_connection(self) -> None:
        """There is none."""

    async def limit_rate(self, seconds: float) -> None:
        raise NotImplementedError

    async def accept_then_drop(self) -> None:
        raise NotImplementedError


@asynccontextmanager
async def terminal() -> AsyncIterator[TerminalRig]:
    keyboard, screen = pty.openpty()
    rig = TerminalRig(keyboard, screen)
    try:
        yield rig
    finally:
        await rig.channel.close()
        asyncio.get_running_loop().remove_reader(keyboard)
        os.close(keyboard)
        os.close(screen)
