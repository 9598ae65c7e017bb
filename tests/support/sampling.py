"""Sampling of slow tests: `make test` runs a random share of them, `make test-all` runs all.

`tests/sampled.txt` lists slow test files and functions with the share of their tests that a run draws. It depends on
the seed and the id of the test alone: every worker draws the same tests, and MAINSTAY_TEST_SEED repeats a run.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Mapping
from pathlib import Path

LIST = Path(__file__).resolve().parents[1] / "sampled.txt"
SEED_VARIABLE = "MAINSTAY_TEST_SEED"
WHOLE_VARIABLE = "MAINSTAY_TEST_ALL"


def read_shares(path: Path = LIST) -> dict[str, float]:
    """The share of tests by function (`tests/x.py::test_y`) or file (`tests/x.py`)."""
    lines = [line.partition("#")[0].split() for line in path.read_text(encoding="utf-8").splitlines()]
    return {function: float(share) for share, function in (line for line in lines if line)}


def choose_seed(environ: Mapping[str, str] = os.environ) -> int | None:
    """The seed of this run; None if every test runs."""
    if environ.get(WHOLE_VARIABLE):
        return None
    return int(environ[SEED_VARIABLE]) if environ.get(SEED_VARIABLE) else random.SystemRandom().randrange(1, 100_000)


def is_drawn(node_id: str, seed: int, shares: Mapping[str, float]) -> bool:
    """True if the test runs with this seed: always, unless its function or file is listed."""
    function = node_id.partition("[")[0]
    share = shares.get(function, shares.get(function.partition("::")[0], 1.0))
    digest = hashlib.blake2b(f"{seed} {node_id}".encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64
