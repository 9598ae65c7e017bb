"""The published conformance suite for MCP servers, against `mainstay mcp --http`.

Two releases of it: the last stable one, for the protocol up to 2025-11-25, and one that knows 2026-07-28. Many
scenarios call tools, prompts and resources of the suite's own example server, or are about what this server does not
offer. Each of these is named here with the reason, so that none is left out by accident.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli_support import Command, FakeModel
from support.published_packages import CONFORMANCE, CONFORMANCE_NEWER, CONFORMANCE_STABLE, node, npm_packages

SCENARIO_S = 120

Release = tuple[str, str, str]
STABLE: Release = (*CONFORMANCE_STABLE, "2025-11-25")
NEWER: Release = (*CONFORMANCE_NEWER, "2026-07-28")
RUN = {
    STABLE: ["server-initialize", "ping", "tools-list", "server-sse-multiple-streams", "dns-rebinding-protection"],
    NEWER: [
        *("server-stateless", "tools-list", "server-sse-multiple-streams", "dns-rebinding-protection", "caching"),
        *("http-header-validation", "input-required-result-unsupported-methods"),
    ],
}
LEFT_OUT = {
    r"server-initialize|ping|server-session-lifecycle": "in the newer release: about the older protocol",
    r"tools-call-.*|json-schema-2020-12|server-sse-polling": "it calls tools of the suite's own example server",
    r"elicitation-.*|input-required-.*|tasks-.*": "it calls tools of the suite's own example server",
    r"http-custom-header-server-validation": "no tool here has arguments in headers",
    r"logging-.*|completion-.*|resources-.*|prompts-.*|sep-2164-.*|sep-2640-.*": "this is not offered",
}
# of scenarios that are run: what cannot be looked at here
UNTESTABLE = {
    "server-stateless": r"Not testable: server does not list the diagnostic tool",
    "caching": r"(prompts|resources)\S* returned JSON-RPC error -32601",
}


def suite(release: Release) -> list[str]:
    folder = npm_packages(release[0], f"{CONFORMANCE}@{release[1]}")
    return [str(node()), str(folder / "node_modules" / CONFORMANCE / "dist" / "index.js")]


def run(command: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=SCENARIO_S, check=False)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    model = FakeModel()
    process = Command(tmp_path_factory.mktemp("served"), model.url).start("mcp", "--http", "0")
    assert process.stderr is not None
    found = re.search(r"http://\S+/mcp", process.stderr.readline())
    assert found is not None
    yield found[0]
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    model.close()
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize("release", RUN, ids=lambda one: one[1])
def test_every_server_scenario_is_run_or_left_out_with_a_reason(release: Release) -> None:
    listed = re.findall(r"^  - (\S+) \[", run(suite(release), "list", "--server").stdout, re.MULTILINE)
    assert set(RUN[release]) <= set(listed)
    rest = [one for one in listed if one not in RUN[release]]
    assert [one for one in rest if not any(re.fullmatch(pattern, one) for pattern in LEFT_OUT)] == []


@pytest.mark.parametrize(
    ("release", "scenario"), [pytest.param(one, name, id=f"{one[1]}-{name}") for one in RUN for name in RUN[one]]
)
def test_the_server_passes(release: Release, scenario: str, url: str, tmp_path: Path) -> None:
    words = ["server", "--url", url, "--scenario", scenario, "--spec-version", release[2], "-o", str(tmp_path)]
    done = run(suite(release), *words)
    [written] = tmp_path.rglob("checks.json")
    checks = json.loads(written.read_text())
    excused = UNTESTABLE.get(scenario, "(?!)")
    failed = [
        one for one in checks if one["status"] == "FAILURE" and not re.match(excused, one.get("errorMessage", ""))
    ]
    assert failed == [], done.stdout
    assert any(one["status"] == "SUCCESS" for one in checks), "it looked at nothing"
