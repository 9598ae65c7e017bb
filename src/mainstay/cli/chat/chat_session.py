"""State of a terminal chat, independent of its user interface: session, model, running turn, pending approval."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from mainstay.agent.agent import Agent
from mainstay.agent.client import AgentClient
from mainstay.agent.model_providers import ModelProviders
from mainstay.cli.commands.agent_setup import AgentSetup, apply_requested_model, build_session_name, set_working_folder
from mainstay.core.errors import AgentClosed, MainstayError, SessionUnknown
from mainstay.core.events import ApprovalAnswered, ApprovalAsked, Event, TurnEnded, TurnStarted
from mainstay.core.ports import SessionInfo
from mainstay.providers.registry import runs_in_process
from mainstay.terminal.approval_formatter import ALWAYS_WORDS, NO_WORDS, YES_WORDS
from mainstay.terminal.tool_calls import ToolCallLog
from mainstay.trust.pasted_texts import PastedTexts

LAST_SESSION_FILE = "chat.json"
STALE_ANSWER_NOTE = "no approval is pending: it was answered in another client, or has expired"
SESSION_PREFIX = "chat"
ABORT_TIMEOUT_S = 5.0


class ChatSession:
    """One chat in one session at a time. `on_event` gets every event of it, `on_error` a sentence about a failure."""

    def __init__(self, setup: AgentSetup, on_event: Callable[[Event], None], on_error: Callable[[str], None]) -> None:
        self.setup = setup
        self.session = ""
        self.folder = ""  # the session's working folder; "": a folder of its own
        self.known_sessions: list[str] = []  # names of sessions, for completion
        self.calls = ToolCallLog(time.monotonic)
        self._session_model = ""  # the session's own model; "": the default one
        self._on_event = on_event
        self._on_error = on_error
        self._agent: AgentClient | None = None
        self._exit_stack = AsyncExitStack()
        self._watch_task: asyncio.Task[None] | None = None
        self._prompt_tasks: set[asyncio.Task[object]] = set()
        self._abort_tasks: set[asyncio.Task[bool]] = set()
        self._is_running = False
        self._idle_event = asyncio.Event()
        self.pending_approval: ApprovalAsked | None = None  # the approval that the turn waits for
        self.pasted = PastedTexts()
        self.shown_undo_turn = 0  # the turn that `/undo` has just shown; a yes restores it
        self._shown_approval_id = ""  # id of the approval shown since the last prompt and not answered in this chat

    @property
    def model(self) -> str:
        return self._session_model or self.setup.discovered.spec

    @property
    def agent(self) -> AgentClient:
        assert self._agent is not None, "open() comes first"
        return self._agent

    @property
    def is_busy(self) -> bool:
        return self._is_running or bool(self._prompt_tasks)

    @property
    def can_stop(self) -> bool:
        """Whether a turn is running or waiting for approval."""
        return self.is_busy or self.pending_approval is not None

    # --- choosing the session --------------------------------------------------------------------

    async def open(self, session: str | None, *, new: bool) -> SessionInfo | None:
        """Open the agent and continue `session`, or the last one, or start a new one.

        Returns None for a new session.
        """
        self._agent = await self._exit_stack.enter_async_context(self.setup.open_agent())
        if isinstance(self._agent, Agent) and self.setup.config.triggers.enabled:
            await self._agent.triggers.start()
        standing = await self.switch_session(
            session or ("" if new else await self._find_last_session()) or build_session_name(SESSION_PREFIX)
        )
        if isinstance(self._agent, Agent) and runs_in_process(self.model):
            from mainstay.cli.chat.model_preloader import preload_model  # only needed for local models

            await self._exit_stack.enter_async_context(preload_model(self.model, self.setup.config))
        return standing

    async def switch_session(self, session: str) -> SessionInfo | None:
        self._session_model = await apply_requested_model(self.setup, self.agent, session)
        standing = await self._load_session_info(session)
        self.folder = await set_working_folder(self.setup, self.agent, session)
        self.session = session
        self.calls.reset()
        _save_last_session(self.setup.home, session)
        await self._start_watching()
        self.pending_approval = standing.approval if standing is not None else None
        if standing is not None and standing.unfinished and self.pending_approval is None:
            self._is_running = True  # a turn that an earlier process left unfinished
            standing = await self._load_session_info(session) or standing
            self.pending_approval = standing.approval
            self._is_running = standing.unfinished and self.pending_approval is None
        self._shown_approval_id = self.pending_approval.id if self.pending_approval is not None else ""
        self.known_sessions = [known.key for known in await self.agent.sessions.list(limit=200)]
        self._update_idle()
        return standing

    async def start_session(self) -> None:
        await self.switch_session(build_session_name(SESSION_PREFIX))

    async def set_model(self, spec: str) -> None:
        """Change the session's model. Raises ConfigError, and changes nothing, if the model cannot be used."""
        ModelProviders(spec, None, None, self.setup.config)  # raises if there is no such model
        await self.agent.sessions.set_model(self.session, spec)
        self._session_model = spec

    async def load_info(self) -> SessionInfo | None:
        return await self._load_session_info(self.session)

    async def _load_session_info(self, session: str) -> SessionInfo | None:
        try:
            return await self.agent.sessions.get(session)
        except SessionUnknown:
            return None

    async def _find_last_session(self) -> str:
        """Return the last session that was used in a chat and is still active; "" if there is none."""
        names = [_load_last_session(self.setup.home)]
        recent = await self.agent.sessions.list(limit=50)
        names += [session.key for session in recent if session.key.startswith(SESSION_PREFIX + "-")]
        for name in filter(None, names):
            standing = await self._load_session_info(name)
            if standing is not None and standing.status == "active":
                return name
        return ""

    # --- prompts and approvals -------------------------------------------------------------------

    def send_prompt(self, text: str) -> None:
        self._shown_approval_id = ""
        self._idle_event.clear()
        task: asyncio.Task[object] = asyncio.ensure_future(self.agent.run(self.session, self.pasted.to_prompt(text)))
        self._prompt_tasks.add(task)
        task.add_done_callback(self._on_prompt_done)

    def _on_prompt_done(self, task: asyncio.Task[object]) -> None:
        self._prompt_tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, AgentClosed):
            self._on_error(str(error) if isinstance(error, MainstayError) else f"{type(error).__name__}: {error}")
        self._update_idle()

    async def answer_approval(self, text: str) -> bool:
        """Answer the pending approval if the text is a plain yes, no or always; otherwise return False."""
        word = text.strip().lower()
        if self.pending_approval is None or word not in YES_WORDS | NO_WORDS | ALWAYS_WORDS:
            return False
        if word in NO_WORDS:
            await self.deny("")
        else:
            await self.approve(always=word in ALWAYS_WORDS)
        return True

    def expand_answer(self, text: str) -> str:
        """Return the command that an answer to `/undo` stands for (what is neither yes nor no cancels it); any other
        text as it is."""
        turn, word = self.shown_undo_turn, text.strip().lower()
        if not text.startswith("/undo"):
            self.shown_undo_turn = 0
        if not turn or self.pending_approval is not None or not word or text.lstrip().startswith("/"):
            return text
        return f"/undo {turn} {word if word in YES_WORDS | NO_WORDS else 'cancel'}"

    def is_stale_answer(self, text: str) -> bool:
        """Whether the text answers an approval that was answered in another client or expired; it is not a prompt."""
        word = text.strip().lower()
        return (
            bool(self._shown_approval_id)
            and self.pending_approval is None
            and word in YES_WORDS | NO_WORDS | ALWAYS_WORDS
        )

    async def approve(self, *, input: str | None = None, always: bool = False) -> None:
        assert self.pending_approval is not None
        id = self.pending_approval.id
        with self._mark_running():
            await self.agent.approvals.approve(id, input=input, always=always, wait=False)
        self._forget_shown_approval(id)

    async def deny(self, reason: str) -> None:
        assert self.pending_approval is not None
        id = self.pending_approval.id
        with self._mark_running():
            await self.agent.approvals.deny(id, reason, wait=False)
        self._forget_shown_approval(id)

    @contextmanager
    def _mark_running(self) -> Iterator[None]:
        """Mark the turn as running at once: its event may arrive later than a check of `is_busy`."""
        self._is_running = True
        self._update_idle()
        try:
            yield
        except BaseException:
            self._is_running = False
            self._update_idle()
            raise

    def _forget_shown_approval(self, id: str) -> None:
        if self._shown_approval_id == id:  # the next approval may have arrived already
            self._shown_approval_id = ""

    async def steer(self, text: str) -> None:
        if self.is_busy:
            await self.agent.steer(self.session, self.pasted.to_prompt(text))
        else:
            self.send_prompt(text)

    async def stop(self) -> bool:
        """Abort the turn; True if there was one. A cancelled caller does not cancel the abort."""
        return await asyncio.shield(self.start_abort())

    def start_abort(self) -> asyncio.Task[bool]:
        """Start to abort the turn. `close` waits for the task, so that a chat that exits at once still aborts it."""
        task = asyncio.ensure_future(self.agent.abort(self.session))
        self._abort_tasks.add(task)
        task.add_done_callback(self._abort_tasks.discard)
        return task

    async def wait_until_idle(self) -> None:
        """Return when no turn of this session is running or queued."""
        await self._idle_event.wait()

    async def close(self) -> None:
        """Close the agent. A running turn continues in the process that owns the home, or at the next start."""
        if self._abort_tasks:
            await asyncio.wait(self._abort_tasks, timeout=ABORT_TIMEOUT_S)
        await self._close_agent()

    # --- watching events -------------------------------------------------------------------------

    async def _start_watching(self) -> None:
        if self._watch_task is not None:
            self._watch_task.cancel()
        self._is_running = False
        self._watch_task = asyncio.create_task(self._watch_events())
        self._watch_task.add_done_callback(self._on_watch_ended)
        await asyncio.sleep(0)  # let the watcher register

    async def _watch_events(self) -> None:
        async for event in self.agent.watch(self.session):
            match event:
                case TurnStarted():
                    self._is_running = True
                case ApprovalAsked():
                    self._is_running, self.pending_approval, self._shown_approval_id = False, event, event.id
                case ApprovalAnswered():
                    self._is_running, self.pending_approval = True, None
            self.calls.apply_event(event)
            self._on_event(event)
            if isinstance(event, TurnEnded):
                self._is_running, self.pending_approval = False, None
            self._update_idle()

    def _on_watch_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, AgentClosed):
            self._on_error(f"events of this session can no longer be received: {type(error).__name__}: {error}")

    def _update_idle(self) -> None:
        if self.is_busy:
            self._idle_event.clear()
        else:
            self._idle_event.set()

    async def _close_agent(self) -> None:
        if self._watch_task is not None:
            self._watch_task.cancel()
            self._watch_task = None
        if self._agent is not None:
            self._agent = None
            await self._exit_stack.aclose()


def _load_last_session(home: Path) -> str:
    try:
        saved = json.loads((home / LAST_SESSION_FILE).read_text())
    except (OSError, ValueError):
        return ""
    return str(saved.get("session", "")) if isinstance(saved, dict) else ""


def _save_last_session(home: Path, session: str) -> None:
    """Save the session's name for the next chat. Errors are ignored: this is only a convenience."""
    draft = home / f"{LAST_SESSION_FILE}.part"
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
            json.dump({"session": session}, file)
        draft.replace(home / LAST_SESSION_FILE)
    except OSError:
        pass
