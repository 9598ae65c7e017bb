"""A soak of `mainstay serve`: model streams that are cut, 5xx, 429s, a plugin that is killed, and a disk that is full.

Real processes: the server with its SQLite databases on a tmpfs that is filled, a model server over HTTP, a plugin in
its sandbox, and many sessions at once. `make test-all` runs 50,000 turns, `make test` a few hundred with more faults
each. MAINSTAY_TEST_SEED repeats the choice of faults; their order among concurrent turns differs.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import pytest
from support import soak_process
from support.sampling import SEED_VARIABLE, WHOLE_VARIABLE
from support.soak_model import ANSWERED, FAULTS_OF_2000
from support.soak_process import NOT_STORED, STORED, SoakPlan

WHOLE = bool(os.environ.get(WHOLE_VARIABLE))
SEED = int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(1, 100_000))
SMALL = SoakPlan(seed=SEED, turns=320, clients=16, deck_size=400, latency_s=0.02, full_s=1.0, kills=2)
FULL = SoakPlan(seed=SEED, turns=50_000, clients=32, deck_size=2000, latency_s=0.25, full_s=10.0, kills=20)
PLAN = FULL if WHOLE else SMALL
PLUGIN_CALLS_MAX = 8  # of the plugin at a time, as its manifest says
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "--kill-child")
# what the last quarter may hold above the second: a leak of 1 KB a turn would be 25 MB
RSS_GROWTH_MB, RSS_GROWTH_SHARE = 12.0, 0.08
FILES_GROWTH, THREADS_GROWTH = (24, 6) if WHOLE else (80, 24)  # of a few hundred turns, the first half is a start


def run_soak(folder: Path) -> dict[str, Any]:
    if subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", str(folder)], check=False).returncode:
        pytest.skip("this machine allows no mount namespaces, so there is no small disk to fill")
    plan = msgspec.json.encode(PLAN).decode()
    command = [*NAMESPACE, sys.executable, soak_process.__file__, str(folder), plan]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"seed {SEED}: {done.stderr}"
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.timeout(3 * 3600)
def test_u4_a_soak_with_faults_fails_only_what_cannot_be_repeated_and_stays_flat(tmp_path: Path) -> None:
    report = run_soak(tmp_path)
    samples = report.pop("samples")
    print(describe(report, samples))
    check_prompts(report)
    check_faults(report)
    check_health(report)
    check_flat(samples)


def describe(report: dict[str, Any], samples: list[dict[str, Any]]) -> str:
    """Return what was run, and its figures."""
    rate = report["turns"] / report["seconds"]
    cpu_ms = 1000 * report["server_cpu_s"] / report["turns"]
    lines = [
        f"seed {SEED}: {report['turns']} turns in {report['sessions']} sessions, {PLAN.clients} at a time, in "
        f"{report['seconds']:.0f} s ({rate:.0f} turns/s, {cpu_ms:.1f} ms of the server's CPU each)",
        f"calls of the model: {report['calls']}; plugin killed {report['kills']} times; "
        f"disk full for {report['full_s']:.1f} s, with {sum(report['refusals'].values())} refusals",
        f"failed turns: {len(report['failed'])}; tool errors: {len(report['wrong'])}; "
        f"continued after a restart: {report['continued']} of {report['sessions']} sessions; "
        f"home: {report['home_mb']} MB",
    ]
    for name in ("rss_mb", "files", "threads"):
        tenths = [median(one[name] for one in part) for part in split_samples(samples, 10)]
        lines.append(f"{name} by tenth of the turns: {', '.join(f'{value:.0f}' for value in tenths)}")
    return "\n".join(lines)


def check_prompts(report: dict[str, Any]) -> None:
    """The journals were checked where they are: every prompt is there once. This is what their turns came to."""
    touched, unrepeatable = set(report["touched"]), set(report["unrepeatable"])
    assert set(report["outcomes"]) <= {"Answered", "Failed"}
    assert set(report["failed"]) <= unrepeatable, report["failed"]
    assert unrepeatable - touched <= set(report["failed"])
    assert all("broke in the middle of the answer" in sentence for sentence in report["failed"].values())
    assert report["continued"] == report["sessions"], "a session cannot be continued"
    assert set(report["refusals"]) <= {STORED, NOT_STORED}, report["refusals"]
    assert report["refused_before"] == [], "refused with space on the disk"
    assert report["repeated"] == [], "a call that was answered was made again"
    assert report["problems"] == []
    # tools fail in the moment in which their plugin is killed, and in no other
    assert len(report["wrong"]) <= report["kills"] * PLUGIN_CALLS_MAX
    assert all("The plugin till ended" in answer or "closed its connection" in answer for _, answer in report["wrong"])
    assert report["charged_twice"] == []
    assert report["not_charged"] == []
    assert report["charged"]


def check_faults(report: dict[str, Any]) -> None:
    """The faults did happen, as often as they should."""
    calls = report["calls"]
    total = sum(calls.values())
    for fault, count in FAULTS_OF_2000.items():
        assert calls[fault] >= 0.8 * count * (total // PLAN.deck_size), calls
    assert calls[ANSWERED] >= PLAN.turns - len(report["failed"])
    assert report["failed"], "no turn had a call that could not be repeated"
    assert report["kills"] >= 2
    assert report["full_s"] >= PLAN.full_s
    assert report["refusals"]


def check_health(report: dict[str, Any]) -> None:
    assert (report["breaker_open_count"], report["breaker_lines"]) == (0, []), "the model is healthy"
    assert report["unready"] == [], "with space on the disk, it is ready"
    assert report["traceback_lines"] == []


def split_samples(samples: list[dict[str, Any]], count: int) -> list[list[dict[str, Any]]]:
    """Return the samples by equal parts of the turns; a part that passed between two samples has the next one."""
    parts = []
    for number in range(count):
        low, high = PLAN.turns * number // count, PLAN.turns * (number + 1) // count
        found = [one for one in samples if low < one["turns"] <= high]
        parts.append(found or [next((one for one in samples if one["turns"] > low), samples[-1])])
    return parts


def check_flat(samples: list[dict[str, Any]]) -> None:
    """The last quarter holds no more than the second: in the first one, caches and pools grow to their size."""
    _, second, _, last = split_samples(samples, 4)
    most = {name: [max(one[name] for one in quarter) for quarter in (second, last)] for name in ("files", "threads")}
    assert most["files"][1] <= most["files"][0] + FILES_GROWTH, most
    assert most["threads"][1] <= most["threads"][0] + THREADS_GROWTH, most
    if WHOLE:
        before, after = (median(one["rss_mb"] for one in quarter) for quarter in (second, last))
        assert after <= before * (1 + RSS_GROWTH_SHARE) + RSS_GROWTH_MB, f"{before:.0f} MB grew to {after:.0f} MB"
