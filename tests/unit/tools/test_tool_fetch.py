"""`fetch`, against servers that are really there: pages as text, in pages, and nothing else."""

from __future__ import annotations

import asyncio

import pytest
from support.site_double import Site, moved, ok
from support.tool_world import call, calling

from mainstay.core.ports import Tool
from mainstay.io.fetch import FetchRules
from mainstay.io.http_response import FetchFailed
from mainstay.io.urls import AddressRefused
from mainstay.tools.base import ToolRefused
from mainstay.tools.fetch import CACHED_PAGES_MAX, PAGE_CHARS_MAX, create_fetch_tool


def fetching(*sites: Site) -> Tool:
    return create_fetch_tool(FetchRules(private_hosts=tuple(site.place for site in sites), timeout_s=60))


def test_it_may_run_again_reaches_out_and_brings_in_what_is_outside() -> None:
    tool = create_fetch_tool()
    assert (tool.effect, tool.sink, tool.capabilities, tool.untrusted) == ("idempotent", ("url",), ("net",), True)
    assert tool.timeout_s == 30


async def test_a_page_is_read_as_text_under_its_address_and_title() -> None:
    page = ok("<title>T</title><h1>Hi</h1><script>x</script><a href=y>z</a>", "text/html")
    async with Site(moved("/new"), page) as site:
        said = await call(fetching(site), url=site.url)
    assert said == f"{site.url}new\n# T\n\n# Hi\n\n[z]({site.url}y)"


@pytest.mark.parametrize(
    ("mime", "body", "shown"),
    [
        ("text/plain", "a <b>\n c", "a <b>\n c"),
        ("application/json", '{"a": 1}', '{"a": 1}'),
        ("application/problem+json; charset=utf-8", "{}", "{}"),
        ("application/xhtml+xml", "<p>x</p>", "x"),
        ("text/plain", "<!DOCTYPE html><p>x</p>", "x"),
        ("text/css", "p {}", "p {}"),
        ("", "hello", "hello"),
        ("text/plain", "", "(no text)"),
    ],
)
async def test_text_of_every_kind_is_shown(mime: str, body: str, shown: str) -> None:
    async with Site(ok(body, mime)) as site:
        assert await call(fetching(site), url=site.url) == f"{site.url}\n\n{shown}"


async def test_an_error_page_says_that_it_is_one() -> None:
    async with Site(b"HTTP/1.1 404 No\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\ngone") as site:
        assert await call(fetching(site), url=site.url) == f"{site.url} (HTTP 404)\n\ngone"


@pytest.mark.parametrize(
    "mime", ["application/pdf", "application/octet-stream", "application/zip", "video/mp4", "text/plain"]
)
async def test_binary_content_is_refused_with_its_kind_and_size(mime: str) -> None:
    async with Site(ok(b"%PDF\0\1\2", mime)) as site:
        with pytest.raises(ToolRefused, match=f"{mime}, 7 bytes"):
            await call(fetching(site), url=site.url)


async def test_an_image_is_attached() -> None:
    context = calling()
    async with Site(ok(b"\x89PNG123", "image/png")) as site:
        said = await call(fetching(site), context, url=site.url)
    assert said == f"{site.url}\n[image/png, 7 bytes, shown below]"
    (image,) = context.attachments
    assert (image.mime, image.data, image.path) == ("image/png", b"\x89PNG123", site.url)


async def test_a_long_page_is_read_on_in_without_asking_again() -> None:
    text = "".join(f"{number:09d}\n" for number in range(4_000))
    async with Site(ok(text)) as site:
        tool = fetching(site)
        read, offset = "", 0
        while True:
            said = await call(tool, url=site.url, **({"offset": offset} if offset else {}))
            body, _, note = said.partition("\n\n")[2].rpartition("\n[characters ")
            read += body
            if "read on with offset=" not in note:
                break
            offset = int(note.rpartition("=")[2].rstrip("]"))
        assert read == text
        assert len(site.heads) == 1
        assert f"there is nothing from {10**9} on" in await call(tool, url=site.url, offset=10**9)
        assert len(said) < PAGE_CHARS_MAX + 300
        await call(tool, url=site.url)  # from the beginning is a new look
        assert len(site.heads) == 2


async def test_pages_are_cached_per_session() -> None:
    async with Site(ok("x" * 40_000)) as site:
        tool = fetching(site)
        await call(tool, calling("a"), url=site.url)
        await call(tool, calling("b"), url=site.url, offset=100)
        assert len(site.heads) == 2


async def test_a_limited_number_of_pages_is_cached() -> None:
    async with Site(ok("x" * 40_000)) as site:
        tool = fetching(site)
        for number in range(CACHED_PAGES_MAX + 1):
            await call(tool, url=f"{site.url}{number}")
        await call(tool, url=f"{site.url}{CACHED_PAGES_MAX}", offset=5)
        assert len(site.heads) == CACHED_PAGES_MAX + 1
        await call(tool, url=f"{site.url}0", offset=5)
        assert len(site.heads) == CACHED_PAGES_MAX + 2


@pytest.mark.parametrize("offset", [0, 10], ids=["first", "reading on"])
async def test_f39_the_private_network_is_refused(offset: int) -> None:
    async with Site() as site:
        for url in (site.url, f"http://localhost:{site.port}/", "http://169.254.169.254/", "file:///etc/passwd"):
            with pytest.raises(AddressRefused):
                await call(create_fetch_tool(), url=url, offset=offset)
        assert site.heads == []


async def test_policy_is_asked_where_a_redirect_leads() -> None:
    async with Site() as inner, Site(moved(inner.url)) as site:
        rules = FetchRules(private_hosts=(site.place, inner.place), timeout_s=60)
        with pytest.raises(AddressRefused, match="policy"):
            await call(create_fetch_tool(rules, lambda url: url != inner.url), url=site.url)
        assert inner.heads == []


async def test_an_error_is_one_sentence() -> None:
    async with Site(b"garbage\r\n\r\n") as site:
        with pytest.raises(FetchFailed, match=r"^The server does not speak HTTP\.$"):
            await call(fetching(site), url=site.url)


async def test_an_abort_closes_the_connection_and_caches_nothing() -> None:
    async with Site(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", hang=True) as site:
        tool = fetching(site)
        task = asyncio.create_task(call(tool, url=site.url))
        await site.said.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(site.gone.wait(), 120)
        task = asyncio.create_task(call(tool, url=site.url, offset=2))
        while len(site.heads) < 2:  # nothing of the first was kept
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
