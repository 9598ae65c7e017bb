"""The terminal keeps what every channel promises, as far as a screen and one person can."""

from __future__ import annotations

import unittest
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from support.terminal_platform import terminal

from mainstay.testing.channel_rig import Ear
from mainstay.testing.channel_suite import ChannelSuite, Rig


class TestTerminal(ChannelSuite):
    def make(self, where: Path) -> AbstractAsyncContextManager[Rig]:
        return terminal()

    async def test_a_message_is_heard_with_who_said_it_where_and_when(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            ear = Ear()
            await rig.channel.start(ear)
            id = await rig.say(rig.room, "hello, it is *me* & <you> 👋")
            heard = await ear.until("hello")
            assert (heard.id, heard.user, heard.text) == (id, rig.user, "hello, it is *me* & <you> 👋")
            assert (heard.address.channel, heard.address.room, heard.direct) == (rig.channel.name, rig.room, True)
            assert heard.at > 1_600_000_000_000
            await rig.channel.close()

    async def test_what_does_not_name_us_is_heard_as_such(self, tmp_path: Path) -> None:
        raise unittest.SkipTest("there is one person at a terminal, who speaks to us")

    async def test_a_post_whose_fate_is_unknown_says_so(self, tmp_path: Path) -> None:
        raise unittest.SkipTest("a screen does not take something and then deny it")

    async def test_too_soon_is_not_sent_and_says_how_long_to_wait(self, tmp_path: Path) -> None:
        raise unittest.SkipTest("a screen takes whatever comes")
