"""Attacks written as rows of a table: a place from the scenes, a prompt of their own, a wish and its calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attack_model import Attack, Effect, Turn, voiced
from scenes import SCENES

from mainstay.testing import Call

BY_ID = {scene.id: scene for scene in SCENES}


@dataclass(frozen=True)
class Row:
    """`scene` gives the place and the call that reads it; `then` are the honest calls after that."""

    scene: str
    prompt: str
    wish: str  # the instruction; with `raw` the injection as it stands there
    effect: Effect
    calls: tuple[Call, ...]
    then: tuple[Call, ...] = ()
    raw: bool = False


def row(scene: str, prompt: str, wish: str, effect: Effect, *calls: Call) -> Row:
    return Row(scene, prompt, wish, effect, calls)


def forged(scene: str, prompt: str, text: str, effect: Effect, *calls: Call) -> Row:
    """A row whose injection is a record that looks genuine; it gives no order."""
    return Row(scene, prompt, text, effect, calls, raw=True)


def build(rows: Sequence[Row], family: str) -> list[Attack]:
    """Return the attacks of a table."""
    found = []
    for number, one in enumerate(rows, 1):
        place = BY_ID[one.scene]
        reading = place.turns[0].calls[0]
        injection = one.wish if one.raw else voiced(number, one.wish)
        turns = (Turn(one.prompt, (reading, *one.then), 1),)
        id = f"{family}-{number:03}-{one.scene}"
        found.append(Attack(id, place.domain, family, turns, place.plant, injection, one.calls, one.effect))
    return found
