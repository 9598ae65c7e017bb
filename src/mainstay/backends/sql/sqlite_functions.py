"""Bounded replacements for SQLite functions whose work grows with the product of their arguments.

SQLite cannot be interrupted inside a function, nor between two function calls in one row. These check the deadline
before they begin, and refuse arguments that take too long.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import apsw

from mainstay.backends.base import BackendRefused

SqliteValue = None | int | float | str | bytes

PATTERN_CHARS_MAX = 50  # a pattern of this length is within SQLite's limit, whatever its characters
# By name and number of arguments: the work (product of the sizes of the first two) that takes about 0.2 s.
_COMPARE_WORK_MAX, _CHARACTER_WORK_MAX, _KEY_WORK_MAX = 20_000_000_000, 100_000_000, 1_000_000_000
FUNCTION_WORK_MAX = {
    ("instr", 2): _COMPARE_WORK_MAX,
    ("replace", 3): _COMPARE_WORK_MAX,
    ("trim", 2): _CHARACTER_WORK_MAX,
    ("ltrim", 2): _CHARACTER_WORK_MAX,
    ("rtrim", 2): _CHARACTER_WORK_MAX,
    ("unhex", 2): _CHARACTER_WORK_MAX,
    ("json_patch", 2): _KEY_WORK_MAX,
    ("like", 2): _COMPARE_WORK_MAX,
    ("like", 3): _COMPARE_WORK_MAX,
    ("glob", 2): _COMPARE_WORK_MAX,
}


def replace_slow_functions(db: apsw.Connection, should_stop: Callable[[], bool], limits: dict[int, int]) -> None:
    """Replace SQLite's own functions with bounded ones, which compute the same results on a second connection."""
    helper = apsw.Connection(":memory:")
    for limit, value in limits.items():
        helper.limit(limit, value)

    def call(name: str, sql: str, work_max: int, *values: SqliteValue) -> SqliteValue:
        if should_stop():
            raise apsw.InterruptError
        if _value_size(values[0]) * _value_size(values[1]) > work_max:
            raise BackendRefused(f"The arguments of {name} are too large: ask for less.")
        result: SqliteValue = helper.execute(sql, values).fetchall()[0][0]
        return result

    def matches(
        compare: Callable[[str, str], int], fallback: Callable[..., SqliteValue], *values: SqliteValue
    ) -> SqliteValue:
        if len(values) == 2:
            pattern, text = values
            if isinstance(pattern, str) and isinstance(text, str) and len(pattern) <= PATTERN_CHARS_MAX:
                if should_stop():
                    raise apsw.InterruptError
                if "\0" not in text and "\0" not in pattern:
                    return int(compare(pattern, text) == 0)
        return fallback(*values)

    for (name, count), work_max in FUNCTION_WORK_MAX.items():
        function = partial(call, name, f"SELECT {name}({', '.join('?' * count)})", work_max)
        if name in ("like", "glob"):
            function = partial(matches, apsw.strlike if name == "like" else apsw.strglob, function)
        db.create_scalar_function(name, function, count, deterministic=True, flags=apsw.SQLITE_INNOCUOUS)


def _value_size(value: SqliteValue) -> int:
    return len(value) if isinstance(value, str | bytes) else 24
