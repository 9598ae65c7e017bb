"""The terminal keeps what every channel promises, as far as a screen and one person can."""

from __future__ import annotations

import unittest
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from support.terminal_platform import terminal

from mainstay.testing.channel_rig import RecordingMessageHandler
from mainstay.testing.channel_suite import ChannelRig, ChannelSuite


class TestTerminal(ChannelSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelRig]:
        return terminal()

    async def test_a_message_is_received_with_sender_address_and_time(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            ear = RecordingMessageHandler()
            await rig.channel.start(ear)
            id = await rig.send_message(rig.room, "hello, it is *me* & <you> 👋")
            heard = await ear.wait_for("hello")
            assert (heard.id, heard.user, heard.text) == (id, rig.user, "hello, it is *me* & <you> 👋")
            assert (heard.address.channel, heard.address.room, heard.direct) == (rig.channel.name, rig.room, True)
            assert heard.at > 1_600_000_000_000
            await rig.channel.close()

    async def test_a_message_without_a_mention_is_received_as_such(self, tmp_path: Path) -> None:
        raise unittest.SkipTest("there is one person at a terminal, who speaks to us")

    async def test_a_post_without_a_response_raises_delivery_unknown(self, tmp_path: Path) -> None:
        raise unittest.SkipTest("a screen does not take something and then deny it")

    async def test_a_rate_limited_post_is_deferred_with_a_retry_time(self, tmp_path: Path) -> None:
        raise unittest.SkipTest("a screen takes whatever comes")
