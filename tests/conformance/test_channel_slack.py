"""Slack through the suite of channels, by both ways that it can reach us."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from support.slack_platform import by_http, by_socket

from mainstay.testing.channel_receiving_suite import ChannelReceivingSuite
from mainstay.testing.channel_suite import ChannelRig, ChannelSuite


class TestSlackInSocketMode(ChannelSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelRig]:
        return by_socket()


class TestSlackByTheEventsApi(ChannelReceivingSuite):
    """What we say goes the same way in both."""

    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelRig]:
        return self.made()

    @asynccontextmanager
    async def made(self) -> AsyncIterator[ChannelRig]:
        async with by_http() as (rig, _):
            yield rig
