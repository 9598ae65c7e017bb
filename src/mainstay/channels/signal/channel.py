"""Signal channel: an account, through the signal-cli daemon (`signal-cli daemon --tcp` or `--socket`).

Start the daemon with `--receive-mode=manual` (or `on-connection`): by default it also receives while no client is
connected, and those messages are lost.
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

from mainstay.channels.attachment_files import read_file, write_new_file
from mainstay.channels.incoming_dispatch import compute_backoff_s
from mainstay.channels.signal.client import (
    SignalClient,
    SignalNotConnected,
    SignalRequestRefused,
    SignalResponseLost,
    connect,
)
from mainstay.channels.signal.error_mapper import to_channel_error
from mainstay.channels.signal.events import TIMESTAMP_MAX, SignalIdentity, decode_message
from mainstay.channels.signal.inbox import SignalInbox
from mainstay.channels.signal.manifest import SignalSettings
from mainstay.channels.signal.markup import markdown_to_signal
from mainstay.channels.styled_text import markdown_to_spans, strip_control_chars
from mainstay.core.channel_settings import ChannelFactoryContext
from mainstay.core.channels import (
    ChannelCapabilities,
    ChannelError,
    DeliveryDeferred,
    DeliveryRejected,
    DeliveryUnknown,
    IncomingFile,
    IncomingMessage,
    MessageHandler,
    SentMessage,
)
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import ConfigError
from mainstay.core.tool_ports import RoomMessage

REQUEST_TIMEOUT_S = 60.0
UPLOAD_TIMEOUT_S = 180.0
TYPING_TIMEOUT_S = 5.0
HEALTH_CHECK_INTERVAL_S = 120.0
EDITS_REMEMBERED_MAX = 1000
INVALID_PARAMS_CODE = -32602

_PHONE_NUMBER = re.compile(r"\+[0-9]{5,17}")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_HOST_AND_PORT = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s/:\[\]]+):[0-9]{1,5}")
_CAPABILITIES = ChannelCapabilities(
    markup="some",
    length_max=2000,  # Signal's clients collapse longer messages
    edits=True,
    deletes=True,
    files=True,
    typing=True,
    edit_interval_s=6.0,  # each edit is sent to every device of every member
)


class SignalChannel:
    """Users are identified by their account id (a UUID), which stays the same when a number changes or is hidden."""

    kind = "signal"

    def __init__(self, name: str, address: str, *, user: str = "") -> None:
        """`user` is the account's phone number or id. It is needed to recognise mentions in groups, and to select the
        account of a daemon that has several."""
        if "/" not in address and not (_HOST_AND_PORT.fullmatch(address) and int(address.rpartition(":")[2]) < 65536):
            raise ConfigError(f"channels.{name}.address is neither host:port nor the path of a socket.")
        if not (_PHONE_NUMBER.fullmatch(user) or _UUID.fullmatch(user)):
            raise ConfigError(
                f"channels.{name}.user must be a Signal account's number, such as +15550100100, or its id."
            )
        self.name = name
        self._address = address
        self._user = user
        self.account = user  # for display
        self._identity = SignalIdentity(
            number="" if _UUID.fullmatch(user) else user, uuid=user if _UUID.fullmatch(user) else ""
        )
        self._identity_requested = False  # whether the account's other identifier was requested
        self._state = "not started"
        self._client: SignalClient | None = None
        self._inbox: SignalInbox | None = None
        self._run_task: asyncio.Task[None] | None = None
        # timestamp of a message -> timestamp of its latest edit
        self._latest_edits: OrderedDict[int, int] = OrderedDict()

    @property
    def capabilities(self) -> ChannelCapabilities:
        return _CAPABILITIES

    @property
    def state(self) -> str:
        return self._state

    # --- receiving -------------------------------------------------------------------------------

    async def start(self, on_message: MessageHandler) -> None:
        markdown_to_spans("")  # raises ConfigError now if its library is missing
        self._inbox = SignalInbox(on_message)
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._run_task = asyncio.create_task(self._run(ready))
        try:
            await ready
        except BaseException:
            await self.close()
            raise

    async def _run(self, ready: asyncio.Future[None]) -> None:
        """Connect, and reconnect with backoff, until cancelled or the account is refused."""
        attempts = 0
        while True:
            try:
                client = await connect(self._address)
            except (OSError, ValueError):
                self._set_state("signal-cli cannot be reached")
            else:
                if await self._receive(client, ready):
                    attempts = 0
            if ready.done() and ready.exception():
                return
            await asyncio.sleep(compute_backoff_s(attempts))
            attempts += 1

    async def _receive(self, client: SignalClient, ready: asyncio.Future[None]) -> bool:
        """Subscribe and receive until the connection is lost. Return False if it could not be used."""
        listening = asyncio.create_task(client.listen(self._handle_notification))
        try:
            await client.request("subscribeReceive", {"account": self._user}, REQUEST_TIMEOUT_S)
            self._client = client
            self._set_state("connected")
            if not ready.done():
                ready.set_result(None)
            await self._fetch_identity(client)
            while not (await asyncio.wait([listening], timeout=HEALTH_CHECK_INTERVAL_S))[0]:
                await self._check_health(client)
            return True
        except SignalRequestRefused as error:
            self._set_state(f"signal-cli refuses: {error}")
            if error.code == INVALID_PARAMS_CODE and not ready.done():
                ready.set_exception(
                    ConfigError(f"channels.{self.name}: signal-cli does not have this account: {error}.")
                )
            return False
        except (SignalResponseLost, SignalNotConnected):
            return False
        finally:
            self._client = None
            client.close()
            listening.cancel()
            await asyncio.wait([listening])
            if self._state == "connected":
                self._set_state("the connection to signal-cli was lost")

    async def _check_health(self, client: SignalClient) -> None:
        """Check that the daemon still responds, since a lost host closes no connection. Raises SignalResponseLost."""
        try:
            if self._inbox is not None and not self._inbox.is_full:  # while it is full, no responses are read
                await client.request("version", {}, REQUEST_TIMEOUT_S)
        except SignalRequestRefused:
            pass

    async def _fetch_identity(self, client: SignalClient) -> None:
        """Fetch the account's other identifier (number or id) once, for mentions by either. Failures are ignored."""
        if self._identity_requested:
            return
        self._identity_requested = True
        try:
            statuses = await client.request(
                "getUserStatus", {"account": self._user, "recipient": [self._user]}, TYPING_TIMEOUT_S
            )
        except (SignalRequestRefused, SignalResponseLost, SignalNotConnected):
            return
        status = statuses[0] if isinstance(statuses, list) and statuses and isinstance(statuses[0], dict) else {}
        number, uuid = status.get("number"), status.get("uuid")
        self._identity = SignalIdentity(
            number=self._identity.number or (number if isinstance(number, str) else ""),
            uuid=self._identity.uuid or (uuid if isinstance(uuid, str) else ""),
        )

    async def _handle_notification(self, method: str, params: Any) -> None:
        if method == "receive" and self._inbox is not None:
            message = decode_message(self.name, self._identity, params)
            if message is not None and not message.own:
                await self._inbox.put(message)

    def _set_state(self, state: str) -> None:
        if self._inbox is not None:
            self._state = state

    async def close(self) -> None:
        self._state = "closed"
        inbox, self._inbox = self._inbox, None
        running, self._run_task = self._run_task, None
        if running is not None:
            running.cancel()
            await asyncio.wait([running])
        if inbox is not None:
            await inbox.close()

    def asgi_app(self) -> Any:
        return None

    # --- sending ---------------------------------------------------------------------------------

    async def post(self, to: ChatAddress, text: str, *, key: str) -> SentMessage:
        return _to_receipt(await self._request("send", {**_recipient_params(to), **_message_params(text)}))

    async def find_posted(self, to: ChatAddress, key: str) -> SentMessage | None:
        return None  # signal-cli cannot look up messages

    async def edit(self, to: ChatAddress, id: str, text: str) -> None:
        first = _parse_timestamp(id)
        latest = self._latest_edits.get(first, first)
        sent = _to_receipt(
            await self._request("send", {**_recipient_params(to), **_message_params(text), "editTimestamp": latest})
        )
        self._latest_edits[first] = _parse_timestamp(sent.id)
        if len(self._latest_edits) > EDITS_REMEMBERED_MAX:
            self._latest_edits.popitem(last=False)

    async def delete(self, to: ChatAddress, id: str) -> None:
        await self._request("remoteDelete", {**_recipient_params(to), "targetTimestamp": _parse_timestamp(id)})

    async def upload(self, to: ChatAddress, path: str, name: str, comment: str, *, key: str) -> SentMessage:
        """Send the content inline: the daemon may run on another host, or not be allowed to read our files."""
        mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
        content = base64.b64encode(await read_file(path, _CAPABILITIES.file_bytes_max)).decode()
        file = f"data:{mime};filename={quote(strip_control_chars(name), safe='')};base64,{content}"
        return _to_receipt(
            await self._request(
                "send", {**_recipient_params(to), **_message_params(comment), "attachments": [file]}, UPLOAD_TIMEOUT_S
            )
        )

    async def show_typing(self, to: ChatAddress, note: str = "") -> None:
        try:
            await self._request("sendTyping", _recipient_params(to), TYPING_TIMEOUT_S)
        except ChannelError:
            pass  # the typing indicator is optional

    async def download(self, file: IncomingFile, target: str, bytes_max: int) -> str:
        if file.size > bytes_max:
            raise DeliveryRejected("The file is larger than allowed.")
        response = await self._request("getAttachment", {"id": file.ref}, UPLOAD_TIMEOUT_S)
        data = response.get("data") if isinstance(response, dict) else None
        try:
            content = base64.b64decode(data if isinstance(data, str) else "?", validate=True)
        except (binascii.Error, ValueError):
            raise DeliveryRejected("signal-cli did not return the file.") from None
        if len(content) > bytes_max:
            raise DeliveryRejected("The file is larger than allowed.")
        await write_new_file(content, target)
        return file.mime or mimetypes.guess_type(file.name)[0] or "application/octet-stream"

    async def history(self, at: ChatAddress, after: int, limit: int) -> Sequence[IncomingMessage]:
        return ()  # Signal stores messages on devices only; the gateway's log has those it received

    async def search(self, at: ChatAddress, query: str, limit: int) -> Sequence[RoomMessage]:
        return ()

    def format(self, text: str) -> str:
        return strip_control_chars(text)  # `post` converts it: Signal takes styles separately from the text

    async def _request(self, method: str, params: dict[str, Any], timeout_s: float = REQUEST_TIMEOUT_S) -> Any:
        if self._client is None:
            raise DeliveryDeferred(f"{self.name} is not connected: {self._state}.")
        try:
            return await self._client.request(method, {"account": self._user, **params}, timeout_s)
        except (SignalRequestRefused, SignalResponseLost, SignalNotConnected) as error:
            raise to_channel_error(error) from None


def _recipient_params(to: ChatAddress) -> dict[str, Any]:
    if _UUID.fullmatch(to.room) or _PHONE_NUMBER.fullmatch(to.room):
        return {"recipient": [to.room]}
    return {"groupId": to.room}


def _message_params(markdown: str) -> dict[str, Any]:
    styled_text = markdown_to_signal(strip_control_chars(markdown))
    return {"message": styled_text.text, **({"textStyle": list(styled_text.styles)} if styled_text.styles else {})}


def _to_receipt(response: Any) -> SentMessage:
    time = response.get("timestamp") if isinstance(response, dict) else None
    if type(time) is not int:
        raise DeliveryUnknown("signal-cli's answer does not identify the sent message.")
    return SentMessage(id=str(time))


def _parse_timestamp(id: str) -> int:
    """Return the timestamp that is a message's id. Raises DeliveryRejected if it is not one."""
    if not re.fullmatch(r"[0-9]{1,16}", id) or int(id) >= TIMESTAMP_MAX:
        raise DeliveryRejected("This message was not sent by this account.")
    return int(id)


def build_signal_channel(name: str, settings: SignalSettings, context: ChannelFactoryContext) -> SignalChannel:
    return SignalChannel(name, settings.address, user=settings.user)
