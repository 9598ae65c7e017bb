"""Folder channel: a file `inbox/USER.txt` is a message of that user, and each answer is a new file in `outbox`."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mainstay.core.channel_settings import ChannelComponent, ChannelFactoryContext, ChannelSettings
from mainstay.core.channels import (
    ChannelCapabilities,
    DeliveryRejected,
    IncomingFile,
    IncomingMessage,
    MessageHandler,
    SentMessage,
)
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import MainstayError
from mainstay.core.health import CheckContext, CheckFinding
from mainstay.core.tool_ports import RoomMessage


class FolderSettings(ChannelSettings, frozen=True, kw_only=True):
    folder: Annotated[str, Meta(description="Folder with `inbox` and `outbox`.")] = ""
    poll_s: Annotated[float, Meta(gt=0, description="How often to look for messages, in seconds.")] = 1.0


class FolderChannel:
    kind = "folder"
    capabilities = ChannelCapabilities(markup="markdown", length_max=100_000, idempotency="key")

    def __init__(self, name: str, folder: Path, poll_s: float) -> None:
        self.name = name
        self.state = "not started"
        self._inbox, self._outbox = folder / "inbox", folder / "outbox"
        self._poll_s = poll_s
        self._task: asyncio.Task[None] | None = None

    async def start(self, on_message: MessageHandler) -> None:
        for folder in (self._inbox, self._outbox):
            folder.mkdir(parents=True, exist_ok=True)
        self._task = asyncio.create_task(self._receive(on_message))
        self.state = "connected"

    async def close(self) -> None:
        self.state = "closed"
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _receive(self, on_message: MessageHandler) -> None:
        while True:
            for path in sorted(self._inbox.glob("*.txt")):
                id, user = f"{path.name}-{path.stat().st_mtime_ns}", path.stem
                at = ChatAddress(self.name, user)
                message = IncomingMessage(id=id, address=at, user=user, text=path.read_text(), direct=True)
                try:
                    await on_message(message)
                except MainstayError:
                    continue  # it was not accepted: the file stays, and is delivered again
                path.unlink()  # the message is durable now
            await asyncio.sleep(self._poll_s)

    async def post(self, to: ChatAddress, text: str, *, key: str) -> SentMessage:
        # the same key is the same file, so a message that is posted again is there once
        path = self._outbox / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.md"
        new = path.with_suffix(".new")
        new.write_text(f"To {to.room}:\n\n{text}\n")
        os.replace(new, path)
        return SentMessage(id=path.name)

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
    return FolderChannel(name, Path(settings.folder), settings.poll_s)


def check_folder(name: str, settings: FolderSettings, context: CheckContext) -> Iterator[CheckFinding]:
    if not Path(settings.folder).is_dir():
        yield CheckFinding("Channel", "warn", f"{name}: {settings.folder} does not exist yet", "create it")


COMPONENT = ChannelComponent(
    name="folder",
    summary="Files in a folder, for programs that can do nothing but read and write files.",
    settings=FolderSettings,
    factory="mainstay_folder_channel:build_folder_channel",
    required={"folder": "/srv/agent"},
    setup=("give each user write access to {folder}/inbox, and read access to {folder}/outbox",),
    check="mainstay_folder_channel:check_folder",
)
