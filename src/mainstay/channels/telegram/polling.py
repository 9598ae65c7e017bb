"""Listening by asking: Telegram keeps what it tells until a later question confirms it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from telegram.error import Conflict, InvalidToken, TelegramError

from mainstay.channels.telegram.albums import Told, together
from mainstay.channels.telegram.updates import Reader
from mainstay.channels.telegram.wire import EndPointNotFound, Unreadable, Wire, wait_of
from mainstay.channels.telling import FAULTS_MAX, growing
from mainstay.core.channels import Hear
from mainstay.core.errors import MainstayError

LIMIT = 100
WAIT_S = 50  # that a question is kept open
FIRST_WAIT_S = 0.1
WAIT_ASKED_MAX_S = 300.0
ALBUM_S = 0.5  # the pictures of an album come within so much of each other

_log = logging.getLogger(__name__)


class Poller:
    """Asks, tells what it hears, and confirms what was taken in: no sooner, so that nothing is lost.

    A message that cannot be taken in now holds up its own room and no other: the others' are heard, and all are told
    again until the first of them can be confirmed.
    """

    def __init__(self, wire: Wire, reader: Reader, hear: Hear, report: Callable[[str], None]) -> None:
        self._wire = wire
        self._reader = reader
        self._hear = hear
        self._report = report
        self._offset = 0  # the first update that is not confirmed
        self._heard: set[int] = set()  # updates beyond it that were taken in
        self._faults: dict[int, int] = {}
        self._awaited = ""  # the album that we have waited for once

    async def run(self) -> None:
        """For ever."""
        tries = 0
        wait_s = 0  # the first question is answered at once: then we know that we are connected
        limit = LIMIT
        while True:
            try:
                raw = await self._wire.updates(self._offset, wait_s, limit)
            except Unreadable as error:
                self._report("Telegram's answer cannot be read")
                if limit == 1 and error.update is not None and error.update >= self._offset:
                    _log.warning("an update that cannot be read is left out")
                    self._offset = error.update + 1
                limit = 1 if limit > 1 else LIMIT  # to find which of them it is
            except (TelegramError, OSError, KeyError, TypeError) as error:
                self._report(_state(error))
                wait_s = 0
                if isinstance(error, TelegramError) and (asked := wait_of(error)):
                    await asyncio.sleep(min(asked, WAIT_ASKED_MAX_S))
            else:
                self._report("connected")
                limit = LIMIT
                if await self._take(raw):
                    tries, wait_s = 0, WAIT_S
                    continue
                wait_s = 0
            await asyncio.sleep(growing(tries, FIRST_WAIT_S))
            tries += 1

    async def _take(self, raw: list[object]) -> bool:
        """False if something has to be told again."""
        updates = [update for one in raw[:LIMIT] if (update := self._reader.read(one)) is not None]
        updates.sort(key=lambda one: one.id)
        if updates and updates[-1].album not in ("", self._awaited):
            self._awaited = updates[-1].album
            await asyncio.sleep(ALBUM_S)  # and ask again: what is not confirmed is told once more, now with the rest
            return True
        if not raw:  # all is confirmed; after a quiet week the numbers begin anew, and may be smaller
            self._offset = 0
        told = together(updates)
        held: set[str] = set()
        for one in told:
            await self._tell(one, held)
        for id in (id for one in told for id in one.ids):
            if id < self._offset:
                continue
            if id not in self._heard:
                break
            self._heard.discard(id)
            self._offset = id + 1
        return not held and len(updates) == len(raw)

    async def _tell(self, told: Told, held: set[str]) -> None:
        message, first = told.message, told.ids[0]
        if message is not None and first not in self._heard:
            if message.address.room in held:  # in a room, one after the other
                return
            try:
                await self._hear(message)
            except MainstayError as error:
                _log.warning("%s: a message could not be taken in yet: %s", message.address.channel, error)
                held.add(message.address.room)
                return
            except Exception:  # whoever hears may raise anything, and the others are heard all the same
                _log.exception("%s: a message broke what hears it", message.address.channel)
                self._faults[first] = self._faults.get(first, 0) + 1
                if self._faults[first] < FAULTS_MAX:
                    held.add(message.address.room)
                    return
        self._faults.pop(first, None)
        self._heard.update(told.ids)


def _state(error: Exception) -> str:
    match error:
        case Conflict():
            return "somebody else listens for this bot: another process with its token, or a webhook"
        case InvalidToken() | EndPointNotFound():
            return "Telegram refuses the bot's token"
        case TelegramError() if wait_of(error) is not None:
            return "Telegram asks us to wait"
        case _:
            return "Telegram cannot be reached"
