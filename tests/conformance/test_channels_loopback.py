"""The suite of channels, on a platform in memory: with every ability, with some, and with none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from support.conversation_suite import ConversationSuite

from mainstay.core.channels import Shows
from mainstay.testing.channel_suite import ChannelSuite, Rig
from mainstay.testing.loopback_channel import ALL, LoopbackRig


@asynccontextmanager
async def rig(shows: Shows) -> AsyncIterator[Rig]:
    yield LoopbackRig(shows)


class TestAbleToDoEverything(ChannelSuite):
    def make(self, where: Path) -> AbstractAsyncContextManager[Rig]:
        return rig(ALL)


class TestAbleToLook(ChannelSuite):
    def make(self, where: Path) -> AbstractAsyncContextManager[Rig]:
        return rig(Shows(markup="plain", length=200, threads=True, files=True, once="look"))


class TestAbleToDoNothing(ChannelSuite):
    def make(self, where: Path) -> AbstractAsyncContextManager[Rig]:
        return rig(Shows(length=100))


class TestConversationsWithEverything(ConversationSuite):
    def make(self, where: Path) -> AbstractAsyncContextManager[Rig]:
        return rig(ALL)


class TestConversationsWithALook(ConversationSuite):
    def make(self, where: Path) -> AbstractAsyncContextManager[Rig]:
        return rig(Shows(length=500, threads=True, files=True, once="look"))


class TestConversationsWithNothing(ConversationSuite):
    def make(self, where: Path) -> AbstractAsyncContextManager[Rig]:
        return rig(Shows(length=300))
