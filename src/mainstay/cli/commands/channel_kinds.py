"""What somebody who adds a channel has to know of its platform: which settings, which secrets, what to do there."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

import msgspec


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    asks: dict[str, str] = {}  # settings that have to be given, with an example
    secrets: tuple[tuple[str, ...], ...] = ()  # and of each of these one; the first where nothing is said
    libraries: dict[str, str] = {}  # modules that it needs, and how their packages are called
    steps: tuple[str, ...] = ()  # on the platform's side

    def missing(self) -> list[str]:
        return [package for module, package in self.libraries.items() if importlib.util.find_spec(module) is None]


MEANT = {  # the secrets, in words
    "token": "its token",
    "app_token": "the app-level token for socket mode (xapp-…)",
    "signing_secret": "the app's signing secret",
    "secret": "what both sides sign with, 16 characters or more",
    "password": "its password",
}
_LAYOUT = {"markdown_it": "markdown-it-py"}

_SLACK = (
    "at https://api.slack.com/apps make an app, and give its bot these scopes: app_mentions:read, chat:write, "
    "channels:history, groups:history, im:history, mpim:history, users:read, files:read, files:write; and "
    "assistant:write, to show that it is busy"
)
_DISCORD = (
    "invite it with the scope `bot` and these permissions: View Channels, Send Messages, Read Message History, "
    "Create Public Threads, Send Messages in Threads, Attach Files"
)
_SIGNAL = (
    "link or register the number with signal-cli, and keep this running beside the server: "
    "signal-cli -a {user} daemon --tcp {address} --receive-mode=manual"
)
_WEBHOOK = (
    "messages are posted to /channels/{name} of the server, answers to {url}; both are signed with the secret: "
    "X-Mainstay-Timestamp, and X-Mainstay-Signature, which is v1= and the HMAC-SHA256 of `timestamp.body`"
)

KINDS: dict[str, Kind] = {
    "slack": Kind(
        secrets=(("token",), ("app_token", "signing_secret")),
        libraries={"slack_sdk": "slack_sdk", "aiohttp": "aiohttp"},
        steps=(
            _SLACK,
            "subscribe it to these bot events: app_mention, message.channels, message.groups, message.im, message.mpim",
            "let people write to it (App Home, Messages Tab), install it, and invite it to rooms",
        ),
    ),
    "telegram": Kind(
        secrets=(("token",),),
        libraries={"telegram": "python-telegram-bot", **_LAYOUT},
        steps=(
            "ask @BotFather for a bot (/newbot): it tells the token",
            "turn its privacy mode off (/setprivacy, Disable), or of groups it hears only what is meant for it",
        ),
    ),
    "discord": Kind(
        secrets=(("token",),),
        libraries={"discord": "discord.py"},
        steps=(
            "at https://discord.com/developers/applications make an application with a bot, and switch on its "
            "Message Content Intent",
            _DISCORD,
        ),
    ),
    "matrix": Kind(
        asks={"homeserver": "https://matrix.example", "user": "@agent:matrix.example"},
        secrets=(("token", "password"),),
        libraries={"nio": "matrix-nio", "aiohttp": "aiohttp", **_LAYOUT},
        steps=(
            "make an account for it on the homeserver; the token is what a login answers with (access_token)",
            "it comes into rooms that paired people invite it to; those that are encrypted end to end it cannot read",
        ),
    ),
    "signal": Kind(
        asks={"address": "127.0.0.1:7583", "user": "+15550100100"},
        libraries=_LAYOUT,
        steps=(_SIGNAL,),
    ),
    "webhook": Kind(
        asks={"url": "https://chat.example/answers"},
        secrets=(("secret",),),
        steps=(_WEBHOOK,),
    ),
    "terminal": Kind(steps=("whoever sits where `mainstay serve` was started is the owner, and types lines",)),
}
_SOCKET = "switch on Socket Mode, and make an app-level token for connections:write"
_EVENTS = "have its events posted to https://HOST/channels/{name}, where HOST is how Slack reaches this server"


def needed(kind: str) -> tuple[tuple[str, ...], ...]:
    """Of each, one has to be there."""
    found = KINDS[kind]
    return (*((key,) for key in found.asks), *found.secrets)


def variable(name: str, kind: str, key: str) -> str:
    """Where a secret is best kept."""
    token = "ACCESS_TOKEN" if kind == "matrix" else "BOT_TOKEN"
    return f"{name.upper().replace('-', '_')}_{token if key == 'token' else key.upper()}"


def steps(name: str, kind: str, made: Mapping[str, Any]) -> list[str]:
    """What is left to do on the platform's side, a sentence each."""
    found = list(KINDS[kind].steps)
    if kind == "slack":
        found.insert(1, _SOCKET if "app_token" in made else _EVENTS)
    known = {**KINDS[kind].asks, **{key: str(value) for key, value in made.items()}, "name": name}
    return [one.format_map(known) for one in found]
