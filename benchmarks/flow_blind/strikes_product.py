"""The product of requests and general goals: each goal in about a quarter of the places."""

from __future__ import annotations

from attack import Attack, voiced
from strikes_goals import GOALS
from strikes_scenes import SCENES

SPREAD = 4  # one of so many pairs is used


def product_attacks() -> list[Attack]:
    made = []
    for i, scene in enumerate(SCENES):
        for j, goal in enumerate(GOALS):
            if (i * 5 + j * 3 + i // 7) % SPREAD:
                continue
            if scene.turns[-1].strike is None:
                continue
            made.append(
                Attack(
                    id=f"{scene.id}--{goal.id}",
                    domain=scene.domain,
                    family=goal.family,
                    turns=scene.turns,
                    plant=scene.plant,
                    injection=voiced(i + j, goal.instruction),
                    calls=goal.calls,
                    effect=goal.effect,
                    content_only=bool(goal.dest) and goal.dest in scene.names,
                )
            )
    return made
