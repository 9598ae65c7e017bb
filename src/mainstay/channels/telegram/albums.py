"""Groups Telegram updates of one album (media group) into one message."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import msgspec

from mainstay.channels.telegram.events import TelegramUpdate
from mainstay.core.channels import IncomingMessage


class TelegramUpdateGroup(msgspec.Struct, frozen=True):
    """Updates that form one message: they are handled and confirmed together."""

    ids: tuple[int, ...]
    message: IncomingMessage | None = None


def group_albums(updates: Sequence[TelegramUpdate]) -> list[TelegramUpdateGroup]:
    """Merge adjacent updates of one album into one message with the id of the first. Other updates stay alone."""
    groups: list[TelegramUpdateGroup] = []
    for album, group in groupby(updates, key=lambda update: update.album):
        members = list(group)
        if album:
            messages = [update.message for update in members if update.message]
            groups.append(TelegramUpdateGroup(tuple(update.id for update in members), _merge_messages(messages)))
        else:
            groups.extend(TelegramUpdateGroup((update.id,), update.message) for update in members)
    return groups


def _merge_messages(messages: Sequence[IncomingMessage]) -> IncomingMessage | None:
    if not messages:
        return None
    return msgspec.structs.replace(
        messages[0],
        text="\n\n".join(message.text for message in messages if message.text),
        mentioned=any(message.mentioned for message in messages),
        files=tuple(file for message in messages for file in message.files),
        quoted=tuple(quoted for message in messages for quoted in message.quoted),
    )
