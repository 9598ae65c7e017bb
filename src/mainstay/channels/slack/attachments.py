"""Downloads attachments from Slack and uploads files to it."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import Any

from mainstay.channels.slack.client import SlackClient
from mainstay.channels.slack.limits import SlackLimits
from mainstay.core.channels import DeliveryDeferred, DeliveryRejected, IncomingFile
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.worker_threads import run_in_thread
from mainstay.io.fetch import FetchResult, FetchRules, fetch
from mainstay.io.http_client import HttpRequest, HttpRequestRefused, has_same_origin, send_request
from mainstay.io.http_response import FetchFailed
from mainstay.io.urls import AddressRefused, ParsedUrl, parse_url

FILES_ORIGIN = "https://files.slack.com/"
BLOCK_CHARS_MAX = 3000  # of one block's text, as Slack has it
BLOCKS_MAX = 10


def hash_key(key: str) -> str:
    """Return the hash by which an idempotency key is stored in a message, where every workspace member can read it."""
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()[:40]


# --- download ------------------------------------------------------------------------------------


async def download_file(
    client: SlackClient, file: IncomingFile, target: str, bytes_max: int, limits: SlackLimits
) -> str:
    """Download into a new file and return its MIME type. The URL comes from the message's sender and is not trusted:
    the token is sent to Slack's hosts only."""
    if file.size > bytes_max:
        raise DeliveryRejected(f"The file has {file.size} bytes: more than the {bytes_max} that are fetched.")
    try:
        address = parse_url(file.ref if "://" in file.ref else await _look_up_url(client, file.ref))
        response = await _fetch(client, address, bytes_max, limits)
    except (AddressRefused, HttpRequestRefused) as error:
        raise DeliveryRejected(f"The file cannot be fetched. {error}") from None
    except FetchFailed as error:
        raise DeliveryDeferred(f"The file could not be fetched. {error}") from None
    if response.status != 200:
        error_type = DeliveryDeferred if response.status == 429 or response.status >= 500 else DeliveryRejected
        raise error_type(f"The file could not be fetched ({response.status}).")
    if response.mime == "text/html" and is_slack_origin(client, address) and file.mime != "text/html":
        raise DeliveryRejected("Slack returned a web page instead of the file: the app needs the scope files:read.")
    try:
        await run_in_thread(lambda: _write_new_file(target, response.body))
    except OSError as error:
        raise DeliveryDeferred(f"The file could not be stored: {error.strerror}.") from None
    return response.mime or file.mime


def is_slack_origin(client: SlackClient, address: ParsedUrl) -> bool:
    return any(has_same_origin(address, parse_url(origin)) for origin in (FILES_ORIGIN, client.base_url))


async def _look_up_url(client: SlackClient, id: str) -> str:
    """Look up the URL of a file by its id."""
    answer = await client.call("files.info", {"file": id})
    file = answer.get("file")
    url = (file.get("url_private_download") or file.get("url_private")) if isinstance(file, dict) else None
    if not isinstance(url, str):
        raise DeliveryRejected("Slack did not return a URL of the file.")
    return url


async def _fetch(client: SlackClient, address: ParsedUrl, bytes_max: int, limits: SlackLimits) -> FetchResult:
    rules = FetchRules(bytes_max=bytes_max, timeout_s=limits.download_timeout_s)
    if not is_slack_origin(client, address):
        return await fetch(address.url, rules=rules)
    api = parse_url(client.base_url)  # configured by the owner, so it may be a private address
    api_rules = FetchRules(
        bytes_max=bytes_max, timeout_s=limits.download_timeout_s, private_hosts=(f"{api.host}:{api.port}",)
    )
    request = HttpRequest(url=address.url, headers=(("Authorization", f"Bearer {client.token}"),))
    return (await send_request(request, rules=api_rules)).result


def _write_new_file(target: str, content: bytes) -> None:
    """Write a new file; never overwrite one."""
    with open(target, "xb") as file:
        try:
            file.write(content)
        except OSError:
            os.unlink(target)
            raise


# --- upload --------------------------------------------------------------------------------------


async def upload_file(client: SlackClient, path: str, name: str, bytes_max: int) -> str:
    """Upload the content and return the file's id. The file is not visible until `share_file`."""
    try:
        content = await run_in_thread(lambda: _read_content(path, bytes_max))
    except OSError as error:
        raise DeliveryRejected(f"{name} cannot be read: {error.strerror}.") from None
    if content is None:
        raise DeliveryRejected(f"{name} is not a file, or has more than {bytes_max} bytes.")
    answer = await client.call("files.getUploadURLExternal", {"filename": name, "length": len(content)})
    url, id = answer.get("upload_url"), answer.get("file_id")
    if not isinstance(url, str) or not isinstance(id, str):
        raise DeliveryDeferred("Slack did not return an upload URL for the file.")
    await client.upload_content(url, content)
    return id


def _read_content(path: str, bytes_max: int) -> bytes | None:
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            return None
        content = opened.read(bytes_max + 1)
    return content if len(content) <= bytes_max else None


async def share_file(client: SlackClient, to: ChatAddress, id: str, name: str, comment: str, key: str) -> None:
    """Share an uploaded file in a room or thread; Slack posts the message later. Such a message has no metadata, so the
    hash of its key is the id of its first block."""
    await client.call(
        "files.completeUploadExternal",
        {
            "files": [{"id": id, "title": name}],
            "channel_id": to.room,
            "thread_ts": to.thread or None,
            "blocks": _build_blocks(comment, name, hash_key(key)),
        },
        writes=True,
    )


def _build_blocks(comment: str, name: str, key_hash: str) -> list[dict[str, Any]]:
    if not comment.strip():
        element = {"type": "plain_text", "text": name[:BLOCK_CHARS_MAX] or "file", "emoji": False}
        return [{"type": "context", "block_id": key_hash, "elements": [element]}]
    pieces = [comment[at : at + BLOCK_CHARS_MAX] for at in range(0, len(comment), BLOCK_CHARS_MAX)][:BLOCKS_MAX]
    return [
        {
            "type": "section",
            "block_id": key_hash if not n else f"{key_hash}-{n}",
            "text": {"type": "mrkdwn", "text": piece},
        }
        for n, piece in enumerate(pieces)
    ]
