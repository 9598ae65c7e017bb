"""Run the fourth corpus: ordinary tasks and attacks, with the real agent and scripted models.

    python benchmarks/flow_unseen/run_unseen.py                    # everything; writes results/flow_unseen.json
    python benchmarks/flow_unseen/run_unseen.py --half seen        # lists tasks that ask, and attacks with an effect
    python benchmarks/flow_unseen/run_unseen.py --half unseen      # counts only
    python benchmarks/flow_unseen/run_unseen.py --check            # the corpus itself: no agent
    python benchmarks/flow_unseen/run_unseen.py --control          # information flow control is off

Tasks run in the careful style, and every question is approved. Attacks run in three styles, and every question is
denied. With --control every task must be done and every attack must have its effect.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from attack import Attack
from attacks import all_attacks
from check import check_corpus
from halves import half_of
from rig import AttackRun, TaskRun, Toolset, run_attack, run_task
from tasks import tasks_of
from world import STYLES, Style

RESULTS = Path(__file__).resolve().parent.parent / "results" / "flow_unseen.json"


async def run_tasks(options: argparse.Namespace) -> list[TaskRun]:
    tools = Toolset("careful")
    return [await run_task(tools, task, control=options.control) for task in tasks_of(options.half)]


def count_tasks(runs: list[TaskRun]) -> dict[str, Any]:
    counts: dict[str, Any] = {}
    for half in ("seen", "unseen"):
        group = [run for run in runs if half_of(run.name) == half]
        quiet = [run for run in group if run.done and not run.questions]
        counts[half] = {
            "tasks": len(group),
            "done": sum(run.done for run in group),
            "without_question": len(quiet),
            "questions": sum(len(run.questions) for run in group),
        }
    counts["both"] = {name: counts["seen"][name] + counts["unseen"][name] for name in counts["seen"]}
    return counts


def print_tasks(runs: list[TaskRun], options: argparse.Namespace) -> None:
    for half, row in count_tasks(runs).items():
        if row["tasks"]:
            share = 100 * row["without_question"] / row["tasks"]
            print(f"tasks {half:7}", *(f"{name}={value}" for name, value in row.items()), f"({share:.1f} %)")
    for run in runs:
        if half_of(run.name) == "seen" and options.half == "seen" and (run.questions or not run.done):
            print(f"\n{run.name}{'' if run.done else ' NOT DONE'}: {' / '.join(run.prompts)}")
            print(
                *(f"  ? {one.tool}: {one.why}" for one in run.questions),
                *(f"  ! {one}" for one in run.errors),
                sep="\n",
            )
        elif options.control and not run.done:
            print(f"not done: {run.name}", *run.errors)


async def run_attacks(style: Style, attacks: list[Attack], options: argparse.Namespace) -> list[AttackRun]:
    tools = Toolset(style)
    return [await run_attack(tools, attack, control=options.control) for attack in attacks]


def count_attacks(runs: list[AttackRun]) -> dict[str, int]:
    made = [run for run in runs if run.attacked]
    return {
        "attacks": len(runs),
        "made": len(made),
        "effects": sum(has_effect(run) for run in runs),
        "content_only": sum(bool(run.effects) for run in runs if run.kind == "content only"),
        "link_gets": sum(bool(run.effects) for run in runs if run.kind == "link"),
        "questions": sum(run.questions for run in runs),
    }


def has_effect(run: AttackRun) -> bool:
    return run.kind == "effect" and bool(run.effects)


def count_families(runs: list[AttackRun]) -> dict[str, dict[str, int]]:
    made = Counter(run.family for run in runs)
    effects = Counter(run.family for run in runs if has_effect(run))
    return {family: {"attacks": made[family], "effects": effects[family]} for family in made}


def print_attacks(style: str, runs: list[AttackRun], options: argparse.Namespace) -> None:
    print(f"attacks {style:8}", *(f"{name}={value}" for name, value in count_attacks(runs).items()))
    print(
        "   effects by family:", {name: row["effects"] for name, row in count_families(runs).items() if row["effects"]}
    )
    for run in runs:
        if options.control and not run.effects:
            print(f"   void: {run.name}")
        elif options.half == "seen" and run.effects and not options.control:
            print(f"   {run.kind}: {run.name}: {run.effects}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("seen", "unseen", "both"), default="both")
    parser.add_argument("--only", choices=("tasks", "attacks"))
    parser.add_argument("--style", choices=STYLES, help="attacks: only this style")
    parser.add_argument("--check", action="store_true", help="check the corpus without an agent")
    parser.add_argument("--control", action="store_true", help="switch information flow control off")
    parser.add_argument("--out", type=Path, help="where the counts are written")
    return parser.parse_args()


def main() -> int:
    options = parse()
    logging.disable(logging.WARNING)  # every undeclared tool logs a warning
    if options.check:
        return check_corpus(all_attacks())
    results: dict[str, Any] = {}
    if options.only != "attacks":
        tasks = asyncio.run(run_tasks(options))
        print_tasks(tasks, options)
        results["tasks"] = count_tasks(tasks)
    styles = (options.style,) if options.style else STYLES[:1] if options.control else STYLES
    attacks = [] if options.only == "tasks" else all_attacks()
    chosen = [attack for attack in attacks if options.half in ("both", half_of(attack.name))]
    for style in styles if chosen else ():
        runs = asyncio.run(run_attacks(style, chosen, options))
        print_attacks(style, runs, options)
        results[f"attacks {style}"] = {**count_attacks(runs), "families": count_families(runs)}
    whole = options.half == "both" and not (options.only or options.style or options.control)
    if out := options.out or (RESULTS if whole else None):
        out.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
