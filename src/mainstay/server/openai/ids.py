"""The ids of responses: they say where in which session one stands, to whom it was given and to nobody else."""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets

import msgspec

PREFIX = "resp_"
_LENGTH_MAX = 4096
_TAG = 9

Who = tuple[str, str]  # a workspace, and somebody in it


class Spot(msgspec.Struct, frozen=True, array_like=True):
    """The input that a response answers, and the call whose result it goes on from, where it does."""

    session: str
    seq: int
    call: str = ""
    at: int = 0  # seconds


def response_id(who: Who, spot: Spot) -> str:
    body = msgspec.json.encode(spot)
    return PREFIX + base64.urlsafe_b64encode(_tag(who, body) + body).decode().rstrip("=")


def spot_of(who: Who, id: str) -> Spot | None:
    """None if no such id was ever given to them. It opens nothing: what it names is looked up as anything else is."""
    if not id.startswith(PREFIX) or len(id) > _LENGTH_MAX:
        return None
    text = id.removeprefix(PREFIX)
    try:
        made = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        spot = msgspec.json.decode(made[_TAG:], type=Spot)
    except (binascii.Error, ValueError, msgspec.DecodeError, RecursionError):
        return None
    return spot if secrets.compare_digest(made[:_TAG], _tag(who, made[_TAG:])) and spot.seq > 0 else None


def item_id(prefix: str, response: str, number: int = 0) -> str:
    """Of something in a response: the same whenever that is looked at."""
    return f"{prefix}_{hashlib.sha256(f'{response}#{number}'.encode()).hexdigest()[:24]}"


def shown_call(session: str, call: str) -> str:
    """A call's own id is unique in its session; clients that send their history want it to be so everywhere."""
    return f"{call}_{_mark(session)}"


def meant_call(session: str, shown: str) -> str:
    return shown.removesuffix(f"_{_mark(session)}")


def _mark(session: str) -> str:
    return hashlib.sha256(session.encode(errors="replace")).hexdigest()[:10]


def _tag(who: Who, body: bytes) -> bytes:
    return hashlib.sha256(msgspec.json.encode((who, body))).digest()[:_TAG]
