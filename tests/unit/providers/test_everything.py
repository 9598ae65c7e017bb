"""Taking all that has arrived at once gives what aiohttp's own way gives, and leaves its books in order."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import aiohttp
import pytest
from aiohttp.base_protocol import BaseProtocol

from mainstay.providers.http_client import everything


def reader() -> aiohttp.StreamReader:
    loop = asyncio.get_running_loop()
    protocol = BaseProtocol(loop)
    protocol.connection_made(asyncio.Transport())
    return aiohttp.StreamReader(protocol, 2**16, loop=loop)


def feed(content: aiohttp.StreamReader, chunks: list[bytes]) -> None:
    for chunk in chunks:
        content.begin_http_chunk_receiving()
        content.feed_data(chunk)
        content.end_http_chunk_receiving()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 64, 1000])
async def test_it_reads_what_readany_reads(count: int) -> None:
    chunks = [f"chunk {n};".encode() * (n % 7 + 1) for n in range(count)]
    ours, theirs = reader(), reader()
    for content in (ours, theirs):
        feed(content, chunks)
    assert await everything(ours) == await theirs.readany() == b"".join(chunks)
    for name in ("_size", "_cursor", "_buffer_offset", "total_bytes"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert list(ours._buffer) == []
    feed(ours, [b"more"])
    ours.feed_eof()
    assert await everything(ours) == b"more"
    assert await everything(ours) == b""


async def test_it_waits_for_the_first_and_hears_of_trouble() -> None:
    content = reader()
    waiting = asyncio.ensure_future(everything(content))
    await asyncio.sleep(0)
    feed(content, [b"a", b"b", b"c", b"d"])
    assert await waiting == b"abcd"
    content.set_exception(ConnectionResetError("gone"))
    with pytest.raises(ConnectionResetError):
        await everything(content)


async def test_a_reader_that_looks_different_is_read_its_own_way() -> None:
    class Other:
        async def readany(self) -> bytes:
            return b"its own way"

    assert await everything(cast(Any, Other())) == b"its own way"
