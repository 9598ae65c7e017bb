"""Mainstay: a durable agent runtime.

    from mainstay import Agent, tool

Importing it is cheap: every exported name, with its module, is imported on first use.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_WHERE = {
    "mainstay.agent.agent": ("Agent",),
    "mainstay.judges.judge_declaration": ("Judge",),
    "mainstay.config.schema": ("Config",),
    "mainstay.core.tools": ("tool",),
    "mainstay.core.limits": ("Limits",),
    "mainstay.core.outcome": ("Aborted", "Answered", "Exhausted", "Failed", "Paused", "Reply"),
    "mainstay.core.messages": ("Binary", "Message", "Text", "Thinking", "ToolCall", "ToolResult", "Usage"),
    "mainstay.core.ports": ("ModelInfo", "Provider", "ToolContext"),
    "mainstay.core.errors": ("MainstayError",),
    "mainstay.core.events": (
        "ApprovalAsked",
        "Event",
        "Folded",
        "Lagged",
        "MessageFinished",
        "StepRestarted",
        "Steered",
        "Stuck",
        "TextDelta",
        "ThinkingDelta",
        "ToolCallDelta",
        "ToolCallReady",
        "ToolCallStarted",
        "ToolFinished",
        "ToolProgress",
        "TurnEnded",
        "Waiting",
    ),
}
_HOME = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [*sorted(_HOME), "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'mainstay' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
