"""Receives Matrix events by /sync. The sync position is saved only after all events of a response were handled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from mainstay.channels.incoming_dispatch import compute_backoff_s, dispatch_message
from mainstay.channels.matrix.client import SYNC_WAIT_S, MatrixClient, MatrixLoggedOut
from mainstay.channels.matrix.events import (
    MatrixEvent,
    MatrixEventRoom,
    MatrixIdentity,
    MatrixSyncResponse,
    decode_direct_rooms,
    decode_events,
    decode_message,
    events_since_invite,
    find_inviter,
)
from mainstay.channels.matrix.room_cache import MatrixRoomCache
from mainstay.channels.matrix.saved_state import (
    ENCRYPTION_NOTICES_MAX,
    INVITATIONS_MAX,
    MatrixSavedState,
    MatrixStateFile,
)
from mainstay.core.channels import ChannelError, DeliveryDeferred, DeliveryRejected, MessageHandler

BACKFILL_PAGES_MAX = 20  # pages of 100 events per room that are fetched when a sync response was limited

InviterCheck = Callable[[str], bool]
_log = logging.getLogger(__name__)


class MatrixSyncLoop:
    """Runs the sync loop. `identity` must be set after login, before `run`."""

    def __init__(
        self,
        name: str,
        client: MatrixClient,
        room_cache: MatrixRoomCache,
        state_file: MatrixStateFile,
        saved: MatrixSavedState,
    ) -> None:
        self.name = name
        self.identity = MatrixIdentity("")
        self.problem = ""  # why nothing can be received; empty: connected
        self._client = client
        self._room_cache = room_cache
        self._state_file = state_file
        self._saved = saved

    async def skip_history(self) -> None:
        """Set the sync position to now, on the very first start: earlier messages are not ours to answer."""
        synced = await self._client.sync("", 0)
        self._record_invitations(synced)
        await self._save_position(synced.next_batch)

    async def run(
        self,
        on_message: MessageHandler,
        is_inviter_allowed: InviterCheck,
        login: Callable[[], Awaitable[None]],
        on_encrypted: Callable[[str], Awaitable[None]],
    ) -> None:
        """Sync until cancelled. `login` obtains another token when ours is not accepted any more; `on_encrypted` tells
        a room that encrypted messages cannot be read."""
        attempts = 0
        while True:
            try:
                await self._join_allowed(is_inviter_allowed)
                synced = await self._client.sync(self._saved.since, SYNC_WAIT_S)
                self.problem = ""
                await self._handle_sync(synced, on_message, on_encrypted)
                await self._save_position(synced.next_batch)
                attempts = 0
            except MatrixLoggedOut as error:
                await self._pause(f"logged out: {error}", None, attempts)
                attempts += 1
                await self._login_again(login)
            except ChannelError as error:
                retry_after_s = error.retry_after_s if isinstance(error, DeliveryDeferred) else None
                await self._pause(str(error), retry_after_s, attempts)
                attempts += 1
            except Exception:  # the library and `is_inviter_allowed` may raise anything
                _log.exception("%s: receiving failed; retrying", self.name)
                await self._pause("receiving failed; retrying", None, attempts)
                attempts += 1

    async def _pause(self, reason: str, retry_after_s: float | None, attempts: int) -> None:
        if reason != self.problem:
            _log.warning("%s: not connected: %s", self.name, reason)
        self.problem = reason
        await asyncio.sleep(max(retry_after_s or 0.0, compute_backoff_s(attempts)))

    async def _login_again(self, login: Callable[[], Awaitable[None]]) -> None:
        try:
            await login()
        except ChannelError as error:
            self.problem = str(error)

    async def _save_position(self, since: str) -> None:
        self._saved.since = since
        try:
            await self._state_file.save(self._saved)
        except OSError as error:  # go on: after a restart some messages are repeated, and recognised by their ids
            _log.error("%s: the sync position cannot be saved: %s", self.name, error)

    # --- invitations -----------------------------------------------------------------------------

    def _record_invitations(self, synced: MatrixSyncResponse) -> None:
        for room, invited in synced.rooms.invite.items():
            if inviter := find_inviter(invited, self.identity):
                self._saved.invitations[room] = inviter
        for room in (*synced.rooms.join, *synced.rooms.leave):
            self._saved.invitations.pop(room, None)
        while len(self._saved.invitations) > INVITATIONS_MAX:
            self._saved.invitations.pop(next(iter(self._saved.invitations)))

    async def _join_allowed(self, is_inviter_allowed: InviterCheck) -> None:
        """Join rooms whose inviter is accepted. Other invitations stay pending and are checked again at each sync."""
        for room, inviter in tuple(self._saved.invitations.items()):
            if not is_inviter_allowed(inviter):
                continue
            try:
                await self._client.call_nio(self._client.nio_client.join(room))
            except DeliveryRejected as error:  # the invitation was withdrawn, or the room is gone
                _log.info("%s: a room cannot be joined: %s", self.name, error)
            self._saved.invitations.pop(room, None)

    # --- messages --------------------------------------------------------------------------------

    async def _handle_sync(
        self, synced: MatrixSyncResponse, on_message: MessageHandler, on_encrypted: Callable[[str], Awaitable[None]]
    ) -> None:
        for event in decode_events(synced.account_data.events):
            if event.type == "m.direct":
                self._room_cache.direct_rooms = decode_direct_rooms(event)
        self._record_invitations(synced)
        for room in synced.rooms.leave:
            self._room_cache.forget(room)
        for room, joined in synced.rooms.join.items():
            events, has_joined = events_since_invite(decode_events(joined.timeline.events), self.identity)
            self._room_cache.apply_sync(room, joined, events)
            if joined.timeline.limited and joined.timeline.prev_batch and not has_joined:
                events = [*await self._fetch_gap(room, joined.timeline.prev_batch), *events]
            for event in events:
                await self._handle_event(room, event, on_message, on_encrypted)

    async def _fetch_gap(self, room: str, until: str) -> list[MatrixEvent]:
        """Fetch the events between the last sync and this one that this one omitted, oldest first."""
        events: list[MatrixEvent] = []
        for _ in range(BACKFILL_PAGES_MAX):
            page = await self._client.fetch_messages(room, until, self._saved.since)
            events += decode_events(page.chunk)
            if not page.chunk or not page.end or page.end == until:
                return events_since_invite(events[::-1], self.identity)[0]
            until = page.end
        _log.warning("%s: a room has more missed messages than are fetched; the oldest are skipped", self.name)
        return events[::-1]

    async def _handle_event(
        self, room: str, event: MatrixEvent, on_message: MessageHandler, on_encrypted: Callable[[str], Awaitable[None]]
    ) -> None:
        if event.sender == self.identity.user:
            return
        if event.type == "m.room.encrypted":
            await self._notify_encrypted(room, on_encrypted)
        elif event.type == "m.room.message":
            is_direct = await self._room_cache.is_direct(room)
            room_name = "" if is_direct else await self._room_cache.room_name(room)
            place = MatrixEventRoom(self.name, room, is_direct, room_name)
            message = decode_message(
                event, self.identity, place, await self._room_cache.display_name(room, event.sender)
            )
            if message is not None:
                await dispatch_message(on_message, message)

    async def _notify_encrypted(self, room: str, on_encrypted: Callable[[str], Awaitable[None]]) -> None:
        if room in self._saved.encryption_notices:
            return
        try:
            await on_encrypted(room)
        except DeliveryRejected as error:
            _log.info("%s: a notice about encryption could not be posted: %s", self.name, error)
        self._saved.encryption_notices = [*self._saved.encryption_notices, room][-ENCRYPTION_NOTICES_MAX:]
