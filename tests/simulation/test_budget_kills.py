"""Lanes race for one budget in a process that is killed repeatedly: the model's own bill is never above it, and the
ledger agrees with the journals. `make test` kills a few times, `make test-all` a hundred."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.budget_process import lines_of
from support.paths import SUPPORT

from mainstay.core.budget_reservation_ids import NANODOLLARS_PER_DOLLAR
from mainstay.core.journal import Record, decode_event
from mainstay.core.ledger_entries import OpenReservation, ledger_entries
from mainstay.core.ports import SessionInfo
from mainstay.core.projection_ports import JournalBatch

KILLS = 100 if os.environ.get("MAINSTAY_TEST_ALL") else 6
LANES = 6
DOLLARS = 1.0 if KILLS == 100 else 0.06
LIFE = SUPPORT / "budget_process.py"
Sums = dict[tuple[str, str], list[int]]


class Lab:
    def __init__(self, home: Path) -> None:
        self._home = home
        self._process = subprocess.Popen([sys.executable, str(LIFE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, seed: int, **more: Any) -> dict[str, Any]:
        order = {"home": str(self._home), "dollars": DOLLARS, "lanes": LANES, "seed": seed, **more}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        result: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert "error" not in result, result["error"]
        return result

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=120)


def journals(home: Path) -> dict[str, tuple[SessionInfo, list[Record]]]:
    """Read with nothing of ours but the codec."""
    db = sqlite3.connect(f"file:{home}/workspaces/default/workspace.db?mode=ro", uri=True)
    found: dict[str, tuple[SessionInfo, list[Record]]] = {}
    rows = db.execute(
        "SELECT s.key, e.id & 4294967295, e.at, e.body FROM events e JOIN sessions s ON s.id = e.id >> 32"
    )
    for key, seq, at, body in sorted(rows):
        found.setdefault(key, (SessionInfo(key=key), []))[1].append(Record(seq, at, decode_event(body)))
    db.close()
    return found


def recounted(home: Path) -> tuple[Sums, dict[str, dict[str, OpenReservation]]]:
    """By whom what was spent, counted from the first record on; and what has no end."""
    sums: Sums = {}
    left: dict[str, dict[str, OpenReservation]] = {}
    for key, (standing, records) in journals(home).items():
        open: dict[str, OpenReservation] = {}
        for entry in ledger_entries(JournalBatch(standing, records), open):
            for who in (("home", ""), ("workspace", "default"), ("person", entry.person)):
                total = sums.setdefault(who, [0, 0, 0, 0])
                for place, number in enumerate((entry.money, entry.tokens, entry.calls, entry.lost)):
                    total[place] += number
        if open:
            left[key] = open
    return sums, left


def ledger(home: Path) -> tuple[Sums, int]:
    db = sqlite3.connect(f"file:{home}/gateway.db?mode=ro", uri=True)
    sql = "SELECT scope, name, sum(nanodollars), sum(tokens), sum(calls), sum(lost) FROM ledger GROUP BY scope, name"
    sums = {(scope, name): list(rest) for scope, name, *rest in db.execute(sql)}
    (open,) = db.execute("SELECT count(*) FROM ledger_open").fetchone()
    db.close()
    return sums, open


def billed(home: Path) -> int:
    return sum(map(int, (home / "bill").read_text().split()))


def test_u3_kills_cost_no_more_than_the_budget_and_the_ledger_stays_exact(tmp_path: Path) -> None:
    """Requirements U3 and SIGIL-014 rest on it: what is reserved is on disk before a call is sent."""
    chance = random.Random(20261116)
    lab = Lab(tmp_path)
    killed = 0
    try:
        for seed in range(KILLS):
            calls = chance.choice((0, 1, 3, 6, 10))
            result = lab.run(seed, kill_after=calls, moment_s=chance.choice((0.0, 0.003, 0.02)))
            killed += result["killed"]
            assert billed(tmp_path) <= DOLLARS * NANODOLLARS_PER_DOLLAR if (tmp_path / "bill").exists() else True
        lab.run(KILLS)  # to the end: interrupted turns are resumed
    finally:
        lab.close()
    assert killed == KILLS
    final = json.loads((tmp_path / "result.json").read_text())
    assert final["ended"]["Exhausted"] == LANES
    assert final["held"] == 0
    sums, left = recounted(tmp_path / "home")
    kept, open = ledger(tmp_path / "home")
    assert left == {}, "a reservation is open that nothing holds"
    assert open == 0
    assert kept == sums, "the ledger is what the journals say"
    assert final["spent"] == sums["home", ""][0], "and so are the books"
    spent, lost = sums["home", ""][0], sums["home", ""][3]
    assert billed(tmp_path) <= spent <= DOLLARS * NANODOLLARS_PER_DOLLAR
    assert 0 < lost < spent
    assert lines_of(tmp_path / "bill") > KILLS
