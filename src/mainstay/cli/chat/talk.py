"""A conversation at a terminal, whatever shows it: which session, which model, what goes on."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from mainstay.agent.agent import Agent
from mainstay.agent.models import Models
from mainstay.cli.chat.asking import ALWAYS, NO, YES
from mainstay.cli.chat.calls import Calls
from mainstay.cli.commands.talking import Setting, new_session, own_model, settle_in
from mainstay.core.errors import AgentClosed, MainstayError, SessionUnknown
from mainstay.core.events import ApprovalAnswered, ApprovalAsked, Event, TurnEnded, TurnStarted
from mainstay.core.ports import Standing
from mainstay.gateway.owner import Remote

MEMO = "chat.json"
TOO_LATE = "nothing waits for an answer: the question was answered elsewhere, or is over"
PREFIX = "chat"


class Talk:
    """`on_event` hears everything that happens in the session, `on_trouble` a sentence when something fails."""

    def __init__(self, where: Setting, on_event: Callable[[Event], None], on_trouble: Callable[[str], None]) -> None:
        self.where = where
        self.session = ""
        self.folder = ""  # where it works
        self.known: list[str] = []  # names of sessions, for completion
        self.calls = Calls(time.monotonic)
        self._own = ""  # the session's own model, if it has one
        self._on_event = on_event
        self._on_trouble = on_trouble
        self._agent: Agent | Remote | None = None
        self._held = AsyncExitStack()
        self._listening: asyncio.Task[None] | None = None
        self._prompts: set[asyncio.Task[object]] = set()
        self._running = False
        self._idle = asyncio.Event()
        self.asked: ApprovalAsked | None = None  # what the turn waits for
        self._shown = ""  # the question that was shown since the last prompt, if it was not answered here

    @property
    def model(self) -> str:
        return self._own or self.where.found.spec

    @property
    def agent(self) -> Agent | Remote:
        assert self._agent is not None, "a talk is opened first"
        return self._agent

    @property
    def busy(self) -> bool:
        return self._running or bool(self._prompts)

    @property
    def stoppable(self) -> bool:
        """A turn runs, or waits for somebody's word."""
        return self.busy or self.asked is not None

    # --- which conversation ----------------------------------------------------------------------

    async def open(self, session: str | None, *, new: bool) -> Standing | None:
        """Go on with the session named, else with the last one; None if it is a new one."""
        self._agent = await self._held.enter_async_context(self.where.agent())
        if isinstance(self._agent, Agent) and self.where.config.triggers.enabled:
            await self._agent.triggers.start()
        found = await self.switch(session or ("" if new else await self._last()) or new_session(PREFIX))
        if isinstance(self._agent, Agent) and self.model.startswith("local/"):
            from mainstay.cli.chat.ahead import loaded_ahead  # for those who have no other model

            await self._held.enter_async_context(loaded_ahead(self.model, self.where.config))
        return found

    async def switch(self, session: str) -> Standing | None:
        self._own = await own_model(self.where, self.agent, session)
        standing = await self._standing(session)
        self.folder = await settle_in(self.where, self.agent, session)
        self.session = session
        self.calls.begin()
        _remember(self.where.home, session)
        await self._listen()
        self.asked = standing.approval if standing is not None else None
        if standing is not None and standing.unfinished and self.asked is None:
            self._running = True  # a turn that an earlier process left behind
            standing = await self._standing(session) or standing
            self.asked = standing.approval
            self._running = standing.unfinished and self.asked is None
        self._shown = self.asked.id if self.asked is not None else ""
        self.known = [one.key for one in await self.agent.sessions.list(limit=200)]
        self._settle()
        return standing

    async def new(self) -> None:
        await self.switch(new_session(PREFIX))

    async def use_model(self, spec: str) -> None:
        """Another model from now on; the conversation stays. An unusable name changes nothing."""
        Models(spec, None, None, self.where.config)  # raises if there is no such model
        await self.agent.sessions.set_model(self.session, spec)
        self._own = spec

    async def standing(self) -> Standing | None:
        return await self._standing(self.session)

    async def _standing(self, session: str) -> Standing | None:
        try:
            return await self.agent.sessions.get(session)
        except SessionUnknown:
            return None

    async def _last(self) -> str:
        """The session talked in last, if it still takes prompts."""
        names = [_remembered(self.where.home)]
        names += [one.key for one in await self.agent.sessions.list(limit=50) if one.key.startswith(PREFIX + "-")]
        for name in filter(None, names):
            standing = await self._standing(name)
            if standing is not None and standing.status == "active":
                return name
        return ""

    # --- saying things ---------------------------------------------------------------------------

    def say(self, text: str) -> None:
        self._shown = ""
        self._idle.clear()
        task: asyncio.Task[object] = asyncio.ensure_future(self.agent.run(self.session, text))
        self._prompts.add(task)
        task.add_done_callback(self._said)

    def _said(self, task: asyncio.Task[object]) -> None:
        self._prompts.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, AgentClosed):
            self._on_trouble(str(error) if isinstance(error, MainstayError) else f"{type(error).__name__}: {error}")
        self._settle()

    async def answer(self, text: str) -> bool:
        """What was typed while a question is open, if it is a plain yes or no."""
        word = text.strip().lower()
        if self.asked is None or word not in YES | NO | ALWAYS:
            return False
        if word in NO:
            await self.deny("")
        else:
            await self.approve(always=word in ALWAYS)
        return True

    def too_late(self, text: str) -> bool:
        """A plain yes or no to a question that was answered elsewhere meanwhile, or expired: it is no prompt."""
        word = text.strip().lower()
        return bool(self._shown) and self.asked is None and word in YES | NO | ALWAYS

    async def approve(self, *, input: str | None = None, always: bool = False) -> None:
        assert self.asked is not None
        id = self.asked.id
        with self._going_on():
            await self.agent.approvals.approve(id, input=input, always=always, wait=False)
        self._answered(id)

    async def deny(self, reason: str) -> None:
        assert self.asked is not None
        id = self.asked.id
        with self._going_on():
            await self.agent.approvals.deny(id, reason, wait=False)
        self._answered(id)

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        """The turn runs from here on, though the word of it may come later than whoever asks whether it does."""
        self._running = True
        self._settle()
        try:
            yield
        except BaseException:
            self._running = False
            self._settle()
            raise

    def _answered(self, id: str) -> None:
        if self._shown == id:  # the next one may be there already
            self._shown = ""

    async def steer(self, text: str) -> None:
        if self.busy:
            await self.agent.steer(self.session, text)
        else:
            self.say(text)

    async def stop(self) -> bool:
        return await self.agent.abort(self.session)

    async def idle(self) -> None:
        """Returns when no turn of this conversation is running or waiting."""
        await self._idle.wait()

    async def close(self) -> None:
        """A turn that is running goes on: in the owner of the home, or with the next start."""
        await self._close_agent()

    # --- listening -------------------------------------------------------------------------------

    async def _listen(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
        self._running = False
        self._listening = asyncio.create_task(self._hear())
        self._listening.add_done_callback(self._deaf)
        await asyncio.sleep(0)  # it is registered from here on

    async def _hear(self) -> None:
        async for event in self.agent.watch(self.session):
            match event:
                case TurnStarted():
                    self._running = True
                case ApprovalAsked():
                    self._running, self.asked, self._shown = False, event, event.id
                case ApprovalAnswered():
                    self._running, self.asked = True, None
            self.calls.hear(event)
            self._on_event(event)
            if isinstance(event, TurnEnded):
                self._running, self.asked = False, None
            self._settle()

    def _deaf(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, AgentClosed):
            self._on_trouble(f"this conversation cannot be shown any more: {type(error).__name__}: {error}")

    def _settle(self) -> None:
        if self.busy:
            self._idle.clear()
        else:
            self._idle.set()

    async def _close_agent(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None
        if self._agent is not None:
            self._agent = None
            await self._held.aclose()


def _remembered(home: Path) -> str:
    try:
        found = json.loads((home / MEMO).read_text())
    except (OSError, ValueError):
        return ""
    return str(found.get("session", "")) if isinstance(found, dict) else ""


def _remember(home: Path, session: str) -> None:
    """Only a convenience: a disk that is full or read-only is somebody else's message."""
    draft = home / f"{MEMO}.part"
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
            json.dump({"session": session}, file)
        draft.replace(home / MEMO)
    except OSError:
        pass
