"""Manifest of the webhook channel: its settings, secrets, libraries and the steps that set it up."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from mainstay.core.channel_settings import ChannelComponent, ChannelSettings
from mainstay.core.settings import Secret


class WebhookSettings(ChannelSettings, frozen=True, kw_only=True):
    url: Annotated[str, Meta(description="URL to which answers are posted.")] = ""
    secret: Annotated[Secret, Meta(description="Secret with which both sides sign (HMAC).")] = ""


COMPONENT = ChannelComponent(
    name="webhook",
    summary="Signed JSON over HTTP in both directions, for systems without a channel of their own.",
    settings=WebhookSettings,
    factory="mainstay.channels.webhook.channel:build_webhook_channel",
    required={"url": "https://chat.example/answers"},
    secrets=(("secret",),),
    secret_hints={"secret": "the secret that both sides sign with, 16 characters or more"},
    setup=(
        "messages are posted to /channels/{name} of the server, answers to {url}; both are signed with the secret: "
        "X-Mainstay-Timestamp, and X-Mainstay-Signature: v1= followed by the HMAC-SHA256 of `timestamp.body`",
    ),
)
