"""An account on Signal as a channel, through signal-cli's daemon (`signal-cli daemon --tcp` or `--socket`).

Start the daemon with `--receive-mode=manual` (or `on-connection`): by itself it also receives while nobody is
connected, and what it receives then is lost.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import mimetypes
import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from mainstay.channels.layout import clean, lay_out
from mainstay.channels.local_files import keep_file, read_file
from mainstay.channels.signal.envelopes import TIME_MAX, Account, read
from mainstay.channels.signal.inbox import Inbox
from mainstay.channels.signal.markup import styled
from mainstay.channels.signal.rpc import Connection, Lost, NotConnected, Refused, connect
from mainstay.channels.signal.trouble import trouble_of
from mainstay.channels.telling import growing
from mainstay.core.addresses import Address
from mainstay.core.channels import Attached, ChannelError, Hear, Incoming, MaybeSent, NeverSent, NotSent, Sent, Shows
from mainstay.core.errors import ConfigError
from mainstay.core.outside import Said

CALL_S = 60.0
UPLOAD_S = 180.0
BUSY_S = 5.0
PULSE_S = 120.0
REVISIONS_MAX = 1000
INVALID_PARAMS = -32602

_NUMBER = re.compile(r"\+[0-9]{5,17}")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PLACE = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s/:\[\]]+):[0-9]{1,5}")
_SHOWS = Shows(
    markup="some",
    length=2000,  # what is longer is folded away by its clients
    edits=True,
    deletes=True,
    files=True,
    typing=True,
    edit_every_s=6.0,  # every edit is a message to each device of each member
)


class SignalChannel:
    """People are known by their account's id (a UUID), which stays the same when their number changes or is hidden."""

    kind = "signal"

    def __init__(self, name: str, address: str, *, user: str = "") -> None:
        """`user`: the account's number, or its id; needed to know what is meant for us in a group, and where the daemon
        has several accounts."""
        if "/" not in address and not (_PLACE.fullmatch(address) and int(address.rpartition(":")[2]) < 65536):
            raise ConfigError(f"channels.{name}.address is neither host:port nor the path of a socket.")
        if not (_NUMBER.fullmatch(user) or _UUID.fullmatch(user)):
            raise ConfigError(f"channels.{name}.user is no number of a Signal account, such as +15550100100.")
        self.name = name
        self._address = address
        self._user = user
        self._me = Account(number="" if _UUID.fullmatch(user) else user, uuid=user if _UUID.fullmatch(user) else "")
        self._asked = False  # who we are
        self._state = "not started"
        self._connection: Connection | None = None
        self._inbox: Inbox | None = None
        self._running: asyncio.Task[None] | None = None
        self._revisions: OrderedDict[int, int] = OrderedDict()  # what a message was last edited to

    @property
    def shows(self) -> Shows:
        return _SHOWS

    @property
    def state(self) -> str:
        return self._state

    # --- listening -------------------------------------------------------------------------------

    async def start(self, hear: Hear) -> None:
        lay_out("")  # what that needs is missing now, or never
        self._inbox = Inbox(hear)
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running = asyncio.create_task(self._run(ready))
        try:
            await ready
        except BaseException:
            await self.close()
            raise

    async def _run(self, ready: asyncio.Future[None]) -> None:
        """Connected, and connected again, for ever."""
        tries = 0
        while True:
            try:
                connection = await connect(self._address)
            except (OSError, ValueError):
                self._report("signal-cli cannot be reached")
            else:
                if await self._serve(connection, ready):
                    tries = 0
            if ready.done() and ready.exception():
                return
            await asyncio.sleep(growing(tries))
            tries += 1

    async def _serve(self, connection: Connection, ready: asyncio.Future[None]) -> bool:
        """Until the connection is lost. False if it was of no use."""
        listening = asyncio.create_task(connection.listen(self._notify))
        try:
            await connection.request("subscribeReceive", {"account": self._user}, CALL_S)
            self._connection = connection
            self._report("connected")
            if not ready.done():
                ready.set_result(None)
            await self._learn(connection)
            while not (await asyncio.wait([listening], timeout=PULSE_S))[0]:
                await self._feel(connection)
            return True
        except Refused as error:
            self._report(f"signal-cli refuses: {error}")
            if error.code == INVALID_PARAMS and not ready.done():
                ready.set_exception(
                    ConfigError(f"channels.{self.name}: signal-cli does not have this account: {error}.")
                )
            return False
        except (Lost, NotConnected):
            return False
        finally:
            self._connection = None
            connection.close()
            listening.cancel()
            await asyncio.wait([listening])
            if self._state == "connected":
                self._report("the connection to signal-cli was lost")

    async def _feel(self, connection: Connection) -> None:
        """A daemon that has vanished without a word does not answer; one that has nothing to say does."""
        try:
            if self._inbox is not None and not self._inbox.full:  # else we do not read what it answers
                await connection.request("version", {}, CALL_S)
        except Refused:
            pass

    async def _learn(self, connection: Connection) -> None:
        """Our other name, once: we may be mentioned by either. A courtesy, so without it we go on."""
        if self._asked:
            return
        self._asked = True
        try:
            told = await connection.request("getUserStatus", {"account": self._user, "recipient": [self._user]}, BUSY_S)
        except (Refused, Lost, NotConnected):
            return
        known = told[0] if isinstance(told, list) and told and isinstance(told[0], dict) else {}
        number, uuid = known.get("number"), known.get("uuid")
        self._me = Account(
            number=self._me.number or (number if isinstance(number, str) else ""),
            uuid=self._me.uuid or (uuid if isinstance(uuid, str) else ""),
        )

    async def _notify(self, method: str, params: Any) -> None:
        if method == "receive" and self._inbox is not None:
            message = read(self.name, self._me, params)
            if message is not None and not message.own:
                await self._inbox.put(message)

    def _report(self, state: str) -> None:
        if self._inbox is not None:
            self._state = state

    async def close(self) -> None:
        self._state = "closed"
        inbox, self._inbox = self._inbox, None
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.wait([running])
        if inbox is not None:
            await inbox.close()

    def app(self) -> Any:
        return None

    # --- speaking --------------------------------------------------------------------------------

    async def post(self, to: Address, text: str, *, key: str) -> Sent:
        return _sent(await self._ask("send", {**_where(to), **_message(text)}))

    async def find(self, to: Address, key: str) -> Sent | None:
        return None  # nothing can be looked up

    async def edit(self, to: Address, id: str, text: str) -> None:
        first = _time(id)
        edited = self._revisions.get(first, first)
        sent = _sent(await self._ask("send", {**_where(to), **_message(text), "editTimestamp": edited}))
        self._revisions[first] = _time(sent.id)
        if len(self._revisions) > REVISIONS_MAX:
            self._revisions.popitem(last=False)

    async def delete(self, to: Address, id: str) -> None:
        await self._ask("remoteDelete", {**_where(to), "targetTimestamp": _time(id)})

    async def upload(self, to: Address, path: str, name: str, comment: str, *, key: str) -> Sent:
        """The content goes along: the daemon may be elsewhere, or not allowed to read our files."""
        mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
        content = base64.b64encode(await read_file(path, _SHOWS.file_bytes_max)).decode()
        file = f"data:{mime};filename={quote(clean(name), safe='')};base64,{content}"
        return _sent(await self._ask("send", {**_where(to), **_message(comment), "attachments": [file]}, UPLOAD_S))

    async def typing(self, to: Address, note: str = "") -> None:
        try:
            await self._ask("sendTyping", _where(to), BUSY_S)
        except ChannelError:
            pass  # nobody misses it

    async def download(self, file: Attached, target: str, bytes_max: int) -> str:
        if file.size > bytes_max:
            raise NeverSent("The file is larger than allowed.")
        told = await self._ask("getAttachment", {"id": file.ref}, UPLOAD_S)
        data = told.get("data") if isinstance(told, dict) else None
        try:
            content = base64.b64decode(data if isinstance(data, str) else "?", validate=True)
        except (binascii.Error, ValueError):
            raise NeverSent("signal-cli does not give the file.") from None
        if len(content) > bytes_max:
            raise NeverSent("The file is larger than allowed.")
        await keep_file(content, target)
        return file.mime or mimetypes.guess_type(file.name)[0] or "application/octet-stream"

    async def history(self, at: Address, after: int, limit: int) -> Sequence[Incoming]:
        return ()  # nothing is kept anywhere but on devices; what was heard is in the log

    async def search(self, at: Address, query: str, limit: int) -> Sequence[Said]:
        return ()

    def format(self, text: str) -> str:
        return clean(text)  # as it is posted it becomes text and styles, which are beside it and not in it

    async def _ask(self, method: str, params: dict[str, Any], time_s: float = CALL_S) -> Any:
        if self._connection is None:
            raise NotSent(f"{self.name} is not connected: {self._state}.")
        try:
            return await self._connection.request(method, {"account": self._user, **params}, time_s)
        except (Refused, Lost, NotConnected) as error:
            raise trouble_of(error) from None


def _where(to: Address) -> dict[str, Any]:
    if _UUID.fullmatch(to.room) or _NUMBER.fullmatch(to.room):
        return {"recipient": [to.room]}
    return {"groupId": to.room}


def _message(markdown: str) -> dict[str, Any]:
    made = styled(clean(markdown))
    return {"message": made.text, **({"textStyle": list(made.styles)} if made.styles else {})}


def _sent(told: Any) -> Sent:
    time = told.get("timestamp") if isinstance(told, dict) else None
    if type(time) is not int:
        raise MaybeSent("signal-cli's answer says nothing about what was sent.")
    return Sent(id=str(time))


def _time(id: str) -> int:
    """Messages are known by when they were sent."""
    if not re.fullmatch(r"[0-9]{1,16}", id) or int(id) >= TIME_MAX:
        raise NeverSent("This is no message of ours.")
    return int(id)
