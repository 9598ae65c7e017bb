"""Every log line of a turn carries its location."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from mainstay import Agent, tool
from mainstay.cli.log_setup import JsonLogFormatter, TextLogFormatter
from mainstay.core.turn_location import TurnLocation, TurnLocationContext
from mainstay.guards.log_filters import RedactingLogFilter, SessionLogFilter
from mainstay.guards.redaction import Redactor
from mainstay.providers.scripted import Call, ScriptedProvider

CANARY = "canary-secret-value-1234"


class RecordingHandler(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.filters[:] = [SessionLogFilter(), RedactingLogFilter(Redactor([CANARY]))]

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def log_handler() -> Iterator[RecordingHandler]:
    handler = RecordingHandler()
    logger = logging.getLogger("mainstay.test")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)


async def test_log_lines_of_a_tool_carry_its_session_turn_step_and_trace(log_handler: RecordingHandler) -> None:
    """LOOM-117"""
    log_handler.setFormatter(JsonLogFormatter())

    @tool(untrusted=False, sink=False)
    def look() -> str:
        """Look around."""
        logging.getLogger("mainstay.test").info("looking")
        return "nothing"

    script: Any = [Call("look", {}), "well", Call("look", {}), Call("look", {}), "well"]
    async with Agent(ScriptedProvider(script), tools=[look], home=":memory:") as agent:
        traces = [(await agent.run("s", "go")).trace for _ in range(2)]
    logging.getLogger("mainstay.test").info("afterwards")
    *during, after = [json.loads(line) for line in log_handler.lines]
    places = [[one[name] for name in ("session", "turn", "step", "trace")] for one in during]
    assert places == [["s", 1, 1, traces[0]], ["s", 2, 1, traces[1]], ["s", 2, 2, traces[1]]]
    assert "trace" not in after


def test_a_line_of_text_ends_with_where(log_handler: RecordingHandler) -> None:
    log_handler.setFormatter(TextLogFormatter())
    with TurnLocationContext(lambda: TurnLocation("web:ann:s", 3, 2, "a" * 32)):
        logging.getLogger("mainstay.test").warning("it is %s", "slow")
    logging.getLogger("mainstay.test").warning("it is quiet")
    assert log_handler.lines[0].endswith(f"it is slow [session=web:ann:s turn=3 step=2 trace={'a' * 32}]")
    assert log_handler.lines[1].endswith("it is quiet")


@pytest.mark.parametrize("shape", [TextLogFormatter, JsonLogFormatter])
def test_f40_a_name_that_is_a_secret_or_no_name_is_not_written(
    shape: type[logging.Formatter], log_handler: RecordingHandler
) -> None:
    log_handler.setFormatter(shape())
    with TurnLocationContext(lambda: TurnLocation(f"of {CANARY}\n2026 error mainstay: forged \x1b[2J", 1, 1, "a" * 32)):
        logging.getLogger("mainstay.test").info("hello")
    [line] = log_handler.lines
    assert CANARY not in line
    assert "\n" not in line
    assert "\x1b" not in line
