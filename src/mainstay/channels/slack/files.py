"""Files, both ways."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import Any

from mainstay.channels.slack.bounds import Bounds
from mainstay.channels.slack.web import Web
from mainstay.core.addresses import Address
from mainstay.core.channels import Attached, NeverSent, NotSent
from mainstay.core.workers import in_thread
from mainstay.io.addresses import AddressRefused, Place, place_of
from mainstay.io.fetch import Fetched, FetchRules, fetch
from mainstay.io.http import HeaderRefused, Request, same_origin, send
from mainstay.io.response import FetchFailed

FILES = "https://files.slack.com/"
BLOCK_CHARS_MAX = 3000  # of one block's text, as Slack has it
BLOCKS_MAX = 10


def mark(key: str) -> str:
    """How a key is written into a message: everybody in the workspace can read it there."""
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()[:40]


# --- to us ---------------------------------------------------------------------------------------


async def download(web: Web, file: Attached, target: str, bytes_max: int, bounds: Bounds) -> str:
    """Its type. The address is a word of whoever sent the message; the token goes to Slack itself and nobody else."""
    if file.size > bytes_max:
        raise NeverSent(f"The file has {file.size} bytes: more than the {bytes_max} that are fetched.")
    try:
        place = place_of(file.ref if "://" in file.ref else await _where(web, file.ref))
        found = await _fetched(web, place, bytes_max, bounds)
    except (AddressRefused, HeaderRefused) as error:
        raise NeverSent(f"The file cannot be fetched. {error}") from None
    except FetchFailed as error:
        raise NotSent(f"The file could not be fetched. {error}") from None
    if found.status != 200:
        kind = NotSent if found.status == 429 or found.status >= 500 else NeverSent
        raise kind(f"The file could not be fetched ({found.status}).")
    if found.mime == "text/html" and is_slacks(web, place) and file.mime != "text/html":
        raise NeverSent("Slack gave a page instead of the file: the app needs the scope files:read.")
    try:
        await in_thread(lambda: _keep(target, found.body))
    except OSError as error:
        raise NotSent(f"The file could not be kept: {error.strerror}.") from None
    return found.mime or file.mime


def is_slacks(web: Web, place: Place) -> bool:
    return any(same_origin(place, place_of(origin)) for origin in (FILES, web.base_url))


async def _where(web: Web, id: str) -> str:
    """Of a file that only its id is known of."""
    answer = await web.call("files.info", {"file": id})
    file = answer.get("file")
    url = (file.get("url_private_download") or file.get("url_private")) if isinstance(file, dict) else None
    if not isinstance(url, str):
        raise NeverSent("Slack does not say where the file is.")
    return url


async def _fetched(web: Web, place: Place, bytes_max: int, bounds: Bounds) -> Fetched:
    rules = FetchRules(bytes_max=bytes_max, time_s=bounds.download_s)
    if not is_slacks(web, place):
        return await fetch(place.url, rules=rules)
    own = place_of(web.base_url)  # the owner named it, wherever that is
    allowed = FetchRules(bytes_max=bytes_max, time_s=bounds.download_s, private_ok=(f"{own.host}:{own.port}",))
    request = Request(url=place.url, headers=(("Authorization", f"Bearer {web.token}"),))
    return (await send(request, rules=allowed)).fetched


def _keep(target: str, content: bytes) -> None:
    """A new file: never over one that is there."""
    with open(target, "xb") as file:
        try:
            file.write(content)
        except OSError:
            os.unlink(target)
            raise


# --- and from us ---------------------------------------------------------------------------------


async def hand_over(web: Web, path: str, name: str, bytes_max: int) -> str:
    """Its id. Nobody sees it yet."""
    try:
        content = await in_thread(lambda: _content(path, bytes_max))
    except OSError as error:
        raise NeverSent(f"{name} cannot be read: {error.strerror}.") from None
    if content is None:
        raise NeverSent(f"{name} is no file, or has more than {bytes_max} bytes.")
    answer = await web.call("files.getUploadURLExternal", {"filename": name, "length": len(content)})
    url, id = answer.get("upload_url"), answer.get("file_id")
    if not isinstance(url, str) or not isinstance(id, str):
        raise NotSent("Slack did not say where to put the file.")
    await web.put(url, content)
    return id


def _content(path: str, bytes_max: int) -> bytes | None:
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            return None
        content = opened.read(bytes_max + 1)
    return content if len(content) <= bytes_max else None


async def show(web: Web, to: Address, id: str, name: str, comment: str, key: str) -> None:
    """Slack posts it when it is ready. Such a message has no metadata: its key is in the name of its first block."""
    await web.call(
        "files.completeUploadExternal",
        {
            "files": [{"id": id, "title": name}],
            "channel_id": to.room,
            "thread_ts": to.thread or None,
            "blocks": _blocks(comment, name, mark(key)),
        },
        writes=True,
    )


def _blocks(comment: str, name: str, marked: str) -> list[dict[str, Any]]:
    if not comment.strip():
        element = {"type": "plain_text", "text": name[:BLOCK_CHARS_MAX] or "file", "emoji": False}
        return [{"type": "context", "block_id": marked, "elements": [element]}]
    pieces = [comment[at : at + BLOCK_CHARS_MAX] for at in range(0, len(comment), BLOCK_CHARS_MAX)][:BLOCKS_MAX]
    return [
        {"type": "section", "block_id": marked if not n else f"{marked}-{n}", "text": {"type": "mrkdwn", "text": piece}}
        for n, piece in enumerate(pieces)
    ]
