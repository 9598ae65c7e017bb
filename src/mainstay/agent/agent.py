"""The library's face: an agent that lives in a home and can be talked to."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import msgspec

from mainstay.agent.approvals import AgentApprovals
from mainstay.agent.importing import imported
from mainstay.agent.memory import AgentMemory
from mainstay.agent.opened import ApiKey, Beside, KnownSkill, Made, Opened
from mainstay.agent.output import Shape
from mainstay.agent.profile import Profile
from mainstay.agent.sessions import Sessions
from mainstay.agent.triggers import AgentTriggers
from mainstay.config.schema import Config, data_home, default_home
from mainstay.core.envelope import Envelope, as_parts
from mainstay.core.errors import AgentClosed, ConfigError, InputRefused, ToolDefinitionError
from mainstay.core.events import ApprovalAsked, Event, Judged, Lagged, MessageAdded, SessionChanged, TurnEnded
from mainstay.core.messages import AnyPart, Text
from mainstay.core.outcome import Paused, Reply
from mainstay.core.ports import Provider, Tool
from mainstay.core.tools import FunctionTool
from mainstay.lane.curtain import Curtain, behind
from mainstay.lane.hub import Watcher
from mainstay.lane.lane import Lane
from mainstay.lane.tickets import Ticket
from mainstay.trust.guards.guard import Guards

log = logging.getLogger("mainstay")

T = TypeVar("T")
Prompt = str | AnyPart | Sequence[str | AnyPart]
IN_MEMORY = ":memory:"


class Agent:
    """A durable agent. Open it with `async with`, or let the first call open it and end with `aclose()`.

    `model` is "<provider>/<model>" or a Provider; `home` is where it keeps everything (":memory:" keeps
    nothing); `config` holds whatever has no argument here, and defaults to the home's `mainstay.yaml`; `judges` are
    functions that score answers, or `mainstay.Judge`s, beside those that are configured.
    """

    def __init__(
        self,
        model: str | Provider | None = None,
        *,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        instructions: str | Callable[[str], str] = "",
        home: str | os.PathLike[str] | None = None,
        base_url: str | None = None,
        api_key: ApiKey | None = None,
        config: Config | None = None,
        judges: Sequence[Any] = (),
    ) -> None:
        if not (model is None or isinstance(model, str) or hasattr(model, "stream")):
            raise ConfigError(f"model={model!r} is neither a name like 'openai/gpt-4.1-mini' nor a Provider")
        if not (config is None or isinstance(config, Config)):
            raise ConfigError(f"config is a mainstay.Config, not {type(config).__name__}")
        if not isinstance(tools, list | tuple):
            raise ToolDefinitionError("tools is a list of tools, even if there is only one")
        self._model = model
        self._tools = tuple(_as_tool(one) for one in tools)
        names = [one.name for one in self._tools]
        if len(set(names)) != len(names):
            raise ToolDefinitionError(f"two tools have the same name: {', '.join(sorted(names))}")
        self._instructions = instructions
        self._home = home
        self._base_url = base_url
        self._api_key = api_key
        self._config = config
        if not isinstance(judges, list | tuple):
            raise ConfigError("judges is a list of judges, even if there is only one")
        self._judges = tuple(judges)
        self._beside: Beside | None = None  # set by a gateway, which owns the home
        self._open: Opened | None = None
        self._opening: asyncio.Future[Opened] | None = None
        self._closed = False
        self._runner: asyncio.Runner | None = None
        self.sessions = Sessions(self._opened)
        self.memory = AgentMemory(self._opened)
        self.triggers = AgentTriggers(self._opened)
        self.approvals = AgentApprovals(self._opened)

    # --- a conversation --------------------------------------------------------------------------

    async def run(self, session: str, prompt: Prompt, *, output: Any = None, id: str = "", sender: str = "") -> Reply:
        """One turn, to its end. The prompt is on disk before anything happens; if the caller goes away, or the
        process dies, the turn goes on. The same `id` is accepted once and gives the same reply."""
        shape = Shape(output) if output is not None else None
        ticket = await self._accept(session, prompt, shape, id, sender)
        # under an id others may wait for the same reply, and must not go away with this caller
        reply = await (asyncio.shield(ticket.reply) if id else ticket.reply)
        if shape is None:
            return reply
        try:
            return msgspec.structs.replace(reply, output=shape.read(reply.text))
        except ValueError:
            return reply

    async def stream(self, session: str, prompt: Prompt, *, id: str = "", sender: str = "") -> AsyncIterator[Event]:
        """The same turn as it happens; the last event is its `TurnEnded`, or an `ApprovalAsked` that you leave
        unanswered."""
        opened = await self._opened()
        ticket_key = opened.key(session, sender)
        watcher = opened.services.hub.watch(ticket_key)
        heard, step = False, 0
        try:
            ticket = await self._accept(session, prompt, None, id, sender)
            ticket.reply.add_done_callback(partial(_hang_up, watcher))
            async for event in behind(Curtain(), watcher):
                if ticket.turn and (event.turn == ticket.turn or isinstance(event, Lagged)):
                    heard = True
                    if isinstance(event, MessageAdded) and event.role == "assistant":
                        step = event.step
                    elif isinstance(event, Judged) and event.step > step:  # its answer was there before we listened
                        async for before in self._answer(ticket_key, event):
                            yield before
                    yield event
                    if isinstance(event, TurnEnded) or await self._waits(ticket_key, event):
                        return
            reply = await ticket.reply  # raises if the turn could not go on
            if not heard:  # an input that was answered long ago: its turn as the journal has it
                async for event in self.sessions.turn(ticket_key, reply.turn, after=ticket.seq):
                    yield event
        finally:
            opened.services.hub.leave(watcher)

    async def _answer(self, key: str, judged: Judged) -> AsyncIterator[Event]:
        """What was judged there, as the journal has it."""
        async for event in self.sessions.turn(key, judged.turn):
            if isinstance(event, MessageAdded) and event.role == "assistant" and event.step == judged.step:
                yield event

    async def _waits(self, key: str, event: Event) -> bool:
        """Whoever listens was asked to approve something and has not: there is nothing to hear until somebody does."""
        if not isinstance(event, ApprovalAsked):
            return False
        pending = (await (await self._opened()).lanes.get(key).view()).pending
        return pending is not None and pending.id == event.id

    async def steer(self, session: str, text: Prompt, *, id: str = "", sender: str = "") -> None:
        """Put something into the running turn at its next boundary; with nothing running it is a prompt."""
        lane, envelope = await self._envelope(session, as_parts(text), id, sender)
        await lane.steer(envelope)

    async def abort(self, session: str, *, sender: str = "") -> bool:
        """End the running turn now; True if there was one. Returns when that is on disk."""
        opened = await self._opened()
        return await opened.lanes.get(opened.key(session, sender)).abort()

    async def troubles(self) -> list[str]:
        """What was left out of what the configuration wants, and why: a plugin that has changed, say."""
        return list((await self._opened()).troubles)

    async def import_history(
        self, session: str, messages: Sequence[Mapping[str, Any]], *, metadata: Mapping[str, str] | None = None
    ) -> None:
        """Bring a conversation from elsewhere, as a list of {"role": "user" | "assistant", "content": text}; calls of
        tools and their results in the shape of the usual API ("tool_calls", "tool_call_id").

        `metadata` is added to what the session remembers of itself."""
        guards = (await self._opened()).services.trust.guards
        events = imported(messages, lambda part: unspoken(part, guards))
        lane, _ = await self._envelope(session, (Text("import"),), "", "")
        if (await lane.view()).unfinished:
            raise InputRefused(f"session {session!r} is in the middle of a turn; import before or after it")
        for start in range(0, len(events), 5000):
            await lane.change(*events[start : start + 5000])
        if metadata:
            await lane.change(SessionChanged(metadata={**(await lane.view()).metadata, **metadata}))
        await (await lane.contexts()).settle_in()

    async def watch(self, session: str | None = None) -> AsyncIterator[Event]:
        """Every event of one session or of all, until you stop listening."""
        opened = await self._opened()
        watcher = opened.services.hub.watch(opened.key(session, "") if session is not None else None)
        try:
            async for event in behind(Curtain(), watcher):
                yield event
        finally:
            opened.services.hub.leave(watcher)

    def profile(self, session: str) -> Profile:
        """Who the person of this session is, their goals and preferences."""
        return Profile(session, self._opened)

    async def model(self) -> str:
        """The name of the model that answers where a session has not chosen another."""
        return (await self._opened()).services.choose("").model().name

    async def skills(self, session: str) -> list[KnownSkill]:
        """What a session of this name knows how to do."""
        opened = await self._opened()
        return opened.skills(opened.key(session, ""))

    async def settled(self) -> None:
        """Returns when nothing is running or waiting."""
        await (await self._opened()).lanes.settled()

    def run_sync(self, session: str, prompt: Prompt, *, output: Any = None) -> Reply:
        """`run` for scripts that have no event loop. End with `close()`, or let the process end."""
        return self._on_own_loop(self.run(session, prompt, output=output))

    def close(self) -> None:
        """What `aclose` is, after `run_sync`."""
        if self._runner is not None:
            self._on_own_loop(self.aclose())
            self._runner.close()
            self._runner = None

    # --- opening and closing ---------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self._opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop where things stand. Unfinished turns are taken up when the home is opened again."""
        self._closed = True
        if self._open is not None:
            opened, self._open = self._open, None
            await opened.close()

    async def opened(self) -> Opened:
        """What it consists of; for those who build on it."""
        return await self._opened()

    async def _opened(self) -> Opened:
        if self._open is not None:
            return self._open
        if self._closed:
            raise AgentClosed("this agent was closed; make another")
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._do_open())
        try:
            return await asyncio.shield(self._opening)
        finally:
            if self._opening is not None and self._opening.done():
                self._opening = None

    async def _do_open(self) -> Opened:
        throwaway = self._home == IN_MEMORY
        home = _home_at(self._home)
        config = self._config
        if config is None:
            config = Config() if throwaway else _configured(home)
        from mainstay.agent.opening import open_agent  # what an agent that was only made never needs

        place = None if throwaway else data_home(home, config)
        given = (self._model, self._tools, self._instructions, self._base_url, self._api_key)
        made = Made(*given, self._beside, self._judges)
        self._open = await open_agent(made, config, place)
        return self._open

    # --- helpers ---------------------------------------------------------------------------------

    async def _accept(self, session: str, prompt: Prompt, shape: Shape | None, id: str, sender: str) -> Ticket:
        parts = as_parts(prompt)
        if shape is not None:
            parts = (*parts, shape.request())
        lane, envelope = await self._envelope(session, parts, id, sender)
        return await lane.accept(envelope, shape.review if shape is not None else None)

    async def _envelope(self, session: str, parts: tuple[AnyPart, ...], id: str, sender: str) -> tuple[Lane, Envelope]:
        opened = await self._opened()
        key = opened.key(session, sender)
        parts = tuple(unspoken(part, opened.services.trust.guards) for part in parts)
        return opened.lanes.get(key), Envelope(parts=parts, thread=session, sender=sender, id=id)

    def _on_own_loop(self, work: Coroutine[Any, Any, T]) -> T:
        if asyncio._get_running_loop() is not None:
            work.close()
            raise InputRefused("run_sync is for scripts without an event loop; here, await run instead")
        if self._runner is None:
            self._runner = asyncio.Runner(loop_factory=fast_loop())
        return self._runner.run(work)


def _hang_up(watcher: Watcher, reply: asyncio.Future[Reply]) -> None:
    if reply.cancelled() or reply.exception() is not None or not isinstance(reply.result().outcome, Paused):
        watcher.close()


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where there is one: it halves the cost of the wire."""
    try:
        import uvloop  # only scripts and the command need it; a library user brings a loop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _home_at(given: str | os.PathLike[str] | None) -> Path:
    return Path(given).expanduser() if given is not None else default_home(os.environ)


def _configured(home: Path) -> Config:
    from mainstay.config.loading import load_config  # reading and checking a file is much code for those who have none

    return load_config(home, env=os.environ).config


def _as_tool(given: Tool | Callable[..., Any]) -> Tool:
    if hasattr(given, "parse"):
        return cast(Tool, given)
    if not callable(given):
        raise ToolDefinitionError(f"{given!r} is neither a tool nor a function")
    return FunctionTool(given)


def unspoken(part: AnyPart, guards: Guards | None) -> AnyPart:
    """A key of the configuration is no part of a conversation, whoever pastes it."""
    if guards is None or not isinstance(part, Text):
        return part
    text = guards.shown(part.text)
    return part if text == part.text else msgspec.structs.replace(part, text=text)
