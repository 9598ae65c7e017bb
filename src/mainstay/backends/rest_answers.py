"""What an API answered, as a model reads it: the useful part, bounded, and nothing of what the owner sent along."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from mainstay.backends.common import BackendRefused, clean_line, clean_name, cut, page
from mainstay.io.fetch import Fetched, text_of
from mainstay.io.html import readable
from mainstay.io.http import Response

TEXT_BYTES_MAX = 512 * 1024
TROUBLE_CHARS_MAX = 1_000
SECRET_CHARS_MIN = 8

_TEXTS = ("json", "xml", "javascript", "yaml", "csv", "toml", "sql", "x-www-form-urlencoded")
_NEXT = re.compile(r"<([^<>]{1,2000})>\s*;[^,<]{0,200}?rel=\"?next\"?", re.IGNORECASE)
_SAYING = ("message", "error_description", "detail", "error", "title", "errors")


class Secrets:
    """Values that only the owner and the server know. A server may say them back; they are not passed on."""

    def __init__(self, headers: Sequence[tuple[str, str]]) -> None:
        found = {part for _, value in headers for part in (value, *value.split(" ")) if len(part) >= SECRET_CHARS_MIN}
        escaped = {msgspec.json.encode(one).decode()[1:-1] for one in found}
        self._values = sorted(found | escaped, key=len, reverse=True)

    def hidden(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, "[hidden]")
        return text


def told(response: Response, rows_max: int, offset: int | None, secrets: Secrets) -> str:
    """The answer; raises BackendRefused with what the server says, if it refused or failed."""
    fetched = response.fetched
    if fetched.status >= 300:
        raise BackendRefused(_trouble(response, secrets))
    head = f"HTTP {fetched.status}" + (f" {clean_line(fetched.mime, 60)}" if fetched.mime else "")
    said = [_content(fetched, rows_max, offset), _more(response)]
    whole = "\n".join((head, *(text for text in said if text)))
    return cut(secrets.hidden(whole), TEXT_BYTES_MAX, "\n[the rest is left out]")


def _content(fetched: Fetched, rows_max: int, offset: int | None) -> str:
    if not fetched.body:
        return ""
    if "json" in fetched.mime or not fetched.mime:
        try:
            return _json(msgspec.json.decode(fetched.body), rows_max, offset)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            pass  # it says so and is not
    if not _is_text(fetched):
        return f"[{len(fetched.body)} bytes that are no text]"
    text = text_of(fetched)
    if fetched.mime in ("text/html", "application/xhtml+xml"):
        text = readable(text, fetched.url).text
    shown, note = page(text.splitlines(), offset, rows_max * 10)
    return "\n".join((*shown, note) if note else shown)


def _is_text(fetched: Fetched) -> bool:
    if b"\x00" in fetched.body[:4096]:
        return False
    return not fetched.mime or fetched.mime.startswith("text/") or any(kind in fetched.mime for kind in _TEXTS)


def _json(value: Any, rows_max: int, offset: int | None) -> str:
    """Compact; the rows of a list one to a line, so many at a time. A list may be wrapped in an object."""
    if isinstance(value, list):
        return _rows(value, rows_max, offset)
    name = _listing(value, rows_max) if isinstance(value, dict) else ""
    if not name:
        return msgspec.json.encode(value).decode()
    rest = msgspec.json.encode({key: one for key, one in value.items() if key != name}).decode()
    return f"{rest}\n{clean_name(name)}:\n{_rows(value[name], rows_max, offset)}"


def _listing(value: dict[str, Any], rows_max: int) -> str:
    """The name of the one long list in it."""
    long = [key for key, one in value.items() if isinstance(one, list) and len(one) > rows_max]
    return max(long, key=lambda key: len(value[key]), default="")


def _rows(rows: list[Any], rows_max: int, offset: int | None) -> str:
    shown, note = page(rows, offset, rows_max)
    lines = [msgspec.json.encode(row).decode() for row in shown]
    return "\n".join((*lines, note) if note else lines) or "[]"


def _more(response: Response) -> str:
    """Where the server itself says that there is a next page: by which parameters."""
    found = _NEXT.search(response.headers.get("link", "")[:8000])
    if found is None:
        return ""
    try:
        pairs = parse_qsl(urlsplit(found[1]).query, max_num_fields=30)
    except ValueError:
        return ""
    shown = ", ".join(f"{clean_name(name)}={clean_name(value)}" for name, value in pairs)
    return f"[the server has more: {shown}]" if shown else ""


def _trouble(response: Response, secrets: Secrets) -> str:
    """What is hidden is hidden before anything is cut: half a secret would not be found any more."""
    fetched = response.fetched
    head = f"HTTP {fetched.status}"
    if fetched.status < 400:
        place = clean_line(secrets.hidden(response.headers.get("location", "")), 200)
        return f"{head}: it leads elsewhere{f' ({place})' if place else ''}, which is not followed."
    said = clean_line(secrets.hidden(_said(fetched)), TROUBLE_CHARS_MAX)
    return f"{head}: {said}" if said else f"{head}, and the server says no more."


def _said(fetched: Fetched) -> str:
    if "json" in fetched.mime:
        try:
            value = msgspec.json.decode(fetched.body)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            parts = [value[key] for key in _SAYING if value.get(key)]
            value = parts if parts else value
        if value is not None:
            texts = [one if isinstance(one, str) else msgspec.json.encode(one).decode() for one in _listed(value)]
            return " — ".join(texts)
    if not fetched.body or not _is_text(fetched):
        return ""
    text = text_of(fetched)
    if fetched.mime in ("text/html", "application/xhtml+xml"):
        return readable(text, fetched.url).text
    return text


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
