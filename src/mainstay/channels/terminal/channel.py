"""Terminal channel: each line that the owner types is a message, and answers are written below it.

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

from mainstay.channels.incoming_dispatch import dispatch_message
from mainstay.channels.terminal.line_reader import LINE_BYTES_MAX, LineReader
from mainstay.channels.terminal.manifest import TerminalSettings
from mainstay.core.channel_settings import ChannelFactoryContext
from mainstay.core.channels import (
    ChannelCapabilities,
    DeliveryDeferred,
    DeliveryRejected,
    DeliveryUnknown,
    IncomingFile,
    IncomingMessage,
    MessageHandler,
    SentMessage,
)
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.tool_ports import RoomMessage
from mainstay.core.worker_threads import run_in_thread
from mainstay.guards.line_escaping import one_line

ROOM = "terminal"
OWNER = "owner"  # the user id of the person at the terminal
QUEUED_LINES_MAX = 100  # lines that were typed and not accepted yet
WRITE_TIMEOUT_S = 10.0
_CAPABILITIES = ChannelCapabilities(markup="markdown", length_max=16_000)  # Markdown is shown as written


class TerminalChannel:
    """Reads messages from the file descriptor `source` and writes answers to `target`. It closes neither."""

    kind = "terminal"

    def __init__(
        self, name: str, *, source: int = 0, target: int = 1, next_id: Callable[[], str] | None = None
    ) -> None:
        self.name = name
        self._source = source
        self._target = target
        self._next_id = next_id or _create_id_generator()
        self._sent_numbers = count(1)
        self._line_reader: LineReader | None = None
        self._dispatch_task: asyncio.Task[None] | None = None
        self._queue: asyncio.Queue[IncomingMessage] = asyncio.Queue(QUEUED_LINES_MAX)
        self._write_lock = asyncio.Lock()
        self._state = "not started"

    @property
    def capabilities(self) -> ChannelCapabilities:
        return _CAPABILITIES

    @property
    def state(self) -> str:
        return self._state

    async def start(self, on_message: MessageHandler) -> None:
        self._dispatch_task = asyncio.create_task(self._dispatch_lines(on_message), name="terminal")
        self._line_reader = LineReader(self._source, self._on_line)
        self._state = "connected"

    async def close(self) -> None:
        self._state = "closed"
        lines, self._line_reader = self._line_reader, None
        if lines is not None:
            await run_in_thread(lines.close)
        task, self._dispatch_task = self._dispatch_task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    def asgi_app(self) -> Any:
        return None

    def format(self, text: str) -> str:
        return text

    # --- in --------------------------------------------------------------------------------------

    def _on_line(self, line: str | None) -> None:
        if self._line_reader is None:
            return
        if line is None:
            self._state = "the input has ended"
        elif not line:
            self._write_warning(f"The line was ignored: it is longer than {LINE_BYTES_MAX} bytes.")
        else:
            at = int(time.time() * 1000)
            message = IncomingMessage(
                id=self._next_id(), address=ChatAddress(self.name, ROOM), user=OWNER, text=line, at=at, direct=True
            )
            try:
                self._queue.put_nowait(message)
            except asyncio.QueueFull:
                self._write_warning("The line was ignored: too many lines are waiting already.")

    async def _dispatch_lines(self, on_message: MessageHandler) -> None:
        """Hand lines to the handler one after another, in the order they were typed."""
        while True:
            await dispatch_message(on_message, await self._queue.get())

    def _write_warning(self, sentence: str) -> None:
        try:
            os.write(self._target, f"! {sentence}\n".encode())
        except OSError:
            pass  # the terminal is gone, and so is its reader

    # --- out -------------------------------------------------------------------------------------

    async def post(self, to: ChatAddress, text: str, *, key: str) -> SentMessage:
        if to.room != ROOM or to.thread:
            raise DeliveryRejected(f"There is one room here, {self.name}:{ROOM}.")
        if self._line_reader is None:
            raise DeliveryDeferred(f"The terminal {self.name} is not open.")
        first, *rest = (one_line(line) for line in text.split("\n"))  # without terminal escape sequences
        output = "\n".join([f"< {first}", *(f"  {line}" for line in rest)]) + "\n"
        async with self._write_lock:
            try:
                async with asyncio.timeout(WRITE_TIMEOUT_S):
                    await run_in_thread(lambda: _write_all(self._target, output.encode(errors="replace")))
            except TimeoutError:
                raise DeliveryUnknown(f"The terminal did not accept the text within {WRITE_TIMEOUT_S:g} s.") from None
            except OSError as error:
                raise DeliveryRejected(f"The terminal is closed: {error.strerror}.") from None
            return SentMessage(id=str(next(self._sent_numbers)))

    async def find_posted(self, to: ChatAddress, key: str) -> SentMessage | None:
        return None

    async def edit(self, to: ChatAddress, id: str, text: str) -> None:
        raise DeliveryRejected("A message on a terminal cannot be edited.")

    async def delete(self, to: ChatAddress, id: str) -> None:
        raise DeliveryRejected("A message on a terminal cannot be deleted.")

    async def upload(self, to: ChatAddress, path: str, name: str, comment: str, *, key: str) -> SentMessage:
        """Show the path: the file is on the user's own machine."""
        text = f"{comment}\n{path}" if comment else path
        return await self.post(to, text, key=key)

    async def show_typing(self, to: ChatAddress, note: str = "") -> None:
        pass

    async def download(self, file: IncomingFile, target: str, bytes_max: int) -> str:
        raise DeliveryRejected("A terminal channel has no attachments.")

    async def history(self, at: ChatAddress, after: int, limit: int) -> Sequence[IncomingMessage]:
        return ()

    async def search(self, at: ChatAddress, query: str, limit: int) -> Sequence[RoomMessage]:
        return ()


def _create_id_generator() -> Callable[[], str]:
    """Return a generator of ids that are unique across processes."""
    started_ns, numbers = time.time_ns(), count(1)
    return lambda: f"{started_ns:x}-{next(numbers)}"


def _write_all(target: int, data: bytes) -> None:
    while data:
        data = data[os.write(target, data) :]


def build_terminal_channel(name: str, settings: TerminalSettings, context: ChannelFactoryContext) -> TerminalChannel:
    return TerminalChannel(name)
