"""What every lane of an agent works with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from mainstay.context.rules import Rules
from mainstay.context.tokens import Scales
from mainstay.core.accounts import Accounts
from mainstay.core.errors import MainstayError
from mainstay.core.events import Event
from mainstay.core.judging import Panel
from mainstay.core.limits import Limits
from mainstay.core.ports import Clock, Contributor, Provider, Store, Summariser
from mainstay.lane.hub import Hub
from mainstay.lane.pausing import Approvals
from mainstay.turn.means import Trust
from mainstay.turn.toolbox import Tools


class Services(msgspec.Struct, frozen=True):
    """What every lane of an agent shares."""

    store: Store
    choose: Callable[[str], Provider]  # the provider for a session's own model; "" for the default
    tools: Tools
    limits: Limits
    clock: Clock
    hub: Hub
    instructions: str | Callable[[str], str] = ""  # a function is asked once a session
    contributors: tuple[Contributor, ...] = ()
    summariser: Summariser | None = None  # None: what leaves the window is outlined
    facts: bool = True  # taken out of what is summarised
    rules: Rules = Rules()
    scales: Scales = msgspec.field(default_factory=Scales)
    memory_tools: Literal["auto", "on", "off"] = "auto"
    few: tuple[str, ...] = ()  # the tools that a small model is offered; empty: all of them
    trust: Trust = Trust()
    screen: Callable[[str], Event | None] | None = None  # what a guard says of an input; raises InputRefused
    approvals: Approvals = msgspec.field(default_factory=Approvals)
    touched: Callable[[str], None] | None = None  # told of every session that has new records on disk
    accounts: Accounts | None = None  # None: nothing is bounded
    panel: Panel | None = None  # None: nobody judges the answers
    gate: Callable[[str], Awaitable[None]] | None = None  # of a session: raises AuditUnavailable if no turn may begin

    def terse(self, model: str) -> bool:
        """Whether a session's own model is a small one. One that cannot be had is none."""
        try:
            return self.choose(model).model().terse
        except MainstayError:
            return False
