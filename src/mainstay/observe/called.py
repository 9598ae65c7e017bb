"""Which names of tools can be told: a model may call one that it made up, and put anything into its name."""

from __future__ import annotations

import re

from mainstay.core.messages import ToolResult

UNKNOWN = "unknown"  # the name of every tool that is none
# How results begin of calls for which no tool was looked up, or none was found.
_UNSEEN = ("There is no tool ", "The call was cut off", "Not run: ", "Skipped: ", "Cancelled: ")
_NEAR = re.compile(r" Did you mean '([\w.:/-]{1,100})'\?\Z", re.ASCII)


def was_there(result: ToolResult, started: bool) -> bool:
    """Whether there was a tool of this name. `started`: the journal says that it ran."""
    return started or not (result.is_error and result.content.startswith(_UNSEEN))


def near(result: ToolResult) -> str:
    """The tool that is there, of which this one's name reminds; empty if there is none. What the model wrote stands in
    quotes before that, and cannot look like it."""
    head, _, _ = result.content.rpartition(" Available: ")
    found = _NEAR.search(head)
    return found[1] if found is not None and result.content.startswith("There is no tool ") else ""
