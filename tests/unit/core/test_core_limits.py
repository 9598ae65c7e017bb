"""A bound on everything, and a test that hits it."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from mainstay.core.limits import Limits

TESTS = Path(__file__).resolve().parents[2]

# Bounds that no test names: with the reason.
UNNAMED: dict[str, str] = {
    "breaker_failures_max": "its default is met in tests/unit/metering/test_circuit_breaker.py",
}


def test_every_bound_is_named_by_a_test() -> None:
    here = Path(__file__)
    said = "\n".join(path.read_text() for path in TESTS.rglob("test_*.py") if path != here)
    missing = {field for field in Limits.__struct_fields__ if f"{field}" not in said} - set(UNNAMED)
    assert missing == set(), "a bound that no test hits may not hold"


def test_the_exceptions_are_real_bounds_and_still_exceptions() -> None:
    here = Path(__file__)
    said = "\n".join(path.read_text() for path in TESTS.rglob("test_*.py") if path != here)
    assert set(UNNAMED) <= set(Limits.__struct_fields__)
    assert [field for field in UNNAMED if re.search(rf"\bLimits\([^)]*\b{field}=", said)] == []


def test_a_bound_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(TypeError):
        Limits(steps=3)  # type: ignore[call-arg]
    with pytest.raises(msgspec.ValidationError, match="unknown field `steps`"):
        msgspec.convert({"steps": 3}, Limits)


def test_units_come_last() -> None:
    ends = ("_max", "_s", "_jitter")
    assert [field for field in Limits.__struct_fields__ if not field.endswith(ends)] == []


def test_the_defaults_are_what_the_design_says() -> None:
    limits = Limits()
    assert (limits.steps_max, limits.tool_calls_max, limits.calls_per_response_max) == (25, 50, 10)
    assert (limits.session_turns_max, limits.tool_timeout_s, limits.model_timeout_s) == (None, 30, 300)
    assert (limits.tool_result_bytes_max, limits.mailbox_depth_max, limits.lane_idle_s) == (65536, 5, 300)
    assert (limits.retries_max, limits.retry_base_s, limits.retry_jitter, limits.retry_wait_max_s) == (8, 2, 0.2, 600)
    assert (limits.breaker_failures_max, limits.breaker_open_s, limits.watcher_buffer_max) == (5, 30, 64)
    assert (limits.coalesce_window_s, limits.checkpoint_period_s) == (0, 1)
