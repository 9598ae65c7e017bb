"""`Agent`, the library's main class: a durable agent in this process."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeGuard, TypeVar, get_args

import msgspec

from mainstay.agent.agent_options import AgentOptions, ApiKey, GatewayServices
from mainstay.agent.client import AgentClient, PromptInput
from mainstay.agent.structured_output import OutputSchema
from mainstay.config.schema import Config, TrustMode, default_home, resolve_data_folder
from mainstay.config.schema_judges_budgets_telemetry import JudgeSettings
from mainstay.core.errors import AgentClosed, ConfigError, InputRefused, ToolDefinitionError
from mainstay.core.events import Event, Lagged
from mainstay.core.input_envelope import to_parts
from mainstay.core.outcome import Reply
from mainstay.core.ports import Provider, Store, Tool
from mainstay.core.tools import FunctionTool
from mainstay.operations.caller import OWNER, Caller
from mainstay.operations.event_feed import Subscription, follow_turn
from mainstay.operations.execute import execute, open_stream
from mainstay.operations.input_submission import abort_turn, accept_prompt, accept_validated_prompt, steer_turn
from mainstay.operations.operation import Operation
from mainstay.operations.turns import import_messages

if TYPE_CHECKING:
    from mainstay.agent.agent_builder import OpenAgent
    from mainstay.agent.agent_options import AgentJudge
    from mainstay.agent.triggers import LocalAgentTriggers

log = logging.getLogger("mainstay")

R = TypeVar("R")
T = TypeVar("T")
IN_MEMORY = ":memory:"
CLOSED_MESSAGE = "this agent was closed; create another Agent"


class Agent(AgentClient):
    """A durable agent. Open it with `async with`, or let the first call open it and end with `aclose()`.

    `model` is "<provider>/<model>" or a Provider; `home` is the folder in which it stores everything (":memory:"
    stores nothing); `config` holds every setting that has no argument here, and defaults to the home's
    `mainstay.yaml`; `judges` are functions that score answers, or `mainstay.Judge`s, in addition to the configured
    ones; `store` keeps the sessions instead of the configured store, and is opened and closed with the agent;
    `trust="open"` switches information flow control off.
    """

    def __init__(
        self,
        model: str | Provider | None = None,
        *,
        tools: Sequence[Tool | Callable[..., object]] = (),
        instructions: str | Callable[[str], str] = "",
        home: str | os.PathLike[str] | None = None,
        base_url: str | None = None,
        api_key: ApiKey | None = None,
        config: Config | None = None,
        judges: Sequence[AgentJudge] = (),
        store: Store | None = None,
        trust: TrustMode | None = None,
    ) -> None:
        if not (model is None or isinstance(model, str) or hasattr(model, "stream")):
            raise ConfigError(f"model={model!r} is neither a name like 'openai/gpt-4.1-mini' nor a Provider")
        if not (config is None or isinstance(config, Config)):
            raise ConfigError(f"config is a mainstay.Config, not {type(config).__name__}")
        if config is not None and (config.judges != JudgeSettings() or config.workspaces):
            from mainstay.config.check_judges import check_judges_of_program  # only needed for judges

            check_judges_of_program(config)
        if not isinstance(tools, list | tuple):
            raise ToolDefinitionError("tools is a list of tools, even if there is only one")
        self._model = model
        self._tools = tuple(_to_tool(tool) for tool in tools)
        names = [tool.name for tool in self._tools]
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
        if not (store is None or isinstance(store, Store)):
            raise ConfigError(
                f"store={store!r} is not a Store: it lacks some of its methods (mainstay.core.ports.Store)"
            )
        self._store = store
        if trust not in (None, *get_args(TrustMode)):
            raise ConfigError(f"trust={trust!r} must be one of {', '.join(map(repr, get_args(TrustMode)))}")
        self._trust = trust
        self._gateway: GatewayServices | None = None
        self._open_agent: OpenAgent | None = None
        self._open_task: asyncio.Future[OpenAgent] | None = None
        self._closed = False
        self._runner: asyncio.Runner | None = None
        self._caller = Caller(OWNER, self)

    # --- a conversation --------------------------------------------------------------------------

    async def run(
        self, session: str, prompt: PromptInput, *, output: object = None, id: str = "", sender: str = ""
    ) -> Reply:
        """Run one turn to its end. The prompt is on disk before anything happens; if the caller goes away, or the
        process dies, the turn goes on. The same `id` is accepted once and gives the same reply."""
        schema = OutputSchema(output) if output is not None else None
        parts = to_parts(prompt)
        if schema is not None:
            parts = (*parts, schema.request_part())
        runtime = self._open_agent or await self.runtime()
        key = runtime.build_session_key(session, sender)
        if schema is None:
            pending = await accept_prompt(runtime, key, parts, id=id, sender=sender)
        else:
            pending = await accept_validated_prompt(runtime, key, parts, schema.find_correction, id=id, sender=sender)
        # other callers may wait for the same reply under this id: cancelling this one must not cancel theirs
        reply = await (asyncio.shield(pending.reply) if id else pending.reply)
        if schema is None:
            return reply
        try:
            return msgspec.structs.replace(reply, output=schema.parse_answer(reply.text))
        except ValueError:
            return reply

    async def stream(
        self, session: str, prompt: PromptInput, *, id: str = "", sender: str = ""
    ) -> AsyncIterator[Event]:
        """Run the same turn and yield its events as they happen; the last is its `TurnEnded`, or an `ApprovalAsked`
        that is still unanswered."""
        runtime = await self.runtime()
        key = runtime.build_session_key(session, sender)
        subscription = Subscription(runtime.services.hub, key)
        try:
            pending = await accept_prompt(runtime, key, to_parts(prompt), id=id, sender=sender)
            async for event in follow_turn(self._caller, key, pending, subscription):
                if event.turn or isinstance(event, Lagged):  # not the input itself
                    yield event
        finally:
            subscription.close()

    async def steer(self, session: str, text: PromptInput, *, id: str = "", sender: str = "") -> None:
        runtime = await self.runtime()
        key = runtime.build_session_key(session, sender)
        await steer_turn(runtime, key, to_parts(text), id=id, sender=sender)

    async def abort(self, session: str, *, sender: str = "") -> bool:
        runtime = await self.runtime()
        return await abort_turn(runtime, runtime.build_session_key(session, sender))

    async def import_history(
        self, session: str, messages: Sequence[Mapping[str, Any]], *, metadata: Mapping[str, str] | None = None
    ) -> None:
        runtime = await self.runtime()
        await import_messages(runtime, runtime.build_session_key(session, ""), messages, metadata or {})

    async def settled(self) -> None:
        """Return when nothing is running or waiting."""
        await (await self.runtime()).lanes.wait_until_settled()

    @cached_property
    def triggers(self) -> LocalAgentTriggers:
        from mainstay.agent.triggers import LocalAgentTriggers

        return LocalAgentTriggers(self, self)

    async def execute(self, operation: Operation[R]) -> R:
        """Run an operation as the owner."""
        await self.runtime()
        return await execute(self._caller, operation)

    async def open_stream(self, operation: Operation[Any]) -> AsyncIterator[Event]:
        """Run an operation as the owner, as a stream of events."""
        await self.runtime()
        stream = await open_stream(self._caller, operation)
        try:
            async for event in stream:
                yield event
        finally:
            await stream.aclose()

    def run_sync(self, session: str, prompt: PromptInput, *, output: object = None) -> Reply:
        """`run` for scripts that have no event loop. End with `close()`, or let the process end."""
        return self._run_on_own_loop(self.run(session, prompt, output=output))

    def close(self) -> None:
        """`aclose` for scripts that use `run_sync`."""
        if self._runner is not None:
            self._run_on_own_loop(self.aclose())
            self._runner.close()
            self._runner = None

    # --- opening and closing ---------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.runtime()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop now, also in the middle of a turn. Unfinished turns resume when the home is opened again."""
        self._closed = True
        if (opening := self._open_task) is not None:
            opening.cancel()
            await asyncio.wait((opening,))
        if self._open_agent is not None:
            opened, self._open_agent = self._open_agent, None
            await opened.close()

    def join_gateway(self, services: GatewayServices) -> None:
        """Use the shared services of a gateway, which owns the home. Call it before the agent is opened."""
        assert self._open_agent is None, "an agent joins before it is opened"
        self._gateway = services

    @property
    def current(self) -> OpenAgent:
        """The open agent's parts. Raises AgentClosed if it is not open."""
        if self._open_agent is None:
            raise AgentClosed("this agent is not open")
        return self._open_agent

    async def runtime(self) -> OpenAgent:
        """Return the open agent's parts; opens it if needed."""
        if self._open_agent is not None:
            return self._open_agent
        if self._closed:
            raise AgentClosed(CLOSED_MESSAGE)
        if self._open_task is None:
            self._open_task = asyncio.ensure_future(self._open_once())
        try:
            return await asyncio.shield(self._open_task)
        except asyncio.CancelledError:
            if self._open_task is not None and self._open_task.cancelled():  # the agent was closed, not this task
                raise AgentClosed(CLOSED_MESSAGE) from None
            raise
        finally:
            if self._open_task is not None and self._open_task.done():
                self._open_task = None

    async def _open_once(self) -> OpenAgent:
        in_memory = self._home == IN_MEMORY
        home = _resolve_home(self._home)
        config = self._config
        if config is None:
            config = Config() if in_memory else _load_home_config(home)
        if self._trust is not None:
            config = msgspec.structs.replace(config, trust=self._trust)
        from mainstay.agent.agent_builder import open_agent  # not needed by an agent that is never opened

        data_folder = None if in_memory else resolve_data_folder(home, config)
        arguments = (self._model, self._tools, self._instructions, self._base_url, self._api_key)
        options = AgentOptions(*arguments, self._gateway, self._judges, self._store)
        self._open_agent = await open_agent(options, config, data_folder)
        return self._open_agent

    def _run_on_own_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if asyncio._get_running_loop() is not None:
            coroutine.close()
            raise InputRefused("run_sync is for scripts without an event loop; here, await run instead")
        if self._runner is None:
            self._runner = asyncio.Runner(loop_factory=get_uvloop_factory())
        return self._runner.run(coroutine)


def get_uvloop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop factory if it is installed: it halves the cost of network I/O."""
    try:
        import uvloop  # only for scripts and the command: a library user has a loop already
    except ImportError:
        return None
    return uvloop.new_event_loop


def _resolve_home(home: str | os.PathLike[str] | None) -> Path:
    return Path(home).expanduser() if home is not None else default_home(os.environ)


def _load_home_config(home: Path) -> Config:
    from mainstay.config.loader import load_config  # much code, not needed when a `Config` was passed

    return load_config(home, env=os.environ).config


def _is_tool(value: object) -> TypeGuard[Tool]:
    return hasattr(value, "parse")


def _to_tool(value: Tool | Callable[..., object]) -> Tool:
    if _is_tool(value):
        return value
    if not callable(value):
        raise ToolDefinitionError(f"{value!r} is neither a tool nor a function")
    return FunctionTool(value)
