"""Builds the configured chat channels. A platform's modules and libraries are imported when its channel is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from mainstay.config.check_gateway import find_missing_setting
from mainstay.config.schema import Config
from mainstay.core.channel_settings import ChannelFactoryContext, ChannelSettings, channel_kind, find_channel_component
from mainstay.core.channels import ChatChannel
from mainstay.core.errors import ConfigError
from mainstay.gateway.room_routing import ChannelRoutingSettings

STATE_FOLDER = "channels"  # folder of a home with the state files of channels
InviteCheck = Callable[[str, str], bool]  # (channel, user): may this user invite the agent to a room?


def build_channel(name: str, settings: ChannelSettings, home: Path, is_inviter_allowed: InviteCheck) -> ChatChannel:
    """Build a channel. Raises ConfigError if a setting is missing or a library is not installed."""
    if problem := find_missing_setting(name, settings):
        raise ConfigError(problem)
    component = find_channel_component(channel_kind(name, settings))
    context = ChannelFactoryContext(
        state_path=channel_state_path(home, name), is_inviter_allowed=lambda user: is_inviter_allowed(name, user)
    )
    try:
        channel: ChatChannel = component.load_factory()(name, settings, context)
    except ImportError as error:  # raised by the factory itself, which may import a library only now
        raise ConfigError(
            f"the channel {name!r} needs a library that is not installed ({error}): {component.install_command()}"
        ) from None
    return channel


def channel_state_path(home: Path, name: str) -> Path:
    """Return the file in which a channel may keep state between restarts."""
    return home / STATE_FOLDER / f"{name}.json"


def build_channel_rules(config: Config) -> Mapping[str, ChannelRoutingSettings]:
    """Return what the gateway itself needs to know of each enabled channel."""
    return {
        name: ChannelRoutingSettings(
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
