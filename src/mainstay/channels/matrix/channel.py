"""A Matrix account as a chat channel."""

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

from mainstay.channels.matrix.events import Event, Place, direct_rooms, events_of, message_of, read, thread_of, time_of
from mainstay.channels.matrix.homeserver import Account, Asked, Homeserver, LoggedOut
from mainstay.channels.matrix.kept import KeptFile
from mainstay.channels.matrix.listening import Listener, Welcome
from mainstay.channels.matrix.markup import clean, html_of
from mainstay.channels.matrix.rooms import Rooms
from mainstay.channels.telling import growing
from mainstay.core.addresses import Address
from mainstay.core.channels import Attached, ChannelError, Hear, Incoming, NeverSent, NotSent, Sent, Shows
from mainstay.core.errors import ConfigError
from mainstay.core.outside import Said
from mainstay.core.workers import in_thread
from mainstay.io.addresses import AddressRefused, place_of

LENGTH = 12_000  # an event has 64 KiB at most, and may hold the text twice
CONTENT_BYTES_MAX = 60_000
FILE_BYTES_MAX = 50 * 1024 * 1024  # where the homeserver says nothing else; it has the last word
TYPING_MS = 8_000
TYPING_S = 5.0
PAGES_MAX = 10
DEVICE = "mainstay"
ENCRYPTED = "This room is encrypted end to end, which I cannot read: please talk to me in one that is not."


class MatrixChannel:
    """`state` is the file that says which device this is and how far it has read; `welcome` says whose invitations are
    accepted. With a password it logs in once, and again only when its token is not accepted any more."""

    kind = "matrix"
    shows = Shows(
        markup="markdown",
        length=LENGTH,
        edits=True,
        deletes=True,
        files=True,
        typing=True,
        threads=True,
        history=True,
        search=True,
        once="key",
        file_bytes_max=FILE_BYTES_MAX,
    )

    def __init__(self, name: str, account: Account, *, state: str, welcome: Welcome) -> None:
        try:
            place_of(account.homeserver)
        except AddressRefused as error:
            raise ConfigError(f"{name}: homeserver: {error}") from None
        if not account.token and not (account.user and account.password):
            raise ConfigError(f"{name}: Matrix needs a token, or a user and a password")
        self.name = name
        self._account = account
        self._file = KeptFile(state)
        self._welcome = welcome
        self._listener: Listener | None = None
        self._running: asyncio.Task[None] | None = None
        self._homeserver: Homeserver | None = None
        self._trouble = "not started"

    @property
    def account(self) -> str:
        """Who we are there, once connected; for people."""
        return self._listener.us.user if self._listener is not None else ""

    @property
    def state(self) -> str:
        trouble = self._listener.trouble if self._listener is not None and not self._trouble else self._trouble
        if not trouble and (self._running is None or self._running.done()):
            trouble = "it stopped listening"
        return trouble or "connected"

    # --- coming and going ------------------------------------------------------------------------

    async def start(self, hear: Hear) -> None:
        if self._homeserver is not None:
            raise ConfigError(f"{self.name} was started before")
        kept = await in_thread(self._file.load)
        if (kept.homeserver, kept.user) != (self._account.homeserver, self._account.user):
            kept = type(kept)(homeserver=self._account.homeserver, user=self._account.user)
        homeserver = self._homeserver = Homeserver(self._account.homeserver)
        html_of("")  # what is missing should be known now
        rooms = self._rooms = Rooms(homeserver)
        listener = self._listener = Listener(self.name, homeserver, rooms, self._file, kept)
        self._kept = kept
        try:
            await self._connect()
        except BaseException:
            await self.close()
            raise
        self._running = asyncio.create_task(
            listener.run(hear, self._welcome, self._login_again, self._cannot_read), name=f"matrix {self.name}"
        )
        self._trouble = ""

    async def _connect(self) -> None:
        """As often as it takes, unless it will never do."""
        tries = 0
        while True:
            try:
                await self._login()
                await self._begin()
                return
            except (LoggedOut, NeverSent) as error:
                raise ConfigError(f"{self.name}: the account cannot be used: {error}") from None
            except ChannelError as error:
                self._trouble = str(error)
                await asyncio.sleep(growing(tries))
                tries += 1

    async def _login(self) -> None:
        """With the token that is configured, or the one that is kept, or a new one."""
        homeserver, account, kept = self._ours(), self._account, self._kept
        if token := account.token or kept.token:
            homeserver.be(account.user, kept.device, token)
            try:
                who = await homeserver.say(homeserver.client.whoami())
            except LoggedOut:
                if account.token:
                    raise
            else:
                self._are(who.user_id, who.device_id or "", token)
                return
        homeserver.be("", kept.device, "")
        homeserver.client.user = account.user
        made = await homeserver.say(homeserver.client.login(account.password, device_name=DEVICE))
        kept.device, kept.token = made.device_id, made.access_token
        self._are(made.user_id, made.device_id, made.access_token)
        await self._save()

    def _are(self, user: str, device: str, token: str) -> None:
        account, kept = self._account, self._kept
        if account.user and account.user not in (user, user[1:].partition(":")[0], user.partition(":")[0]):
            raise ConfigError(f"{self.name}: the token is {user}'s, and not {account.user}'s")
        if kept.id != user:  # how far another has read says nothing
            kept.since, kept.told, kept.invitations = "", [], {}
        kept.id = user
        self._ours().be(user, device, token)

    async def _login_again(self) -> None:
        if self._account.token:
            return  # somebody has to configure another
        await self._login()

    async def _save(self) -> None:
        try:
            await self._file.save(self._kept)
        except OSError as error:
            raise ConfigError(f"{self.name}: its state cannot be kept: {error.strerror or error}") from None

    async def _begin(self) -> None:
        """Who we are, and from where on we listen: on the first start from now on."""
        homeserver, listener = self._ours(), self._listener
        assert listener is not None
        user = str(homeserver.client.user_id)
        called = (await homeserver.say(homeserver.client.get_displayname(user))).displayname
        listener.us = type(listener.us)(user, called or "")
        path = ("user", user, "account_data", "m.direct")
        try:
            raw = await homeserver.ask(Asked(path=path), msgspec.Raw)
            self._rooms.marked = direct_rooms(Event(type="m.direct", content=raw))
        except NeverSent:  # it has marked none
            pass
        if not self._kept.since:
            await listener.begin()

    async def close(self) -> None:
        self._trouble = "closed"
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        if self._homeserver is not None:
            await self._homeserver.close()

    def _ours(self) -> Homeserver:
        if self._homeserver is None or self._trouble == "closed":
            raise NotSent(f"{self.name} is not connected: {self._trouble}")
        return self._homeserver

    # --- saying ----------------------------------------------------------------------------------

    async def post(self, to: Address, text: str, *, key: str) -> Sent:
        return await self._post(to, _text(text), key)

    async def _post(self, to: Address, content: dict[str, Any], key: str) -> Sent:
        """The homeserver knows a transaction of this device by its id, and makes one event of it."""
        _check(to)
        if to.thread:
            latest = {"event_id": to.thread}
            content["m.relates_to"] = {
                "rel_type": "m.thread",
                "event_id": to.thread,
                "is_falling_back": True,
                "m.in_reply_to": latest,
            }
        homeserver = self._ours()
        transaction = f"ms{hashlib.sha256(key.encode()).hexdigest()[:40]}"
        asking = homeserver.client.room_send(to.room, "m.room.message", content, tx_id=transaction)
        id = str((await homeserver.say(asking)).event_id)
        if to.thread:
            return Sent(id=id, thread=to.thread)
        return Sent(id=id, thread="" if await self._is_direct(to.room) else id)

    async def _is_direct(self, room: str) -> bool:
        """It is posted by now, and no trouble of asking may hide that."""
        try:
            return await self._rooms.is_direct(room)
        except ChannelError:
            return False

    async def find(self, to: Address, key: str) -> Sent | None:
        return None

    async def edit(self, to: Address, id: str, text: str) -> None:
        _check(to, id)
        new = _text(text)
        content = {**new, "body": f"* {new['body']}", "m.new_content": new}
        content["m.relates_to"] = {"rel_type": "m.replace", "event_id": id}
        if len(msgspec.json.encode(content)) > CONTENT_BYTES_MAX:  # it holds the text four times
            content = {"msgtype": "m.text", "body": "*", "m.new_content": new, "m.relates_to": content["m.relates_to"]}
        homeserver = self._ours()
        await homeserver.say(homeserver.client.room_send(to.room, "m.room.message", content, tx_id=uuid.uuid4().hex))

    async def delete(self, to: Address, id: str) -> None:
        _check(to, id)
        homeserver = self._ours()
        await homeserver.say(homeserver.client.room_redact(to.room, id, tx_id=uuid.uuid4().hex))

    async def upload(self, to: Address, path: str, name: str, comment: str, *, key: str) -> Sent:
        _check(to)
        try:
            found = os.stat(path)
        except OSError as error:
            raise NeverSent(f"{name} cannot be read: {error.strerror or error}") from None
        size = found.st_size
        if not stat.S_ISREG(found.st_mode):
            raise NeverSent(f"{name} is no file that can be sent")
        if size > self.shows.file_bytes_max:
            raise NeverSent(f"{name} has {size} bytes: more than the {self.shows.file_bytes_max} that can be sent")
        mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
        url = await self._ours().upload(path, name, mime)
        kind = mime.partition("/")[0]
        content = _text(comment or name)
        content["msgtype"] = f"m.{kind}" if kind in ("image", "audio", "video") else "m.file"
        content |= {"url": url, "filename": name, "info": {"mimetype": mime, "size": size}}
        return await self._post(to, content, key)

    async def typing(self, to: Address, note: str = "") -> None:
        try:
            _check(to)
            homeserver = self._ours()
            await homeserver.say(homeserver.client.room_typing(to.room, True, TYPING_MS), TYPING_S)
        except ChannelError:
            pass  # it is a courtesy

    async def _cannot_read(self, room: str) -> None:
        await self.post(Address(self.name, room), ENCRYPTED, key=f"encrypted {room}")

    # --- what was said ---------------------------------------------------------------------------

    async def download(self, file: Attached, target: str, bytes_max: int) -> str:
        return await self._ours().download(file.ref, target, bytes_max)

    async def history(self, at: Address, after: int, limit: int) -> Sequence[Incoming]:
        _check(at)
        homeserver, found, start = self._ours(), list[Event](), ""
        for _ in range(PAGES_MAX):
            page = (
                await homeserver.thread(at.room, at.thread, start)
                if at.thread
                else await homeserver.messages(at.room, start)
            )
            events = [one for one in events_of(page.chunk) if at.thread or not thread_of(one)]
            found += [one for one in events if time_of(one) > after and one.type == "m.room.message"]
            start = page.next_batch or page.end
            if not start or not page.chunk or len(found) >= limit or any(time_of(one) <= after for one in events):
                break
        if at.thread and len(found) < limit:
            root = await homeserver.event(at.room, at.thread)
            found += [root] if root is not None and time_of(root) > after else []
        told = [await self._incoming(at, event) for event in reversed(found)]
        return [one for one in told if one is not None][-limit:]

    async def _incoming(self, at: Address, event: Event) -> Incoming | None:
        assert self._listener is not None, "it was started"
        place = Place(self.name, at.room, await self._rooms.is_direct(at.room))
        name = await self._rooms.name(at.room, event.sender)
        message = message_of(event, self._listener.us, place, name, notices=True)
        return msgspec.structs.replace(message, address=at) if message is not None else None

    async def search(self, at: Address, query: str, limit: int) -> Sequence[Said]:
        _check(at)
        wanted = {
            "search_term": query,
            "keys": ["content.body"],
            "order_by": "recent",
            "filter": {"rooms": [at.room], "types": ["m.room.message"], "limit": limit},
        }
        asked = Asked(path=("search",), body={"search_categories": {"room_events": wanted}}, method="POST")
        answer = await self._ours().ask(asked, _Searched)
        told = []
        for result in answer.search_categories.room_events.results:
            event = read(result.result, Event, Event(type=""))
            if (message := await self._incoming(Address(self.name, at.room), event)) is not None:
                told.append(Said(author=message.name, at=message.at, text=message.text, id=message.id))
        return told[:limit]

    def format(self, text: str) -> str:
        return clean(text)

    def app(self) -> Any:
        return None


def _text(text: str) -> dict[str, Any]:
    """As it is written, and as HTML where there is room for both. It calls nobody's attention, whatever it says."""
    text = clean(text)
    content: dict[str, Any] = {"msgtype": "m.text", "body": text, "m.mentions": {}}
    html = html_of(text)
    if html and len(msgspec.json.encode((text, html))) <= CONTENT_BYTES_MAX:
        content |= {"format": "org.matrix.custom.html", "formatted_body": html}
    return content


def _check(to: Address, id: str = "$") -> None:
    """An address may be somebody's word: it names a room and events, and no other path on the homeserver."""
    if not to.room.startswith("!") or (to.thread and not to.thread.startswith("$")) or not id.startswith("$"):
        raise NeverSent(f"{str(to)[:100]!r} is no room of Matrix")


class _Result(msgspec.Struct, frozen=True):
    result: msgspec.Raw = msgspec.Raw(b"{}")


class _Results(msgspec.Struct, frozen=True):
    results: list[_Result] = []


class _Categories(msgspec.Struct, frozen=True):
    room_events: _Results = _Results()


class _Searched(msgspec.Struct, frozen=True):
    search_categories: _Categories = _Categories()
