"""Tells from a tool result whether the called tool exists.

A model may call a tool that it made up and put anything into the name, so such names are not shown in audit, metrics
and traces.
"""

from __future__ import annotations

import re

from mainstay.core.messages import ToolResult

UNKNOWN_TOOL = "unknown"  # shown instead of the name of a tool that does not exist
# How results begin if the tool does not exist or was not looked up.
_UNKNOWN_TOOL_PREFIXES = ("There is no tool ", "The call was cut off", "Not run: ", "Skipped: ", "Cancelled: ")
_SUGGESTION_PATTERN = re.compile(r" Did you mean '([\w.:/-]{1,100})'\?\Z", re.ASCII)


def tool_exists(result: ToolResult, started: bool) -> bool:
    """Return True if a tool of this name exists. `started`: the journal has a ToolStarted event of the call."""
    return started or not (result.is_error and result.content.startswith(_UNKNOWN_TOOL_PREFIXES))


def suggested_tool(result: ToolResult) -> str:
    """Return the existing tool that the result suggests for an unknown name; empty if it suggests none.

    The model's text is quoted before the suggestion and cannot be mistaken for it.
    """
    head, _, _ = result.content.rpartition(" Available: ")
    match = _SUGGESTION_PATTERN.search(head)
    return match[1] if match is not None and result.content.startswith("There is no tool ") else ""
