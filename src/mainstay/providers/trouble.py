"""Everything a model API can answer instead of an answer, mapped to the errors of `core`. Only here."""

from __future__ import annotations

import re
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
from mainstay.providers.allowance import read
from mainstay.providers.allowance import retry_after_s as retry_after_s

MESSAGE_CHARS_MAX = 500
WINDOW_MIN = 512  # tokens; what says less means something else
_TOO_LONG = re.compile(
    r"context[ _-]?(?:length|window|size)|maximum context|prompt is too long|too many (?:input )?tokens"
    r"|input (?:is too long|length)|exceeds? the (?:available )?context|reduce the length|token limit"
    r"|exceeds the maximum number of tokens",
    re.IGNORECASE,
)
_WINDOW = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?:maximum|max(?:imum)? context|context (?:length|window|size))[^.\d]{0,60}?([\d,]{3,9})\b",
        r"> ([\d,]{3,9}) maximum",
        r"limit(?: of| is)? ([\d,]{3,9})\b",
    )
)
_TOO_LARGE = re.compile(r"\brequest (?:is )?too large\b", re.IGNORECASE)  # for what an account has in a minute
_ASKED_FOR = re.compile(r"\blimit:? ?([\d,]{1,12})\b.{0,80}?\brequested:? ?([\d,]{1,12})\b", re.IGNORECASE)
_BAD_KEY = re.compile(r"\bapi key (?:not valid|expired|not found)", re.IGNORECASE)  # Google's, with a 400
_RETRY_IN = re.compile(r"retry in (\d{1,6}(?:\.\d+)?) ?s\b", re.IGNORECASE)  # and where its Retry-After is
_PASSWORD = re.compile(r"//[^/@\s]*@")


class Report(msgspec.Struct, frozen=True):
    """What a provider said went wrong, whatever shape it chose."""

    message: str = ""
    kind: str = ""  # its own word for it: a type or a code
    status: int = 0  # an HTTP status inside the body, as some routers send it


def from_status(who: str, status: int, headers: Mapping[str, str], body: bytes, *, now_s: float) -> ProviderError:
    """An HTTP status that is not 200."""
    report = read_report(body)
    wait_s = retry_after_s(headers, now_s=now_s)
    details = f"HTTP {status} {report.kind}".strip()
    for name in ("x-request-id", "request-id"):
        if value := headers.get(name):
            details += f", request {value[:80]}"
    error = _judge(who, status, report, details, wait_s)
    error.allowance = read(headers, now_s=now_s)
    return error


def from_report(who: str, report: Report) -> ProviderError:
    """An error inside a stream that had said nothing yet."""
    status = report.status or _STATUS_OF.get(report.kind, 0) or (400 if _is_too_long(report) else 500)
    return _judge(who, status, report, f"error event {report.kind}".strip(), None)


def interrupted(who: str, report: Report) -> StreamBroken:
    """An error inside a stream that had begun to speak."""
    said = _clip(report.message or report.kind) or "no reason given"
    return StreamBroken(f"{who} stopped in the middle of its answer: {said}", details=report.kind)


def unreachable(who: str, url: str, error: BaseException) -> Unreachable:
    sentence = f"{who} cannot be reached at {address(url)}; check the address, the network, and that it is running"
    return Unreachable(sentence, details=f"{type(error).__name__}: {_PASSWORD.sub('//', _clip(str(error)))}")


def no_stream(who: str, stray: bytes) -> ProviderError:
    """A 200 that carried no events at all."""
    report = read_report(stray)
    if report.kind or report.status:
        return from_report(who, report)
    if not stray.strip():
        return StreamBroken(f"{who} sent an empty answer")
    what = "an HTML page" if _is_html(stray) else "something else"
    return StreamBroken(
        f"{who} sent {what} instead of a stream; check base_url", details="" if _is_html(stray) else _clip_bytes(stray)
    )


def address(url: str) -> str:
    """Scheme, host and port: never a password or a key that somebody put into an address."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


# --- which error it is ---------------------------------------------------------------------------

_STATUS_OF = {
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


def _judge(who: str, status: int, report: Report, details: str, wait_s: float | None) -> ProviderError:
    said = f": {report.message}" if report.message else ""
    if status in (401, 403) or (
        status == 400 and _BAD_KEY.search(report.message)
    ):  # what it says here may repeat part of the key
        return Unauthorised(f"{who} refused the API key; check that it is set and may use this model", details=details)
    if status == 402 or report.kind == "insufficient_quota":
        return Unauthorised(f"{who} says that this account has no credit left", details=details)
    if status in (413, 429) and (too_large := _too_large(report)) is not None:
        sentence = f"this is more at once than {who} takes from this account{said}"
        return ContextTooLong(sentence, details=details, window=too_large or None)
    if status == 429:
        if wait_s is None and (found := _RETRY_IN.search(report.message)) is not None:
            wait_s = float(found[1])
        return RateLimited(f"{who} asks to slow down{said}", details=details, retry_after_s=wait_s)
    if status in (408, 409) or status >= 500:
        sentence = f"{who} cannot answer at the moment{said}"
        return Overloaded(sentence, details=details, retry_after_s=wait_s, counts=status != 529)
    if status in (400, 413, 422) and _is_too_long(report):
        sentence = f"the conversation is too long for {who}{said}"
        return ContextTooLong(sentence, details=details, window=_window_in(report.message))
    if status == 404:
        return RequestRefused(f"{who} does not know this; check the model's name and base_url{said}", details=details)
    if 300 <= status < 400:
        return RequestRefused(f"{who} has moved elsewhere (HTTP {status}); check base_url", details=details)
    return RequestRefused(f"{who} refused the request{said}", details=details)


def _too_large(report: Report) -> int | None:
    """A request of more tokens than the account has when it has all of them: to wait is of no use. The limit, 0 where
    it is not said; None if it is not that."""
    found = _ASKED_FOR.search(report.message)
    limit, asked = (int(one.replace(",", "") or 0) for one in found.groups()) if found is not None else (0, 0)
    if asked > limit > 0 or _TOO_LARGE.search(report.message):
        return limit if limit >= WINDOW_MIN else 0
    return None


def _window_in(message: str) -> int | None:
    """How many tokens it takes, where it says so."""
    for pattern in _WINDOW:
        if (found := pattern.search(message)) is not None:
            size = int(found[1].replace(",", ""))
            return size if size >= WINDOW_MIN else None
    return None


def _is_too_long(report: Report) -> bool:
    return report.kind == "context_length_exceeded" or bool(_TOO_LONG.search(report.message))


def read_report(body: bytes) -> Report:
    """`{"error": {...}}`, `{"error": "..."}`, `{"message": "..."}`, `{"detail": ...}`, a list of those, or text."""
    if not body.strip():
        return Report()
    if _is_html(body):
        return Report(message="an HTML page")
    try:
        decoded = msgspec.json.decode(body)
    except (ValueError, RecursionError, msgspec.DecodeError):
        return Report(message=_clip_bytes(body))
    return report_of(decoded)


def report_of(decoded: Any) -> Report:
    """The same, decoded already; foreign and untyped by nature, so it is taken apart with care."""
    if isinstance(decoded, list):
        decoded = decoded[0] if decoded else {}
    if isinstance(decoded, dict):
        inner = decoded.get("error", decoded)
        if isinstance(inner, dict):
            return _report_of_object(inner)
        decoded = inner
    return Report(message=_clip(str(decoded)))


def _report_of_object(error: dict[str, Any]) -> Report:
    message = error.get("message") or error.get("detail") or error.get("msg") or ""
    code, kind = error.get("code"), error.get("type")
    status = code if isinstance(code, int) and 300 <= code < 600 else 0
    names = [name for name in (code, kind) if isinstance(name, str)]
    known = next((name for name in names if name in _STATUS_OF), names[0] if names else "")
    return Report(_clip(message if isinstance(message, str) else str(message)), known[:80], status)


def _is_html(body: bytes) -> bool:
    return body.lstrip()[:1] == b"<"


def _clip_bytes(body: bytes) -> str:
    return _clip(body[: MESSAGE_CHARS_MAX * 4].decode(errors="replace"))


def _clip(text: str) -> str:
    """One bounded line."""
    line = " ".join(text[: MESSAGE_CHARS_MAX * 4].split())
    return line if len(line) <= MESSAGE_CHARS_MAX else line[: MESSAGE_CHARS_MAX - 1] + "…"
