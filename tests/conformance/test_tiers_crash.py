"""F3 for the indexes: whenever the process ends, position and content agree, and nothing that was forgotten is back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support.paths import SUPPORT

pytest.importorskip("sqlite_vec")

WHOLE = bool(os.environ.get("MAINSTAY_TEST_ALL"))
SHARES = 4


class CrashRuns:
    def __init__(self) -> None:
        script = SUPPORT / "tiers_process.py"
        self._process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def live(self, action: str, at: int, seed: int = 0) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"action": action, "at": at, "seed": seed}) + "\n")
        self._process.stdin.flush()
        result: dict[str, Any] = json.loads(self._process.stdout.readline())
        return result

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(120)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def crash_runs() -> Iterator[CrashRuns]:
    made = CrashRuns()
    yield made
    made.end()


@pytest.fixture(scope="module")
def operations(crash_runs: CrashRuns) -> int:
    whole = crash_runs.live("", 0)
    assert whole["wrong"] == []
    assert not whole["killed"]
    return int(whole["operations"])


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("action", ["kill", "torn", "power"])
def test_f3_the_index_agrees_with_its_position_whenever_it_stops(
    crash_runs: CrashRuns, operations: int, action: str, share: int
) -> None:
    assert operations > 100
    step = SHARES if WHOLE else SHARES * 25
    killed = 0
    for at in range(1 + share * (step // SHARES), operations, step):
        result = crash_runs.live(action, at, seed=at)
        killed += result["killed"]
        assert result["wrong"] == [], f"{action} at {at}"
    assert killed > 0
