"""Services that all lanes of an agent share: store, providers, tools, limits, clock, budgets, judges."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
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
    last_attempts: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)  # held by a turn in its last attempt
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
