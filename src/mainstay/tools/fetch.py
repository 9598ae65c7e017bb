"""`fetch`: a page of the web as text."""

from __future__ import annotations

import ssl
from collections import OrderedDict

import msgspec

from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.workers import in_thread
from mainstay.io.addresses import place_of
from mainstay.io.fetch import Allow, Fetched, FetchRules, Resolve, fetch, text_of
from mainstay.io.html import readable
from mainstay.tools.common import Arguments, BuiltIn, ToolRefused

PAGE_CHARS = 15_000
PAGES_MAX = 16
PAGE_KEPT_CHARS_MAX = 1_000_000
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_TEXTS = ("json", "xml", "javascript", "yaml", "csv", "toml", "x-sh", "sql", "x-www-form-urlencoded")


class _Fetch(Arguments, frozen=True):
    url: str
    offset: int | None = None


class _Read(msgspec.Struct, frozen=True):
    """A page, as it is read on in."""

    head: str
    text: str


class Fetch(BuiltIn):
    name = "fetch"
    description = "Get a web page as text (http, https). offset: read on in a long one."
    arguments = _Fetch
    effect: Effect = "idempotent"
    timeout_s: float | None = 30.0
    untrusted = True
    sink: bool | tuple[str, ...] = ("url",)
    capabilities: tuple[str, ...] = ("net",)

    def __init__(self, rules: FetchRules, allow: Allow | None, resolve: Resolve | None, tls: ssl.SSLContext | None):
        self._rules = rules
        self._allow = allow
        self._resolve = resolve
        self._tls = tls
        self._pages: OrderedDict[tuple[str, str], _Read] = OrderedDict()  # by session and address, the last used last

    async def run(self, arguments: _Fetch, context: ToolContext) -> str:
        offset = max(arguments.offset or 0, 0)
        key = (context.session, place_of(arguments.url).url)
        page = self._pages.get(key) if offset else None  # reading on asks nobody again
        if page is None:
            fetched = await fetch(
                arguments.url, rules=self._rules, allow=self._allow, resolve=self._resolve, tls=self._tls
            )
            if fetched.mime in IMAGES and fetched.body:
                return _image(fetched, context)
            page = await in_thread(lambda: _page(fetched))
            self._keep(key, page)
        self._pages.move_to_end(key)
        return _shown(page, offset)

    def _keep(self, key: tuple[str, str], page: _Read) -> None:
        self._pages[key] = page
        while len(self._pages) > PAGES_MAX:
            self._pages.popitem(last=False)


def fetch_tool(
    rules: FetchRules | None = None,
    allow: Allow | None = None,
    *,
    resolve: Resolve | None = None,
    tls: ssl.SSLContext | None = None,
) -> Tool:
    """`allow` is asked about every address, redirects too; `resolve` and `tls` are for tests and odd networks."""
    return Fetch(rules or FetchRules(), allow, resolve, tls)


def _page(fetched: Fetched) -> _Read:
    head = fetched.url if fetched.status == 200 else f"{fetched.url} (HTTP {fetched.status})"
    if not _is_text(fetched):
        kind = fetched.mime or "no text"
        raise ToolRefused(f"{head} is {kind}, {len(fetched.body)} bytes: only text and images are shown.")
    text = text_of(fetched)
    if fetched.mime in ("text/html", "application/xhtml+xml") or _begins_like_html(text):
        page = readable(text, fetched.url)
        head = f"{head}\n# {page.title}" if page.title else head
        text = page.text
    return _Read(head, text[:PAGE_KEPT_CHARS_MAX])


def _is_text(fetched: Fetched) -> bool:
    if b"\x00" in fetched.body[:4096] and not fetched.body.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    mime = fetched.mime
    return not mime or mime.startswith("text/") or any(kind in mime for kind in _TEXTS)


def _begins_like_html(text: str) -> bool:
    return text[:200].lstrip("\ufeff \t\r\n").lower().startswith(("<!doctype html", "<html"))


def _image(fetched: Fetched, context: ToolContext) -> str:
    context.attach(fetched.mime, fetched.body, fetched.url)
    return f"{fetched.url}\n[{fetched.mime}, {len(fetched.body)} bytes, shown below]"


def _shown(page: _Read, offset: int) -> str:
    total = len(page.text)
    if offset and offset >= total:
        return f"{page.head}\n[it has {total} characters; there is nothing from {offset} on]"
    end = min(offset + PAGE_CHARS, total)
    said = page.text[offset:end] or "(no text)"
    if not offset and end == total:
        return f"{page.head}\n\n{said}"
    rest = f"; read on with offset={end}" if end < total else ""
    return f"{page.head}\n\n{said}\n[characters {offset} to {end} of {total}{rest}]"
