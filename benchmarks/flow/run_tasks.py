"""How often ordinary tasks need a question: runs them with the real agent and a scripted model; approves everything.

    python benchmarks/flow/run_tasks.py --set builtin            the built-in tools in a temporary project
    python benchmarks/flow/run_tasks.py --set world --style careful
    python benchmarks/flow/run_tasks.py --control                Agent(trust="open"): every task must be done

The result is printed and written as JSON to `--out` (default: `results/tasks.json` beside this file, for the controls
`tasks-control.json` and `tasks-idle.json`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from builtin_rig import BuiltinRig, BuiltinTask
from honest_model import Mode, ResultSeen
from task_list import load_builtin_tasks, load_world_tasks
from toolbox import STYLES, Style
from world_rig import WorldRig, WorldTask

# What a result says when the runtime did not let a call happen as it was made.
_EXPLANATIONS = ("held back", "not removed", "approval", "policy", "denied", "refused", "not allowed")


class TaskRun(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one task."""

    id: str
    refers: str  # how the request names people and things; empty in the set `builtin`
    done: bool
    questions: list[tuple[str, str]]  # the tool and the sentence that the person was shown
    problems: list[str]  # why the script could not go on, if it could not
    explained: bool  # some result said why a call did not happen
    seconds: float


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One set in one style."""

    set: str
    style: str
    control: bool
    idle: bool
    tasks: int
    done: int
    done_without_question: int
    without_question_percent: float
    questions: int
    without_question_by_reference: dict[str, str]  # how the request names things: "tasks without a question/tasks"
    failed: list[str]
    failed_without_explanation: list[str]
    runs: list[TaskRun]


def is_explained(seen: Sequence[ResultSeen]) -> bool:
    return any(
        any(word in result.text.lower() for word in _EXPLANATIONS)
        for result in seen
        if result.is_error or result.tool == "bash"
    )


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a conversation, before it is judged and timed."""

    done: bool
    questions: list[tuple[str, str]]
    problems: list[str]
    seen: list[ResultSeen]


async def run_builtin(task: BuiltinTask, mode: Mode) -> Finished:
    with tempfile.TemporaryDirectory(prefix="flow-") as folder:
        async with BuiltinRig(Path(folder), task, mode) as rig:
            done = await rig.run()
            return Finished(done=done, questions=rig.questions, problems=rig.model.broken, seen=rig.model.seen)


async def run_world(task: WorldTask, style: Style, mode: Mode) -> Finished:
    rig = WorldRig(task, style, mode)
    done = await rig.run()
    return Finished(done=done, questions=rig.questions, problems=rig.model.broken, seen=rig.model.seen)


async def run_task(task: BuiltinTask | WorldTask, style: Style, options: argparse.Namespace) -> TaskRun:
    began = time.perf_counter()
    mode = Mode(control=options.control or options.idle, idle=options.idle)
    if isinstance(task, BuiltinTask):
        finished = await run_builtin(task, mode)
    else:
        finished = await run_world(task, style, mode)
    if options.show:
        for result in finished.seen:
            print(f"--- {task.id} {result.tool}{' (error)' if result.is_error else ''}\n{result.text}")
    return TaskRun(
        id=task.id,
        refers=task.refers if isinstance(task, WorldTask) else "",
        done=finished.done,
        questions=finished.questions,
        problems=finished.problems,
        explained=is_explained(finished.seen),
        seconds=round(time.perf_counter() - began, 2),
    )


def count_by_reference(runs: Sequence[TaskRun]) -> dict[str, str]:
    asked = Counter(run.refers for run in runs)
    quiet = Counter(run.refers for run in runs if run.done and not run.questions)
    return {refers: f"{quiet[refers]}/{count}" for refers, count in sorted(asked.items()) if refers}


def summarise(runs: list[TaskRun], set_name: str, style: str, options: argparse.Namespace) -> Summary:
    quiet = [run for run in runs if run.done and not run.questions]
    failed = [run for run in runs if not run.done]
    return Summary(
        set=set_name,
        style=style,
        control=options.control,
        idle=options.idle,
        tasks=len(runs),
        done=len(runs) - len(failed),
        done_without_question=len(quiet),
        without_question_percent=round(100 * len(quiet) / len(runs), 1) if runs else 0.0,
        questions=sum(len(run.questions) for run in runs),
        without_question_by_reference=count_by_reference(runs),
        failed=[run.id for run in failed],
        failed_without_explanation=[run.id for run in failed if not run.explained and not run.questions],
        runs=runs,
    )


def choose(tasks: Sequence[Any], options: argparse.Namespace) -> list[Any]:
    if options.case:
        chosen = [task for task in tasks if task.id in options.case]
    elif options.sample:
        chosen = random.Random(options.seed).sample(list(tasks), min(options.sample, len(tasks)))
    else:
        chosen = list(tasks)
    return chosen


async def run_set(set_name: str, style: Style, options: argparse.Namespace) -> Summary:
    tasks = choose(load_builtin_tasks() if set_name == "builtin" else load_world_tasks(), options)
    runs = [await run_task(task, style, options) for task in tasks]
    return summarise(runs, set_name, "built-in" if set_name == "builtin" else style, options)


def describe(summary: Summary) -> str:
    kind = "control, " if summary.control else "idle model, " if summary.idle else ""
    lines = [
        f"{summary.set} ({kind}{summary.style}): {summary.tasks} tasks, {summary.done} done, "
        f"{summary.done_without_question} without a question ({summary.without_question_percent} %), "
        f"{summary.questions} questions"
    ]
    if summary.without_question_by_reference:
        shares = (f"{refers} {share}" for refers, share in summary.without_question_by_reference.items())
        lines.append(f"  without a question, by how the request names things: {', '.join(shares)}")
    counted = Counter(f"{tool}: {why}" for run in summary.runs for tool, why in run.questions)
    lines += [f"  {count:4d} x {question}" for question, count in counted.most_common()]
    for run in summary.runs:
        if not run.done:
            note = "" if run.explained or run.questions else " (without an explanation)"
            lines.append(f"  not done{note}: {run.id} {'; '.join(run.problems)}".rstrip())
    return "\n".join(lines)


def parse_options(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=("builtin", "world"), help="default: both")
    parser.add_argument("--style", choices=STYLES, help="declarations of the world's tools; default: all three")
    parser.add_argument("--sample", type=int, metavar="N", help="only N tasks of each set, chosen by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", action="append", metavar="ID", help="only this task; may be repeated")
    parser.add_argument("--control", action="store_true", help='with Agent(trust="open"): all tasks must be done')
    parser.add_argument("--idle", action="store_true", help="with a model that does nothing: no task may be done")
    parser.add_argument("--show", action="store_true", help="print the results that the model got")
    parser.add_argument("--out", type=Path, help="the JSON file")
    options = parser.parse_args(words)
    if options.out is None:
        kind = "-idle" if options.idle else "-control" if options.control else ""
        options.out = Path(__file__).parent / "results" / f"tasks{kind}.json"
    return options


async def main(options: argparse.Namespace) -> int:
    logging.getLogger("mainstay").setLevel(logging.ERROR)  # undeclared tools are logged; here they are on purpose
    summaries: list[Summary] = []
    for set_name in (options.set,) if options.set else ("builtin", "world"):
        for style in (options.style,) if options.style else STYLES:
            if set_name == "builtin" and summaries and summaries[-1].set == "builtin":
                continue  # the declarations of the built-in tools are their own
            summary = await run_set(set_name, style, options)
            if summary.tasks:
                print(describe(summary), flush=True)
                summaries.append(summary)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(msgspec.to_builtins(summaries), indent=1, ensure_ascii=False) + "\n")
    if options.idle:
        return int(any(summary.done for summary in summaries))
    return int(options.control and any(summary.failed for summary in summaries))


if __name__ == "__main__":
    sys.exit(asyncio.run(main(parse_options())))
