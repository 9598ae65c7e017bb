"""Whole conversations on the platforms on loopback: each message is answered once."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from support.conversation_suite import ConversationSuite
from test_channel_discord import TestDiscordChannel as _Discord
from test_channel_signal import TestSignal as _Signal
from test_channel_slack import TestSlackInSocketMode as _Slack
from test_channel_telegram import TestTelegram as _Telegram

from mainstay.testing.channel_suite import ChannelRig


class TestSlackConversations(ConversationSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelRig]:
        return _Slack().make(folder)


class TestTelegramConversations(ConversationSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelRig]:
        return _Telegram().make(folder)


class TestDiscordConversations(ConversationSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelRig]:
        return _Discord().make(folder)


class TestSignalConversations(ConversationSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelRig]:
        return _Signal().make(folder)
