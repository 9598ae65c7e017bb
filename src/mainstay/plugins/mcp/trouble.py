"""What can be wrong with an MCP server, named for the state of the world."""

from __future__ import annotations

from mainstay.core.errors import MainstayError


class ServerUnavailable(MainstayError):
    """It cannot be started or reached, or it rests because it failed too often."""

    counts = True


class ToolChanged(MainstayError):
    """It is not what was approved, or is not there any more. Nothing was called."""


class CallFailed(MainstayError):
    """The server says so, or what it answered makes no sense."""


class SessionOver(MainstayError):
    """The server has forgotten who we are; what was asked was not done."""
