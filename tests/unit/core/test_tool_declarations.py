"""Tools that cannot be offered as they are declared are refused when they are declared."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from mainstay import tool
from mainstay.core.errors import ToolDefinitionError


def plain(n: int) -> str:
    return str(n)


def generates() -> Iterator[int]:
    yield 1


async def generates_slowly() -> AsyncIterator[int]:
    yield 1


class AClass: ...


@pytest.mark.parametrize("effect", ["safe", "Pure", "", None])
def test_an_effect_that_does_not_exist_is_refused(effect: Any) -> None:
    with pytest.raises(ToolDefinitionError, match="pure, idempotent, reconcile, unsafe"):
        tool(effect=effect)(plain)


@pytest.mark.parametrize("seconds", ["5", 0, -1])
def test_a_timeout_that_is_no_time_is_refused(seconds: Any) -> None:
    with pytest.raises(ToolDefinitionError, match="timeout_s"):
        tool(timeout_s=seconds)(plain)


@pytest.mark.parametrize("thing", [generates, generates_slowly, AClass])
def test_a_function_that_does_not_return_a_result_is_no_tool(thing: Any) -> None:
    with pytest.raises(ToolDefinitionError, match="returns its result"):
        tool(thing)
