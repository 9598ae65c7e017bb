"""The published conformance suite for MCP clients, against ours.

Two releases of it: the last stable one, for the protocol up to 2025-11-25, and one that knows 2026-07-28. A scenario is
run, or it is named here with the reason why not, so that none is left out by accident.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.paths import SUPPORT
from support.published_packages import CONFORMANCE, CONFORMANCE_NEWER, CONFORMANCE_STABLE, node, npm_packages

CLIENT = SUPPORT / "mcp_conformance_client.py"
SOURCES = Path(__file__).parents[2] / "src"
SCENARIO_S = 120

STABLE = (*CONFORMANCE_STABLE, "2025-11-25")
NEWER = (*CONFORMANCE_NEWER, "2026-07-28")
RUN = {
    STABLE: ["initialize", "tools_call", "sse-retry"],
    NEWER: [
        *("tools_call", "request-metadata", "http-standard-headers", "http-custom-headers"),
        *("http-invalid-tool-headers", "json-schema-ref-no-deref"),
    ],
}
LEFT_OUT = {
    r"initialize|sse-retry": "in the newer release: about the older protocol, and run with the stable one",
    r"auth/.*": "whoever configures a server gives its headers: there is no OAuth in the client",
    r"elicitation-.*": "servers ask the person nothing: elicitation is not offered",
    r"sep-2322-client-request-state": "it answers what a server wants from the person, which is not offered",
    r"json-schema-2020-12-preservation": "its tool has a schema with $anchor, and such a tool is left out",
    r"sep-2640-.*": "an extension for skills over MCP, which is not offered",
}


def suite(release: tuple[str, str, str]) -> list[str]:
    folder = npm_packages(release[0], f"{CONFORMANCE}@{release[1]}")
    return [str(node()), str(folder / "node_modules" / CONFORMANCE / "dist" / "index.js")]


def run(command: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(SOURCES), "NO_COLOR": "1"}
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=SCENARIO_S, env=env, check=False
    )


@pytest.mark.parametrize("release", RUN, ids=lambda one: one[1])
def test_every_scenario_is_run_or_left_out_with_a_reason(release: tuple[str, str, str]) -> None:
    listed = re.findall(r"^  - (\S+) \[", run(suite(release), "list", "--client").stdout, re.MULTILINE)
    assert set(RUN[release]) <= set(listed)
    rest = [one for one in listed if one not in RUN[release]]
    assert [one for one in rest if not any(re.fullmatch(pattern, one) for pattern in LEFT_OUT)] == []
    assert not any(re.fullmatch(pattern, one) for pattern in list(LEFT_OUT)[1:] for one in RUN[release])


CASES = [
    pytest.param(release, scenario, id=f"{release[1]}-{scenario}")
    for release, scenarios in RUN.items()
    for scenario in scenarios
]


@pytest.mark.parametrize(("release", "scenario"), CASES)
def test_the_client_passes(release: tuple[str, str, str], scenario: str, tmp_path: Path) -> None:
    client = f"{sys.executable} {CLIENT}"
    wanted = ["--scenario", scenario, "--spec-version", release[2]]
    done = run(suite(release), "client", "--command", client, *wanted, "-o", str(tmp_path))
    [written] = tmp_path.rglob("checks.json")
    checks = json.loads(written.read_text())
    assert any(one["status"] == "SUCCESS" for one in checks), "it looked at nothing"
    late = "client-sse-retry-timing"  # a machine under load is late, and that is a warning
    bad = [one for one in checks if one["status"] not in ("SUCCESS", "INFO", "SKIPPED") and one["id"] != late]
    assert bad == [], done.stdout
    assert scenario == "sse-retry" or done.returncode == 0, done.stdout + done.stderr
