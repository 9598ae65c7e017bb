"""Slack through the suite of channels, by both ways that it can reach us."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from support.slack_platform import by_http, by_socket

from mainstay.testing.channel_hearing import HearingSuite
from mainstay.testing.channel_suite import ChannelSuite, Rig


class TestSlackInSocketMode(ChannelSuite):
    def make(self, where: Path) -> AbstractAsyncContextManager[Rig]:
        return by_socket()


class TestSlackByTheEventsApi(HearingSuite):
    """What we say goes the same way in both."""

    def make(self, where: Path) -> AbstractAsyncContextManager[Rig]:
        return self.made()

    @asynccontextmanager
    async def made(self) -> AsyncIterator[Rig]:
        async with by_http() as (rig, _):
            yield rig
