"""The suite of channels on a platform in memory: with every capability, with some and with none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from support.conversation_suite import ConversationSuite

from mainstay.core.channels import ChannelCapabilities
from mainstay.testing.channel_suite import ChannelRig, ChannelSuite
from mainstay.testing.loopback_channel import ALL_CAPABILITIES, LoopbackRig


@asynccontextmanager
async def rig(shows: ChannelCapabilities) -> AsyncIterator[ChannelRig]:
    yield LoopbackRig(shows)


class TestAbleToDoEverything(ChannelSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelRig]:
        return rig(ALL_CAPABILITIES)


class TestAbleToLook(ChannelSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelRig]:
        return rig(ChannelCapabilities(markup="plain", length_max=200, threads=True, files=True, idempotency="look"))


class TestAbleToDoNothing(ChannelSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelRig]:
        return rig(ChannelCapabilities(length_max=100))


class TestConversationsWithEverything(ConversationSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelRig]:
        return rig(ALL_CAPABILITIES)


class TestConversationsWithALook(ConversationSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelRig]:
        return rig(ChannelCapabilities(length_max=500, threads=True, files=True, idempotency="look"))


class TestConversationsWithNothing(ConversationSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelRig]:
        return rig(ChannelCapabilities(length_max=300))
