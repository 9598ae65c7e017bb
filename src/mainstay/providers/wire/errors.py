"""Maps error responses, error events and network failures of model APIs to the errors of `core`. Only done here."""

from __future__ import annotations

import ipaddress
import re
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from mainstay.core.errors import (
    ContextTooLong,
    Overloaded,
    ProviderError,
    RateLimited,
    RequestRefused,
    StreamBroken,
    Unauthorised,
    Unreachable,
)
from mainstay.providers.wire.decoding import DECODING_ERRORS, bound_window
from mainstay.providers.wire.rate_limit_headers import parse_rate_limits
from mainstay.providers.wire.rate_limit_headers import parse_retry_after_s as parse_retry_after_s

MESSAGE_CHARS_MAX = 500
_KEY_ADVICE = "check that it is set and may use this model"
_CONTEXT_TOO_LONG = re.compile(
    r"context[ _-]?(?:length|window|size)|maximum context|prompt is too long|too many (?:input )?tokens"
    r"|input (?:is too long|length)|exceeds? the (?:available )?context|reduce the length|token limit"
    r"|exceeds the maximum number of tokens",
    re.IGNORECASE,
)
_WINDOW_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?:maximum|max(?:imum)? context|context (?:length|window|size))[^.\d]{0,60}?([\d,]{3,9})\b",
        r"> ([\d,]{3,9}) maximum",
        r"limit(?: of| is)? ([\d,]{3,9})\b",
    )
)
# larger than the account's limit per minute
_REQUEST_TOO_LARGE = re.compile(r"\brequest (?:is )?too large\b", re.IGNORECASE)
_LIMIT_AND_REQUESTED = re.compile(r"\blimit:? ?([\d,]{1,12})\b.{0,80}?\brequested:? ?([\d,]{1,12})\b", re.IGNORECASE)
# Google sends it with status 400
_INVALID_KEY = re.compile(r"\bapi key (?:not valid|expired|not found)", re.IGNORECASE)
_RETRY_IN = re.compile(r"retry in (\d{1,6}(?:\.\d+)?) ?s\b", re.IGNORECASE)  # Google has no Retry-After header
_URL_CREDENTIALS = re.compile(r"//[^/@\s]*@")


class ProviderErrorReport(msgspec.Struct, frozen=True):
    """An error as the provider describes it, in any of the known formats."""

    message: str = ""
    kind: str = ""  # the provider's error type or code
    status: int = 0  # HTTP status inside the body, as some routers send it; 0: none


def error_from_status(
    label: str, status: int, headers: Mapping[str, str], body: bytes, *, now_s: float
) -> ProviderError:
    """Return the error for a response whose status is not 200."""
    report = parse_error_body(body)
    wait_s = parse_retry_after_s(headers, now_s=now_s)
    details = f"HTTP {status} {report.kind}".strip()
    for name in ("x-request-id", "request-id"):
        if value := headers.get(name):
            details += f", request {value[:80]}"
    error = _classify_error(label, status, report, details, wait_s)
    error.rate_limits = parse_rate_limits(headers, now_s=now_s)
    return error


def error_from_report(label: str, report: ProviderErrorReport) -> ProviderError:
    """Return the error for an error event before the first piece."""
    status = report.status or _STATUS_BY_ERROR.get(report.kind, 0) or (400 if _is_context_too_long(report) else 500)
    return _classify_error(label, status, report, f"error event {report.kind}".strip(), None)


def error_for_interruption(label: str, report: ProviderErrorReport) -> StreamBroken:
    """Return the error for an error event after the first piece."""
    reason = _clip(report.message or report.kind) or "no reason given"
    return StreamBroken(f"{label} stopped in the middle of its answer: {reason}", details=report.kind)


def error_for_unreachable(label: str, url: str, error: BaseException) -> Unreachable:
    sentence = (
        f"{label} cannot be reached at {format_origin(url)}; check the address, the network, and that it is running"
    )
    if isinstance(error, ssl.SSLCertVerificationError):
        sentence = (
            f"the certificate of {label} at {format_origin(url)} is not trusted: {_clip(error.verify_message)}; check "
            "the address, this machine's clock and its CA certificates (SSL_CERT_FILE)"
        )
    unreachable = Unreachable(
        sentence, details=f"{type(error).__name__}: {_URL_CREDENTIALS.sub('//', _clip(str(error)))}"
    )
    if isinstance(error, ssl.SSLCertVerificationError):
        unreachable.retryable = False  # a certificate does not change within seconds
    elif isinstance(error, ConnectionRefusedError) and _is_loopback(url):
        unreachable.is_not_running, unreachable.counts_as_failure = True, False
        unreachable.args = (f"{label} is not running: connections to {format_origin(url)} are refused",)
    return unreachable


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def error_for_missing_stream(label: str, body: bytes) -> ProviderError:
    """Return the error for a response with status 200 and no events."""
    report = parse_error_body(body)
    if report.kind or report.status:
        return error_from_report(label, report)
    if not body.strip():
        return StreamBroken(f"{label} sent an empty answer")
    content = "an HTML page" if _is_html(body) else "other data"
    details = "" if _is_html(body) else _clip_bytes(body)
    sentence = f"{label} sent {content} instead of an event stream; check base_url"
    return StreamBroken(sentence, details=details, retryable=False)


def name_key_places(error: ProviderError, places: str) -> ProviderError:
    """Name the setting and the variable of the API key in an error about a key that was refused."""
    if isinstance(error, Unauthorised) and places:
        advice = f"check the one in {places}, and that it may use this model"
        error.args = tuple(str(arg).replace(_KEY_ADVICE, advice) for arg in error.args)
    return error


def format_origin(url: str) -> str:
    """Return scheme, host and port of a URL, without any password or key in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


# --- classification ------------------------------------------------------------------------------

_STATUS_BY_ERROR = {
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 402,
    "billing_error": 402,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
}


def _classify_error(
    label: str, status: int, report: ProviderErrorReport, details: str, wait_s: float | None
) -> ProviderError:
    reason = f": {report.message}" if report.message else ""
    # the message may contain part of the key, so it is left out
    if status in (401, 403) or (status == 400 and _INVALID_KEY.search(report.message)):
        return Unauthorised(f"{label} refused the API key; {_KEY_ADVICE}", details=details)
    if status == 402 or report.kind == "insufficient_quota":
        return Unauthorised(f"{label} reports that this account has no credit left", details=details)
    if status in (413, 429) and (too_large := _parse_account_limit(report)) is not None:
        sentence = f"the request exceeds the token limit of this account at {label}{reason}"
        return ContextTooLong(sentence, details=details, window=too_large or None)
    if status == 429:
        if wait_s is None and (match := _RETRY_IN.search(report.message)) is not None:
            wait_s = float(match[1])
        return RateLimited(f"{label} asks to slow down (rate limit){reason}", details=details, retry_after_s=wait_s)
    if status in (408, 409) or status >= 500:
        sentence = f"{label} cannot answer at the moment{reason}"
        return Overloaded(sentence, details=details, retry_after_s=wait_s, counts_as_failure=status != 529)
    if status in (400, 413, 422) and _is_context_too_long(report):
        sentence = f"the conversation is too long for {label}{reason}"
        return ContextTooLong(sentence, details=details, window=_parse_window(report.message))
    if status == 404:
        sentence = f"{label} does not know this model or path; check the model's name and base_url{reason}"
        return RequestRefused(sentence, details=details)
    if 300 <= status < 400:
        return RequestRefused(f"{label} redirects to another address (HTTP {status}); check base_url", details=details)
    return RequestRefused(f"{label} refused the request{reason}", details=details)


def _parse_account_limit(report: ProviderErrorReport) -> int | None:
    """Return the account's token limit if the request exceeds it even when unused, so that waiting does not help.

    0 if the message does not name the limit; None if this is another error.
    """
    match = _LIMIT_AND_REQUESTED.search(report.message)
    limit, requested = (int(group.replace(",", "") or 0) for group in match.groups()) if match is not None else (0, 0)
    if requested > limit > 0 or _REQUEST_TOO_LARGE.search(report.message):
        return bound_window(limit)
    return None


def _parse_window(message: str) -> int | None:
    """Return the context window in tokens, if the message names it."""
    for pattern in _WINDOW_PATTERNS:
        if (match := pattern.search(message)) is not None:
            size = int(match[1].replace(",", "") or 0)
            return bound_window(size) or None
    return None


def _is_context_too_long(report: ProviderErrorReport) -> bool:
    return report.kind == "context_length_exceeded" or bool(_CONTEXT_TOO_LONG.search(report.message))


def parse_error_body(body: bytes) -> ProviderErrorReport:
    """Parse `{"error": {…}}`, `{"error": "…"}`, `{"message": "…"}`, `{"detail": …}`, a list of these, or text."""
    if not body.strip():
        return ProviderErrorReport()
    if _is_html(body):
        return ProviderErrorReport(message="an HTML page")
    try:
        decoded = msgspec.json.decode(body)
    except DECODING_ERRORS:
        return ProviderErrorReport(message=_clip_bytes(body))
    return parse_error_value(decoded)


def parse_error_value(decoded: Any) -> ProviderErrorReport:
    """Parse a decoded error body. It is untrusted and may have any shape."""
    if isinstance(decoded, list):
        decoded = decoded[0] if decoded else {}
    if isinstance(decoded, dict):
        inner = decoded.get("error", decoded)
        if isinstance(inner, dict):
            return _parse_error_object(inner)
        decoded = inner
    return ProviderErrorReport(message=_format_value(decoded))


def _parse_error_object(error: dict[str, Any]) -> ProviderErrorReport:
    message = error.get("message") or error.get("detail") or error.get("msg") or ""
    code, kind = error.get("code"), error.get("type")
    status = code if isinstance(code, int) and 300 <= code < 600 else 0
    names = [name for name in (code, kind) if isinstance(name, str)]
    known = next((name for name in names if name in _STATUS_BY_ERROR), names[0] if names else "")
    return ProviderErrorReport(_format_value(message), known[:80], status)


def _format_value(value: Any) -> str:
    """Format a decoded value in one line, or name its type if it is nested too deeply or has too many digits."""
    try:
        return _clip(value if isinstance(value, str) else str(value))
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} that cannot be shown"


def _is_html(body: bytes) -> bool:
    return body.lstrip()[:1] == b"<"


def _clip_bytes(body: bytes) -> str:
    return _clip(body[: MESSAGE_CHARS_MAX * 4].decode(errors="replace"))


def _clip(text: str) -> str:
    """Return the text as one line of at most `MESSAGE_CHARS_MAX` characters."""
    line = " ".join(text[: MESSAGE_CHARS_MAX * 4].split())
    return line if len(line) <= MESSAGE_CHARS_MAX else line[: MESSAGE_CHARS_MAX - 1] + "…"
