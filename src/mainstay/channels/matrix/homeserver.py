"""Requests to a homeserver, by matrix-nio, and what its refusals mean.

What we say goes through nio's own calls. What others said is decoded here (events.py): nio would hold every member of
every room in memory, and refuses a whole answer for one part of it that somebody malformed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from mainstay.channels.matrix.events import MXC, Event, Page, Synced
from mainstay.core.channels import ChannelError, MaybeSent, NeverSent, NotSent
from mainstay.core.errors import ConfigError
from mainstay.core.workers import in_thread

T = TypeVar("T")
REQUEST_S = 30.0
MEDIA_S = 300.0
SYNC_S = 30.0
SYNC_MORE_S = 30.0  # a busy server may take so much longer than it was asked to
CONNECT_S = 15.0
ANSWER_BYTES_MAX = 64 * 1024 * 1024
RETRY_MAX_S = 3_600.0
PIECE_BYTES = 64 * 1024
CLIENT = "/_matrix/client/v3"
CLIENT_V1 = "/_matrix/client/v1"
GONE = ("M_FORBIDDEN", "M_NOT_FOUND", "M_UNKNOWN_ROOM", "M_TOO_LARGE", "M_INVALID_PARAM", "M_BAD_JSON", "M_NOT_JSON")
LOGGED_OUT = ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN")
KINDS = ("m.room.message", "m.room.encrypted", "m.room.member")
TIMELINE = 20  # events of a room in one sync; what is more is fetched after it


class LoggedOut(NotSent):
    """The token is not accepted, or not any more."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Whose account it is: with a token, or with a password that makes one."""

    homeserver: str
    user: str = ""
    token: str = ""
    password: str = ""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose answer is decoded here."""

    path: tuple[str, ...]
    query: Mapping[str, str] = {}
    body: Any = None
    base: str = CLIENT
    method: str = "GET"

    @property
    def target(self) -> str:
        path = "/".join(quote(part, safe="") for part in self.path)
        return f"{self.base}/{path}?{urlencode(self.query)}" if self.query else f"{self.base}/{path}"


class _Refusal(msgspec.Struct, frozen=True):
    errcode: str = ""
    error: str = ""
    retry_after_ms: float | None = None


def library() -> Any:
    """nio, which not everybody has."""
    try:
        import nio  # type: ignore[import-untyped]
    except ImportError:
        raise ConfigError("Matrix needs matrix-nio: pip install -e '.[matrix]'") from None
    return nio


class Homeserver:
    """A connection to it, as one device of one account. Its methods raise ChannelErrors."""

    def __init__(self, url: str) -> None:
        self._nio = library()
        config = self._nio.AsyncClientConfig(
            max_limit_exceeded=0, max_timeouts=0, request_timeout=REQUEST_S, encryption_enabled=False
        )
        self.client: Any = self._nio.AsyncClient(url.rstrip("/"), config=config)

    def be(self, user: str, device: str, token: str) -> None:
        self.client.user_id, self.client.device_id, self.client.access_token = user, device, token

    async def close(self) -> None:
        await self.client.close()

    # --- what nio asks ---------------------------------------------------------------------------

    async def say(self, asking: Awaitable[Any], patience_s: float = REQUEST_S) -> Any:
        """A call of nio's, and its answer."""
        answer = await _bounded(asking, patience_s)
        if not isinstance(answer, self._nio.ErrorResponse):
            return answer
        transport = answer.transport_response
        status = transport.status if transport is not None else 0
        raise trouble(status, answer.status_code or "", answer.message, answer.retry_after_ms)

    async def upload(self, path: str, name: str, mime: str) -> str:
        """The address of its content on the homeserver."""
        try:
            file = await in_thread(lambda: open(path, "rb"))  # noqa: SIM115
        except OSError as error:
            raise NeverSent(f"{name} cannot be read: {error.strerror or error}") from None
        with file:
            size = os.fstat(file.fileno()).st_size
            asking = self.client.upload(file, content_type=mime, filename=name, filesize=size)

            async def first() -> Any:
                return (await asking)[0]

            return str((await self.say(first(), MEDIA_S)).content_uri)

    # --- what is decoded here --------------------------------------------------------------------

    async def ask(self, asked: Asked, into: type[T], patience_s: float = REQUEST_S) -> T:
        return await _bounded(self._ask(asked, into, patience_s), patience_s)

    async def _ask(self, asked: Asked, into: type[T], patience_s: float) -> T:
        async with await self._send(asked, patience_s) as response:
            raw = await _read(response, ANSWER_BYTES_MAX)
            if response.status >= 300:
                raise _refused(response, raw)
        try:
            return msgspec.json.decode(raw, type=into)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise NotSent("the homeserver's answer cannot be understood") from None

    async def _send(self, asked: Asked, patience_s: float) -> Any:
        from aiohttp import ClientTimeout

        data = None if asked.body is None else msgspec.json.encode(asked.body)
        headers = {"Authorization": f"Bearer {self.client.access_token}", "Content-Type": "application/json"}
        timeout = ClientTimeout(total=patience_s, sock_connect=CONNECT_S)
        return await self.client.send(asked.method, asked.target, data, headers, None, timeout)

    async def sync(self, since: str, wait_s: float) -> Synced:
        kinds = {"types": KINDS, "lazy_load_members": True, "include_redundant_members": True}
        chosen = {
            "presence": {"types": []},
            "account_data": {"types": ["m.direct"]},
            "room": {
                "timeline": {**kinds, "limit": TIMELINE if since else 1},
                "state": {**kinds, "types": ["m.room.member"]},
                "ephemeral": {"types": []},
                "account_data": {"types": []},
            },
        }
        query = {"filter": msgspec.json.encode(chosen).decode(), "timeout": str(int(wait_s * 1000))}
        asked = Asked(path=("sync",), query={**query, "since": since} if since else query)
        return await self.ask(asked, Synced, wait_s + SYNC_MORE_S)

    async def messages(self, room: str, start: str = "", until: str = "", limit: int = 100) -> Page:
        """The newest first, from `start` back."""
        kinds = {"types": KINDS, "lazy_load_members": True}
        query = {"dir": "b", "limit": str(limit), "filter": msgspec.json.encode(kinds).decode()}
        query |= {name: token for name, token in (("from", start), ("to", until)) if token}
        return await self.ask(Asked(path=("rooms", room, "messages"), query=query), Page)

    async def thread(self, room: str, root: str, start: str = "", limit: int = 100) -> Page:
        """What was said in a thread, but for its beginning; the newest first."""
        query = {"dir": "b", "limit": str(limit), **({"from": start} if start else {})}
        path = ("rooms", room, "relations", root, "m.thread")
        return await self.ask(Asked(path=path, query=query, base=CLIENT_V1), Page)

    async def event(self, room: str, id: str) -> Event | None:
        try:
            return await self.ask(Asked(path=("rooms", room, "event", id)), Event)
        except NeverSent:
            return None

    async def download(self, ref: str, target: str, bytes_max: int) -> str:
        """Into a new file; returns its type. The homeserver fetches it from wherever it is."""
        found = MXC.fullmatch(ref)
        if found is None:
            raise NeverSent("this is no file of a Matrix homeserver")
        asked = Asked(path=("media", "download", found[1], found[2]), base=CLIENT_V1)
        return await _bounded(self._download(asked, target, bytes_max), MEDIA_S)

    async def _download(self, asked: Asked, target: str, bytes_max: int) -> str:
        async with await self._send(asked, MEDIA_S) as response:
            if response.status >= 300:
                raise _refused(response, await _read(response, PIECE_BYTES))
            if (response.content_length or 0) > bytes_max:
                raise NeverSent(f"the file is larger than {bytes_max} bytes")
            try:
                await _into_file(response, target, bytes_max)
            except OSError as error:
                raise NotSent(f"the file cannot be kept: {error.strerror or error}") from None
            return str(response.content_type or "")


async def _into_file(response: Any, target: str, bytes_max: int) -> None:
    file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    whole = False
    try:
        with os.fdopen(file, "wb") as out:
            taken = 0
            async for piece in response.content.iter_chunked(PIECE_BYTES):
                taken += len(piece)
                if taken > bytes_max:
                    raise NeverSent(f"the file is larger than {bytes_max} bytes")
                out.write(piece)
        whole = True
    finally:
        if not whole:
            os.unlink(target)


async def _read(response: Any, bytes_max: int) -> bytes:
    raw = bytearray()
    async for piece in response.content.iter_chunked(PIECE_BYTES):
        raw += piece
        if len(raw) > bytes_max:
            raise NotSent("the homeserver's answer is too long")
    return bytes(raw)


# --- what its refusals mean ----------------------------------------------------------------------


async def _bounded(asking: Awaitable[T], patience_s: float) -> T:
    """Nothing else than ChannelErrors comes out of it."""
    from aiohttp import ClientConnectorError, ClientError

    try:
        async with asyncio.timeout(patience_s):
            return await asking
    except ClientConnectorError as error:
        raise NotSent(f"the homeserver cannot be reached: {error.strerror or 'no connection'}") from None
    except TimeoutError:
        raise MaybeSent(f"the homeserver did not answer within {patience_s:g} s") from None
    except (ClientError, OSError, ValueError) as error:
        raise MaybeSent(f"the connection to the homeserver was lost ({type(error).__name__})") from None


def _refused(response: Any, raw: bytes) -> ChannelError:
    try:
        said = msgspec.json.decode(raw, type=_Refusal)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        said = _Refusal()
    return trouble(response.status, said.errcode, said.error, said.retry_after_ms)


def trouble(status: int, code: str, words: str, retry_after_ms: float | None) -> ChannelError:
    """The error for an answer that is none."""
    said = f"the homeserver says {code or status}: {' '.join(words.split())[:200]}"
    if code in LOGGED_OUT or status == 401:
        return LoggedOut(said)
    if code == "M_LIMIT_EXCEEDED" or status == 429:
        wait_s = retry_after_ms / 1000 if isinstance(retry_after_ms, int | float) else 5.0
        return NotSent(said, retry_after_s=min(max(wait_s, 0.05), RETRY_MAX_S))
    if code in GONE or (400 <= status < 500 and status != 408):
        return NeverSent(said)
    return MaybeSent(said)  # it broke at something, and who knows when
