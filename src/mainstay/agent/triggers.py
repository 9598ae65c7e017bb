"""`agent.triggers`: work that nobody typed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from mainstay.agent.opened import Opening
from mainstay.core.errors import InputRefused
from mainstay.core.triggers import Run, Status, Trigger

VERBS = ("list", "add", "remove", "pause", "resume", "run", "history")


class AgentTriggers:
    """They are kept as files in `<home>/events`, whoever adds them; nothing is fired before `start`."""

    def __init__(self, opened: Opening) -> None:
        self._opened = opened

    async def start(self) -> None:
        """Fire what is due for as long as the agent is open."""
        (await self._kept()).start()

    async def list(self) -> Sequence[Status]:
        """By name: when each is due, what came of it last, and what is wrong."""
        found: Sequence[Status] = await (await self._kept()).list()
        return found

    async def add(self, trigger: Trigger, *, replace: bool = False) -> None:
        await (await self._kept()).add(trigger, replace=replace)

    async def remove(self, name: str) -> None:
        await (await self._kept()).remove(name)

    async def pause(self, name: str) -> None:
        await (await self._kept()).pause(name)

    async def resume(self, name: str) -> None:
        await (await self._kept()).pause(name, paused=False)

    async def run(self, name: str) -> Run:
        """Now, beside its schedule. Returns when the prompt is on disk, not when it is answered."""
        run: Run = await (await self._kept()).run(name)
        return run

    async def history(self, name: str = "", limit: int = 100) -> Sequence[Run]:
        """What was done, the newest first."""
        found: Sequence[Run] = await (await self._kept()).history(name, limit)
        return found

    async def app(self, *, alone: bool = False, without: Collection[str] = ()) -> Any:
        """The ASGI application that takes the configured webhooks at `/hooks/NAME`, to be mounted somewhere, or to be
        served `alone`."""
        return (await self._kept()).app(alone=alone, without=without)

    async def do(self, verb: str, arguments: dict[str, Any]) -> Any:
        """For whoever asks from another process."""
        if verb not in VERBS:
            raise InputRefused(f"there is no operation {verb!r}")
        return await getattr(self, verb)(**arguments)

    async def _kept(self) -> Any:
        triggering = (await self._opened()).triggering
        if triggering is None:
            raise InputRefused("an agent without a home keeps no triggers")
        return triggering


class RemoteTriggers:
    """The same, of the process that owns the home."""

    def __init__(self, ask: Callable[[str, dict[str, Any], Any], Awaitable[Any]]) -> None:
        self._ask = ask

    async def list(self) -> Sequence[Status]:
        found: Sequence[Status] = await self._ask("list", {}, list[Status])
        return found

    async def run(self, name: str) -> Run:
        run: Run = await self._ask("run", {"name": name}, Run)
        return run
