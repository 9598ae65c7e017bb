"""The budget of one session, in place of the configured budget of every session."""

from __future__ import annotations

import msgspec


class SessionBudget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one session may spend in all, with its sub-agents; None: the configured limit."""

    money: float | None = None  # dollars
    tokens: int | None = None  # prompts and answers together
    tool_calls: int | None = None


NO_SESSION_BUDGET = SessionBudget()
