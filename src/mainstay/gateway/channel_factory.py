"""From what is configured about a chat platform to the channel that speaks with it; its library is loaded then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from mainstay.config.check_gateway import kind_of, lacking
from mainstay.config.schema import Config
from mainstay.config.schema_gateway import ChannelEntry
from mainstay.core.channels import ChatChannel
from mainstay.core.errors import ConfigError
from mainstay.gateway.rooms import ChannelRules

KEPT = "channels"  # a folder of a home: what a channel has to remember itself
Welcome = Callable[[str, str], bool]  # a channel, and a user who invites us there


def make_channel(name: str, entry: ChannelEntry, home: Path, welcome: Welcome) -> ChatChannel:
    """Raises ConfigError if it lacks something, or its library is not installed."""
    if said := lacking(name, entry):
        raise ConfigError(said)
    kind = kind_of(name, entry)
    try:
        return _MAKERS[kind](name, entry, home, welcome)
    except ImportError as error:
        wanted = f"pip install -e '.[{kind}]'"
        raise ConfigError(f"the channel {name!r} needs a library that is not installed ({error}): {wanted}") from None


def rules_of(config: Config) -> Mapping[str, ChannelRules]:
    return {
        name: ChannelRules(
            workspace=entry.workspace or config.workspace,
            rooms=entry.rooms,
            stream=entry.stream,
            backfill=entry.backfill,
            attachments=entry.attachments,
            attachment_bytes_max=entry.attachment_bytes_max,
        )
        for name, entry in config.channels.items()
        if entry.enabled
    }


def _slack(name: str, entry: ChannelEntry, home: Path, welcome: Welcome) -> ChatChannel:
    from mainstay.channels.slack.channel import SlackChannel

    given = entry.app_token, entry.signing_secret
    return SlackChannel(name, entry.token, app_token=given[0], signing_secret=given[1], base_url=entry.base_url)


def _telegram(name: str, entry: ChannelEntry, home: Path, welcome: Welcome) -> ChatChannel:
    from mainstay.channels.telegram.channel import TelegramChannel

    return TelegramChannel(name, entry.token, base_url=entry.base_url, secret=entry.secret, url=entry.url)


def _discord(name: str, entry: ChannelEntry, home: Path, welcome: Welcome) -> ChatChannel:
    from mainstay.channels.discord.channel import DiscordChannel

    return DiscordChannel(name, entry.token, base=entry.base_url)


def _matrix(name: str, entry: ChannelEntry, home: Path, welcome: Welcome) -> ChatChannel:
    from mainstay.channels.matrix.channel import MatrixChannel
    from mainstay.channels.matrix.homeserver import Account

    account = Account(homeserver=entry.homeserver, user=entry.user, token=entry.token, password=entry.password)
    state = home / KEPT / f"{name}.json"
    state.parent.mkdir(mode=0o700, exist_ok=True)
    return MatrixChannel(name, account, state=str(state), welcome=lambda user: welcome(name, user))


def _signal(name: str, entry: ChannelEntry, home: Path, welcome: Welcome) -> ChatChannel:
    from mainstay.channels.signal.channel import SignalChannel

    return SignalChannel(name, entry.address, user=entry.user)


def _webhook(name: str, entry: ChannelEntry, home: Path, welcome: Welcome) -> ChatChannel:
    from mainstay.channels.webhook.channel import WebhookChannel

    return WebhookChannel(name, entry.url, secret=entry.secret)


def _terminal(name: str, entry: ChannelEntry, home: Path, welcome: Welcome) -> ChatChannel:
    from mainstay.channels.terminal.channel import TerminalChannel

    return TerminalChannel(name)


_MAKERS: Mapping[str, Callable[[str, ChannelEntry, Path, Welcome], ChatChannel]] = {
    "slack": _slack,
    "telegram": _telegram,
    "discord": _discord,
    "matrix": _matrix,
    "signal": _signal,
    "webhook": _webhook,
    "terminal": _terminal,
}
