"""SQLite's functions that take long for what they are given. SQLite cannot be stopped within a function, nor between
two of them in one row. So these look at the clock before they begin, and take no more than they can do at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import apsw

from mainstay.backends.common import BackendRefused

Value = None | int | float | str | bytes

PATTERN_CHARS = 50  # up to here a pattern is within SQLite's limit for one, whatever its letters are
# By how many arguments they are called, and how much work (one size by the other) is done in 0.2 s or so.
_COMPARING, _BY_LETTER, _BY_KEY = 20_000_000_000, 100_000_000, 1_000_000_000
WORK = {
    ("instr", 2): _COMPARING,
    ("replace", 3): _COMPARING,
    ("trim", 2): _BY_LETTER,
    ("ltrim", 2): _BY_LETTER,
    ("rtrim", 2): _BY_LETTER,
    ("unhex", 2): _BY_LETTER,
    ("json_patch", 2): _BY_KEY,
    ("like", 2): _COMPARING,
    ("like", 3): _COMPARING,
    ("glob", 2): _COMPARING,
}


def guard(db: apsw.Connection, enough: Callable[[], bool], limits: dict[int, int]) -> None:
    """Puts them in the place of SQLite's own, which do the work: what comes out is the same."""
    own = apsw.Connection(":memory:")
    for limit, value in limits.items():
        own.limit(limit, value)

    def call(name: str, ask: str, most: int, *values: Value) -> Value:
        if enough():
            raise apsw.InterruptError
        if _size(values[0]) * _size(values[1]) > most:
            raise BackendRefused(f"{name} is given too much here: ask for less.")
        found: Value = own.execute(ask, values).fetchall()[0][0]
        return found

    def matches(compare: Callable[[str, str], int], slowly: Callable[..., Value], *values: Value) -> Value:
        if len(values) == 2:
            pattern, text = values
            if isinstance(pattern, str) and isinstance(text, str) and len(pattern) <= PATTERN_CHARS:
                if enough():
                    raise apsw.InterruptError
                if "\0" not in text and "\0" not in pattern:
                    return int(compare(pattern, text) == 0)
        return slowly(*values)

    for (name, count), most in WORK.items():
        made = partial(call, name, f"SELECT {name}({', '.join('?' * count)})", most)
        if name in ("like", "glob"):
            made = partial(matches, apsw.strlike if name == "like" else apsw.strglob, made)
        db.create_scalar_function(name, made, count, deterministic=True, flags=apsw.SQLITE_INNOCUOUS)


def _size(value: Value) -> int:
    return len(value) if isinstance(value, str | bytes) else 24
