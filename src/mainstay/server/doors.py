"""What all requests to one server share: its settings, the gateway behind it, and who is listening right now."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from mainstay.gateway.gateway import Gateway
from mainstay.gateway.rates import Rates
from mainstay.server.refusals import Refusals

log = logging.getLogger("mainstay.http")
BODIES_MAX = 8  # so many of the largest may be in memory at a time


def _ready() -> dict[str, str]:
    return {}


class Web(msgspec.Struct, frozen=True, kw_only=True):
    """What is configured about the server, as plain values."""

    host: str = "127.0.0.1"  # where it listens
    port: int = 7460
    keys: Literal["auto", "required"] = "auto"
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    body_bytes_max: int = 32 * 1024 * 1024
    rate_per_min: int = 600
    streams_max: int = 64
    version: str = ""
    workspace: str = "default"  # of whoever says no other
    ready: Callable[[], dict[str, str]] = _ready  # what is not, and why; empty: everything is
    metrics: Callable[[], str] | None = None  # for Prometheus; None: there are none
    workspaces: Callable[[], Sequence[str]] | None = None  # all that there are; None: those that people are in


class Listening(Protocol):
    """Somebody at the other end of something that stays open."""

    @property
    def turn(self) -> bool:
        """It ends by itself, with a turn."""
        ...

    def goodbye(self) -> None: ...
    def keep_alive(self, now: float) -> None: ...


class Doors:
    def __init__(self, gateway: Gateway, settings: Web) -> None:
        self.gateway = gateway
        self.settings = settings
        self.rates = Rates()
        self.refusals = Refusals(log)
        self.listening: set[Listening] = set()
        self.closing = asyncio.Event()  # whoever waits for an answer need wait no longer
        self.draining = False  # nothing new begins
        self.held = 0  # bytes of bodies in memory
        self._tick: asyncio.TimerHandle | None = None

    @property
    def held_max(self) -> int:
        return self.settings.body_bytes_max * BODIES_MAX

    # --- those who listen ------------------------------------------------------------------------

    def listen(self, one: Listening, every_s: float) -> None:
        self.listening.add(one)
        if self._tick is None:
            self._beat(every_s)

    def leave(self, one: Listening) -> None:
        self.listening.discard(one)

    def _beat(self, every_s: float) -> None:
        """One clock for all of them, for as long as there are any."""
        loop = asyncio.get_running_loop()
        for one in tuple(self.listening):
            one.keep_alive(loop.time())
        self._tick = loop.call_later(every_s, self._beat, every_s) if self.listening else None

    # --- the end ---------------------------------------------------------------------------------

    def drain(self) -> None:
        """Nothing new begins. Whoever follows a session is told to come again; a turn may be heard to its end."""
        self.draining = True
        for one in tuple(self.listening):
            if not one.turn:
                one.goodbye()

    def close(self) -> None:
        """Whoever is still there is told as well."""
        self.draining = True
        self.closing.set()
        for one in tuple(self.listening):
            one.goodbye()
