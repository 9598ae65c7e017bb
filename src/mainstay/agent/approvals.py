"""`agent.approvals`: tool calls that wait for approval (human in the loop), and the answers to them."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence

import msgspec

from mainstay.core.outcome import Reply
from mainstay.lane.approvals import PendingApproval
from mainstay.operations import approvals as operations
from mainstay.operations.client_protocol import OperationClient


class AgentApprovals:
    """Open approvals of all sessions, and the rules that answering "always" added."""

    def __init__(self, client: OperationClient) -> None:
        self._execute = client.execute

    async def list(self) -> builtins.list[PendingApproval]:
        """Return the open approvals, the oldest first: `.session`, and `.asked` with the exact call."""
        return await self._execute(operations.ListApprovals())

    async def approve(
        self,
        id: str,
        *,
        input: str | Mapping[str, object] | None = None,
        always: bool = False,
        by: str = "",
        wait: bool = True,
    ) -> Reply | None:
        """Let exactly this call run; `input` are other arguments (a mapping, or JSON text) to run it with, `always`
        allows calls of this kind from now on. Returns the turn's reply, or None at once with `wait=False`."""
        if isinstance(input, Mapping):
            input = msgspec.json.encode(input).decode()
        request = operations.Approve(id=id, input=input, always=always, by=by, wait=wait)
        return (await self._execute(request)).reply

    async def deny(self, id: str, reason: str = "", *, by: str = "", wait: bool = True) -> Reply | None:
        """Do not run the call; the model gets `reason` as its result."""
        return (await self._execute(operations.Deny(id=id, reason=reason, by=by, wait=wait))).reply

    async def rules(self) -> Sequence[str]:
        """Return the rules that were added by `always`."""
        return tuple((await self._execute(operations.ListRules())).rules)

    async def revoke(self, rule: str) -> None:
        """Remove such a rule: calls of this kind need approval again."""
        await self._execute(operations.RevokeRule(rule=rule))
