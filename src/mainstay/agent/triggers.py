"""`agent.triggers`: prompts from a schedule, a file or a webhook."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from mainstay.core.triggers import Trigger, TriggerRun, TriggerStatus
from mainstay.operations import triggers as operations
from mainstay.operations.caller import OWNER, Caller
from mainstay.operations.client_protocol import OperationClient
from mainstay.operations.runtime_protocols import RuntimeSource

if TYPE_CHECKING:
    from mainstay.core.asgi import ASGIApp


class AgentTriggers:
    """Triggers are files in `<home>/events`; nothing is fired before `start`."""

    def __init__(self, client: OperationClient) -> None:
        self._execute = client.execute

    async def list(self) -> Sequence[TriggerStatus]:
        """Return the triggers by name: when each is due, its last run, and what is wrong with it."""
        return await self._execute(operations.ListTriggers())

    async def remove(self, name: str) -> None:
        await self._execute(operations.RemoveTrigger(name=name))

    async def pause(self, name: str) -> None:
        await self._execute(operations.PauseTrigger(name=name))

    async def resume(self, name: str) -> None:
        await self._execute(operations.ResumeTrigger(name=name))

    async def run(self, name: str) -> TriggerRun:
        """Run a trigger now, in addition to its schedule. Returns when the prompt is on disk, not when it is
        answered."""
        return await self._execute(operations.RunTrigger(name=name))

    async def history(self, name: str = "", limit: int = 100) -> Sequence[TriggerRun]:
        """Return the runs of one trigger, or of all, newest first."""
        return (await self._execute(operations.ListTriggerRuns(name=name, limit=limit))).runs


class LocalAgentTriggers(AgentTriggers):
    """Triggers of an agent in this process, which can also fire them and serve webhooks."""

    def __init__(self, client: OperationClient, source: RuntimeSource) -> None:
        super().__init__(client)
        self._caller = Caller(OWNER, source)

    async def start(self) -> None:
        """Fire what is due for as long as the agent is open."""
        (await operations.get_trigger_service(self._caller)).start()

    async def add(self, trigger: Trigger, *, replace: bool = False) -> None:
        """Add a trigger, or replace the one of the same name."""
        await operations.store_trigger(self._caller, trigger, replace=replace)

    async def app(self, *, alone: bool = False, without: Collection[str] = ()) -> ASGIApp:
        """Return the ASGI application that serves the configured webhooks at `/hooks/NAME`, except those in `without`.
        `alone`: it is served by itself, not mounted in another application."""
        return (await operations.get_trigger_service(self._caller)).app(alone=alone, without=without)
