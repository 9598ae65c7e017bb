"""Whole conversations on the platforms that are on loopback: said there, answered there, once."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from support.conversation_suite import ConversationSuite
from test_channel_discord import TestDiscordChannel as _Discord
from test_channel_signal import TestSignal as _Signal
from test_channel_slack import TestSlackInSocketMode as _Slack
from test_channel_telegram import TestTelegram as _Telegram

from mainstay.testing.channel_suite import Rig


class TestSlackConversations(ConversationSuite):
    def make(self, where: Path) -> AbstractAsyncContextManager[Rig]:
        return _Slack().make(where)


class TestTelegramConversations(ConversationSuite):
    def make(self, where: Path) -> AbstractAsyncContextManager[Rig]:
        return _Telegram().make(where)


class TestDiscordConversations(ConversationSuite):
    def make(self, where: Path) -> AbstractAsyncContextManager[Rig]:
        return _Discord().make(where)


class TestSignalConversations(ConversationSuite):
    def make(self, where: Path) -> AbstractAsyncContextManager[Rig]:
        return _Signal().make(where)
