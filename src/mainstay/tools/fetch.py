"""The `fetch` tool: returns a web page as text, or shows an image."""

from __future__ import annotations

import ssl
from collections import OrderedDict

import msgspec

from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.worker_threads import run_in_thread
from mainstay.io.fetch import FetchResult, FetchRules, HostResolver, UrlFilter, decode_body, fetch
from mainstay.io.urls import parse_url
from mainstay.tools.base import BuiltInTool, ToolArguments, ToolRefused
from mainstay.tools.dependencies import ToolDependencies

PAGE_CHARS_MAX = 15_000
CACHED_PAGES_MAX = 16
CACHED_PAGE_CHARS_MAX = 1_000_000
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_TEXT_TYPES = ("json", "xml", "javascript", "yaml", "csv", "toml", "x-sh", "sql", "x-www-form-urlencoded")


class _FetchArguments(ToolArguments, frozen=True):
    url: str
    offset: int | None = None


class _CachedPage(msgspec.Struct, frozen=True):
    """A fetched page, cached for reading on with an offset."""

    heading: str
    text: str


class FetchTool(BuiltInTool):
    name = "fetch"
    description = "Get a web page as text (http, https). offset: read on in a long one."
    arguments = _FetchArguments
    effect: Effect = "idempotent"
    timeout_s: float | None = 30.0
    untrusted = True
    sink: bool | tuple[str, ...] = ("url",)
    private = False  # it reaches public addresses, and those that the owner opened
    is_read_only = True
    parallel = True  # a request changes nothing here
    capabilities: tuple[str, ...] = ("net",)

    def __init__(
        self, rules: FetchRules, allow: UrlFilter | None, resolve: HostResolver | None, tls: ssl.SSLContext | None
    ):
        self._rules = rules
        self._allow = allow
        self._resolve = resolve
        self._tls = tls
        self._pages: OrderedDict[tuple[str, str], _CachedPage] = OrderedDict()  # LRU, by session and URL

    async def run(self, arguments: _FetchArguments, context: ToolContext) -> str:
        offset = max(arguments.offset or 0, 0)
        key = (context.session, parse_url(arguments.url).url)
        page = self._pages.get(key) if offset else None  # reading on needs no request
        if page is None:
            fetched = await fetch(
                arguments.url, rules=self._rules, allow=self._allow, resolve=self._resolve, tls=self._tls
            )
            if fetched.mime in IMAGE_TYPES and fetched.body:
                return _attach_image(fetched, context)
            page = await run_in_thread(lambda: _to_cached_page(fetched))
            self._cache_page(key, page)
        self._pages.move_to_end(key)
        return _format_page(page, offset)

    def _cache_page(self, key: tuple[str, str], page: _CachedPage) -> None:
        self._pages[key] = page
        while len(self._pages) > CACHED_PAGES_MAX:
            self._pages.popitem(last=False)


def create_fetch_tool(
    rules: FetchRules | None = None,
    allow: UrlFilter | None = None,
    *,
    resolve: HostResolver | None = None,
    tls: ssl.SSLContext | None = None,
) -> Tool:
    """Create the tool. `allow` is called with every URL, redirects included; `resolve` and `tls` are for tests."""
    return FetchTool(rules or FetchRules(), allow, resolve, tls)


def build(dependencies: ToolDependencies) -> Tool:
    """Create the tool; redirect targets are checked against the policy like the requested URL."""
    tool = create_fetch_tool(dependencies.fetch_rules, lambda url: not dependencies.is_url_denied(tool, url))
    return tool


def _to_cached_page(result: FetchResult) -> _CachedPage:
    head = result.url if result.status == 200 else f"{result.url} (HTTP {result.status})"
    if not _is_text(result):
        kind = result.mime or "no text"
        raise ToolRefused(f"{head} is {kind}, {len(result.body)} bytes: only text and images are shown.")
    text = decode_body(result)
    if result.mime in ("text/html", "application/xhtml+xml") or _looks_like_html(text):
        from mainstay.io.html import convert_html  # only needed for a page

        page = convert_html(text, result.url)
        head = f"{head}\n# {page.title}" if page.title else head
        text = page.text
    return _CachedPage(head, text[:CACHED_PAGE_CHARS_MAX])


def _is_text(result: FetchResult) -> bool:
    if b"\x00" in result.body[:4096] and not result.body.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    mime = result.mime
    return not mime or mime.startswith("text/") or any(kind in mime for kind in _TEXT_TYPES)


def _looks_like_html(text: str) -> bool:
    return text[:200].lstrip("\ufeff \t\r\n").lower().startswith(("<!doctype html", "<html"))


def _attach_image(result: FetchResult, context: ToolContext) -> str:
    context.attach(result.mime, result.body, result.url)
    return f"{result.url}\n[{result.mime}, {len(result.body)} bytes, shown below]"


def _format_page(page: _CachedPage, offset: int) -> str:
    total = len(page.text)
    if offset and offset >= total:
        return f"{page.heading}\n[it has {total} characters; there is nothing from {offset} on]"
    end = min(offset + PAGE_CHARS_MAX, total)
    text = page.text[offset:end] or "(no text)"
    if not offset and end == total:
        return f"{page.heading}\n\n{text}"
    rest = f"; read on with offset={end}" if end < total else ""
    return f"{page.heading}\n\n{text}\n[characters {offset} to {end} of {total}{rest}]"
