"""Telegram keeps what every channel promises, by the client library, against a Bot API on loopback."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from support.telegram_platform import telegram

from mainstay.testing.channel_suite import ChannelRig, ChannelSuite


class TestTelegram(ChannelSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelRig]:
        return telegram()
