"""Manifest of the Matrix channel: its settings, secrets, libraries and the steps that set it up."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from mainstay.core.channel_settings import ChannelComponent, ChannelSettings
from mainstay.core.settings import Secret


class MatrixSettings(ChannelSettings, frozen=True, kw_only=True):
    homeserver: Annotated[str, Meta(description="URL of the account's homeserver: `https://matrix.example`.")] = ""
    user: Annotated[str, Meta(description="The account: `@agent:matrix.example`.")] = ""
    token: Annotated[Secret, Meta(description="Access token of the account, best given as `${VAR}`.")] = ""
    password: Annotated[Secret, Meta(description="Password of the account, if there is no token.")] = ""


COMPONENT = ChannelComponent(
    name="matrix",
    summary="Matrix, as an account on a homeserver; end-to-end encrypted rooms are not supported.",
    settings=MatrixSettings,
    factory="mainstay.channels.matrix.channel:build_matrix_channel",
    required={"homeserver": "https://matrix.example", "user": "@agent:matrix.example"},
    secrets=(("token", "password"),),
    secret_hints={"token": "its token", "password": "its password"},
    secret_variables={"token": "{NAME}_ACCESS_TOKEN"},
    setup=(
        "create an account for it on the homeserver; the token is the access_token that a login returns",
        "it joins rooms that paired people invite it to; it cannot read rooms with end-to-end encryption",
    ),
    libraries={"nio": "matrix-nio", "aiohttp": "aiohttp", "markdown_it": "markdown-it-py"},
    install="pip install -e '.[matrix]'",
)
