"""Webhook signatures: signing and verification of three schemes, with protection against replay.

    timestamp   X-Mainstay-Timestamp: 1767225600        X-Mainstay-Signature: v1=<hex>[,v1=<hex>]
                HMAC-SHA256(secret, timestamp + "." + body)
    standard    webhook-id, webhook-timestamp           webhook-signature: v1,<base64>[ v1,<base64>]
                HMAC-SHA256(secret, id + "." + timestamp + "." + body); the secret is whsec_<base64>
    github      X-Hub-Signature-256: sha256=<hex>
                HMAC-SHA256(secret, body): no time is signed, so there is no window

Signatures are computed over the raw bytes, before any parsing. Verification does the same work for every delivery,
right or wrong, so that its duration reveals nothing (timing attack).
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
from mainstay.core.triggers import Webhook

SignatureScheme = Literal["timestamp", "standard", "github"]
RawHeaders = Iterable[tuple[bytes, bytes]]

SECRET_BYTES_MIN = 16
SECRETS_MAX = 4
SIGNATURES_MAX = 8  # in one header
HEADER_CHARS_MAX = 1024
STANDARD_SECRET_PREFIX = "whsec_"

TIMESTAMP_HEADER = "X-Mainstay-Timestamp"
SIGNATURE_HEADER = "X-Mainstay-Signature"
STANDARD_ID_HEADER = "webhook-id"
STANDARD_TIMESTAMP_HEADER = "webhook-timestamp"
STANDARD_SIGNATURE_HEADER = "webhook-signature"
GITHUB_SIGNATURE_HEADER = "X-Hub-Signature-256"
GITHUB_DELIVERY_HEADER = "X-GitHub-Delivery"
IDEMPOTENCY_KEY_HEADER = "Idempotency-Key"

_SECONDS = re.compile(r"[1-9][0-9]{0,11}")
_HEX = re.compile(r"[0-9a-fA-F]{64}")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{43}=")
_DUMMY_SIGNATURE = bytes(32)  # fills up to SIGNATURES_MAX comparisons; a claim without signatures has a problem already


class SignatureInvalid(MainstayError):
    """The delivery has no valid signature, or is too old. The message is for the log, never for the sender."""


class VerifiedWebhookDelivery(msgspec.Struct, frozen=True):
    """A delivery whose sender knows the secret. `nonce` is the same for the same signed content, whatever else differs:
    the secret (rotation), the letter case of the signature, other headers. Use it to detect replays."""

    nonce: str


class _SignatureClaim(msgspec.Struct, frozen=True):
    """The signature headers of a delivery. `problem` says why they cannot be parsed; "" if they can."""

    signed_prefix: bytes = b""  # the signed bytes before the body
    signatures: tuple[bytes, ...] = ()
    at_s: int | None = None  # None: the scheme signs no time
    id: bytes = b""  # signed delivery id, the same for every retry; empty if the scheme signs none
    problem: str = ""


def verify_signature(webhook: Webhook, headers: RawHeaders, body: bytes, now_ms: int) -> VerifiedWebhookDelivery:
    """Verify the signature and time of a delivery. Raises SignatureInvalid."""
    claim = _parse_claim(webhook.scheme, headers)
    is_signed = _has_valid_signature(webhook, claim, body)
    problem = (
        claim.problem
        or ("" if is_signed else "no signature fits")
        or _find_time_problem(claim, webhook.window_s, now_ms)
    )
    if problem:
        raise SignatureInvalid(problem)
    digest = hashlib.sha256(msgspec.json.encode((webhook.name, webhook.scheme)))
    digest.update(b"id:" + claim.id if claim.id else b"signed:" + claim.signed_prefix)
    if not claim.id:
        digest.update(body)
    return VerifiedWebhookDelivery(digest.hexdigest()[:40])


def sign_webhook(scheme: SignatureScheme, secret: str, body: bytes, *, at_s: int = 0, id: str = "") -> dict[str, str]:
    """Return the headers that a sender adds. `at_s` is the current Unix time; `id` identifies the delivery and is the
    same for every retry."""
    key = decode_secret(scheme, secret)
    match scheme:
        case "timestamp":
            signature = hmac.digest(key, f"{at_s}.".encode() + body, "sha256").hex()
            headers = {TIMESTAMP_HEADER: str(at_s), SIGNATURE_HEADER: f"v1={signature}"}
            return headers | ({IDEMPOTENCY_KEY_HEADER: id} if id else {})
        case "standard":
            signature = base64.b64encode(hmac.digest(key, f"{id}.{at_s}.".encode() + body, "sha256")).decode()
            return {
                STANDARD_ID_HEADER: id,
                STANDARD_TIMESTAMP_HEADER: str(at_s),
                STANDARD_SIGNATURE_HEADER: f"v1,{signature}",
            }
        case "github":
            headers = {GITHUB_SIGNATURE_HEADER: f"sha256={hmac.digest(key, body, 'sha256').hex()}"}
            return headers | ({GITHUB_DELIVERY_HEADER: id} if id else {})


def decode_secret(scheme: SignatureScheme, secret: str) -> bytes:
    """Decode the secret to its key bytes. Raises ConfigError, whose message does not contain the secret."""
    if secret != secret.strip():
        raise ConfigError("its secret begins or ends with a space or a new line")
    if scheme == "standard":
        try:
            key = base64.b64decode(secret.removeprefix(STANDARD_SECRET_PREFIX).encode(), validate=True)
        except (binascii.Error, UnicodeEncodeError):
            raise ConfigError(f"its secret is not {STANDARD_SECRET_PREFIX} followed by base64") from None
    else:
        key = secret.encode(errors="surrogateescape")  # the exact bytes of an environment variable
    if not key:
        raise ConfigError("it has no secret")
    if len(key) < SECRET_BYTES_MIN:
        raise ConfigError(f"its secret has {len(key)} bytes; at least {SECRET_BYTES_MIN} are needed")
    return key


def get_single_header(headers: RawHeaders, name: str) -> str | None:
    """Return the value of a header that may occur once; None if absent. Raises ValueError for a bad or repeated one."""
    lower_name = name.lower().encode()
    values = [value for key, value in headers if key.lower() == lower_name]
    if not values:
        return None
    if len(values) > 1:
        raise ValueError(f"{name} occurs {len(values)} times")
    if len(values[0]) > HEADER_CHARS_MAX:
        raise ValueError(f"{name} is longer than {HEADER_CHARS_MAX} characters")
    try:
        value = values[0].decode("ascii")
    except UnicodeDecodeError:
        raise ValueError(f"{name} is not ASCII") from None
    if not value.isprintable():
        raise ValueError(f"{name} contains control characters")
    return value.strip()


def _has_valid_signature(webhook: Webhook, claim: _SignatureClaim, body: bytes) -> bool:
    """Compare every secret with every signature, in constant time: as much work for a refusal as for a success."""
    candidates = (*claim.signatures, *(_DUMMY_SIGNATURE,) * SIGNATURES_MAX)[:SIGNATURES_MAX]
    matches = False
    for secret in (webhook.secret, *webhook.other_secrets):
        mac = hmac.new(decode_secret(webhook.scheme, secret), claim.signed_prefix, hashlib.sha256)
        mac.update(body)
        digest = mac.digest()
        for candidate in candidates:
            matches |= hmac.compare_digest(digest, candidate)
    return matches


def _find_time_problem(claim: _SignatureClaim, window_s: float, now_ms: int) -> str:
    if claim.at_s is None:
        return ""
    late_s = now_ms / 1000 - claim.at_s
    if abs(late_s) <= window_s:
        return ""
    return f"its time is {abs(late_s):.0f} s {'ago' if late_s > 0 else 'ahead'}; at most {window_s:g} s are allowed"


# --- parsing headers -----------------------------------------------------------------------------


def _parse_claim(scheme: SignatureScheme, headers: RawHeaders) -> _SignatureClaim:
    all_headers = list(headers)
    try:
        match scheme:
            case "timestamp":
                timestamp = _require_header(all_headers, TIMESTAMP_HEADER)
                signatures = _parse_hex_signatures(_require_header(all_headers, SIGNATURE_HEADER).split(","), "v1")
                return _SignatureClaim(
                    f"{timestamp}.".encode(), signatures, _parse_seconds(timestamp, TIMESTAMP_HEADER)
                )
            case "standard":
                id, timestamp = (
                    _require_header(all_headers, STANDARD_ID_HEADER),
                    _require_header(all_headers, STANDARD_TIMESTAMP_HEADER),
                )
                if "." in id:  # id.timestamp.body must be unambiguous
                    raise ValueError(f"{STANDARD_ID_HEADER} contains a dot")
                signatures = _parse_base64_signatures(_require_header(all_headers, STANDARD_SIGNATURE_HEADER).split())
                return _SignatureClaim(
                    f"{id}.{timestamp}.".encode(),
                    signatures,
                    _parse_seconds(timestamp, STANDARD_TIMESTAMP_HEADER),
                    id.encode(),
                )
            case "github":
                return _SignatureClaim(
                    signatures=_parse_hex_signatures([_require_header(all_headers, GITHUB_SIGNATURE_HEADER)], "sha256")
                )
    except ValueError as error:
        return _SignatureClaim(problem=str(error))


def _require_header(headers: RawHeaders, name: str) -> str:
    value = get_single_header(headers, name)
    if not value:
        raise ValueError(f"there is no {name}")
    return value


def _parse_seconds(text: str, name: str) -> int:
    if not _SECONDS.fullmatch(text):
        raise ValueError(f"{name} is not a time in seconds")
    return int(text)


def _parse_hex_signatures(texts: Sequence[str], version: str) -> tuple[bytes, ...]:
    """Parse the signatures of this version; others are ignored, as long as there is one of this version."""
    pairs = [text.strip().partition("=") for text in texts]
    values = [value for name, mark, value in pairs if mark and name == version]
    _check_signature_count(texts, values, version)
    if not all(_HEX.fullmatch(value) for value in values):
        raise ValueError("a signature is not 64 hexadecimal digits")
    return tuple(bytes.fromhex(value) for value in values)


def _parse_base64_signatures(texts: Sequence[str]) -> tuple[bytes, ...]:
    pairs = [text.partition(",") for text in texts]
    values = [value for name, mark, value in pairs if mark and name == "v1"]
    _check_signature_count(texts, values, "v1")
    if not all(_BASE64.fullmatch(value) for value in values):
        raise ValueError("a signature is not base64 of 32 bytes")
    return tuple(base64.b64decode(value) for value in values)


def _check_signature_count(texts: Sequence[str], values: Sequence[str], version: str) -> None:
    if len(texts) > SIGNATURES_MAX:
        raise ValueError(f"there are over {SIGNATURES_MAX} signatures")
    if not values:
        raise ValueError(f"there is no {version} signature")
