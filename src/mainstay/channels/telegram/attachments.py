"""Downloads attachments from Telegram, and limits for uploads."""

from __future__ import annotations

import mimetypes
import re
from urllib.parse import quote

import msgspec

from mainstay.channels.attachment_files import write_new_file
from mainstay.core.channels import DeliveryDeferred, DeliveryRejected, IncomingFile
from mainstay.io.fetch import FetchRules
from mainstay.io.http_client import HttpRequest, send_request
from mainstay.io.http_response import FetchFailed
from mainstay.io.urls import AddressRefused, parse_url

UPLOAD_BYTES_MAX = 50 * 1000 * 1000
PHOTO_BYTES_MAX = 10 * 1000 * 1000
DOWNLOAD_TIMEOUT_S = 120.0

_FILE_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_PHOTO_SIGNATURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")


def is_photo(content: bytes) -> bool:
    """Whether Telegram accepts this as a photo; anything else is sent as a document."""
    return content.startswith(_PHOTO_SIGNATURES) and len(content) <= PHOTO_BYTES_MAX


class TelegramFileBaseUrl(msgspec.Struct, frozen=True):
    """The base URL of a bot's files. It contains the token, so it must not appear in messages."""

    url: str
    allow_private: bool = False  # the owner configured the server, which may have a private address

    def fetch_rules(self, bytes_max: int) -> FetchRules:
        server = parse_url(self.url)
        allowed_private = (f"{server.host}:{server.port}",) if self.allow_private else ()
        return FetchRules(
            bytes_max=bytes_max, timeout_s=DOWNLOAD_TIMEOUT_S, redirects_max=0, private_hosts=allowed_private
        )


async def download_file(server: TelegramFileBaseUrl, path: str, file: IncomingFile, target: str, bytes_max: int) -> str:
    """Download a file into `target` and return its MIME type. Only the file server's host is contacted."""
    if not _FILE_PATH.fullmatch(path) or ".." in path:
        raise DeliveryRejected("Telegram returned an invalid path for the file.")
    try:
        response = await send_request(
            HttpRequest(url=f"{server.url}/{quote(path)}"), rules=server.fetch_rules(bytes_max)
        )
    except (AddressRefused, FetchFailed):
        raise DeliveryDeferred("The file could not be fetched from Telegram, or is larger than allowed.") from None
    if response.result.status != 200:
        raise DeliveryDeferred(f"Telegram did not return the file (status {response.result.status}).")
    await write_new_file(response.result.body, target)
    return file.mime or mimetypes.guess_type(path)[0] or response.result.mime or "application/octet-stream"
