"""Webhook channel: signed JSON messages over HTTP in both directions."""

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

from mainstay.channels.webhook.http_receiver import WebhookChannelApp, WebhookChannelLimits
from mainstay.channels.webhook.manifest import WebhookSettings
from mainstay.channels.webhook.messages import WebhookOutgoingFile, WebhookOutgoingMessage, decode_receipt
from mainstay.core.channel_settings import ChannelFactoryContext
from mainstay.core.channels import (
    ChannelCapabilities,
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
from mainstay.core.triggers import TriggerTarget, Webhook
from mainstay.core.worker_threads import run_in_thread
from mainstay.io.fetch import FetchRules, fetch
from mainstay.io.http_client import HttpRequest, HttpRequestRefused, HttpResponse, send_request
from mainstay.io.http_response import FetchFailed, HostUnreachable, ResponseTooLarge
from mainstay.io.urls import AddressRefused, parse_url
from mainstay.io.webhook_signatures import SignatureScheme, decode_secret, sign_webhook

SIGNATURE_SCHEME: SignatureScheme = "timestamp"
KEY_CHARS_MAX = 255  # of an idempotency key in a header
RETRY_AFTER_MAX_S = 24 * 3600.0
POST_TIMEOUT_S = 20.0
RESPONSE_BYTES_MAX = 64 * 1024
DOWNLOAD_TIMEOUT_S = 60.0
FILE_BYTES_MAX = 3_000_000  # in base64 this fits one request
_CAPABILITIES = ChannelCapabilities(
    markup="markdown", length_max=32_000, files=True, threads=True, idempotency="key", file_bytes_max=FILE_BYTES_MAX
)


class WebhookChannel:
    """Answers are posted to `url`, which the owner configured and which may be a private address; redirects are not
    followed. URLs of attachments come from clients: only public addresses are fetched, and those in `private_ok`
    ("host:port")."""

    kind = "webhook"

    def __init__(
        self,
        name: str,
        url: str,
        *,
        secret: str,
        private_ok: tuple[str, ...] = (),
        limits: WebhookChannelLimits | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        try:
            decode_secret(SIGNATURE_SCHEME, secret)
        except ConfigError as error:
            raise ConfigError(f"channels.{name}.secret cannot be used: {error}") from None
        try:
            place = parse_url(url)
        except AddressRefused as error:
            raise ConfigError(f"channels.{name}.url, to which answers are posted, is not valid: {error}") from None
        hook = Webhook(name=name, secret=secret, scheme=SIGNATURE_SCHEME, target=TriggerTarget(session=name))
        self._app = WebhookChannelApp(hook, limits or WebhookChannelLimits(), now)
        self._secret = secret
        self._url = url
        self._post_rules = FetchRules(
            bytes_max=RESPONSE_BYTES_MAX,
            timeout_s=POST_TIMEOUT_S,
            redirects_max=0,
            private_hosts=(f"{place.host}:{place.port}",),
        )
        self._private_ok = private_ok
        self._now = now
        self._state = "not started"

    @property
    def capabilities(self) -> ChannelCapabilities:
        return _CAPABILITIES

    @property
    def state(self) -> str:
        return self._state

    async def start(self, on_message: MessageHandler) -> None:
        self._app.on_message = on_message
        self._state = "connected"

    async def close(self) -> None:
        self._app.on_message = None
        self._state = "closed"

    def asgi_app(self) -> Any:
        return self._app

    def format(self, text: str) -> str:
        return text

    # --- sending ---------------------------------------------------------------------------------

    async def post(self, to: ChatAddress, text: str, *, key: str) -> SentMessage:
        return await self._post_message(WebhookOutgoingMessage(key=key, room=to.room, thread=to.thread, text=text))

    async def upload(self, to: ChatAddress, path: str, name: str, comment: str, *, key: str) -> SentMessage:
        data = await run_in_thread(lambda: _read_upload(path))
        mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
        file = WebhookOutgoingFile(name, mime, data)
        return await self._post_message(
            WebhookOutgoingMessage(key=key, room=to.room, thread=to.thread, text=comment, files=(file,))
        )

    async def _post_message(self, message: WebhookOutgoingMessage) -> SentMessage:
        if self._app.on_message is None:
            raise DeliveryDeferred(f"The channel {self.name} is not open.")
        body = msgspec.json.encode(message)
        signed = sign_webhook(
            SIGNATURE_SCHEME, self._secret, body, at_s=int(self._now()), id=_key_for_header(message.key)
        )
        headers = (("Content-Type", "application/json"), *signed.items())
        request = HttpRequest(url=self._url, method="POST", headers=headers, body=body)
        try:
            response = await send_request(request, rules=self._post_rules)
        except (AddressRefused, HttpRequestRefused) as error:
            raise DeliveryRejected(str(error)) from None
        except HostUnreachable as error:
            self._state = f"answers cannot be posted: {error}"
            raise DeliveryDeferred(str(error)) from None
        except FetchFailed as error:
            raise DeliveryUnknown(str(error)) from None
        self._state = "connected" if self._app.on_message is not None else self._state
        _check_status(response)
        return decode_receipt(response.result.body, message)

    async def find_posted(self, to: ChatAddress, key: str) -> SentMessage | None:
        return None

    async def edit(self, to: ChatAddress, id: str, text: str) -> None:
        raise DeliveryRejected("A message that was posted to a webhook cannot be edited.")

    async def delete(self, to: ChatAddress, id: str) -> None:
        raise DeliveryRejected("A message that was posted to a webhook cannot be deleted.")

    async def show_typing(self, to: ChatAddress, note: str = "") -> None:
        pass

    # --- attachments, history and search ---------------------------------------------------------

    async def download(self, file: IncomingFile, target: str, bytes_max: int) -> str:
        rules = FetchRules(bytes_max=bytes_max, timeout_s=DOWNLOAD_TIMEOUT_S, private_hosts=self._private_ok)
        try:
            response = await fetch(file.ref, rules=rules)
        except (AddressRefused, ResponseTooLarge) as error:
            raise DeliveryRejected(str(error)) from None
        except FetchFailed as error:
            raise DeliveryDeferred(str(error)) from None
        if response.status != 200:
            raise DeliveryRejected(f"The file could not be fetched: its server answered with {response.status}.")
        await run_in_thread(lambda: _write_new_file(target, response.body))
        return response.mime

    async def history(self, at: ChatAddress, after: int, limit: int) -> Sequence[IncomingMessage]:
        return ()

    async def search(self, at: ChatAddress, query: str, limit: int) -> Sequence[RoomMessage]:
        return ()


def _check_status(response: HttpResponse) -> None:
    """Raise the ChannelError for a status other than 2xx."""
    status = response.result.status
    if 200 <= status < 300:
        return
    if status in (408, 425, 429, 503):
        wait_s = _parse_retry_after_s(response.headers.get("retry-after", ""))
        raise DeliveryDeferred(f"The receiver does not accept it now ({status}).", retry_after_s=wait_s)
    if status >= 500:
        raise DeliveryUnknown(f"The receiver failed to process it ({status}).")
    if status >= 400:
        raise DeliveryRejected(f"The receiver refused it ({status}).")
    raise DeliveryRejected("The receiver redirects, which is not followed.")


def _parse_retry_after_s(value: str) -> float | None:
    """Parse a Retry-After header (seconds or an HTTP date) into seconds; None if it is neither."""
    if value.isascii() and value.isdecimal() and len(value) < 10:
        return min(float(value), RETRY_AFTER_MAX_S)
    try:
        return min(max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0), RETRY_AFTER_MAX_S)
    except (ValueError, OverflowError):
        return None


def _key_for_header(key: str) -> str:
    """Return the key, or its hash if a header cannot contain it. The body always has the key itself."""
    if key.isascii() and key.isprintable() and key == key.strip() and len(key) <= KEY_CHARS_MAX:
        return key
    return f"sha256:{hashlib.sha256(key.encode(errors='replace')).hexdigest()}"


def _read_upload(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise DeliveryRejected(f"The file cannot be read: {error.strerror}.") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise DeliveryRejected("It is not a file that can be sent.")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(FILE_BYTES_MAX + 1)
    finally:
        os.close(descriptor)
    if len(data) > FILE_BYTES_MAX:
        raise DeliveryRejected(f"The file has more than the {FILE_BYTES_MAX} bytes that can be sent.")
    return data


def _write_new_file(target: str, data: bytes) -> None:
    """Write a new file. Raises DeliveryDeferred on a disk error, because a retry may succeed."""
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except OSError as error:
        raise DeliveryDeferred(f"The file cannot be stored: {error.strerror}.") from None


def build_webhook_channel(name: str, settings: WebhookSettings, context: ChannelFactoryContext) -> WebhookChannel:
    return WebhookChannel(name, settings.url, secret=settings.secret)
