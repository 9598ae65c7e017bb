"""Downloads the attachments of chat messages: bounded in size and time, under safe names, with checked image types."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from datetime import UTC, datetime
from functools import partial

from mainstay.core.channels import ChannelError, ChatChannel, IncomingFile, IncomingMessage
from mainstay.core.chat_addresses import ReceivedFile
from mainstay.core.memory_tiers import RUNTIME
from mainstay.core.messages import AnyPart, Binary, Text
from mainstay.core.tool_ports import AttachmentsFolder
from mainstay.core.worker_threads import run_in_thread

log = logging.getLogger("mainstay.channels")

FILES_PER_MESSAGE_MAX = 10  # per message
FILE_TIMEOUT_S = 60.0
MESSAGE_TIMEOUT_S = 180.0
IMAGE_BYTES_MAX = 5 * 1024 * 1024  # larger images are not sent to the model
NAME_CHARS_MAX = 80
_UNSAFE_CHARS = re.compile(r"[^\w.-]+")
_IMAGE_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", 0, "image/png"),
    (b"\xff\xd8\xff", 0, "image/jpeg"),
    (b"GIF87a", 0, "image/gif"),
    (b"GIF89a", 0, "image/gif"),
    (b"WEBP", 8, "image/webp"),
)

DownloadedFiles = tuple[tuple[AnyPart, ...], tuple[ReceivedFile, ...]]


async def download_files(
    channel: ChatChannel, message: IncomingMessage, folder: AttachmentsFolder, bytes_max: int
) -> DownloadedFiles:
    """Download a message's files; return parts for the model, with paths as commands see them, and records for the
    journal. Never fails: a file that could not be downloaded becomes a note that says why."""
    parts: list[AnyPart] = []
    records: list[ReceivedFile] = []
    deadline = asyncio.get_running_loop().time() + MESSAGE_TIMEOUT_S
    for index, file in enumerate(message.files):
        name = sanitise_file_name(file.name)
        path, why = "", f"only {FILES_PER_MESSAGE_MAX} files of a message are fetched"
        if index < FILES_PER_MESSAGE_MAX:
            left_s = min(FILE_TIMEOUT_S, deadline - asyncio.get_running_loop().time())
            path, why = await _download_file(
                channel, file, _build_target_path(folder.path, message.at, name), bytes_max, left_s
            )
        if path:
            shown_path = os.path.join(folder.shown_path, os.path.basename(path))
            parts += await run_in_thread(partial(_build_file_parts, path, shown_path))
        else:
            parts.append(_build_missing_note(name, why))
        records.append(ReceivedFile(file.name or name, path))
    return tuple(parts), tuple(records)


def format_file_names(files: tuple[IncomingFile, ...]) -> str:
    """Return a note with the names of files that are not downloaded."""
    return "".join(f"\n[attached: {sanitise_file_name(file.name)}]" for file in files[:FILES_PER_MESSAGE_MAX])


def sanitise_file_name(name: str) -> str:
    """Return the last component of a file name with letters, digits, dots, dashes and underscores only; "file" if
    nothing is left."""
    base = _UNSAFE_CHARS.sub("_", name.replace("\\", "/").rpartition("/")[2]).strip("._-")
    stem, dot, ending = base.rpartition(".")
    if len(base) > NAME_CHARS_MAX:
        base = f"{stem[: NAME_CHARS_MAX - 12]}{dot}{ending[:10]}" if dot else base[:NAME_CHARS_MAX]
    return base or "file"


def detect_image_type(head: bytes) -> str:
    """Return the MIME type of an image by its first bytes; "" if it is no image that models accept."""
    matches = (mime for magic, at, mime in _IMAGE_SIGNATURES if head[at : at + len(magic)] == magic)
    mime = next(matches, "")
    return "" if mime == "image/webp" and head[:4] != b"RIFF" else mime


def _build_target_path(folder: str, at: int, name: str) -> str:
    sent = datetime.fromtimestamp(min(max(at, 0), 4_102_444_800_000) / 1000, UTC)
    return os.path.join(folder, f"{sent:%Y%m%dT%H%M%S}_{name}")


async def _download_file(
    channel: ChatChannel, file: IncomingFile, target: str, bytes_max: int, timeout_s: float
) -> tuple[str, str]:
    """Download one file; return its path, or "" and the reason."""
    part = f"{target}.part"
    try:
        if file.size > bytes_max:
            return "", f"it has over {bytes_max} bytes"
        await run_in_thread(lambda: _remove_partial(part))
        async with asyncio.timeout(max(timeout_s, 0)):
            await channel.download(file, part, bytes_max)
        return await run_in_thread(lambda: _move_to_target(part, target, bytes_max)), ""
    except TimeoutError:
        why = "it took too long"
    except (ChannelError, OSError) as error:
        why = str(error)
    log.warning("%s: an attachment was not fetched: %s", channel.name, why)
    await run_in_thread(lambda: _remove_partial(part, create_folder=False))
    return "", why


def _remove_partial(part: str, *, create_folder: bool = True) -> None:
    """Remove what an earlier attempt left; with `create_folder`, create the folder if it is missing."""
    if create_folder:
        os.makedirs(os.path.dirname(part), mode=0o700, exist_ok=True)
    if os.path.lexists(part):
        os.unlink(part)


def _move_to_target(part: str, target: str, bytes_max: int) -> str:
    """Move a finished download to its final name, with a number if that name is taken; return the path."""
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


def _build_file_parts(path: str, shown_path: str) -> list[AnyPart]:
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        mime = detect_image_type(file.read(16))
        note = Text(f"\n[attached: {shown_path} ({size} bytes)]", origin=RUNTIME)
        if not mime or size > IMAGE_BYTES_MAX:
            return [note]
        file.seek(0)
        return [note, Binary(mime, file.read(IMAGE_BYTES_MAX), path)]


def _build_missing_note(name: str, reason: str) -> Text:
    return Text(f"\n[attached: {name}, which could not be fetched: {reason[:200]}]", origin=RUNTIME)
