"""Pictures that were sent together, which Telegram tells one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import msgspec

from mainstay.channels.telegram.updates import Update
from mainstay.core.channels import Incoming


class Told(msgspec.Struct, frozen=True):
    """Updates that are one to us: they are heard, and confirmed, together."""

    ids: tuple[int, ...]
    message: Incoming | None = None


def together(updates: Sequence[Update]) -> list[Told]:
    """Those of one album that stand side by side become one message, with the id of the first."""
    told: list[Told] = []
    for album, group in groupby(updates, key=lambda one: one.album):
        ones = list(group)
        if album:
            told.append(Told(tuple(one.id for one in ones), _joined([one.message for one in ones if one.message])))
        else:
            told.extend(Told((one.id,), one.message) for one in ones)
    return told


def _joined(messages: Sequence[Incoming]) -> Incoming | None:
    if not messages:
        return None
    return msgspec.structs.replace(
        messages[0],
        text="\n\n".join(one.text for one in messages if one.text),
        mentioned=any(one.mentioned for one in messages),
        files=tuple(file for one in messages for file in one.files),
    )
