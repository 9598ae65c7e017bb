"""Services that all lanes of an agent share: store, providers, tools, limits, clock, budgets, judges."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Literal

import msgspec

from mainstay.context.token_budget import ContextSizeSettings
from mainstay.context.tokenizers import CalibrationRegistry
from mainstay.core.budget_ports import BudgetManager
from mainstay.core.errors import MainstayError
from mainstay.core.events import Event
from mainstay.core.judges import JudgePanel
from mainstay.core.limits import Limits
from mainstay.core.ports import Clock, ContextContributor, Provider, Store, Summariser
from mainstay.lane.approvals import PendingApprovals
from mainstay.lane.event_hub import EventHub
from mainstay.turn.dependencies import TrustServices
from mainstay.turn.toolbox import TurnTools


class LastAttempts:
    """Lets one turn at a time make its last attempt before it is set aside, so that only the one that ends the process
    is blamed. The first waits until the process has run for a while: a process that ends before was ended by another
    cause, such as an operator or a lack of memory, and that counts against no turn."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._is_stable = False

    @asynccontextmanager
    async def begin(self, clock: Clock, limits: Limits) -> AsyncIterator[None]:
        async with self._lock:
            if not self._is_stable:
                await clock.sleep(limits.last_attempt_delay_s)
                self._is_stable = True
            yield


class LaneServices(msgspec.Struct, frozen=True):
    store: Store
    provider_for: Callable[[str], Provider]  # by model name; "" for the default model
    tools: TurnTools
    limits: Limits
    clock: Clock
    hub: EventHub
    instructions: str | Callable[[str], str] = ""  # a function is called once per session, with its key
    contributors: tuple[ContextContributor, ...] = ()
    summariser: Summariser | None = None  # None: a fold is an outline without a model
    extract_facts: bool = True  # extracted from what is summarised
    context_rules: ContextSizeSettings = ContextSizeSettings()
    calibrations: CalibrationRegistry = msgspec.field(default_factory=CalibrationRegistry)
    memory_tools: Literal["auto", "on", "off"] = "auto"
    small_model_tools: tuple[str, ...] = ()  # names of tools for small models; empty: all
    trust: TrustServices = TrustServices()
    scan_input: Callable[[str], Event | None] | None = None  # scans an input's text; raises InputRefused
    approvals: PendingApprovals = msgspec.field(default_factory=PendingApprovals)
    on_stored: Callable[[str], None] | None = None  # called with a session's key after new events are on disk
    budget_manager: BudgetManager | None = None  # None: no budgets apply
    judges: JudgePanel | None = None  # None: answers are not judged
    last_attempts: LastAttempts = msgspec.field(default_factory=LastAttempts)
    check_turn_allowed: Callable[[str], Awaitable[None]] | None = (
        None  # by session; raises AuditUnavailable if no turn may begin
    )

    def find_window(self, model: str) -> int:
        """Return the window of a model in tokens; 0 if it is unavailable."""
        try:
            return self.context_rules.window or self.provider_for(model).model().window
        except MainstayError:
            return 0

    def is_small_model(self, model: str) -> bool:
        """Return True if this model is a small one; False if it is unavailable."""
        try:
            return self.provider_for(model).model().terse
        except MainstayError:
            return False
