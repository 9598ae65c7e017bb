"""Matrix homeserver client, over matrix-nio, with its failures mapped to ChannelErrors.

Sending uses nio's own methods. Received events are decoded by us (events.py): nio would keep every member of every room
in memory, and rejects a whole response for one malformed event.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from mainstay.channels.matrix.events import MXC_URI, MatrixEvent, MatrixEventPage, MatrixSyncResponse
from mainstay.core.channels import ChannelError, DeliveryDeferred, DeliveryRejected, DeliveryUnknown
from mainstay.core.errors import ConfigError
from mainstay.core.surrogates import decode_repaired
from mainstay.core.worker_threads import run_in_thread

T = TypeVar("T")
REQUEST_TIMEOUT_S = 30.0
MEDIA_TIMEOUT_S = 300.0
SYNC_WAIT_S = 30.0
SYNC_EXTRA_TIMEOUT_S = 30.0  # how much longer than the sync timeout a busy server may take
CONNECT_TIMEOUT_S = 15.0
RESPONSE_BYTES_MAX = 64 * 1024 * 1024
RETRY_AFTER_MAX_S = 3_600.0
WAIT_MS_MAX = 1e15  # a larger number is none
CHUNK_BYTES = 64 * 1024
CLIENT_V3_PATH = "/_matrix/client/v3"
CLIENT_V1_PATH = "/_matrix/client/v1"
REJECTED_CODES = (
    "M_FORBIDDEN",
    "M_NOT_FOUND",
    "M_UNKNOWN_ROOM",
    "M_TOO_LARGE",
    "M_INVALID_PARAM",
    "M_BAD_JSON",
    "M_NOT_JSON",
)
LOGGED_OUT_CODES = ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN")
EVENT_TYPES = ("m.room.message", "m.room.encrypted", "m.room.member")
TIMELINE_EVENTS_MAX = 20  # events per room in one sync response; the others are fetched separately


class MatrixLoggedOut(DeliveryDeferred):
    """The token is not, or no longer, accepted."""


class MatrixCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials of an account: a token, or a password that obtains one."""

    homeserver: str
    user: str = ""
    token: str = ""
    password: str = ""


class RawMatrixRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose response is decoded by us instead of nio."""

    path: tuple[str, ...]
    query: Mapping[str, str] = {}
    body: Any = None
    base_path: str = CLIENT_V3_PATH
    method: str = "GET"

    @property
    def target(self) -> str:
        path = "/".join(quote(part, safe="") for part in self.path)
        return f"{self.base_path}/{path}?{urlencode(self.query)}" if self.query else f"{self.base_path}/{path}"


class _MatrixErrorBody(msgspec.Struct, frozen=True):
    errcode: str = ""
    error: str = ""
    retry_after_ms: float | None = None


def import_nio() -> Any:
    """Import matrix-nio; raises ConfigError if it is not installed."""
    try:
        import nio  # type: ignore[import-untyped]
    except ImportError:
        raise ConfigError("Matrix needs matrix-nio: pip install -e '.[matrix]'") from None
    return nio


class MatrixClient:
    """Client for one device of one account. Its methods raise ChannelErrors."""

    def __init__(self, url: str) -> None:
        self._nio = import_nio()
        config = self._nio.AsyncClientConfig(
            max_limit_exceeded=0, max_timeouts=0, request_timeout=REQUEST_TIMEOUT_S, encryption_enabled=False
        )
        self.nio_client: Any = self._nio.AsyncClient(url.rstrip("/"), config=config)

    def set_credentials(self, user: str, device: str, token: str) -> None:
        self.nio_client.user_id, self.nio_client.device_id, self.nio_client.access_token = user, device, token

    async def close(self) -> None:
        await self.nio_client.close()

    # --- requests through nio --------------------------------------------------------------------

    async def call_nio(self, request: Awaitable[Any], timeout_s: float = REQUEST_TIMEOUT_S) -> Any:
        """Await a call of nio and return its response."""
        answer = await _with_timeout(request, timeout_s)
        if not isinstance(answer, self._nio.ErrorResponse):
            return answer
        transport = answer.transport_response
        status = transport.status if transport is not None else 0
        raise to_channel_error(status, answer.status_code or "", answer.message, answer.retry_after_ms)

    async def upload(self, path: str, name: str, mime: str) -> str:
        """Upload a file and return its mxc:// URI."""
        try:
            file = await run_in_thread(lambda: open(path, "rb"))  # noqa: SIM115
        except OSError as error:
            raise DeliveryRejected(f"{name} cannot be read: {error.strerror or error}") from None
        with file:
            size = os.fstat(file.fileno()).st_size
            request = self.nio_client.upload(file, content_type=mime, filename=name, filesize=size)

            async def first() -> Any:
                return (await request)[0]

            return str((await self.call_nio(first(), MEDIA_TIMEOUT_S)).content_uri)

    # --- requests that are decoded here ----------------------------------------------------------

    async def request(self, request: RawMatrixRequest, target_type: type[T], timeout_s: float = REQUEST_TIMEOUT_S) -> T:
        return await _with_timeout(self._request_and_decode(request, target_type, timeout_s), timeout_s)

    async def _request_and_decode(self, request: RawMatrixRequest, target_type: type[T], timeout_s: float) -> T:
        async with await self._send(request, timeout_s) as response:
            raw = await _read_body(response, RESPONSE_BYTES_MAX)
            if response.status >= 300:
                raise _error_from_response(response, raw)
        try:
            return decode_repaired(raw, msgspec.json.Decoder(target_type).decode)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise DeliveryDeferred("the homeserver's answer cannot be parsed") from None

    async def _send(self, request: RawMatrixRequest, timeout_s: float) -> Any:
        from aiohttp import ClientTimeout

        data = None if request.body is None else msgspec.json.encode(request.body)
        headers = {"Authorization": f"Bearer {self.nio_client.access_token}", "Content-Type": "application/json"}
        timeout = ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S)
        return await self.nio_client.send(request.method, request.target, data, headers, None, timeout)

    async def sync(self, since: str, wait_s: float) -> MatrixSyncResponse:
        event_filter = {"types": EVENT_TYPES, "lazy_load_members": True, "include_redundant_members": True}
        filters = {
            "presence": {"types": []},
            "account_data": {"types": ["m.direct"]},
            "room": {
                "timeline": {**event_filter, "limit": TIMELINE_EVENTS_MAX if since else 1},
                "state": {**event_filter, "types": ["m.room.member"]},
                "ephemeral": {"types": []},
                "account_data": {"types": []},
            },
        }
        query = {"filter": msgspec.json.encode(filters).decode(), "timeout": str(int(wait_s * 1000))}
        request = RawMatrixRequest(path=("sync",), query={**query, "since": since} if since else query)
        return await self.request(request, MatrixSyncResponse, wait_s + SYNC_EXTRA_TIMEOUT_S)

    async def fetch_messages(self, room: str, start: str = "", until: str = "", limit: int = 100) -> MatrixEventPage:
        """Return a page of a room's events before `start`, newest first."""
        event_filter = {"types": EVENT_TYPES, "lazy_load_members": True}
        query = {"dir": "b", "limit": str(limit), "filter": msgspec.json.encode(event_filter).decode()}
        query |= {name: token for name, token in (("from", start), ("to", until)) if token}
        return await self.request(RawMatrixRequest(path=("rooms", room, "messages"), query=query), MatrixEventPage)

    async def fetch_thread(self, room: str, root: str, start: str = "", limit: int = 100) -> MatrixEventPage:
        """Return a page of a thread's events without its first, newest first."""
        query = {"dir": "b", "limit": str(limit), **({"from": start} if start else {})}
        path = ("rooms", room, "relations", root, "m.thread")
        return await self.request(RawMatrixRequest(path=path, query=query, base_path=CLIENT_V1_PATH), MatrixEventPage)

    async def fetch_event(self, room: str, id: str) -> MatrixEvent | None:
        try:
            return await self.request(RawMatrixRequest(path=("rooms", room, "event", id)), MatrixEvent)
        except DeliveryRejected:
            return None

    async def download(self, ref: str, target: str, bytes_max: int) -> str:
        """Download into a new file and return its MIME type. The homeserver fetches media of other servers itself."""
        match = MXC_URI.fullmatch(ref)
        if match is None:
            raise DeliveryRejected("this is not a file on a Matrix homeserver")
        request = RawMatrixRequest(path=("media", "download", match[1], match[2]), base_path=CLIENT_V1_PATH)
        return await _with_timeout(self._download(request, target, bytes_max), MEDIA_TIMEOUT_S)

    async def _download(self, request: RawMatrixRequest, target: str, bytes_max: int) -> str:
        async with await self._send(request, MEDIA_TIMEOUT_S) as response:
            if response.status >= 300:
                raise _error_from_response(response, await _read_body(response, CHUNK_BYTES))
            if (response.content_length or 0) > bytes_max:
                raise DeliveryRejected(f"the file is larger than {bytes_max} bytes")
            try:
                await _stream_to_file(response, target, bytes_max)
            except OSError as error:
                raise DeliveryDeferred(f"the file cannot be stored: {error.strerror or error}") from None
            return str(response.content_type or "")


async def _stream_to_file(response: Any, target: str, bytes_max: int) -> None:
    file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    is_complete = False
    try:
        with os.fdopen(file, "wb") as out:
            received = 0
            async for piece in response.content.iter_chunked(CHUNK_BYTES):
                received += len(piece)
                if received > bytes_max:
                    raise DeliveryRejected(f"the file is larger than {bytes_max} bytes")
                out.write(piece)
        is_complete = True
    finally:
        if not is_complete:
            os.unlink(target)


async def _read_body(response: Any, bytes_max: int) -> bytes:
    raw = bytearray()
    async for piece in response.content.iter_chunked(CHUNK_BYTES):
        raw += piece
        if len(raw) > bytes_max:
            raise DeliveryDeferred("the homeserver's answer is too long")
    return bytes(raw)


# --- errors --------------------------------------------------------------------------------------


async def _with_timeout(request: Awaitable[T], timeout_s: float) -> T:
    """Await a request with a timeout. Raises only ChannelErrors."""
    from aiohttp import ClientConnectorError, ClientError

    try:
        async with asyncio.timeout(timeout_s):
            return await request
    except ClientConnectorError as error:
        raise DeliveryDeferred(f"the homeserver cannot be reached: {error.strerror or 'no connection'}") from None
    except TimeoutError:
        raise DeliveryUnknown(f"the homeserver did not answer within {timeout_s:g} s") from None
    except (ClientError, OSError, ValueError) as error:
        raise DeliveryUnknown(f"the connection to the homeserver was lost ({type(error).__name__})") from None


def _error_from_response(response: Any, raw: bytes) -> ChannelError:
    try:
        body = msgspec.json.decode(raw, type=_MatrixErrorBody)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        body = _MatrixErrorBody()
    return to_channel_error(response.status, body.errcode, body.error, body.retry_after_ms)


def to_channel_error(status: int, code: str, reason: str, retry_after_ms: float | None) -> ChannelError:
    """Map an error response to the error that says whether the message was sent."""
    sentence = f"the homeserver answered with {code or status}: {' '.join(reason.split())[:200]}"
    if code in LOGGED_OUT_CODES or status == 401:
        return MatrixLoggedOut(sentence)
    if code == "M_LIMIT_EXCEEDED" or status == 429:
        wait_s = 5.0
        if isinstance(retry_after_ms, int | float) and abs(retry_after_ms) <= WAIT_MS_MAX:  # not NaN either
            wait_s = retry_after_ms / 1000
        return DeliveryDeferred(sentence, retry_after_s=min(max(wait_s, 0.05), RETRY_AFTER_MAX_S))
    if code in REJECTED_CODES or (400 <= status < 500 and status != 408):
        return DeliveryRejected(sentence)
    return DeliveryUnknown(sentence)  # a server error: the request may have been executed
