"""Manifest of the Slack channel: its settings, secrets, libraries and the steps that set it up."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from mainstay.core.channel_settings import ChannelComponent, ChannelSettings
from mainstay.core.components import ConditionalSetupStep
from mainstay.core.settings import Secret


class SlackSettings(ChannelSettings, frozen=True, kw_only=True):
    token: Annotated[Secret, Meta(description="The bot's token (`xoxb-…`), best given as `${VAR}`.")] = ""
    app_token: Annotated[Secret, Meta(description="App-level token for Socket Mode (`xapp-…`).")] = ""
    signing_secret: Annotated[
        Secret,
        Meta(description="Signing secret of events that are posted to `/channels/NAME`, instead of an app token."),
    ] = ""
    base_url: Annotated[str, Meta(description="Base URL of Slack's API; empty: the public one.")] = ""


COMPONENT = ChannelComponent(
    name="slack",
    summary="Slack, by Socket Mode or the Events API.",
    settings=SlackSettings,
    factory="mainstay.channels.slack.channel:build_slack_channel",
    secrets=(("token",), ("app_token", "signing_secret")),
    secret_hints={
        "token": "its token",
        "app_token": "the app-level token for socket mode (xapp-…)",
        "signing_secret": "the app's signing secret",
    },
    secret_variables={"token": "{NAME}_BOT_TOKEN"},
    setup=(
        "at https://api.slack.com/apps create an app, and give its bot these scopes: app_mentions:read, chat:write, "
        "channels:history, groups:history, im:history, mpim:history, users:read, files:read, files:write; "
        "assistant:write, to show that it is working; and channels:read and groups:read, for the names of rooms",
        ConditionalSetupStep(
            "enable Socket Mode, and create an app-level token for connections:write",
            given="app_token",
        ),
        ConditionalSetupStep(
            "have its events posted to https://HOST/channels/{name}, where HOST is this server's public address",
            given="signing_secret",
        ),
        "subscribe it to these bot events: app_mention, message.channels, message.groups, message.im, message.mpim",
        "let people write to it (App Home, Messages Tab), install it, and invite it to rooms",
    ),
    libraries={"slack_sdk": "slack_sdk", "aiohttp": "aiohttp"},
    install="pip install -e '.[slack]'",
)
