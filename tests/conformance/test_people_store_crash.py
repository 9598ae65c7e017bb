"""F3 for the people store: at any crash a pairing code is used completely or not at all; of two processes that use
one code, one wins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.paths import SUPPORT

from mainstay.agent.system_clock import SystemClock
from mainstay.gateway.people import People
from mainstay.store.sqlite.people_store import SqlitePeopleStore

WHOLE = bool(os.environ.get("MAINSTAY_TEST_ALL"))
STEP = 1 if WHOLE else 7


class CrashRuns:
    def __init__(self) -> None:
        script = SUPPORT / "people_store_process.py"
        self._process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def tell(self, experiment: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(experiment) + "\n")
        self._process.stdin.flush()

    def hear(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def live(self, action: str, at: int) -> dict[str, Any]:
        self.tell({"action": action, "at": at, "seed": at})
        result: dict[str, Any] = self.hear()
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


@pytest.mark.parametrize("action", ["kill", "torn", "power"])
def test_f3_a_code_is_used_up_whole_or_not_at_all_whenever_it_stops(crash_runs: CrashRuns, action: str) -> None:
    undisturbed = crash_runs.live("", 0)
    assert undisturbed["wrong"] == []
    assert not undisturbed["killed"]
    operations = int(undisturbed["operations"])
    assert operations > 30
    killed = 0
    for at in range(1, operations + 1, STEP):
        result = crash_runs.live(action, at)
        killed += result["killed"]
        assert result["wrong"] == [], f"{action} at {at}"
    assert killed > operations / STEP / 2


async def test_of_two_processes_that_use_the_same_codes_each_code_is_used_once(tmp_path: Path) -> None:
    path = str(tmp_path / "gateway.db")
    people = People(SqlitePeopleStore(path), SystemClock())
    await people.open()
    codes = [await people.issue_pairing_code("slack", f"U{number}", "") for number in range(9)]
    await people.close()
    pair = [CrashRuns(), CrashRuns()]
    try:
        for number, one in enumerate(pair):  # both have loaded everything by the time of their first answer
            one.tell({"path": str(tmp_path / f"other{number}.db"), "codes": [], "name": "x"})
        assert [one.hear() for one in pair] == [[], []]
        for name, one in zip("pq", pair, strict=True):
            one.tell({"path": path, "codes": codes, "name": name})
        won = [one.hear() for one in pair]
    finally:
        for one in pair:
            one.end()
    assert sorted(won[0] + won[1]) == sorted(codes), "each by one, and none by both"
    await people.open()
    assert len(people.list_people()) == 9
    for number, code in enumerate(codes):
        found = people.find_by_account("slack", f"U{number}")
        assert found is not None
        assert found.name == f"{'p' if code in won[0] else 'q'}{number}"
    await people.close()
