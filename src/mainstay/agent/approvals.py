"""`agent.approvals`: what turns wait for, and what somebody says to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mainstay.agent.opened import Opened, Opening
from mainstay.core.errors import InputRefused
from mainstay.core.events import ApprovalAnswered
from mainstay.core.outcome import Reply
from mainstay.lane.pausing import Pending

VERBS = ("list", "approve", "deny", "rules", "revoke")


class AgentApprovals:
    def __init__(self, opened: Opening) -> None:
        self._opened = opened

    async def list(self) -> list[Pending]:
        """Everything that waits, the oldest first: `.session`, and `.asked` with the exact call."""
        return list((await self._opened()).services.approvals)

    async def approve(
        self, id: str, *, input: str | None = None, always: bool = False, by: str = "", wait: bool = True
    ) -> Reply | None:
        """Let this very call run; `input` are other arguments (JSON) to run it with, `always` lets its like run from
        now on. Returns the turn's reply, or None at once with `wait=False`."""
        opened = await self._opened()
        pending = opened.services.approvals.find(id)
        if pending.asked.client:
            raise InputRefused("whoever asked runs this call itself; there is nothing to approve, only to deny")
        rule = ""
        if always:
            if input is not None:
                raise InputRefused("a call that is changed is approved once; always is for calls as they are")
            rule = pending.asked.always
            if not rule:
                raise InputRefused("no rule could allow the like of this call; it can only be approved once")
        answered = ApprovalAnswered(pending.asked.id, "approved", by, input=input, always=rule)
        return await self._answer(opened, pending, answered, wait=wait)

    async def deny(self, id: str, reason: str = "", *, by: str = "", wait: bool = True) -> Reply | None:
        """It does not run; the model is told why."""
        opened = await self._opened()
        pending = opened.services.approvals.find(id)
        return await self._answer(opened, pending, ApprovalAnswered(pending.asked.id, "denied", by, reason), wait=wait)

    async def rules(self) -> Sequence[str]:
        """What was always allowed so far."""
        return tuple((await self._opened()).grants.rules)

    async def revoke(self, rule: str) -> None:
        """From now on it is asked about again."""
        opened = await self._opened()
        await opened.grants.remove(rule)
        await opened.note("grant.revoked", rule)

    async def _answer(
        self, opened: Opened, pending: Pending, answered: ApprovalAnswered, *, wait: bool
    ) -> Reply | None:
        ticket = await opened.lanes.get(pending.session).answer(answered)
        if answered.always:
            await opened.grants.add(answered.always)
        return await ticket.reply if wait else None

    async def do(self, verb: str, arguments: dict[str, Any]) -> Any:
        """For whoever asks from another process."""
        if verb not in VERBS:
            raise InputRefused(f"there is no operation {verb!r}")
        return await getattr(self, verb)(**arguments)


class RemoteApprovals:
    """The same, of the process that owns the home."""

    def __init__(self, ask: Any) -> None:
        self._ask = ask

    async def list(self) -> list[Pending]:
        found: list[Pending] = await self._ask("list", {}, list[Pending])
        return found

    async def approve(
        self, id: str, *, input: str | None = None, always: bool = False, by: str = "", wait: bool = True
    ) -> Reply | None:
        given = {"id": id, "input": input, "always": always, "by": by, "wait": wait}
        reply: Reply | None = await self._ask("approve", given, Reply | None)
        return reply

    async def deny(self, id: str, reason: str = "", *, by: str = "", wait: bool = True) -> Reply | None:
        given = {"id": id, "reason": reason, "by": by, "wait": wait}
        reply: Reply | None = await self._ask("deny", given, Reply | None)
        return reply

    async def rules(self) -> Sequence[str]:
        found: tuple[str, ...] = await self._ask("rules", {}, tuple[str, ...])
        return found

    async def revoke(self, rule: str) -> None:
        await self._ask("revoke", {"rule": rule}, Any)
