"""Folder channel: a line of `inbox.jsonl` is a message, and each answer is a new file in `outbox/ROOM`."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import io
import logging
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from mainstay.core.channel_settings import ChannelFactoryContext
from mainstay.core.channels import (
    ChannelCapabilities,
    ChannelError,
    DeliveryDeferred,
    DeliveryRejected,
    DeliveryUnknown,
    IncomingFile,
    IncomingMessage,
    MessageHandler,
    SentMessage,
)
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.core.health import CheckContext, CheckFinding
from mainstay.core.tool_ports import RoomMessage
from mainstay_folder_channel import FolderSettings

log = logging.getLogger(__name__)

READ_BYTES_MAX = 1024 * 1024
KEY_CHARS_MIN = 8
ROOM_NAME = re.compile(r"[\w-]+")  # not a path to another folder


class InboxLine(msgspec.Struct, frozen=True):
    user: str
    text: str
    room: str = ""  # empty: a direct message
    id: str = ""
    at: int = 0  # ms


class Cursor(msgspec.Struct):
    offset: int = 0  # of the first line that Mainstay does not have yet


class FolderChannel:
    kind = "folder"
    capabilities = ChannelCapabilities(markup="markdown", length_max=100_000, idempotency="key")

    def __init__(self, name: str, settings: FolderSettings, state_path: Path) -> None:
        self.name = name
        self.account = settings.user  # shown by `mainstay channel test`
        self.state = "not started"
        self.timeout_s = 10.0
        self._settings = settings
        self._inbox = Path(settings.folder) / "inbox.jsonl"
        self._outbox = Path(settings.folder) / "outbox"
        self._state_path = state_path
        self._cursor = Cursor()
        self._task: asyncio.Task[None] | None = None

    async def start(self, on_message: MessageHandler) -> None:
        if len(self._settings.key) < KEY_CHARS_MIN:  # a retry cannot help
            raise ConfigError(f"channels.{self.name}.key has less than {KEY_CHARS_MIN} characters; set another key")
        try:
            self._outbox.mkdir(parents=True, exist_ok=True)
            self._cursor = self._load_cursor()
        except OSError as error:  # a retry may help: the folder may be mounted later
            raise ChannelError(f"{self._outbox} cannot be used: {error.strerror}") from None
        self._task = asyncio.create_task(self._receive(on_message))
        self.state = "connected"

    async def close(self) -> None:
        self.state = "closed"
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    # --- in --------------------------------------------------------------------------------------

    async def _receive(self, on_message: MessageHandler) -> None:
        while True:
            try:
                for message, end in self._read_messages():
                    if message is not None:
                        await on_message(message)  # returns when the message is durable
                    self._save_cursor(end)
                self.state = "connected"
            except OSError as error:
                self.state = f"{self._inbox} cannot be read: {error.strerror}"
            except MainstayError as error:  # it was not accepted: the cursor stays, and it is delivered again
                log.warning("%s: a message is delivered again later: %s", self.name, error)
            await asyncio.sleep(self._settings.poll_s)

    def _read_messages(self) -> Iterator[tuple[IncomingMessage | None, int]]:
        """Yield the messages after the cursor, each with the offset of its end; None for a line that is not one."""
        if not self._inbox.exists():
            return
        with self._inbox.open("rb") as file:
            file.seek(self._cursor.offset)
            data = file.read(READ_BYTES_MAX)
        offset = self._cursor.offset
        for line in io.BytesIO(data):
            if not line.endswith(b"\n") and len(line) < READ_BYTES_MAX:  # it is still being written
                return
            yield self._decode(line, offset), offset + len(line)
            offset += len(line)

    def _decode(self, line: bytes, offset: int) -> IncomingMessage | None:
        try:
            entry = msgspec.json.decode(line, type=InboxLine)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:  # anybody may write anything into the file
            log.warning("%s: the line at %d of %s is skipped: %s", self.name, offset, self._inbox, error)
            return None
        mention = f"@{self._settings.user}"
        return IncomingMessage(
            id=entry.id or str(offset),
            address=ChatAddress(self.name, entry.room or entry.user),
            user=entry.user,
            text=entry.text.removeprefix(mention).lstrip(),
            at=entry.at,
            direct=not entry.room,
            mentioned=mention in entry.text,  # in a room, the agent answers only messages that mention it
        )

    def _load_cursor(self) -> Cursor:
        if not self._state_path.exists():
            return Cursor()
        try:
            return msgspec.json.decode(self._state_path.read_bytes(), type=Cursor)
        except msgspec.MsgspecError:  # Mainstay recognises messages that it has by their ids
            log.warning("%s: %s is damaged; all messages are read again", self.name, self._state_path)
            return Cursor()

    def _save_cursor(self, offset: int) -> None:
        self._cursor = Cursor(offset)
        self._state_path.parent.mkdir(parents=True, exist_ok=True)
        new = self._state_path.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(self._cursor))
        os.replace(new, self._state_path)

    # --- out -------------------------------------------------------------------------------------

    async def post(self, to: ChatAddress, text: str, *, key: str) -> SentMessage:
        if self._task is None:  # certainly not sent: it is posted again later
            raise DeliveryDeferred(f"The channel {self.name} is not connected.")
        folder = self._outbox / to.room
        if not ROOM_NAME.fullmatch(to.room) or not folder.is_dir():  # a retry cannot help
            raise DeliveryRejected(f"There is no room {to.room!r}: {folder} is not a folder.")
        # the same key is the same file, so a message that is posted again is there once
        path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.md"
        signature = hmac.digest(self._settings.key.encode(), text.encode(), "sha256").hex()
        try:
            async with asyncio.timeout(self.timeout_s):
                await asyncio.to_thread(self.write_file, path, f"Signature: {signature}\n\n{text}\n")
        except TimeoutError:  # it may have been written: it is posted again with the same key
            raise DeliveryUnknown(f"{path} was not written within {self.timeout_s:g} s.") from None
        except OSError as error:
            raise DeliveryDeferred(f"{path} cannot be written: {error.strerror}.", retry_after_s=5.0) from None
        return SentMessage(id=path.name)

    def write_file(self, path: Path, text: str) -> None:
        new = path.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        os.replace(new, path)

    def format(self, text: str) -> str:
        return text

    # --- what this channel does not support: its capabilities say so, and the gateway does not ask for it ---------

    async def find_posted(self, to: ChatAddress, key: str) -> SentMessage | None:
        return None

    async def edit(self, to: ChatAddress, id: str, text: str) -> None:
        raise DeliveryRejected("Files in the outbox are not changed.")

    async def delete(self, to: ChatAddress, id: str) -> None:
        raise DeliveryRejected("Files in the outbox are not deleted.")

    async def upload(self, to: ChatAddress, path: str, name: str, comment: str, *, key: str) -> SentMessage:
        raise DeliveryRejected("This channel sends no files.")

    async def show_typing(self, to: ChatAddress, note: str = "") -> None:
        pass

    async def download(self, file: IncomingFile, target: str, bytes_max: int) -> str:
        raise DeliveryRejected("This channel receives no files.")

    async def history(self, at: ChatAddress, after: int, limit: int) -> Sequence[IncomingMessage]:
        return ()

    async def search(self, at: ChatAddress, query: str, limit: int) -> Sequence[RoomMessage]:
        return ()

    def asgi_app(self) -> None:
        return None


def build_folder_channel(name: str, settings: FolderSettings, context: ChannelFactoryContext) -> FolderChannel:
    return FolderChannel(name, settings, context.state_path)


def check_folder(name: str, settings: FolderSettings, context: CheckContext) -> Iterator[CheckFinding]:
    if not Path(settings.folder).is_dir():
        yield CheckFinding("Channel", "warn", f"{name}: {settings.folder} does not exist yet", "create it")
