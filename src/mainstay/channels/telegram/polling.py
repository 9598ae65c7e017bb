"""Receives Telegram updates by long polling. Telegram keeps updates until a later request confirms them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from telegram.error import Conflict, InvalidToken, TelegramError

from mainstay.channels.incoming_dispatch import HANDLER_FAILURES_MAX, compute_backoff_s
from mainstay.channels.telegram.albums import TelegramUpdateGroup, group_albums
from mainstay.channels.telegram.client import (
    EndPointNotFound,
    TelegramClient,
    TelegramResponseUnreadable,
    parse_retry_after,
)
from mainstay.channels.telegram.events import TelegramUpdateDecoder
from mainstay.core.channels import MessageHandler
from mainstay.core.errors import MainstayError

UPDATES_MAX = 100  # updates per request
POLL_TIMEOUT_S = 50  # long-polling timeout
BACKOFF_FIRST_S = 0.1
RETRY_AFTER_MAX_S = 300.0
ALBUM_WAIT_S = 0.5  # the photos of an album arrive within this time

_log = logging.getLogger(__name__)


class TelegramPoller:
    """Polls for updates and confirms each only after the handler accepted it, so that none is lost.

    A message that cannot be accepted now delays its own room and no other: messages of other rooms are handled, and
    Telegram repeats all of them until the first one can be confirmed.
    """

    def __init__(
        self,
        client: TelegramClient,
        decoder: TelegramUpdateDecoder,
        on_message: MessageHandler,
        on_state: Callable[[str], None],
    ) -> None:
        self._client = client
        self._decoder = decoder
        self._on_message = on_message
        self._on_state = on_state
        self._offset = 0  # the first update that is not confirmed
        self._handled: set[int] = set()  # updates at or after the offset that were handled
        self._failures: dict[int, int] = {}
        self._awaited_album = ""  # the last album that was already waited for

    async def run(self) -> None:
        """Poll until cancelled."""
        attempts = 0
        wait_s = 0  # the first request returns at once, which shows that we are connected
        limit = UPDATES_MAX
        while True:
            try:
                raw = await self._client.get_updates(self._offset, wait_s, limit)
            except TelegramResponseUnreadable as error:
                self._on_state("Telegram's response cannot be parsed")
                if limit == 1 and error.update is not None and error.update >= self._offset:
                    _log.warning("an update that cannot be parsed is skipped")
                    self._offset = error.update + 1
                limit = 1 if limit > 1 else UPDATES_MAX  # one at a time, to find the one that cannot be parsed
            except (TelegramError, OSError, KeyError, TypeError) as error:
                self._on_state(_error_state(error))
                wait_s = 0
                if isinstance(error, TelegramError) and (retry_after := parse_retry_after(error)):
                    await asyncio.sleep(min(retry_after, RETRY_AFTER_MAX_S))
            else:
                self._on_state("connected")
                limit = UPDATES_MAX
                if await self._handle_updates(raw):
                    attempts, wait_s = 0, POLL_TIMEOUT_S
                    continue
                wait_s = 0
            await asyncio.sleep(compute_backoff_s(attempts, BACKOFF_FIRST_S))
            attempts += 1

    async def _handle_updates(self, raw: list[object]) -> bool:
        """Handle updates. Return False if some of them must be fetched again."""
        updates = [update for entry in raw[:UPDATES_MAX] if (update := self._decoder.decode(entry)) is not None]
        updates.sort(key=lambda update: update.id)
        if updates and updates[-1].album not in ("", self._awaited_album):
            self._awaited_album = updates[-1].album
            await asyncio.sleep(ALBUM_WAIT_S)  # then poll again, which returns these updates with the rest of the album
            return True
        if not raw:  # all are confirmed; after a week without updates Telegram restarts ids, possibly at a smaller one
            self._offset = 0
        groups = group_albums(updates)
        blocked_rooms: set[str] = set()
        for group in groups:
            await self._handle_group(group, blocked_rooms)
        for id in (id for group in groups for id in group.ids):
            if id < self._offset:
                continue
            if id not in self._handled:
                break
            self._handled.discard(id)
            self._offset = id + 1
        return not blocked_rooms and len(updates) == len(raw)

    async def _handle_group(self, group: TelegramUpdateGroup, blocked_rooms: set[str]) -> None:
        message, first = group.message, group.ids[0]
        if message is not None and first not in self._handled:
            if message.address.room in blocked_rooms:  # messages of a room stay in order
                return
            try:
                await self._on_message(message)
            except MainstayError as error:
                _log.warning("%s: a message could not be accepted yet: %s", message.address.channel, error)
                blocked_rooms.add(message.address.room)
                return
            except Exception:  # the handler may raise anything, and other messages must be handled
                _log.exception("%s: the handler failed on a message", message.address.channel)
                self._failures[first] = self._failures.get(first, 0) + 1
                if self._failures[first] < HANDLER_FAILURES_MAX:
                    blocked_rooms.add(message.address.room)
                    return
        self._failures.pop(first, None)
        self._handled.update(group.ids)


def _error_state(error: Exception) -> str:
    match error:
        case Conflict():
            return "another client receives this bot's updates: a process with the same token, or a webhook"
        case InvalidToken() | EndPointNotFound():
            return "Telegram refuses the bot's token"
        case TelegramError() if parse_retry_after(error) is not None:
            return "Telegram's rate limit was reached"
        case _:
            return "Telegram cannot be reached"
