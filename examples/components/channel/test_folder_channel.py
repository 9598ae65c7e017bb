"""The conformance suite of Mainstay, with the folder channel. Run it with pytest and pytest-asyncio in auto mode."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from mainstay_folder_channel import FolderSettings
from mainstay_folder_channel.channel import FolderChannel

from mainstay.testing.channel_rig import ChannelRig, PostedMessage, RecordingMessageHandler
from mainstay.testing.channel_suite import ChannelSuite


class FolderRig:
    """The channel and its platform: a folder in which messages are written as users do."""

    room, direct_room, user, other_user = "lobby", "ann", "ann", "bob"
    delivers_missed = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for room in (self.room, self.direct_room):
            (folder / "outbox" / room).mkdir(parents=True)
        self.settings = FolderSettings(folder=str(folder), key="open sesame", poll_s=0.01)
        self._sent: dict[str, bytes] = {}
        self.recreate_channel()

    def recreate_channel(self) -> FolderChannel:
        self.channel = FolderChannel("folder", self.settings, self.folder / "state" / "folder.json")
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
        id = f"m{len(self._sent)}"
        line = {"id": id, "user": user or self.user, "text": f"@agent {text}" if mention else text}
        line |= {"room": "" if room == self.direct_room else room, "at": int(time.time() * 1000)}
        self._sent[id] = json.dumps(line).encode() + b"\n"
        await self.redeliver(id)
        return id

    async def redeliver(self, id: str) -> None:
        self.write(self._sent[id])

    def write(self, line: bytes) -> None:
        with (self.folder / "inbox.jsonl").open("ab") as file:
            file.write(line)

    async def posted_messages(self, room: str) -> list[PostedMessage]:
        paths = sorted((self.folder / "outbox" / room).glob("*.md"), key=lambda path: path.stat().st_mtime_ns)
        texts = ((path, path.read_text().partition("\n\n")[2]) for path in paths)
        return [PostedMessage(id=path.name, text=text) for path, text in texts]

    async def count_typing(self, room: str) -> int:
        return 0

    async def drop_connection(self) -> None:
        pass  # files have no connection

    async def limit_rate(self, seconds: float) -> None:
        raise NotImplementedError

    async def accept_then_drop(self) -> None:
        write = self.channel.write_file

        def write_slowly(path: Path, text: str) -> None:
            write(path, text)
            self.channel.write_file = write
            time.sleep(0.3)

        self.channel.write_file = write_slowly
        self.channel.timeout_s = 0.2


@asynccontextmanager
async def open_rig(folder: Path) -> AsyncIterator[FolderRig]:
    rig = FolderRig(folder)
    try:
        yield rig
    finally:
        await rig.channel.close()


class TestFolderChannel(ChannelSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelRig]:
        return open_rig(folder)

    async def test_a_rate_limited_post_is_deferred_with_a_retry_time(self, tmp_path: Path) -> None:
        pytest.skip("a folder has no rate limit")


async def test_a_line_that_is_no_message_is_skipped_and_the_channel_goes_on(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        handler = RecordingMessageHandler()
        await rig.channel.start(handler)
        rig.write(b'{"user": "ann", "text": "\xff\xfe"}\nnot json\n{"text": "by nobody"}\n')
        await rig.send_message(rig.room, "still there?", mention=True)
        await handler.wait_for("still there?")
        assert [message.text for message in handler.received] == ["still there?"]
        assert rig.channel.state == "connected"
