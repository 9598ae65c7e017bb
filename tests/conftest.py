"""Shared by all tests: environment of subprocesses, sampling of slow tests, set-up that is done once."""

from __future__ import annotations

import asyncio
import functools
import gc
import itertools
import os
import shutil
import signal
import socketserver
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from support import sampling
from support.paths import PYTHONPATH

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background; subprocesses would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["PYTHONPATH"] = PYTHONPATH  # for processes that tests start
settings.register_profile(  # a slow machine fails no test; `make test` tries the same examples in each run
    "any speed",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=sampling.WHOLE_VARIABLE not in os.environ,
)
settings.load_profile("any speed")
os.environ.setdefault("LANGUAGE", "C")  # else argparse searches translation catalogues for every word


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """One worker more than cores, if there are few: many tests wait for a process or a timer."""
    cores = os.cpu_count() or 1
    return None if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ or cores > 3 else cores + 1


def pytest_sessionstart(session: pytest.Session) -> None:
    """Install third-party programs that some tests need, while the first tests run."""
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


def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed of the sample once; the workers of pytest-xdist inherit it through the environment."""
    if not hasattr(config, "workerinput") and (seed := sampling.choose_seed()) is not None:
        os.environ[sampling.SEED_VARIABLE] = str(seed)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    seed = sampling.choose_seed()
    if seed is not None and terminalreporter.config.args_source is terminalreporter.config.ArgsSource.TESTPATHS:
        variable = sampling.SEED_VARIABLE
        terminalreporter.write_line(
            f"slow tests were sampled: repeat with {variable}={seed}, run all with make test-all"
        )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the slow tests that are not drawn; tests that are named on the command line always run."""
    seed = sampling.choose_seed()
    if seed is None or config.args_source is not config.ArgsSource.TESTPATHS:
        return
    shares = sampling.read_shares()
    drawn = [sampling.is_drawn(item.nodeid, seed, shares) for item in items]
    config.hook.pytest_deselected(items=[item for item, runs in zip(items, drawn, strict=True) if not runs])
    items[:] = [item for item, runs in zip(items, drawn, strict=True) if runs]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect with the garbage collector off: with thousands of tests it takes longer than the collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give each test a home that does not exist yet, so that none uses the developer's."""
    home = tmp_path_factory.getbasetemp() / f"default-home-{next(_numbers)}"
    os.environ["MAINSTAY_HOME"] = str(home)
    yield
    os.environ.pop("MAINSTAY_HOME", None)
    if home.exists():
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def _ignore_disconnected_clients() -> None:
    """A client that is gone is printed by `socketserver` wherever standard error leads by then: into another test."""
    tell = socketserver.BaseServer.handle_error

    def handle_error(self: socketserver.BaseServer, request: Any, address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            tell(self, request, address)

    socketserver.BaseServer.handle_error = handle_error  # type: ignore[method-assign]


@pytest.fixture(scope="session", autouse=True)
def _servers_end_at_once() -> None:
    """A stopping server polls ten times a second for open connections. Hundreds of test servers have none."""
    import uvicorn.server

    async def nap(delay_s: float) -> None:
        await asyncio.sleep(min(delay_s, 0.005))

    uvicorn.server.asyncio = SimpleNamespace(**{**vars(asyncio), "sleep": nap})
