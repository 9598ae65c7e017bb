"""Errors of MCP servers and of calls to them."""

from __future__ import annotations

from mainstay.core.errors import MainstayError


class ServerUnavailable(MainstayError):
    """The server cannot be started or reached, or is not tried because it failed too often."""

    counts_as_failure = True


class ToolChanged(MainstayError):
    """The tool differs from what was approved, or no longer exists. Nothing was called."""


class CallFailed(MainstayError):
    """The server reported an error, gave an invalid answer, or did not answer in time."""


class McpSessionExpired(MainstayError):
    """The server does not know the session any more; the request was not executed."""
