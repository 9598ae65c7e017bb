"""Formats HTTP responses for the model: readable text, limited in size, without the owner's secrets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import parse_qsl, urlsplit

import msgspec

from mainstay.backends.base import BackendRefused, clean_line, clean_name, paginate, truncate_bytes
from mainstay.core.json_types import JsonValue
from mainstay.io.fetch import FetchResult, decode_body
from mainstay.io.html import convert_html
from mainstay.io.http_client import HttpResponse

TEXT_BYTES_MAX = 512 * 1024
ERROR_CHARS_MAX = 1_000
SECRET_CHARS_MIN = 8

_TEXT_MIME_PARTS = ("json", "xml", "javascript", "yaml", "csv", "toml", "sql", "x-www-form-urlencoded")
_NEXT_LINK = re.compile(r"<([^<>]{1,2000})>\s*;[^,<]{0,200}?rel=\"?next\"?", re.IGNORECASE)
_ERROR_FIELDS = ("message", "error_description", "detail", "error", "title", "errors")


class OwnerHeaderMasker:
    """Masks the values of the owner's headers, which a server may echo."""

    def __init__(self, headers: Sequence[tuple[str, str]]) -> None:
        values = {part for _, value in headers for part in (value, *value.split(" ")) if len(part) >= SECRET_CHARS_MIN}
        escaped = {msgspec.json.encode(text).decode()[1:-1] for text in values}
        self._values = sorted(values | escaped, key=len, reverse=True)

    def mask(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, "[hidden]")
        return text


def format_response(response: HttpResponse, rows_max: int, offset: int | None, masker: OwnerHeaderMasker) -> str:
    """Format a response; raises BackendRefused with the error text of the server if the status is 300 or higher."""
    fetched = response.result
    if fetched.status >= 300:
        raise BackendRefused(_format_error(response, masker))
    status_line = f"HTTP {fetched.status}" + (f" {clean_line(fetched.mime, 60)}" if fetched.mime else "")
    parts = [_format_body(fetched, rows_max, offset), _format_next_page(response)]
    output = "\n".join((status_line, *(text for text in parts if text)))
    return truncate_bytes(masker.mask(output), TEXT_BYTES_MAX, "\n[the rest is left out]")


def _format_body(result: FetchResult, rows_max: int, offset: int | None) -> str:
    if not result.body:
        return ""
    if "json" in result.mime or not result.mime:
        try:
            return _format_json(msgspec.json.decode(result.body), rows_max, offset)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            pass  # not JSON, whatever the content type says
    if not _is_text(result):
        return f"[{len(result.body)} bytes that are not text]"
    text = decode_body(result)
    if result.mime in ("text/html", "application/xhtml+xml"):
        text = convert_html(text, result.url).text
    rows, note = paginate(text.splitlines(), offset, rows_max * 10)
    return "\n".join((*rows, note) if note else rows)


def _is_text(result: FetchResult) -> bool:
    if b"\x00" in result.body[:4096]:
        return False
    return not result.mime or result.mime.startswith("text/") or any(kind in result.mime for kind in _TEXT_MIME_PARTS)


def _format_json(value: JsonValue, rows_max: int, offset: int | None) -> str:
    """Format compact JSON, with the rows of a list one per line and paginated. Of an object, the longest list that
    exceeds `rows_max` is formatted like this."""
    if isinstance(value, list):
        return _format_rows(value, rows_max, offset)
    fields = value if isinstance(value, dict) else {}
    lists = [(name, field) for name, field in fields.items() if isinstance(field, list) and len(field) > rows_max]
    if not lists:
        return msgspec.json.encode(value).decode()
    name, rows = max(lists, key=lambda item: len(item[1]))
    other_fields = msgspec.json.encode({key: field for key, field in fields.items() if key != name}).decode()
    return f"{other_fields}\n{clean_name(name)}:\n{_format_rows(rows, rows_max, offset)}"


def _format_rows(rows: list[JsonValue], rows_max: int, offset: int | None) -> str:
    page_rows, note = paginate(rows, offset, rows_max)
    lines = [msgspec.json.encode(row).decode() for row in page_rows]
    return "\n".join((*lines, note) if note else lines) or "[]"


def _format_next_page(response: HttpResponse) -> str:
    """Return the query parameters of the next page, from the Link header."""
    match = _NEXT_LINK.search(response.headers.get("link", "")[:8000])
    if match is None:
        return ""
    try:
        pairs = parse_qsl(urlsplit(match[1]).query, max_num_fields=30)
    except ValueError:
        return ""
    parameters = ", ".join(f"{clean_name(name)}={clean_name(value)}" for name, value in pairs)
    return f"[the server has more: {parameters}]" if parameters else ""


def _format_error(response: HttpResponse, masker: OwnerHeaderMasker) -> str:
    """Format an error response. Secrets are masked before truncation: half a secret would not be recognized."""
    fetched = response.result
    status_line = f"HTTP {fetched.status}"
    if fetched.status < 400:
        location = clean_line(masker.mask(response.headers.get("location", "")), 200)
        return f"{status_line}: it redirects{f' ({location})' if location else ''}, which is not followed."
    message = clean_line(masker.mask(_find_error_text(fetched)), ERROR_CHARS_MAX)
    return f"{status_line}: {message}" if message else f"{status_line}, and the server gives no reason."


def _find_error_text(result: FetchResult) -> str:
    if "json" in result.mime:
        try:
            value = msgspec.json.decode(result.body)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            parts = [value[key] for key in _ERROR_FIELDS if value.get(key)]
            value = parts if parts else value
        if value is not None:
            texts = [part if isinstance(part, str) else msgspec.json.encode(part).decode() for part in _as_list(value)]
            return " — ".join(texts)
    if not result.body or not _is_text(result):
        return ""
    text = decode_body(result)
    if result.mime in ("text/html", "application/xhtml+xml"):
        return convert_html(text, result.url).text
    return text


def _as_list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else [value]
