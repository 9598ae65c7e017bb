"""What a lane works with: the services all lanes share, and the tickets of those who wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from mainstay.core.limits import Limits
from mainstay.core.outcome import Reply
from mainstay.core.ports import Clock, Provider, Store
from mainstay.lane.hub import Hub
from mainstay.turn.loop import Review
from mainstay.turn.toolbox import Tools


class Services(msgspec.Struct, frozen=True):
    """What every lane of an agent shares."""

    store: Store
    choose: Callable[[str], Provider]  # the provider for a session's own model; "" for the default
    tools: Tools
    limits: Limits
    clock: Clock
    hub: Hub
    instructions: str = ""


class Ticket:
    """An accepted input and the reply that will come of it."""

    __slots__ = ("reply", "review", "seq", "turn")

    def __init__(self, seq: int, reply: asyncio.Future[Reply], review: Review | None) -> None:
        self.seq = seq
        self.reply = reply
        self.review = review
        self.turn = 0  # known once the turn has started
