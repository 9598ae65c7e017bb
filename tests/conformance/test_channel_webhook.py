"""The webhook channel keeps what every channel promises, over real sockets both ways."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from support.webhook_platform import webhook

from mainstay.testing.channel_suite import ChannelRig, ChannelSuite


class TestWebhook(ChannelSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelRig]:
        return webhook()
