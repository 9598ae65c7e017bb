"""`Judge`: declares a judge of answers in code or configuration, with criteria for a model or a function."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import msgspec

from mainstay.core.judges import JudgeInput

_NAME_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}")

# returns a float from 0 to 1, a bool, or a tuple of one and a reason; may be async
Scorer = Callable[[JudgeInput], object]


class Judge(msgspec.Struct, frozen=True):
    """A judge for `Agent(judges=[…])`: `criteria` for a model, or a `function` that takes a `JudgeInput` (`prompt`,
    `answer`, `messages`) and returns a score from 0 to 1, a bool, or a tuple of one of them and a reason."""

    name: str
    criteria: str = ""
    function: Scorer | None = None
    model: str | None = None  # the model that judges; None: the one that answered
    weight: float = 1.0
    timeout_s: float = 60.0
    money: float | None = None  # most dollars for one verdict; None: no limit of its own


def find_problem(judge: Judge) -> str:
    """Return what is wrong with the name or the numbers of a judge; empty if nothing is."""
    if not isinstance(judge.name, str) or not _NAME_PATTERN.fullmatch(judge.name):
        return f"the judge {str(judge.name)[:80]!r} needs a name of at most 64 letters, digits, - and _"
    numbers = {"weight": judge.weight, "timeout_s": judge.timeout_s, "money": judge.money}
    for field, number in numbers.items():
        if number is not None and not (isinstance(number, int | float) and 0 < number < math.inf):
            return f"`{field}` of the judge {judge.name!r} must be a number above 0"
    return ""
