"""Shared by all tests: where the doubles are found, and what is done once for all of them."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import signal
import socketserver
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.paths import PYTHONPATH

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background: what tests start would ignore it too
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["PYTHONPATH"] = PYTHONPATH  # for processes that tests start
os.environ.setdefault("LANGUAGE", "C")  # else argparse looks for catalogues of translations at every word


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """One more than there are cores, where they are few: many tests wait for a process, or for time to pass."""
    cores = os.cpu_count() or 1
    return None if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ or cores > 3 else cores + 1


def pytest_sessionstart(session: pytest.Session) -> None:
    """What the whole suite needs of others' programs is fetched while its first tests run."""
    config = session.config
    whole = config.args_source is config.ArgsSource.TESTPATHS
    if whole and config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        words = [sys.executable, str(Path(__file__).parent / "support" / "published_packages.py")]
        fetching = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        config.add_cleanup(functools.partial(_end, fetching))


def _end(fetching: subprocess.Popen[bytes]) -> None:
    if fetching.poll() is None:
        os.killpg(fetching.pid, signal.SIGTERM)
    fetching.wait()


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
def _servers_do_not_mind_who_left() -> None:
    """A client that is gone is printed by `socketserver` wherever standard error leads by then: into another test."""
    tell = socketserver.BaseServer.handle_error

    def handle_error(self: socketserver.BaseServer, request: Any, address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            tell(self, request, address)

    socketserver.BaseServer.handle_error = handle_error  # type: ignore[method-assign]


@pytest.fixture(scope="session", autouse=True)
def _servers_end_at_once() -> None:
    """A server that is to end looks ten times a second whether everybody has gone. Hundreds of ours do, of nobody."""
    import uvicorn.server

    async def nap(delay_s: float) -> None:
        await asyncio.sleep(min(delay_s, 0.005))

    uvicorn.server.asyncio = SimpleNamespace(**{**vars(asyncio), "sleep": nap})
