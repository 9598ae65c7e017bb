"""Manifest of the Discord channel: its settings, secrets, libraries and the steps that set it up."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from mainstay.core.channel_settings import ChannelComponent, ChannelSettings
from mainstay.core.settings import Secret


class DiscordSettings(ChannelSettings, frozen=True, kw_only=True):
    token: Annotated[Secret, Meta(description="The bot's token, best given as `${VAR}`.")] = ""
    base_url: Annotated[str, Meta(description="Base URL of Discord's API; empty: the public one.")] = ""


COMPONENT = ChannelComponent(
    name="discord",
    summary="Discord, as a bot.",
    settings=DiscordSettings,
    factory="mainstay.channels.discord.channel:build_discord_channel",
    secrets=(("token",),),
    secret_hints={"token": "its token"},
    secret_variables={"token": "{NAME}_BOT_TOKEN"},
    setup=(
        "at https://discord.com/developers/applications create an application with a bot, and enable its "
        "Message Content Intent",
        "invite it with the scope `bot` and these permissions: View Channels, Send Messages, Read Message History, "
        "Create Public Threads, Send Messages in Threads, Attach Files",
    ),
    libraries={"discord": "discord.py"},
    install="pip install -e '.[discord]'",
)
