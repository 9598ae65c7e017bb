"""Runs operations for a principal: opens the principal's workspace and executes the operation in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from mainstay.core.people import Principal
from mainstay.gateway.people import People
from mainstay.gateway.workspace import Workspace
from mainstay.operations.caller import Caller
from mainstay.operations.event_feed import EventStream
from mainstay.operations.execute import execute, open_stream
from mainstay.operations.operation import Operation
from mainstay.operations.runtime_protocols import Home

R = TypeVar("R")
WorkspaceOpener = Callable[[str], Awaitable[Workspace]]  # by name; raises WorkspaceUnknown


class OperationGateway:
    """Runs operations for authenticated principals. `open_workspace` opens a workspace when it is first used."""

    def __init__(self, open_workspace: WorkspaceOpener, people: People, home: Home) -> None:
        self.people = people
        self.open_workspace = open_workspace
        self.home = home

    async def build_caller(self, principal: Principal) -> Caller:
        """Return the caller that runs operations for this principal. Raises WorkspaceUnknown."""
        return Caller(principal, await self.open_workspace(principal.workspace), self.home)

    async def execute(self, principal: Principal, operation: Operation[R]) -> R:
        return await execute(await self.build_caller(principal), operation)

    async def open_stream(self, principal: Principal, operation: Operation[Any]) -> EventStream:
        return await open_stream(await self.build_caller(principal), operation)
