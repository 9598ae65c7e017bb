"""Run the blind corpus: ordinary tasks, or attacks, with the real agent and scripted models.

    python benchmarks/flow_blind/run.py tasks --style careful
    python benchmarks/flow_blind/run.py attacks --sample 100 --seed 3 --out results.json
    python benchmarks/flow_blind/run.py attacks --control

Tasks: every question is approved and counted. Attacks: every question is denied. With --control information flow
control is off: every task must be done, and every attack must reach its effect.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import sys
from pathlib import Path
from typing import Any

from state import STYLES


def choose(cases: list[Any], options: argparse.Namespace) -> list[Any]:
    if options.case:
        return [case for case in cases if case.id in options.case]
    if options.sample and options.sample < len(cases):
        return random.Random(options.seed).sample(cases, options.sample)
    return cases


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("tasks", "attacks"))
    parser.add_argument("--style", choices=(*STYLES, "all"), default="all")
    parser.add_argument("--set", choices=("world", "builtin"), help="tasks: only one of the sets")
    parser.add_argument("--sample", type=int, default=0, help="run so many cases, chosen by the seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", action="append", metavar="ID", help="run this case; may be repeated")
    parser.add_argument("--control", action="store_true", help="switch information flow control off")
    parser.add_argument("--quiet", action="store_true", help="print only totals")
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    return parser.parse_args()


def main() -> int:
    options = parse()
    logging.disable(logging.WARNING)  # every undeclared tool logs a warning
    styles = STYLES if options.style == "all" else (options.style,)
    if options.control and options.style == "all":
        styles = ("careful",)  # without information flow control the declarations change nothing
    if options.what == "tasks":
        from measure_tasks import run_tasks

        results, failed = asyncio.run(run_tasks(styles, options, choose))
    else:
        from measure_attacks import run_attacks

        results, failed = asyncio.run(run_attacks(styles, options, choose))
    if options.out:
        options.out.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    return int(options.control and failed)


if __name__ == "__main__":
    sys.exit(main())
