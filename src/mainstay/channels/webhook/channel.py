"""A channel for anything that can post and be posted to: signed JSON both ways."""

from __future__ import annotations

import email.utils
import hashlib
import mimetypes
import os
import stat
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from mainstay.channels.webhook.door import Bounds, Door
from mainstay.channels.webhook.messages import File, Posted, read_taken
from mainstay.core.addresses import Address
from mainstay.core.channels import Attached, Hear, Incoming, MaybeSent, NeverSent, NotSent, Sent, Shows
from mainstay.core.errors import ConfigError
from mainstay.core.outside import Said
from mainstay.core.triggers import Hook, Target
from mainstay.core.workers import in_thread
from mainstay.io.addresses import AddressRefused, place_of
from mainstay.io.fetch import FetchRules, fetch
from mainstay.io.http import HeaderRefused, Request, Response, send
from mainstay.io.response import FetchFailed, NotReached, TooLarge
from mainstay.io.signing import Scheme, key_of, sign

SCHEME: Scheme = "timestamp"
KEY_CHARS_MAX = 255  # in a header
WAIT_MAX_S = 24 * 3600.0
POST_S = 20.0
ANSWER_BYTES_MAX = 64 * 1024
FETCH_S = 60.0
FILE_BYTES_MAX = 3_000_000  # in base64 that is as much as one request takes
_SHOWS = Shows(markup="markdown", length=32_000, files=True, threads=True, once="key", file_bytes_max=FILE_BYTES_MAX)


class WebhookChannel:
    """`url` is the owner's word, and may be anywhere; redirects are not followed. Addresses of files are somebody
    else's: only those of the world are fetched, and what `private_ok` names ("host:port")."""

    kind = "webhook"

    def __init__(
        self,
        name: str,
        url: str,
        *,
        secret: str,
        private_ok: tuple[str, ...] = (),
        bounds: Bounds | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        try:
            key_of(SCHEME, secret)
        except ConfigError as error:
            raise ConfigError(f"channels.{name}.secret cannot be used: {error}") from None
        try:
            place = place_of(url)
        except AddressRefused as error:
            raise ConfigError(f"channels.{name}.url is where answers are posted to: {error}") from None
        hook = Hook(name=name, secret=secret, scheme=SCHEME, target=Target(session=name))
        self._door = Door(hook, bounds or Bounds(), now)
        self._secret = secret
        self._url = url
        self._rules = FetchRules(
            bytes_max=ANSWER_BYTES_MAX, time_s=POST_S, redirects_max=0, private_ok=(f"{place.host}:{place.port}",)
        )
        self._private_ok = private_ok
        self._now = now
        self._state = "not started"

    @property
    def shows(self) -> Shows:
        return _SHOWS

    @property
    def state(self) -> str:
        return self._state

    async def start(self, hear: Hear) -> None:
        self._door.hear = hear
        self._state = "connected"

    async def close(self) -> None:
        self._door.hear = None
        self._state = "closed"

    def app(self) -> Any:
        return self._door

    def format(self, text: str) -> str:
        return text

    # --- out -------------------------------------------------------------------------------------

    async def post(self, to: Address, text: str, *, key: str) -> Sent:
        return await self._post(Posted(key=key, room=to.room, thread=to.thread, text=text))

    async def upload(self, to: Address, path: str, name: str, comment: str, *, key: str) -> Sent:
        data = await in_thread(lambda: _read(path))
        mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
        file = File(name, mime, data)
        return await self._post(Posted(key=key, room=to.room, thread=to.thread, text=comment, files=(file,)))

    async def _post(self, posted: Posted) -> Sent:
        if self._door.hear is None:
            raise NotSent(f"The channel {self.name} is not open.")
        body = msgspec.json.encode(posted)
        signed = sign(SCHEME, self._secret, body, at_s=int(self._now()), id=_header(posted.key))
        headers = (("Content-Type", "application/json"), *signed.items())
        request = Request(url=self._url, method="POST", headers=headers, body=body)
        try:
            response = await send(request, rules=self._rules)
        except (AddressRefused, HeaderRefused) as error:
            raise NeverSent(str(error)) from None
        except NotReached as error:
            self._state = f"answers cannot be posted: {error}"
            raise NotSent(str(error)) from None
        except FetchFailed as error:
            raise MaybeSent(str(error)) from None
        self._state = "connected" if self._door.hear is not None else self._state
        _check_status(response)
        return read_taken(response.fetched.body, posted)

    async def find(self, to: Address, key: str) -> Sent | None:
        return None

    async def edit(self, to: Address, id: str, text: str) -> None:
        raise NeverSent("What was posted to a webhook cannot be changed.")

    async def delete(self, to: Address, id: str) -> None:
        raise NeverSent("What was posted to a webhook cannot be taken back.")

    async def typing(self, to: Address, note: str = "") -> None:
        pass

    # --- files that came with a message, and what is not kept --------------------------------------

    async def download(self, file: Attached, target: str, bytes_max: int) -> str:
        rules = FetchRules(bytes_max=bytes_max, time_s=FETCH_S, private_ok=self._private_ok)
        try:
            found = await fetch(file.ref, rules=rules)
        except (AddressRefused, TooLarge) as error:
            raise NeverSent(str(error)) from None
        except FetchFailed as error:
            raise NotSent(str(error)) from None
        if found.status != 200:
            raise NeverSent(f"The file cannot be had: its server answers with {found.status}.")
        await in_thread(lambda: _write(target, found.body))
        return found.mime

    async def history(self, at: Address, after: int, limit: int) -> Sequence[Incoming]:
        return ()

    async def search(self, at: Address, query: str, limit: int) -> Sequence[Said]:
        return ()


def _check_status(response: Response) -> None:
    """Raises what became of it, if it was not taken."""
    status = response.fetched.status
    if 200 <= status < 300:
        return
    if status in (408, 425, 429, 503):
        wait_s = _wait(response.headers.get("retry-after", ""))
        raise NotSent(f"It is not taken now ({status}).", retry_after_s=wait_s)
    if status >= 500:
        raise MaybeSent(f"Whoever it was posted to failed at it ({status}).")
    raise NeverSent(f"It is refused ({status})." if status >= 400 else "It redirects, which is not followed.")


def _wait(said: str) -> float | None:
    """Seconds, or a date."""
    if said.isascii() and said.isdecimal() and len(said) < 10:
        return min(float(said), WAIT_MAX_S)
    try:
        return min(max(email.utils.parsedate_to_datetime(said).timestamp() - time.time(), 0.0), WAIT_MAX_S)
    except (ValueError, OverflowError):
        return None


def _header(key: str) -> str:
    """As it can stand in a header; the body has it as it is."""
    if key.isascii() and key.isprintable() and key == key.strip() and len(key) <= KEY_CHARS_MAX:
        return key
    return f"sha256:{hashlib.sha256(key.encode(errors='replace')).hexdigest()}"


def _read(path: str) -> bytes:
    try:
        at = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NeverSent(f"The file cannot be read: {error.strerror}.") from None
    try:
        if not stat.S_ISREG(os.fstat(at).st_mode):
            raise NeverSent("It is no file that could be sent.")
        with open(at, "rb", closefd=False) as file:
            data = file.read(FILE_BYTES_MAX + 1)
    finally:
        os.close(at)
    if len(data) > FILE_BYTES_MAX:
        raise NeverSent(f"The file has more than the {FILE_BYTES_MAX} bytes that can be sent.")
    return data


def _write(target: str, data: bytes) -> None:
    """A new file. Whatever is wrong with the disk is trouble of the moment."""
    try:
        at = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(at, "wb") as file:
            file.write(data)
    except OSError as error:
        raise NotSent(f"The file cannot be kept: {error.strerror}.") from None
