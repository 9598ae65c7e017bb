"""Matrix channel: an account that receives by /sync."""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
import os
import stat
import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from mainstay.channels.incoming_dispatch import compute_backoff_s
from mainstay.channels.matrix.client import MatrixClient, MatrixCredentials, MatrixLoggedOut, RawMatrixRequest
from mainstay.channels.matrix.events import (
    MatrixEvent,
    MatrixEventRoom,
    decode_direct_rooms,
    decode_events,
    decode_json,
    decode_message,
    event_time_ms,
    find_thread_id,
)
from mainstay.channels.matrix.manifest import MatrixSettings
from mainstay.channels.matrix.markup import markdown_to_html, strip_control_chars
from mainstay.channels.matrix.room_cache import MatrixRoomCache
from mainstay.channels.matrix.saved_state import MatrixStateFile
from mainstay.channels.matrix.sync import InviterCheck, MatrixSyncLoop
from mainstay.core.channel_settings import ChannelFactoryContext
from mainstay.core.channels import (
    ChannelCapabilities,
    ChannelError,
    DeliveryDeferred,
    DeliveryRejected,
    IncomingFile,
    IncomingMessage,
    MessageHandler,
    SentMessage,
)
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import ConfigError
from mainstay.core.tool_ports import RoomMessage
from mainstay.core.worker_threads import run_in_thread
from mainstay.io.urls import AddressRefused, parse_url

MESSAGE_CHARS_MAX = 12_000  # an event has at most 64 KiB and may contain the text twice
CONTENT_BYTES_MAX = 60_000
FILE_BYTES_MAX = 50 * 1024 * 1024  # the homeserver may have a lower limit
TYPING_MS = 8_000
TYPING_TIMEOUT_S = 5.0
HISTORY_PAGES_MAX = 10
DEVICE_NAME = "mainstay"
ENCRYPTION_NOTICE = (
    "This room is end-to-end encrypted, and I cannot read it: please write to me in a room without encryption."
)


class MatrixChannel:
    """`state_path` is a file that stores the device and the sync position; `is_inviter_allowed` decides which
    invitations are accepted. With a password it logs in once, and again only when its token is refused."""

    kind = "matrix"
    capabilities = ChannelCapabilities(
        markup="markdown",
        length_max=MESSAGE_CHARS_MAX,
        edits=True,
        deletes=True,
        files=True,
        typing=True,
        threads=True,
        history=True,
        search=True,
        idempotency="key",
        file_bytes_max=FILE_BYTES_MAX,
    )

    def __init__(
        self, name: str, account: MatrixCredentials, *, state_path: str, is_inviter_allowed: InviterCheck
    ) -> None:
        try:
            parse_url(account.homeserver)
        except AddressRefused as error:
            raise ConfigError(f"{name}: homeserver: {error}") from None
        if not account.token and not (account.user and account.password):
            raise ConfigError(f"{name}: give a token, or a user and a password")
        self.name = name
        self._account = account
        self._state_file = MatrixStateFile(state_path)
        self._is_inviter_allowed = is_inviter_allowed
        self._sync_loop: MatrixSyncLoop | None = None
        self._sync_task: asyncio.Task[None] | None = None
        self._client: MatrixClient | None = None
        self._problem = "not started"

    @property
    def account(self) -> str:
        """The account's user id, for display; empty before it is connected."""
        return self._sync_loop.identity.user if self._sync_loop is not None else ""

    @property
    def state(self) -> str:
        problem = self._sync_loop.problem if self._sync_loop is not None and not self._problem else self._problem
        if not problem and (self._sync_task is None or self._sync_task.done()):
            problem = "stopped receiving"
        return problem or "connected"

    # --- lifecycle -------------------------------------------------------------------------------

    async def start(self, on_message: MessageHandler) -> None:
        if self._client is not None:
            raise ConfigError(f"{self.name} is already started")
        saved = await run_in_thread(self._state_file.load)
        if (saved.homeserver, saved.user) != (self._account.homeserver, self._account.user):
            saved = type(saved)(homeserver=self._account.homeserver, user=self._account.user)
        self._problem = "not connected yet"
        client = self._client = MatrixClient(self._account.homeserver)
        markdown_to_html("")  # raises ConfigError now if its library is missing
        room_cache = self._room_cache = MatrixRoomCache(client)
        sync_loop = self._sync_loop = MatrixSyncLoop(self.name, client, room_cache, self._state_file, saved)
        self._saved = saved
        try:
            await self._connect()
        except BaseException:
            await self.close()
            raise
        self._sync_task = asyncio.create_task(
            sync_loop.run(on_message, self._is_inviter_allowed, self._login_again, self._post_encryption_notice),
            name=f"matrix {self.name}",
        )
        self._problem = ""

    async def _connect(self) -> None:
        """Log in, retrying without limit. Raises ConfigError if the account cannot be used."""
        attempts = 0
        while True:
            try:
                await self._login()
                await self._load_account_data()
                return
            except (MatrixLoggedOut, DeliveryRejected) as error:
                raise ConfigError(f"{self.name}: the account cannot be used: {error}") from None
            except ChannelError as error:
                self._problem = str(error)
                await asyncio.sleep(compute_backoff_s(attempts))
                attempts += 1

    async def _login(self) -> None:
        """Authenticate with the configured token, the saved one, or a new one from the password."""
        client, account, saved = self._connected_client(), self._account, self._saved
        if token := account.token or saved.token:
            client.set_credentials(account.user, saved.device, token)
            try:
                identity = await client.call_nio(client.nio_client.whoami())
            except MatrixLoggedOut:
                if account.token:
                    raise
            else:
                self._set_identity(identity.user_id, identity.device_id or "", token)
                return
        client.set_credentials("", saved.device, "")
        client.nio_client.user = account.user
        login = await client.call_nio(client.nio_client.login(account.password, device_name=DEVICE_NAME))
        saved.device, saved.token = login.device_id, login.access_token
        self._set_identity(login.user_id, login.device_id, login.access_token)
        await self._save_state()

    def _set_identity(self, user: str, device: str, token: str) -> None:
        account, saved = self._account, self._saved
        if account.user and account.user not in (user, user[1:].partition(":")[0], user.partition(":")[0]):
            raise ConfigError(f"{self.name}: the token belongs to {user}, not to {account.user}")
        if saved.id != user:  # another account's sync position is of no use
            saved.since, saved.encryption_notices, saved.invitations = "", [], {}
        saved.id = user
        self._connected_client().set_credentials(user, device, token)

    async def _login_again(self) -> None:
        if self._account.token:
            return  # the owner has to configure another token
        await self._login()

    async def _save_state(self) -> None:
        try:
            await self._state_file.save(self._saved)
        except OSError as error:
            raise ConfigError(f"{self.name}: its state file cannot be written: {error.strerror or error}") from None

    async def _load_account_data(self) -> None:
        """Fetch the account's display name and direct rooms. On the first start, set the sync position to now."""
        client, sync_loop = self._connected_client(), self._sync_loop
        assert sync_loop is not None
        user = str(client.nio_client.user_id)
        display_name = (await client.call_nio(client.nio_client.get_displayname(user))).displayname
        sync_loop.identity = type(sync_loop.identity)(user, display_name or "")
        path = ("user", user, "account_data", "m.direct")
        try:
            raw = await client.request(RawMatrixRequest(path=path), msgspec.Raw)
            self._room_cache.direct_rooms = decode_direct_rooms(MatrixEvent(type="m.direct", content=raw))
        except DeliveryRejected:  # the account has no m.direct data
            pass
        if not self._saved.since:
            await sync_loop.skip_history()

    async def close(self) -> None:
        self._problem = "closed"
        task, self._sync_task = self._sync_task, None
        client, self._client = self._client, None  # so that it can be started again
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if client is not None:
            await client.close()

    def _connected_client(self) -> MatrixClient:
        if self._client is None:
            raise DeliveryDeferred(f"{self.name} is not connected: {self._problem}")
        return self._client

    # --- sending ---------------------------------------------------------------------------------

    async def post(self, to: ChatAddress, text: str, *, key: str) -> SentMessage:
        return await self._send_event(to, _build_content(text), key)

    async def _send_event(self, to: ChatAddress, content: dict[str, Any], key: str) -> SentMessage:
        """Send an event. The transaction id is derived from the key: the homeserver accepts one event per id."""
        _check_ids(to)
        if to.thread:
            latest = {"event_id": to.thread}
            content["m.relates_to"] = {
                "rel_type": "m.thread",
                "event_id": to.thread,
                "is_falling_back": True,
                "m.in_reply_to": latest,
            }
        client = self._connected_client()
        transaction = f"ms{hashlib.sha256(key.encode()).hexdigest()[:40]}"
        request = client.nio_client.room_send(to.room, "m.room.message", content, tx_id=transaction)
        id = str((await client.call_nio(request)).event_id)
        if to.thread:
            return SentMessage(id=id, thread=to.thread)
        return SentMessage(id=id, thread="" if await self._is_direct(to.room) else id)

    async def _is_direct(self, room: str) -> bool:
        """Whether the room is direct. Does not raise: the message is posted, and a failed lookup must not hide that."""
        try:
            return await self._room_cache.is_direct(room)
        except ChannelError:
            return False

    async def find_posted(self, to: ChatAddress, key: str) -> SentMessage | None:
        return None

    async def edit(self, to: ChatAddress, id: str, text: str) -> None:
        _check_ids(to, id)
        new = _build_content(text)
        content = {**new, "body": f"* {new['body']}", "m.new_content": new}
        content["m.relates_to"] = {"rel_type": "m.replace", "event_id": id}
        if len(msgspec.json.encode(content)) > CONTENT_BYTES_MAX:  # it contains the text four times
            content = {"msgtype": "m.text", "body": "*", "m.new_content": new, "m.relates_to": content["m.relates_to"]}
        client = self._connected_client()
        await client.call_nio(client.nio_client.room_send(to.room, "m.room.message", content, tx_id=uuid.uuid4().hex))

    async def delete(self, to: ChatAddress, id: str) -> None:
        _check_ids(to, id)
        client = self._connected_client()
        await client.call_nio(client.nio_client.room_redact(to.room, id, tx_id=uuid.uuid4().hex))

    async def upload(self, to: ChatAddress, path: str, name: str, comment: str, *, key: str) -> SentMessage:
        _check_ids(to)
        try:
            status = os.stat(path)
        except OSError as error:
            raise DeliveryRejected(f"{name} cannot be read: {error.strerror or error}") from None
        size = status.st_size
        if not stat.S_ISREG(status.st_mode):
            raise DeliveryRejected(f"{name} is not a file that can be sent")
        if size > self.capabilities.file_bytes_max:
            raise DeliveryRejected(
                f"{name} has {size} bytes: more than the {self.capabilities.file_bytes_max} that can be sent"
            )
        mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
        url = await self._connected_client().upload(path, name, mime)
        kind = mime.partition("/")[0]
        content = _build_content(comment or name)
        content["msgtype"] = f"m.{kind}" if kind in ("image", "audio", "video") else "m.file"
        content |= {"url": url, "filename": name, "info": {"mimetype": mime, "size": size}}
        return await self._send_event(to, content, key)

    async def show_typing(self, to: ChatAddress, note: str = "") -> None:
        try:
            _check_ids(to)
            client = self._connected_client()
            await client.call_nio(client.nio_client.room_typing(to.room, True, TYPING_MS), TYPING_TIMEOUT_S)
        except ChannelError:
            pass  # the typing indicator is optional

    async def _post_encryption_notice(self, room: str) -> None:
        await self.post(ChatAddress(self.name, room), ENCRYPTION_NOTICE, key=f"encrypted {room}")

    # --- attachments, history and search ---------------------------------------------------------

    async def download(self, file: IncomingFile, target: str, bytes_max: int) -> str:
        return await self._connected_client().download(file.ref, target, bytes_max)

    async def history(self, at: ChatAddress, after: int, limit: int) -> Sequence[IncomingMessage]:
        _check_ids(at)
        client, messages, start = self._connected_client(), list[MatrixEvent](), ""
        for _ in range(HISTORY_PAGES_MAX):
            page = (
                await client.fetch_thread(at.room, at.thread, start)
                if at.thread
                else await client.fetch_messages(at.room, start)
            )
            events = [event for event in decode_events(page.chunk) if at.thread or not find_thread_id(event)]
            messages += [event for event in events if event_time_ms(event) > after and event.type == "m.room.message"]
            start = page.next_batch or page.end
            if (
                not start
                or not page.chunk
                or len(messages) >= limit
                or any(event_time_ms(event) <= after for event in events)
            ):
                break
        if at.thread and len(messages) < limit:
            root = await client.fetch_event(at.room, at.thread)
            messages += [root] if root is not None and event_time_ms(root) > after else []
        decoded = [await self._decode_event(at, event) for event in reversed(messages)]
        return [message for message in decoded if message is not None][-limit:]

    async def _decode_event(self, at: ChatAddress, event: MatrixEvent) -> IncomingMessage | None:
        assert self._sync_loop is not None, "the channel is started"
        place = MatrixEventRoom(self.name, at.room, await self._room_cache.is_direct(at.room))
        name = await self._room_cache.display_name(at.room, event.sender)
        message = decode_message(event, self._sync_loop.identity, place, name, include_notices=True)
        return msgspec.structs.replace(message, address=at) if message is not None else None

    async def search(self, at: ChatAddress, query: str, limit: int) -> Sequence[RoomMessage]:
        _check_ids(at)
        criteria = {
            "search_term": query,
            "keys": ["content.body"],
            "order_by": "recent",
            "filter": {"rooms": [at.room], "types": ["m.room.message"], "limit": limit},
        }
        request = RawMatrixRequest(
            path=("search",), body={"search_categories": {"room_events": criteria}}, method="POST"
        )
        answer = await self._connected_client().request(request, _MatrixSearchResponse)
        hits = []
        for result in answer.search_categories.room_events.results:
            event = decode_json(result.result, MatrixEvent, MatrixEvent(type=""))
            if (message := await self._decode_event(ChatAddress(self.name, at.room), event)) is not None:
                hits.append(RoomMessage(author=message.name, at=message.at, text=message.full_text, id=message.id))
        return hits[:limit]

    def format(self, text: str) -> str:
        return strip_control_chars(text)

    def asgi_app(self) -> Any:
        return None


def _build_content(text: str) -> dict[str, Any]:
    """Return a message's content: Markdown, and HTML if both fit. Empty `m.mentions` keep it from notifying users."""
    text = strip_control_chars(text)
    content: dict[str, Any] = {"msgtype": "m.text", "body": text, "m.mentions": {}}
    html = markdown_to_html(text)
    if html and len(msgspec.json.encode((text, html))) <= CONTENT_BYTES_MAX:
        content |= {"format": "org.matrix.custom.html", "formatted_body": html}
    return content


def _check_ids(to: ChatAddress, id: str = "$") -> None:
    """Raise DeliveryRejected unless these are ids of a room and events: an address may come from the model or a user,
    and must not lead to another path on the homeserver."""
    if not to.room.startswith("!") or (to.thread and not to.thread.startswith("$")) or not id.startswith("$"):
        raise DeliveryRejected(f"{str(to)[:100]!r} is not a Matrix room")


class _MatrixSearchResult(msgspec.Struct, frozen=True):
    result: msgspec.Raw = msgspec.Raw(b"{}")


class _MatrixSearchResults(msgspec.Struct, frozen=True):
    results: list[_MatrixSearchResult] = []


class _MatrixSearchCategories(msgspec.Struct, frozen=True):
    room_events: _MatrixSearchResults = _MatrixSearchResults()


class _MatrixSearchResponse(msgspec.Struct, frozen=True):
    search_categories: _MatrixSearchCategories = _MatrixSearchCategories()


def build_matrix_channel(name: str, settings: MatrixSettings, context: ChannelFactoryContext) -> MatrixChannel:
    account = MatrixCredentials(
        homeserver=settings.homeserver, user=settings.user, token=settings.token, password=settings.password
    )
    context.state_path.parent.mkdir(mode=0o700, exist_ok=True)
    return MatrixChannel(
        name, account, state_path=str(context.state_path), is_inviter_allowed=context.is_inviter_allowed
    )
