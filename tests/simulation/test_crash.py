"""F1, F2, F6: the process is killed at every write and at every await of a tool turn, and once more while recovering.

`make test` takes a sample of the pairs, every single await, and every write by one of the ways in which it can fail;
`make test-all` takes all of it.
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

import pytest
from support.invariants import check_home, lines
from support.paths import SUPPORT

WHOLE = bool(os.environ.get("MAINSTAY_TEST_ALL"))
LAB = SUPPORT / "crash_lab.py"
SHARES = 32 if WHOLE else 1  # of the pairs, each a test of its own
PROMPTS = ["first, with tools", "second"]


class Lab:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(LAB)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, home: Path, action: str = "", at: int = 0, prompts: list[str] | None = None, seed: int = 0) -> Any:
        order = {"home": str(home), "action": action, "at": at, "prompts": prompts or [], "seed": seed}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        result = json.loads(self._process.stdout.readline())
        assert "error" not in result, result["error"]
        return result

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=120)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    made = Lab()
    yield made
    made.close()


def run_with_kills(lab: Lab, deaths: list[tuple[str, int]], seed: int = 0) -> bool:
    """Die as told, then live: finish, and take one more message. False if it never died."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        died = False
        for action, at in deaths:
            result = lab.run(home, action, at, PROMPTS, seed)
            died = "killed" in result
            if not died:
                break
        lab.run(home, prompts=PROMPTS)
        lab.run(home, prompts=["third, with tools"])
        assert len(lines(home / "replied")) >= 3
        check_home(home)
        return died


def points(lab: Lab) -> dict[str, int]:
    """How many writes and awaits an undisturbed life has."""
    with tempfile.TemporaryDirectory() as folder:
        result = lab.run(Path(folder), prompts=PROMPTS)
        return {"kill": result["ops"], "torn": result["ops"], "power": result["ops"], "await": result["awaits"]}


@pytest.mark.parametrize("share", range(4))
@pytest.mark.parametrize("action", ["kill", "await"])
def test_f1_killed_at_every_write_and_every_await_nothing_is_lost_or_done_twice(
    lab: Lab, action: str, share: int
) -> None:
    most = points(lab)[action]
    assert most > 40, "the lab counts its points"
    shares = 4 if WHOLE or action == "await" else 12  # of the writes a third: the next test has them all
    died = sum(run_with_kills(lab, [(action, at)]) for at in range(1 + share, most + 1, shares))
    assert died >= most // shares - 5


@pytest.mark.parametrize("action", ["torn", "power"])
def test_f6_power_loss_and_torn_writes_lose_nothing_acknowledged(lab: Lab, action: str) -> None:
    most = points(lab)[action]
    seeds = range(3 if WHOLE else 1)
    writes = range(1, most + 1) if WHOLE else range(1 + (action == "power"), most + 1, 4)  # by turns
    died = sum(run_with_kills(lab, [(action, at)], seed) for seed in seeds for at in writes)
    assert died >= (len(writes) - 5) * len(seeds)


@pytest.mark.parametrize("share", range(SHARES))
def test_f2_killed_again_while_recovering_it_still_recovers(lab: Lab, share: int) -> None:
    most = points(lab)
    pairs = [
        (first, n, second, m)
        for first in ("kill", "await")
        for second in ("kill", "await")
        for n in range(1, most[first] + 1)
        for m in range(1, most[second] + 1)
    ]
    sample = pairs[share::SHARES] if WHOLE else random.Random(7).sample(pairs, 30)
    died = sum(run_with_kills(lab, [(first, n), (second, m)]) for first, n, second, m in sample)
    assert died > len(sample) // 4
