"""Manifest of the terminal channel."""

from __future__ import annotations

from mainstay.core.channel_settings import ChannelComponent, ChannelSettings


class TerminalSettings(ChannelSettings, frozen=True, kw_only=True):
    """The terminal has no settings of its own."""


COMPONENT = ChannelComponent(
    name="terminal",
    summary="The terminal in which the server was started.",
    settings=TerminalSettings,
    factory="mainstay.channels.terminal.channel:build_terminal_channel",
    setup=("the user of the terminal in which `mainstay serve` was started is the owner; each line is a message",),
    is_owners_terminal=True,
)
