"""Who sent it, and whether it came before: how webhooks are signed.

    timestamp   X-Mainstay-Timestamp: 1767225600        X-Mainstay-Signature: v1=<hex>[,v1=<hex>]
                HMAC-SHA256(secret, timestamp + "." + body)
    standard    webhook-id, webhook-timestamp           webhook-signature: v1,<base64>[ v1,<base64>]
                HMAC-SHA256(secret, id + "." + timestamp + "." + body); the secret is whsec_<base64>
    github      X-Hub-Signature-256: sha256=<hex>
                HMAC-SHA256(secret, body): no time is signed, so there is no window

Everything is computed over the bytes as they came, before anybody has parsed them. Whatever is wrong with a delivery,
the same work is done before it is refused: how long that takes tells nobody how near they were.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from mainstay.core.errors import ConfigError, MainstayError
from mainstay.core.triggers import Hook

Scheme = Literal["timestamp", "standard", "github"]
Headers = Iterable[tuple[bytes, bytes]]

SECRET_BYTES_MIN = 16
SECRETS_MAX = 4
SIGNATURES_MAX = 8  # in one header
HEADER_CHARS_MAX = 1024
STANDARD_PREFIX = "whsec_"

TIMESTAMP = "X-Mainstay-Timestamp"
SIGNATURE = "X-Mainstay-Signature"
STANDARD_ID = "webhook-id"
STANDARD_TIMESTAMP = "webhook-timestamp"
STANDARD_SIGNATURE = "webhook-signature"
GITHUB_SIGNATURE = "X-Hub-Signature-256"
GITHUB_ID = "X-GitHub-Delivery"
IDEMPOTENCY = "Idempotency-Key"

_SECONDS = re.compile(r"[1-9][0-9]{0,11}")
_HEX = re.compile(r"[0-9a-fA-F]{64}")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{43}=")
_NOBODYS = bytes(32)  # compared where there are fewer signatures; a claim without any is trouble in itself


class Unsigned(MainstayError):
    """Nobody who knows the secret sent this now. The sentence is for the owner's log, never for the sender."""


class Verified(msgspec.Struct, frozen=True):
    """Its sender knows the secret. `nonce` is the same for the same signed content, whatever else is changed about
    the delivery: under the second secret of a rotation, with other letters in the signature, with other headers."""

    nonce: str


class _Claim(msgspec.Struct, frozen=True):
    """What a delivery says of itself. `trouble`: why that cannot be true, or cannot be read."""

    head: bytes = b""  # signed before the body
    signatures: tuple[bytes, ...] = ()
    at_s: int | None = None  # None: no time is signed
    id: bytes = b""  # signed; the same for every attempt at one delivery
    trouble: str = ""


def verify(hook: Hook, headers: Headers, body: bytes, now_ms: int) -> Verified:
    """Raises Unsigned."""
    claim = _claim(hook.scheme, headers)
    genuine = _signed(hook, claim, body)
    trouble = claim.trouble or ("" if genuine else "no signature fits") or _untimely(claim, hook.window_s, now_ms)
    if trouble:
        raise Unsigned(trouble)
    known = hashlib.sha256(msgspec.json.encode((hook.name, hook.scheme)))
    known.update(b"id:" + claim.id if claim.id else b"signed:" + claim.head)
    if not claim.id:
        known.update(body)
    return Verified(known.hexdigest()[:40])


def sign(scheme: Scheme, secret: str, body: bytes, *, at_s: int = 0, id: str = "") -> dict[str, str]:
    """The headers that a sender adds. `at_s` is the time now, in seconds since 1970; `id` names this delivery, and is
    the same when it is sent again."""
    key = key_of(scheme, secret)
    match scheme:
        case "timestamp":
            made = hmac.digest(key, f"{at_s}.".encode() + body, "sha256").hex()
            headers = {TIMESTAMP: str(at_s), SIGNATURE: f"v1={made}"}
            return headers | ({IDEMPOTENCY: id} if id else {})
        case "standard":
            made = base64.b64encode(hmac.digest(key, f"{id}.{at_s}.".encode() + body, "sha256")).decode()
            return {STANDARD_ID: id, STANDARD_TIMESTAMP: str(at_s), STANDARD_SIGNATURE: f"v1,{made}"}
        case "github":
            headers = {GITHUB_SIGNATURE: f"sha256={hmac.digest(key, body, 'sha256').hex()}"}
            return headers | ({GITHUB_ID: id} if id else {})


def key_of(scheme: Scheme, secret: str) -> bytes:
    """The secret's bytes. Raises ConfigError, which does not repeat it."""
    if secret != secret.strip():
        raise ConfigError("its secret begins or ends with a space or a new line")
    if scheme == "standard":
        try:
            key = base64.b64decode(secret.removeprefix(STANDARD_PREFIX).encode(), validate=True)
        except (binascii.Error, UnicodeEncodeError):
            raise ConfigError(f"its secret is not {STANDARD_PREFIX} and base64") from None
    else:
        key = secret.encode(errors="surrogateescape")  # a variable's bytes, as they are in the environment
    if not key:
        raise ConfigError("it has no secret")
    if len(key) < SECRET_BYTES_MIN:
        raise ConfigError(f"its secret has {len(key)} bytes; at least {SECRET_BYTES_MIN} are needed")
    return key


def only(headers: Headers, name: str) -> str | None:
    """The value of a header that is there once; None if it is not there. Raises ValueError for anything else."""
    wanted = name.lower().encode()
    found = [value for key, value in headers if key.lower() == wanted]
    if not found:
        return None
    if len(found) > 1:
        raise ValueError(f"{name} is there {len(found)} times")
    if len(found[0]) > HEADER_CHARS_MAX:
        raise ValueError(f"{name} has over {HEADER_CHARS_MAX} characters")
    try:
        value = found[0].decode("ascii")
    except UnicodeDecodeError:
        raise ValueError(f"{name} is not ASCII") from None
    if not value.isprintable():
        raise ValueError(f"{name} holds control characters")
    return value.strip()


def _signed(hook: Hook, claim: _Claim, body: bytes) -> bool:
    """Every secret with every signature: as much work for what is refused as for what is taken."""
    candidates = (*claim.signatures, *(_NOBODYS,) * SIGNATURES_MAX)[:SIGNATURES_MAX]
    found = False
    for secret in (hook.secret, *hook.others):
        made = hmac.new(key_of(hook.scheme, secret), claim.head, hashlib.sha256)
        made.update(body)
        digest = made.digest()
        for candidate in candidates:
            found |= hmac.compare_digest(digest, candidate)
    return found


def _untimely(claim: _Claim, window_s: float, now_ms: int) -> str:
    if claim.at_s is None:
        return ""
    late_s = now_ms / 1000 - claim.at_s
    if abs(late_s) <= window_s:
        return ""
    return f"its time is {abs(late_s):.0f} s {'ago' if late_s > 0 else 'ahead'}; at most {window_s:g} s are taken"


# --- what a delivery says of itself --------------------------------------------------------------


def _claim(scheme: Scheme, headers: Headers) -> _Claim:
    given = list(headers)
    try:
        match scheme:
            case "timestamp":
                at = _needed(given, TIMESTAMP)
                signatures = _hexes(_needed(given, SIGNATURE).split(","), "v1")
                return _Claim(f"{at}.".encode(), signatures, _seconds(at, TIMESTAMP))
            case "standard":
                id, at = _needed(given, STANDARD_ID), _needed(given, STANDARD_TIMESTAMP)
                if "." in id:  # id.timestamp.body must be read in one way only
                    raise ValueError(f"{STANDARD_ID} has a dot in it")
                signatures = _base64s(_needed(given, STANDARD_SIGNATURE).split())
                return _Claim(f"{id}.{at}.".encode(), signatures, _seconds(at, STANDARD_TIMESTAMP), id.encode())
            case "github":
                return _Claim(signatures=_hexes([_needed(given, GITHUB_SIGNATURE)], "sha256"))
    except ValueError as error:
        return _Claim(trouble=str(error))


def _needed(headers: Headers, name: str) -> str:
    value = only(headers, name)
    if not value:
        raise ValueError(f"there is no {name}")
    return value


def _seconds(text: str, name: str) -> int:
    if not _SECONDS.fullmatch(text):
        raise ValueError(f"{name} is not a time in seconds")
    return int(text)


def _hexes(given: Sequence[str], version: str) -> tuple[bytes, ...]:
    """Those of this version; others are not our business, as long as there is one of ours."""
    pairs = [one.strip().partition("=") for one in given]
    ours = [value for name, mark, value in pairs if mark and name == version]
    _check_count(given, ours, version)
    if not all(_HEX.fullmatch(one) for one in ours):
        raise ValueError("a signature is not 64 hexadecimal digits")
    return tuple(bytes.fromhex(one) for one in ours)


def _base64s(given: Sequence[str]) -> tuple[bytes, ...]:
    pairs = [one.partition(",") for one in given]
    ours = [value for name, mark, value in pairs if mark and name == "v1"]
    _check_count(given, ours, "v1")
    if not all(_BASE64.fullmatch(one) for one in ours):
        raise ValueError("a signature is not base64 of 32 bytes")
    return tuple(base64.b64decode(one) for one in ours)


def _check_count(given: Sequence[str], ours: Sequence[str], version: str) -> None:
    if len(given) > SIGNATURES_MAX:
        raise ValueError(f"there are over {SIGNATURES_MAX} signatures")
    if not ours:
        raise ValueError(f"none of its signatures is {version}")
