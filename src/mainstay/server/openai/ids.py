"""Ids of responses, items and tool calls. A response id is a position in a session, valid for one person."""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets

import msgspec

RESPONSE_PREFIX = "resp_"
_LENGTH_MAX = 4096
_TAG_BYTES = 9  # bytes

WorkspacePerson = tuple[str, str]  # workspace and person


class ResponsePosition(msgspec.Struct, frozen=True, array_like=True):
    """The input that a response answers, and the tool call whose result it continued from, if any."""

    session: str
    seq: int
    call_id: str = ""
    at: int = 0  # creation time, in seconds


def format_response_id(owner: WorkspacePerson, position: ResponsePosition) -> str:
    body = msgspec.json.encode(position)
    return RESPONSE_PREFIX + base64.urlsafe_b64encode(_compute_tag(owner, body) + body).decode().rstrip("=")


def parse_response_id(owner: WorkspacePerson, id: str) -> ResponsePosition | None:
    """Decode a response id; None if it was not given to this person. It grants no access: its session is looked up as
    any other is."""
    if not id.startswith(RESPONSE_PREFIX) or len(id) > _LENGTH_MAX:
        return None
    text = id.removeprefix(RESPONSE_PREFIX)
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        position = msgspec.json.decode(data[_TAG_BYTES:], type=ResponsePosition)
    except (binascii.Error, ValueError, msgspec.DecodeError, RecursionError):
        return None
    return (
        position
        if secrets.compare_digest(data[:_TAG_BYTES], _compute_tag(owner, data[_TAG_BYTES:])) and position.seq > 0
        else None
    )


def format_item_id(prefix: str, response_id: str, number: int = 0) -> str:
    """Return the id of an item of a response, always the same for the same item."""
    return f"{prefix}_{hashlib.sha256(f'{response_id}#{number}'.encode()).hexdigest()[:24]}"


def to_client_call_id(session: str, call_id: str) -> str:
    """Return the call id that clients see: unique over all sessions, as clients that send their history need it."""
    return f"{call_id}_{_session_suffix(session)}"


def from_client_call_id(session: str, client_call_id: str) -> str:
    """Return the session's own call id for one that a client sent."""
    return client_call_id.removesuffix(f"_{_session_suffix(session)}")


def _session_suffix(session: str) -> str:
    return hashlib.sha256(session.encode(errors="replace")).hexdigest()[:10]


def _compute_tag(owner: WorkspacePerson, body: bytes) -> bytes:
    return hashlib.sha256(msgspec.json.encode((owner, body))).digest()[:_TAG_BYTES]
