"""Run the third corpus: ordinary tasks, or attacks, with the real agent and scripted models.

    python benchmarks/flow_office/run_office.py tasks --style careful
    python benchmarks/flow_office/run_office.py attacks --sample 100 --seed 3 --out results.json
    python benchmarks/flow_office/run_office.py attacks --control

Tasks: every question is approved and counted. Attacks: every question is denied. With --control information flow
control is off: every task must be done, and every attack must reach its effect. Models, judging and tables are those of
`benchmarks/flow_blind`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "flow_blind"))

import measure_attacks
import measure_tasks
from attack import Attack
from cases import all_cases
from data_home import new_office
from plans import OfficeRig
from run import choose
from script import Task
from state import STYLES, Style, World
from tasks_company import CRM, HR, REPOS
from tasks_house import HOME, SHOP, WEB
from tasks_life import BANK, TRAVEL
from tasks_mail import CALENDAR, MAIL
from tasks_team import CHAT, FILES
from toolset import Toolset

BOOKS = (MAIL, CALENDAR, FILES, CHAT, TRAVEL, BANK, HOME, SHOP, WEB, REPOS, CRM, HR)


def planted_office(attack: Attack) -> World:
    world = new_office()
    attack.plant(world, attack.injection)
    return world


async def run_task(task: Task, toolset: Toolset, *, control: bool) -> measure_tasks.TaskRun:
    began = time.perf_counter()
    rig = OfficeRig(task, toolset, control=control)
    done = await rig.run()
    errors = [f"{one.tool}: {one.text[:200]}" for one in rig.model.seen if one.is_error]
    return measure_tasks.TaskRun(
        task.id,
        task.id.split("-")[0],
        task.kind,
        task.requests,
        done,
        measure_tasks.is_explained(rig.model.seen),
        rig.questions,
        [*rig.model.broken, *errors],
        round(time.perf_counter() - began, 2),
    )


async def run_tasks(styles: Sequence[Style], options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    results: dict[str, Any] = {"control": options.control}
    failed = False
    for style in styles:
        toolset = Toolset(style)
        tasks = choose([task for book in BOOKS for task in book.tasks], options)
        runs = [await run_task(task, toolset, control=options.control) for task in tasks]
        summary = measure_tasks.summarise(runs)
        measure_tasks.print_table(style, summary, runs, quiet=options.quiet)
        results[style] = {"summary": summary, "runs": [asdict(run) for run in runs]}
        failed = failed or any(not run.done for run in runs)
    return results, failed


async def run_attacks(styles: Sequence[Style], options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    attacks = choose(all_cases(), options)
    results: dict[str, Any] = {"control": options.control}
    failed = False
    for style in styles:
        toolset: Any = Toolset(style)
        verdicts = []
        for attack in attacks:
            verdicts.append(
                await measure_attacks.run_attack(toolset, attack, control=options.control, new=planted_office)
            )
        summary = measure_attacks.summarise(verdicts)
        measure_attacks.print_table(f"{style} (control)" if options.control else style, summary)
        missed = [verdict.id for verdict in verdicts if not verdict.effect]
        if options.control:
            print(f"void: {len(missed)} of {len(verdicts)}", *missed, sep="\n  ")
        elif options.case:
            print(*(f"{one.id}: effect={one.effect} {one.effects}" for one in verdicts), sep="\n")
        results[style] = {"summary": summary, "runs": [asdict(verdict) for verdict in verdicts]}
        failed = failed or bool(missed)
    return results, failed


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("tasks", "attacks"))
    parser.add_argument("--style", choices=(*STYLES, "all"), default="all")
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
    styles: Sequence[Style] = STYLES if options.style == "all" else (options.style,)
    if options.control and options.style == "all":
        styles = ("careful",)  # without information flow control the declarations change nothing
    run = run_tasks if options.what == "tasks" else run_attacks
    results, failed = asyncio.run(run(styles, options))
    if options.out:
        options.out.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    return int(options.control and failed)


if __name__ == "__main__":
    sys.exit(main())
