"""Files on their way from and to Telegram."""

from __future__ import annotations

import mimetypes
import re
from urllib.parse import quote

import msgspec

from mainstay.channels.local_files import keep_file
from mainstay.core.channels import Attached, NeverSent, NotSent
from mainstay.io.addresses import AddressRefused, place_of
from mainstay.io.fetch import FetchRules
from mainstay.io.http import Request, send
from mainstay.io.response import FetchFailed

UPLOAD_BYTES_MAX = 50 * 1000 * 1000
PHOTO_BYTES_MAX = 10 * 1000 * 1000
DOWNLOAD_S = 120.0

_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")


def is_picture(content: bytes) -> bool:
    """One that Telegram shows as such; others are files."""
    return content.startswith(_PICTURES) and len(content) <= PHOTO_BYTES_MAX


class Shelf(msgspec.Struct, frozen=True):
    """Where Telegram keeps the files of a bot. The token is part of the address, so that stands in no sentence."""

    url: str
    private: bool = False  # the owner has said where it is, and may have said: at home

    def rules(self, bytes_max: int) -> FetchRules:
        place = place_of(self.url)
        own = (f"{place.host}:{place.port}",) if self.private else ()
        return FetchRules(bytes_max=bytes_max, time_s=DOWNLOAD_S, redirects_max=0, private_ok=own)


async def fetch_file(shelf: Shelf, path: str, file: Attached, target: str, bytes_max: int) -> str:
    """From Telegram's own host, and from no other."""
    if not _PATH.fullmatch(path) or ".." in path:
        raise NeverSent("Telegram names a place for the file that is none.")
    try:
        answer = await send(Request(url=f"{shelf.url}/{quote(path)}"), rules=shelf.rules(bytes_max))
    except (AddressRefused, FetchFailed):
        raise NotSent("The file could not be fetched from Telegram, or is larger than allowed.") from None
    if answer.fetched.status != 200:
        raise NotSent(f"Telegram does not give the file (status {answer.fetched.status}).")
    await keep_file(answer.fetched.body, target)
    return file.mime or mimetypes.guess_type(path)[0] or answer.fetched.mime or "application/octet-stream"
