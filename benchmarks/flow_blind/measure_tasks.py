"""Runs tasks and counts the questions."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jobs_day
import jobs_life
import jobs_mail
import jobs_work
import shell_code
import shell_files
from builtin_chat import BuiltinRig, BuiltinTask
from script import Question, ResultSeen, Task, WorldRig
from services import Kit
from state import Style

WORLD_BOOKS = (
    jobs_mail.BOOK,
    jobs_day.CALENDAR,
    jobs_day.TEAM,
    jobs_work.DRIVE,
    jobs_work.CODE,
    jobs_work.DEALS,
    jobs_life.MONEY,
    jobs_life.TRIP,
    jobs_life.HOME,
)
BUILTIN_BOOKS = (shell_code.BOOK, shell_files.BOOK)

# What a result says when the runtime did not let a call happen as it was made.
EXPLANATIONS = ("held back", "not removed", "approval", "policy", "denied", "refused", "not allowed")


@dataclass
class TaskRun:
    id: str
    family: str
    kind: str
    requests: tuple[str, ...]
    done: bool
    explained: bool
    questions: list[Question]
    problems: list[str]
    seconds: float


def is_explained(seen: Sequence[ResultSeen]) -> bool:
    return any(
        any(word in result.text.lower() for word in EXPLANATIONS)
        for result in seen
        if result.is_error or result.tool == "bash"
    )


async def run_one(task: Task | BuiltinTask, kit: Kit, *, control: bool) -> TaskRun:
    began = time.perf_counter()
    rig: Any
    if isinstance(task, BuiltinTask):
        with tempfile.TemporaryDirectory(prefix="flow-blind-") as folder:
            async with BuiltinRig(Path(folder), task, control=control) as rig:
                done = await rig.run()
    else:
        rig = WorldRig(task, kit, control=control)
        done = await rig.run()
    errors = [f"{one.tool}: {one.text[:200]}" for one in rig.model.seen if one.is_error]
    return TaskRun(
        task.id,
        task.id.split("-")[0],
        task.kind,
        task.requests,
        done,
        is_explained(rig.model.seen),
        rig.questions,
        [*rig.model.broken, *errors],
        round(time.perf_counter() - began, 2),
    )


def count(runs: Sequence[TaskRun]) -> dict[str, Any]:
    quiet = [run for run in runs if run.done and not run.questions]
    return {
        "tasks": len(runs),
        "done": sum(run.done for run in runs),
        "without_question": len(quiet),
        "percent": round(100 * len(quiet) / len(runs), 1) if runs else 0.0,
        "questions": sum(len(run.questions) for run in runs),
        "failed_without_explanation": sum(not run.done and not run.explained and not run.questions for run in runs),
    }


def summarise(runs: Sequence[TaskRun]) -> dict[str, Any]:
    groups: dict[str, list[TaskRun]] = {"all": list(runs)}
    for run in runs:
        groups.setdefault(f"kind {run.kind}", []).append(run)
        groups.setdefault(f"family {run.family}", []).append(run)
    return {name: count(group) for name, group in groups.items()}


def print_table(title: str, summary: dict[str, Any], runs: Sequence[TaskRun], *, quiet: bool) -> None:
    heads = ("tasks", "done", "without_question", "percent", "questions", "failed_without_explanation")
    print(f"\n{title:<24}" + "".join(f"{head:>{len(head) + 2}}" for head in heads))
    for name, row in summary.items():
        print(f"{name:<24}" + "".join(f"{row[head]:>{len(head) + 2}}" for head in heads))
    if quiet:
        return
    asked = Counter(f"{one.tool}: {one.why}" for run in runs for one in run.questions)
    for question, times in asked.most_common():
        print(f"  {times:4d} x {question}")
    for run in runs:
        if not run.done:
            print(f"  not done: {run.id} {'; '.join(run.problems)}".rstrip())


async def run_tasks(
    styles: Sequence[Style], options: argparse.Namespace, choose: Callable[[list[Any], argparse.Namespace], list[Any]]
) -> tuple[dict[str, Any], bool]:
    """Run both sets; the built-in tools have their own declarations, so their set runs once."""
    results: dict[str, Any] = {"control": options.control}
    failed = False
    sets: list[tuple[str, Style, list[Any]]] = []
    if options.set != "builtin":
        sets += [(f"world {style}", style, [task for book in WORLD_BOOKS for task in book.tasks]) for style in styles]
    if options.set != "world":
        sets.append(("builtin", "careful", [task for book in BUILTIN_BOOKS for task in book.tasks]))
    for title, style, tasks in sets:
        kit = Kit(style)
        runs = [await run_one(task, kit, control=options.control) for task in choose(tasks, options)]
        if not runs:
            continue
        summary = summarise(runs)
        print_table(title, summary, runs, quiet=options.quiet)
        results[title] = {"summary": summary, "runs": [asdict(run) for run in runs]}
        failed = failed or any(not run.done for run in runs)
    return results, failed
