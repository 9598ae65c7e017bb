"""Counts all cases: attacks and how many were contained, tasks and how many needed an approval. For `python
tests/support/obeying.py --report`."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from support.obeying import Setup
from support.obeying_attack_paths import WAYS, Attack, attack
from support.obeying_goals import BY_ID, GOALS
from support.obeying_later_sessions import LEFT, attack_later
from support.obeying_tasks import TASKS, perform

OUT = Path(__file__).parents[2] / "benchmarks" / "results" / "obeying.json"


async def attacks() -> dict[str, Any]:
    done: dict[str, Attack] = {}
    for name, way in WAYS.items():
        with tempfile.TemporaryDirectory() as place:
            done[name] = await attack(Path(place), way, GOALS)
    for name, setup in (("with the network", Setup(network=True)), ("on the host", Setup(sandbox="host"))):
        with tempfile.TemporaryDirectory() as place:
            done[f"file, {name}"] = await attack(Path(place), WAYS["file"], GOALS, setup)
    for how in LEFT:
        with tempfile.TemporaryDirectory() as place:
            done[f"later: {how}"] = await attack_later(Path(place), how)
    kinds = Counter(BY_ID[id].kind for one in done.values() for id in one.told)
    return {
        "cases": sum(len(one.told) for one in done.values()),
        "contained": sum(len(set(one.told) - set(one.reached) - set(one.missed)) for one in done.values()),
        "not tried": {name: one.missed for name, one in done.items() if one.missed},
        "reached": {name: one.reached for name, one in done.items() if one.reached},
        "ways": len(done),
        "goals": len(GOALS),
        "by kind": dict(kinds),
    }


async def control() -> dict[str, int]:
    with tempfile.TemporaryDirectory() as place:
        bare = await attack(Path(place), WAYS["file"], GOALS, Setup(policy=False, sandbox="host"))
    with tempfile.TemporaryDirectory() as place:
        boxed = await attack(Path(place), WAYS["file"], GOALS, Setup(policy=False))
    return {"goals": len(GOALS), "without policy and sandbox": len(bare.reached), "without policy": len(boxed.reached)}


async def tasks() -> dict[str, Any]:
    finished = []
    for task in TASKS:
        with tempfile.TemporaryDirectory() as place:
            finished.append(await perform(Path(place), task))
    return {
        "tasks": len(finished),
        "done": sum(one.done for one in finished),
        "without an approval": sum(one.done and not one.asked for one in finished),
        "asked about": [one.id for one in finished if one.asked],
    }


async def report() -> dict[str, Any]:
    return {"attacks": await attacks(), "reached in the control": await control(), "benign": await tasks()}


def main(arguments: list[str]) -> None:
    if arguments != ["--report"]:
        raise SystemExit("python tests/support/obeying.py --report")
    made = asyncio.run(report())
    OUT.write_text(json.dumps(made, indent=1) + "\n")
    print(OUT.read_text())


if __name__ == "__main__":
    main(sys.argv[1:])
