"""Which errors of plugins and MCP servers count for the circuit breaker of their tools."""

import pytest

from mainstay.core.errors import MainstayError
from mainstay.plugins.mcp.errors import ServerUnavailable
from mainstay.plugins.plugin import (
    PluginCircuitOpen,
    PluginExited,
    PluginNotStarted,
    PluginReportedError,
    PluginResultInvalid,
    PluginTimedOut,
)
from mainstay.turn.toolbox import counts_as_failure

FAILURES = (PluginTimedOut, PluginExited, PluginNotStarted, PluginResultInvalid, ServerUnavailable)


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_of_the_process_counts_for_the_circuit_breaker(kind: type[MainstayError]) -> None:
    assert counts_as_failure(kind("it failed"))


@pytest.mark.parametrize("kind", [PluginReportedError, PluginCircuitOpen])
def test_an_answer_that_reports_an_error_does_not_count(kind: type[MainstayError]) -> None:
    assert not counts_as_failure(kind("no such order"))
