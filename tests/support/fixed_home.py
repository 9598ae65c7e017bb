"""A home whose people and workspaces are fixed, for gateways that tests assemble themselves."""

from __future__ import annotations

from collections.abc import Sequence

from mainstay.agent.agent import Agent
from mainstay.core.budget_reports import BudgetReport
from mainstay.core.errors import InputRefused
from mainstay.gateway.people import People
from mainstay.gateway.workspace import Workspace
from mainstay.operations.runtime_protocols import RemovedWorkspace, ServerStatus


class FixedHome:
    """The `Home` port of operations."""

    def __init__(self, people: People, main_workspace: str = "default", names: Sequence[str] | None = None) -> None:
        self.people = people
        self.main_workspace = main_workspace
        self._names = names

    def workspace_names(self) -> Sequence[str] | None:
        return self._names

    async def create_workspace(self, name: str) -> None:
        raise InputRefused(f"the workspace {name!r} is fixed")

    async def remove_workspace(self, name: str) -> RemovedWorkspace:
        raise InputRefused(f"the workspace {name!r} is fixed")

    async def load_budget_report(self, workspace: str | None) -> BudgetReport:
        return BudgetReport()

    async def status(self) -> ServerStatus:
        return ServerStatus(version="0", at=[], workspaces=list(self._names or ()), channels={}, unready={})


async def opened_workspace(agent: Agent) -> Workspace:
    """Open an agent and return it as a gateway holds it."""
    await agent.runtime()
    return Workspace(agent)
