"""Configuration of chat channels: the settings that every channel has, its manifest, and what its factory gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from mainstay.core.component_settings import ComponentSettings
from mainstay.core.components import Component, ComponentKind, find_component, list_components
from mainstay.core.errors import ConfigError
from mainstay.core.settings import Count


class ChannelSettings(ComponentSettings, frozen=True, kw_only=True):
    """One channel: a connection to a chat platform. Each platform adds its own settings in a subclass."""

    COMPONENT_KIND: ClassVar[ComponentKind] = "channel"

    kind: Annotated[str, Meta(description="Chat platform; empty: the channel's name.")] = ""
    enabled: Annotated[bool, Meta(description="Connect to the platform.")] = True
    workspace: Annotated[str, Meta(description="Workspace of the channel's rooms; empty: the configured one.")] = ""
    rooms: Annotated[
        dict[str, Annotated[str, Meta(extra={"named": "anyhow"})]],
        Meta(description="Rooms that belong to another workspace, by room id: `C012AB3CD: team`."),
    ] = {}
    stream: Annotated[
        bool, Meta(description="Show an answer while it is written, on platforms where messages can be edited.")
    ] = True
    backfill: Annotated[
        Annotated[int, Meta(ge=0, le=200)],
        Meta(description="Most messages of a thread that the agent missed and reads before it answers (backfill)."),
    ] = 50
    attachments: Annotated[bool, Meta(description="Download files that are attached to messages.")] = True
    attachment_bytes_max: Annotated[
        Count, Meta(description="Size of the largest attached file that is downloaded, in bytes.")
    ] = 20 * 1024 * 1024


class ChannelComponent(Component, frozen=True, kw_only=True):
    """The manifest of a channel. Its factory is called as `factory(name, settings, context)` with the channel's name,
    its settings and a `ChannelFactoryContext`, and returns a `ChatChannel`. Its check is called as
    `check(name, settings, context)` with a `CheckContext`, may block, and returns an iterable of findings."""

    kind: ComponentKind = "channel"
    settings: type[ChannelSettings]
    is_owners_terminal: bool = False  # its only user, with the id "owner", is the owner of the home
    redelivers: bool = True  # False: a message that could not be handled is lost, because the platform sends it once


class ChannelFactoryContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the factory of a channel gets beside the channel's settings."""

    state_path: Path  # of a JSON file of its own in the home, removed with the channel; its folder may not exist yet
    is_inviter_allowed: Callable[[str], bool]  # may this user (an id on the platform) invite the agent to a room?


def channel_kind(name: str, settings: ChannelSettings) -> str:
    """Return the name of a channel's component."""
    return settings.kind or name


def find_channel_component(kind: str) -> ChannelComponent:
    """Return the manifest of a chat platform. Raises ConfigError if there is none."""
    component = find_component("channel", kind)
    if not isinstance(component, ChannelComponent):
        raise ConfigError(f"the channel {kind!r} of {component.distribution} is not a ChannelComponent")
    return component


def list_channel_components(on_problem: Callable[[str], None] = lambda problem: None) -> Iterator[ChannelComponent]:
    """Yield the manifests of all chat platforms; `on_problem` is called with a sentence for each that cannot be
    used."""
    for component in list_components("channel", on_problem):
        if isinstance(component, ChannelComponent):
            yield component
        else:
            on_problem(f"the channel {component.name!r} of {component.distribution} is not a ChannelComponent")
