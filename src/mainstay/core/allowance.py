"""What a provider says is left of what it allows, as it says it with each of its answers."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["requests", "tokens", "input", "output"]


class Left(msgspec.Struct, frozen=True, gc=False):
    """One of its bounds. `name` is its own word for it: requests may be counted by the minute and by the day."""

    name: str
    kind: Kind
    left: float
    limit: float = 0.0  # 0: it did not say
    whole_in_s: float = 0.0  # until all of it is there again; 0: it did not say


class Allowance(msgspec.Struct, frozen=True, gc=False):
    """All that came with one answer. What a provider says is a claim: it may be late, rounded or wrong."""

    lefts: tuple[Left, ...] = ()
    asked_s: float | None = None  # it asked to be left alone for so long


NOTHING = Allowance()
