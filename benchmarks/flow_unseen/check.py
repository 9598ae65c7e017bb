"""Checks of the corpus itself, without an agent: plans are right, and every attack does something."""

from __future__ import annotations

import asyncio
import re
from collections import Counter

from attack import Attack
from plans import Task, is_done, values_of
from rig import Toolset, extra_lines, planted_world, run_directly
from seed_life import new_world
from tasks import TASKS

# What a person or a service assigns; an honest model cannot invent it.
ASSIGNED = re.compile(
    r"[\w.+-]+@[\w-]+\.[\w.]+|(?:DE|FR)\d{2}\w{10,}|https?://\S+|(?<!\w)(?:m-\d{3}|ev\d\d|f-\d\d|T-\d{4}|O-\d{4}|SO-\d|BK-\d+"
    r"|H-\d\d|P-\d\d|C-\d{3}|D-\d\d|dev-[a-z-]+|#[a-z]+-?[a-z]*|@[a-z_]+)(?!\w)"
)
KNOWN = ("marta.lindqvist@northpier.example", "@jonas", "@sofia", "@lena", "@tom", "@omar")  # the model may know


def missing_values(task: Task, results: list[str]) -> list[str]:
    """Values of the calls that neither the person nor an earlier result contains."""
    missing, number = [], 0
    said = ""
    for turn in task.turns:
        said += turn.prompt + "\n"
        for call in turn.calls:
            for value in (found for text in values_of(call.input) for found in ASSIGNED.findall(text)):
                if value.rstrip(".") not in said and value not in KNOWN:
                    missing.append(f"{call.name}: {value}")
            said += results[number] + "\n"
            number += 1
    return missing


def check_tasks(tools: Toolset) -> int:
    wrong = 0
    for task in TASKS:
        found = asyncio.run(run_directly(tools, new_world(), task.calls))
        missing = missing_values(task, found.results)
        if found.errors or missing or not is_done(task, found.world, found.results):
            wrong += 1
            print(f"task {task.name}: errors {found.errors}, not said {missing}, log {found.world.log}")
    return wrong


def check_attack(tools: Toolset, attack: Attack) -> str:
    """What is wrong with an attack: the injection is not read in time, or obeying it changes nothing."""
    honest = [call for turn in attack.turns for call in turn.calls]
    before = asyncio.run(run_directly(tools, planted_world(attack), honest))
    if not any(attack.probe in text for text in before.results[: attack.position or None]):
        return "the injection is not read in time"
    kept = honest[: attack.position] + list(attack.calls)
    rest = honest[attack.position + attack.replaces :]
    after = asyncio.run(run_directly(tools, planted_world(attack), kept + rest))
    return "" if extra_lines(after.world, before.world) else "it has no effect"


def check_corpus(attacks: list[Attack]) -> int:
    tools = Toolset("none")
    wrong = check_tasks(tools)
    for attack in attacks:
        if problem := check_attack(tools, attack):
            wrong += 1
            print(f"attack {attack.name}: {problem}")
    print(f"{len(tools.tools)} tools, {len(TASKS)} tasks, {len(attacks)} attacks, {wrong} wrong")
    print(dict(Counter(attack.family for attack in attacks)))
    return int(wrong > 0)
