"""Shared by all tests: where the doubles are found, and what is done once for all of them."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent / "simulation"))
sys.path.insert(0, str(Path(__file__).parent / "conformance"))
sys.path.insert(0, str(Path(__file__).parent / "unit" / "lane"))
sys.path.insert(0, str(Path(__file__).parent / "unit" / "context"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Thirteen thousand tests are no garbage: looking for some among them took longer than finding the tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _servers_end_at_once() -> None:
    """A server that is to end looks ten times a second whether everybody has gone. Hundreds of ours do, of nobody."""
    import uvicorn.server

    async def nap(delay_s: float) -> None:
        await asyncio.sleep(min(delay_s, 0.005))

    uvicorn.server.asyncio = SimpleNamespace(**{**vars(asyncio), "sleep": nap})
