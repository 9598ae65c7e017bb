"""Manifest of the Signal channel: its settings, secrets, libraries and the steps that set it up."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from mainstay.core.channel_settings import ChannelComponent, ChannelSettings


class SignalSettings(ChannelSettings, frozen=True, kw_only=True):
    address: Annotated[
        str, Meta(description="Address of signal-cli's JSON-RPC: `host:port`, or the path of a Unix socket.")
    ] = ""
    user: Annotated[str, Meta(description="The account's phone number.")] = ""


COMPONENT = ChannelComponent(
    name="signal",
    summary="Signal, through the signal-cli daemon.",
    settings=SignalSettings,
    factory="mainstay.channels.signal.channel:build_signal_channel",
    required={"address": "127.0.0.1:7583", "user": "+15550100100"},
    setup=(
        "link or register the number with signal-cli, and keep this running next to the server: "
        "signal-cli -a {user} daemon --tcp {address} --receive-mode=manual",
    ),
    libraries={"markdown_it": "markdown-it-py"},
    install="pip install -e '.[signal]'",
    redelivers=False,
)
