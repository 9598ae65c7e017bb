"""Files that came with a message: fetched within bounds, named safely, looked at before they are believed."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from datetime import UTC, datetime
from functools import partial

from mainstay.core.addresses import FileSaid
from mainstay.core.channels import Attached, ChannelError, ChatChannel, Incoming
from mainstay.core.messages import AnyPart, Binary, Text
from mainstay.core.recall import RUNTIME
from mainstay.core.workers import in_thread

log = logging.getLogger("mainstay.channels")

FILES_MAX = 10  # of one message
FILE_S = 60.0
ALL_S = 180.0
IMAGE_BYTES_MAX = 5 * 1024 * 1024  # what models take
NAME_CHARS_MAX = 80
_ODD = re.compile(r"[^\w.-]+")
_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", 0, "image/png"),
    (b"\xff\xd8\xff", 0, "image/jpeg"),
    (b"GIF87a", 0, "image/gif"),
    (b"GIF89a", 0, "image/gif"),
    (b"WEBP", 8, "image/webp"),
)

Fetched = tuple[tuple[AnyPart, ...], tuple[FileSaid, ...]]


async def fetch_files(channel: ChatChannel, message: Incoming, folder: str, bytes_max: int) -> Fetched:
    """What the model is shown of them, and what the log keeps. A failure is told, and holds up nothing."""
    parts: list[AnyPart] = []
    said: list[FileSaid] = []
    deadline = asyncio.get_running_loop().time() + ALL_S
    for number, file in enumerate(message.files):
        name = safe_name(file.name)
        path, why = "", f"only {FILES_MAX} files of a message are fetched"
        if number < FILES_MAX:
            left_s = min(FILE_S, deadline - asyncio.get_running_loop().time())
            path, why = await _fetch(channel, file, _target(folder, message.at, name), bytes_max, left_s)
        parts += await in_thread(partial(_shown, path)) if path else [_missing(name, why)]
        said.append(FileSaid(file.name or name, path))
    return tuple(parts), tuple(said)


def named_files(files: tuple[Attached, ...]) -> str:
    """For those that nobody fetches."""
    return "".join(f"\n[attached: {safe_name(one.name)}]" for one in files[:FILES_MAX])


def safe_name(name: str) -> str:
    """Of a file: letters, digits, dots and dashes; nothing that leads anywhere or says anything."""
    base = _ODD.sub("_", name.replace("\\", "/").rpartition("/")[2]).strip("._-")
    stem, dot, ending = base.rpartition(".")
    if len(base) > NAME_CHARS_MAX:
        base = f"{stem[: NAME_CHARS_MAX - 12]}{dot}{ending[:10]}" if dot else base[:NAME_CHARS_MAX]
    return base or "file"


def kind_of(head: bytes) -> str:
    """By its first bytes; empty: no image that a model is shown."""
    found = (mime for mark, at, mime in _IMAGES if head[at : at + len(mark)] == mark)
    mime = next(found, "")
    return "" if mime == "image/webp" and head[:4] != b"RIFF" else mime


def _target(folder: str, at: int, name: str) -> str:
    when = datetime.fromtimestamp(min(max(at, 0), 4_102_444_800_000) / 1000, UTC)
    return os.path.join(folder, f"{when:%Y%m%dT%H%M%S}_{name}")


async def _fetch(channel: ChatChannel, file: Attached, target: str, bytes_max: int, left_s: float) -> tuple[str, str]:
    """Where it is, or why it is nowhere."""
    part = f"{target}.part"
    try:
        if file.size > bytes_max:
            return "", f"it has over {bytes_max} bytes"
        await in_thread(lambda: _clear(part))
        async with asyncio.timeout(max(left_s, 0)):
            await channel.download(file, part, bytes_max)
        return await in_thread(lambda: _settle(part, target, bytes_max)), ""
    except TimeoutError:
        why = "it took too long"
    except (ChannelError, OSError) as error:
        why = str(error)
    log.warning("%s: an attachment was not fetched: %s", channel.name, why)
    await in_thread(lambda: _clear(part, remake=False))
    return "", why


def _clear(part: str, *, remake: bool = True) -> None:
    """Of what an earlier attempt left."""
    if remake:
        os.makedirs(os.path.dirname(part), mode=0o700, exist_ok=True)
    if os.path.lexists(part):
        os.unlink(part)


def _settle(part: str, target: str, bytes_max: int) -> str:
    """Under its own name, beside others of that name."""
    if os.path.getsize(part) > bytes_max:
        os.unlink(part)
        raise ChannelError(f"it has over {bytes_max} bytes")
    stem, ending = os.path.splitext(target)
    for number in range(2, 1000):
        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            break
        except FileExistsError:
            target = f"{stem}-{number}{ending}"
    os.replace(part, target)
    return target


def _shown(path: str) -> list[AnyPart]:
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        mime = kind_of(file.read(16))
        note = Text(f"\n[attached: {path} ({size} bytes)]", origin=RUNTIME)
        if not mime or size > IMAGE_BYTES_MAX:
            return [note]
        file.seek(0)
        return [note, Binary(mime, file.read(IMAGE_BYTES_MAX), path)]


def _missing(name: str, why: str) -> Text:
    return Text(f"\n[attached: {name}, which could not be fetched: {why[:200]}]", origin=RUNTIME)
