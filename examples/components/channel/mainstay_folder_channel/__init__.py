"""Manifest of the folder channel. The implementation is imported when the channel is built."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from mainstay.core.channel_settings import ChannelComponent, ChannelSettings
from mainstay.core.settings import Secret


class FolderSettings(ChannelSettings, frozen=True, kw_only=True):
    folder: Annotated[str, Meta(description="Folder with `inbox.jsonl` and `outbox`.")] = ""
    key: Annotated[Secret, Meta(description="Key that signs the answers, best given as `${VAR}`.")] = ""
    user: Annotated[str, Meta(min_length=1, description="Name of the agent: `@agent` in a room mentions it.")] = "agent"
    poll_s: Annotated[float, Meta(gt=0, description="How often to look for messages, in seconds.")] = 1.0


COMPONENT = ChannelComponent(
    name="folder",
    summary="Files in a folder, for programs that can do nothing but read and write files.",
    settings=FolderSettings,
    factory="mainstay_folder_channel.channel:build_folder_channel",
    required={"folder": "/srv/agent"},
    secrets=(("key",),),
    secret_hints={"key": "the key that signs the answers"},
    setup=("create a folder {folder}/outbox/ROOM for each room, and {folder}/outbox/USER for each user",),
    check="mainstay_folder_channel.channel:check_folder",
)
