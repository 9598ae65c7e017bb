"""F3: killed at any write or await while it folds and indexes, a conversation has the old context or the new one, never
half; every acknowledged message is found once, and every fold is known once.

`make test` takes a sample of the points; `make test-all` takes all of them, and pairs.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from support.paths import SUPPORT

pytest.importorskip("sqlite_vec")

WHOLE = bool(os.environ.get("MAINSTAY_TEST_ALL"))
SCRIPT = SUPPORT / "memory_process.py"
PROMPTS = 7
LATER = 2  # said by the process that comes after
SHARES = 8 if WHOLE else 1
SAMPLE = 14  # points for each way to die


class CrashRuns:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def order(self, home: Path, do: str = "live", **more: Any) -> Any:
        order = {"home": str(home), "do": do, "action": "", "at": 0, "seed": 0, "first": 1, "last": PROMPTS, **more}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        result = json.loads(self._process.stdout.readline())
        assert "error" not in result, result["error"]
        return result

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=120)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def crash_runs() -> Iterator[CrashRuns]:
    made = CrashRuns()
    yield made
    made.close()


@pytest.fixture(scope="module")
def points(crash_runs: CrashRuns) -> dict[str, int]:
    """How many writes and awaits an undisturbed life has; and that it leaves nothing wrong behind."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        result = crash_runs.order(home)
        assert crash_runs.order(home, "check")["wrong"] == []
        assert folds(home) >= 3, "it is long enough to be folded, again and again"
        writes = result["ops"]
        return {"kill": writes, "torn": writes, "power": writes, "await": result["awaits"]}


def folds(home: Path) -> int:
    db = apsw.Connection(str(home / "workspace.db"))
    try:
        ((count,),) = db.execute("SELECT count(*) FROM journal WHERE type='Folded'").fetchall()
        return int(count)
    finally:
        db.close()


def end(crash_runs: CrashRuns, deaths: list[tuple[str, int]], seed: int) -> int:
    """Die as told, and look; then live on, and look again. How often it really died."""
    died = 0
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for action, at in deaths:
            if "killed" not in crash_runs.order(home, action=action, at=at, seed=seed):
                break
            died += 1
        crash_runs.order(home, last=PROMPTS + LATER)
        wrong = crash_runs.order(home, "check")["wrong"]
        assert wrong == [], f"after {deaths}, seed {seed}: {wrong}"
        assert len((home / "acked").read_text().split()) >= PROMPTS + LATER
        assert folds(home) >= 3
    return died


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("action", ["kill", "torn", "power", "await"])
def test_f3_killed_while_it_folds_and_indexes_there_is_never_half_a_fold_and_nothing_is_lost_or_found_twice(
    crash_runs: CrashRuns, points: dict[str, int], action: str, share: int
) -> None:
    most = points[action]
    assert most > 100, "the life has that many points"
    every = range(1, most)
    sample = list(every)[share::SHARES] if WHOLE else random.Random(action).sample(every, SAMPLE)
    died = sum(end(crash_runs, [(action, at)], seed=at) for at in sample)
    assert died > len(sample) * 3 // 4


@pytest.mark.parametrize("share", range(SHARES))
def test_f3_killed_again_while_it_catches_up_it_still_comes_out_right(
    crash_runs: CrashRuns, points: dict[str, int], share: int
) -> None:
    chance = random.Random(share)
    died = 0
    count = 100 if WHOLE else 8
    for number in range(count):
        deaths = [(action, chance.randrange(1, points[action])) for action in chance.choices(list(points), k=2)]
        died += end(crash_runs, deaths, seed=number)
    assert died > count


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ("DELETE FROM messages WHERE id & 0xffffffff = 1", "messages are indexed"),
        ("DELETE FROM messages_words WHERE rowid & 0xffffffff = 1", "is found at"),
        ("DELETE FROM summaries WHERE id = 1", "summaries:"),
        ("DELETE FROM facts WHERE id = 1", "facts:"),
        ("DELETE FROM vectors WHERE id = (SELECT min(id) FROM vectors)", "vectors are there"),
        (
            "UPDATE events SET body = json_set(body, '$.through', 99) WHERE body LIKE '{\"type\":\"Folded\"%'",
            "and not shown",
        ),
        ('UPDATE events SET body = \'{"type":"Blanked"}\' WHERE body LIKE \'{"type":"Folded"%\'', "summaries:"),
        ("DELETE FROM messages_words_data WHERE id > 10", "messages_words: "),
    ],
    ids=["a message", "its words", "a summary", "a fact", "a vector", "what is shown", "the folds", "words"],
)
def test_f3_the_checks_detect_violations(crash_runs: CrashRuns, harm: str, told: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        crash_runs.order(home)
        db = apsw.Connection(str(home / "workspace.db"))
        db.execute(harm)
        assert db.changes()
        db.close()
        try:
            wrong = crash_runs.order(home, "check")["wrong"]
        except AssertionError as error:  # the store itself finds it
            wrong = [str(error), told] if "damaged" in str(error) else []
        assert any(told in one for one in wrong), wrong
