"""The front door: everything that comes from outside comes in here, and is led to the workspace it belongs to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mainstay.core.people import Principal
from mainstay.gateway.office import Office
from mainstay.gateway.people import People
from mainstay.gateway.visit import Visit

Offices = Callable[[str], Awaitable[Office]]  # by the name of a workspace; raises WorkspaceUnknown


class Gateway:
    """`offices` are opened when somebody first enters them."""

    def __init__(self, offices: Offices, people: People) -> None:
        self.people = people
        self._offices = offices

    async def visit(self, principal: Principal) -> Visit:
        return Visit(principal, await self._offices(principal.workspace))

    async def office(self, workspace: str) -> Office:
        """For what is not somebody's visit: a channel, a trigger."""
        return await self._offices(workspace)
