"""Builds the configured chat channels. A platform's modules and libraries are imported when its channel is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import getattr_static
from pathlib import Path

from mainstay.config.check_gateway import find_missing_setting
from mainstay.config.schema import Config
from mainstay.core.channel_settings import ChannelFactoryContext, ChannelSettings, channel_kind, find_channel_component
from mainstay.core.channels import ChatChannel
from mainstay.core.errors import ConfigError
from mainstay.gateway.room_routing import ChannelRoutingSettings

STATE_FOLDER = "channels"  # folder of a home with the state files of channels
InviteCheck = Callable[[str, str], bool]  # (channel, user): may this user invite the agent to a room?

_CHANNEL_MEMBERS = tuple(
    member for member in (*ChatChannel.__annotations__, *vars(ChatChannel)) if not member.startswith("_")
)


def build_channel(name: str, settings: ChannelSettings, home: Path, is_inviter_allowed: InviteCheck) -> ChatChannel:
    """Build a channel. Raises ConfigError if a setting is missing, a library is not installed, the factory fails, or
    what it returns is not a channel."""
    if problem := find_missing_setting(name, settings):
        raise ConfigError(problem)
    component = find_channel_component(channel_kind(name, settings))
    context = ChannelFactoryContext(
        state_path=channel_state_path(home, name), is_inviter_allowed=lambda user: is_inviter_allowed(name, user)
    )
    channel: ChatChannel = component.create(name, settings, context)
    if problem := _find_port_problem(name, channel):
        raise ConfigError(f"{component.describe_instance(name)} cannot be used: {problem}")
    return channel


def _find_port_problem(name: str, channel: ChatChannel) -> str:
    """Return which members of the port an object lacks; a factory of another distribution may return anything."""
    missing = [
        member
        for member in _CHANNEL_MEMBERS
        if getattr_static(channel, member, None) is None and not hasattr(channel, member)
    ]
    if len(missing) > len(_CHANNEL_MEMBERS) // 2:
        return f"its factory returned an object of the type {type(channel).__name__!r}, not a channel"
    if missing:
        return f"it has no {' and no '.join(missing)}; mainstay.core.channels.ChatChannel lists what a channel has"
    own_name = getattr_static(channel, "name", name)
    if isinstance(own_name, str) and own_name != name:
        return f"its name is {own_name!r}; it must be the name that its factory gets"
    return ""


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
