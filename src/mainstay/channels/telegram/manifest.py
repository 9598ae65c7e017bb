"""Manifest of the Telegram channel: its settings, secrets, libraries and the steps that set it up."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from mainstay.core.channel_settings import ChannelComponent, ChannelSettings
from mainstay.core.settings import Secret


class TelegramSettings(ChannelSettings, frozen=True, kw_only=True):
    token: Annotated[Secret, Meta(description="The bot's token, best given as `${VAR}`.")] = ""
    secret: Annotated[
        Secret, Meta(description="Secret token of its webhook; if it is given, Telegram is not polled.")
    ] = ""
    url: Annotated[str, Meta(description="Public URL of `/channels/NAME` of this server, for its webhook.")] = ""
    base_url: Annotated[str, Meta(description="Base URL of the Bot API; empty: the public one.")] = ""


COMPONENT = ChannelComponent(
    name="telegram",
    summary="Telegram, through the Bot API.",
    settings=TelegramSettings,
    factory="mainstay.channels.telegram.channel:build_telegram_channel",
    secrets=(("token",),),
    secret_hints={"token": "its token", "secret": "the secret token of its webhook"},
    secret_variables={"token": "{NAME}_BOT_TOKEN"},
    setup=(
        "create a bot with @BotFather (/newbot), which prints its token",
        "turn off its privacy mode (/setprivacy, Disable), or it receives only messages of groups that address it",
    ),
    libraries={"telegram": "python-telegram-bot", "markdown_it": "markdown-it-py"},
    install="pip install -e '.[telegram]'",
)
