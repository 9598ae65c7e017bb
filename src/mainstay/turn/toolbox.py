"""The tools of a turn: looks up a call's tool, checks its arguments, runs it with a timeout and bounds its result."""

from __future__ import annotations

import asyncio
import difflib
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from mainstay.core.client_tools import ClientTool
from mainstay.core.errors import MainstayError, StoreError
from mainstay.core.events import Guarded
from mainstay.core.journal_wording import JournalWording
from mainstay.core.limits import Limits
from mainstay.core.memory_tiers import format_origin
from mainstay.core.messages import ToolCall, ToolResult
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.resource_errors import describe_shortage
from mainstay.core.tool_ports import has_third_party_text, is_declared_private, tool_origin, undeclared_fields
from mainstay.core.tools import BadArguments
from mainstay.guards.guardrails import GuardFailed, Guardrails
from mainstay.turn.change_answers import AnsweredChanges, add_note, build_unknown_result, find_refused_result
from mainstay.turn.client_tool import ClientToolAdapter
from mainstay.turn.control import CANCEL_GRACE_S, TurnControl
from mainstay.turn.tool_search import CALL_TOOL, ToolCatalogue, parse_catalogue_call

log = logging.getLogger("mainstay.turn")

ABANDONED = "Cancelled: the turn was aborted, but this call did not stop: its outcome is unknown."
OUTPUT_SO_FAR = "Its output so far:"
RESULT_WITHHELD = "Withheld: the result of this call could not be checked."
CLIENT_TOOL_SETS_MAX = 256  # cached toolboxes with client tools
UNKNOWN_TOOL_PREFIX = "There is no tool "  # how the result of a call to an unknown tool begins
LISTED_NAMES_MAX = 40  # tool names listed in the result of a call to an unknown tool


class ToolCircuitBreaker(Protocol):
    """One per tool of a workspace. Every admitted call reports its outcome with one of the `record_` methods."""

    failures_total: int  # counted since the start

    def admit(self) -> bool: ...
    def open_for_s(self) -> float:
        """Return for how many seconds calls are still refused; 0 if a call may be tried."""
        ...

    def record_success(self) -> None: ...
    def record_failure(self, *, failures_before: int) -> bool:
        """Return True if this failure opened the breaker. Calls that were in flight together fail as one:
        `failures_before` is `failures_total` when this call was admitted."""
        ...

    def record_ignored(self) -> None:
        """The call's outcome does not count for or against the tool."""
        ...


def counts_as_failure(error: BaseException) -> bool:
    """Return True if the error means that the tool is broken.

    A refusal by the runtime (`MainstayError`), a bad value or a missing item is a normal answer. An error's own
    `counts_as_failure` attribute takes precedence.
    """
    own: bool | None = getattr(error, "counts_as_failure", None)
    return own if own is not None else not isinstance(error, MainstayError | ValueError | LookupError)


def describe_open_breaker(name: str, open_for_s: float) -> str:
    """Return the result text for a call that an open breaker refused."""
    when = f"Try again in {open_for_s:.0f} s" if open_for_s >= 1 else "Another call is testing it now; try again later"
    return f"Not run: {name} failed several times in a row and is left alone for a while. {when}, or do without it."


class PreparedCall(msgspec.Struct, frozen=True):
    """A call that can run: its tool and parsed arguments."""

    tool: Tool
    arguments: object
    inner_input: str = ""  # the tool's own arguments, if it was called through `call_tool`

    @property
    def effect(self) -> Effect:
        return self.tool.effect


class TurnTools(Protocol):
    """What a turn needs of its tools; replay has an implementation that answers from the journal."""

    @property
    def agent_tools(self) -> tuple[Tool, ...]:
        """The agent's tools that are in use now, without memory tools."""
        ...

    @property
    def local_tools(self) -> tuple[Tool, ...]:
        """Of `agent_tools`, those that are not from a plugin, an MCP server or a backend."""
        ...

    @property
    def callable_tools(self) -> tuple[Tool, ...]:
        """All tools that can be called."""
        ...

    @property
    def has_external_descriptions(self) -> bool:
        """True if the model reads tool descriptions that the owner did not write."""
        ...

    def select_for_request(self, *, memory: bool, inline: bool, keep_local: bool = False) -> tuple[Tool, ...]: ...
    def restrict_to(self, names: tuple[str, ...], result_bytes_max: int | None = None) -> TurnTools: ...
    def with_client_tools(self, client_tools: tuple[ClientTool, ...]) -> TurnTools: ...
    def find_tool(self, name: str) -> Tool | None:
        """Return the tool of this name that can be called; None if there is none."""
        ...

    def prepare(self, call: ToolCall) -> PreparedCall | ToolResult: ...
    def build_client_result(
        self, call: ToolCall, prepared: PreparedCall, context: ToolContext, content: str
    ) -> ToolResult: ...
    async def execute(
        self,
        call: ToolCall,
        prepared: PreparedCall,
        context: ToolContext,
        control: TurnControl,
        *,
        is_resumed: bool,
        wording: JournalWording,
    ) -> ToolResult: ...
    async def settle_changes(
        self,
        call: ToolCall,
        prepared: PreparedCall,
        context: ToolContext,
        control: TurnControl,
        changes: AnsweredChanges,
    ) -> ToolResult:
        """Apply the changes of a call that has run, if that was approved; return the call's result."""
        ...


class ApplyHeldChanges(Protocol):
    """The method `apply_held_changes` of a tool whose calls may have changes held back (`ToolContext.held_changes`).

    It applies approved changes (`core.held_changes`) and returns a note for the model. `folder` is the working folder
    that they were shown for; `is_repeated`: a process that stopped may have applied some of them.
    """

    async def __call__(self, document: str, context: ToolContext, *, folder: str, is_repeated: bool) -> str: ...


StoreLargeResult = Callable[[str, str, str], Awaitable[None]]  # session, call id, content


class Toolbox:
    """The agent's tools and its memory tools.

    `store_result` stores a result that is too large to be shown; `breaker_for` returns a tool's circuit breaker by the
    tool's name.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        limits: Limits,
        *,
        memory: Sequence[Tool] = (),
        store_result: StoreLargeResult | None = None,
        guards: Guardrails | None = None,
        breaker_for: Callable[[str], ToolCircuitBreaker] | None = None,
    ) -> None:
        self._agent_tools = tuple(tools)
        self._conditional_tools = tuple(tool for tool in tools if hasattr(tool, "is_available"))
        # by the names of hidden tools
        self._visible_cache: dict[tuple[str, ...], tuple[Tool, ...]] = {(): self._agent_tools}
        self.has_external_descriptions = any(has_third_party_text(tool) for tool in tools)
        names = {tool.name for tool in tools}
        self._memory_tools = tuple(tool for tool in memory if tool.name not in names)
        self._by_name = {tool.name: tool for tool in (*self._agent_tools, *self._memory_tools)}
        self._catalogues: dict[bool, ToolCatalogue] = {}
        self._request_cache: dict[tuple[bool, bool, bool, tuple[str, ...]], tuple[Tool, ...]] = {}
        self._limits = limits
        self._store_result = store_result
        self._guards = guards
        self._breaker_for = breaker_for
        self._restricted_cache: dict[tuple[tuple[str, ...], int | None], Toolbox] = {}
        self._client_cache: dict[bytes, Toolbox] = {}
        self._denied_names: frozenset[str] = frozenset()

    def explain_denied(self, names: Iterable[str]) -> None:
        """Set the names of external tools that are not offered because no rule names them: a call says so."""
        self._denied_names = frozenset(names)

    def restrict_to(self, names: tuple[str, ...], result_bytes_max: int | None = None) -> Toolbox:
        """Return a cached copy with only these tools, for a sub-agent or a small model."""
        toolbox = self._restricted_cache.get((names, result_bytes_max))
        if toolbox is None:
            agent_tools, memory = (
                [tool for tool in tools if tool.name in names] for tools in (self._agent_tools, self._memory_tools)
            )
            limits = self._limits
            if result_bytes_max is not None and result_bytes_max < limits.tool_result_bytes_max:
                limits = msgspec.structs.replace(limits, tool_result_bytes_max=result_bytes_max)
            toolbox = self._copy_with(agent_tools, memory, limits)
            self._restricted_cache[names, result_bytes_max] = toolbox
        return toolbox

    def with_client_tools(self, client_tools: tuple[ClientTool, ...]) -> Toolbox:
        """Return a cached copy with the client's tools; an agent's tool of the same name takes precedence."""
        if not client_tools:
            return self
        key = msgspec.json.encode(client_tools)
        toolbox = self._client_cache.get(key)
        if toolbox is None:
            agent_tools = (
                *self._agent_tools,
                *(ClientToolAdapter(guest) for guest in client_tools if guest.name not in self._by_name),
            )
            toolbox = self._copy_with(agent_tools, self._memory_tools, self._limits)
            if len(self._client_cache) >= CLIENT_TOOL_SETS_MAX:
                self._client_cache.clear()
            self._client_cache[key] = toolbox
        return toolbox

    def _copy_with(self, agent_tools: Sequence[Tool], memory: Sequence[Tool], limits: Limits) -> Toolbox:
        toolbox = Toolbox(
            agent_tools,
            limits,
            memory=memory,
            store_result=self._store_result,
            guards=self._guards,
            breaker_for=self._breaker_for,
        )
        toolbox.explain_denied(self._denied_names)
        return toolbox

    def build_client_result(
        self, call: ToolCall, prepared: PreparedCall, context: ToolContext, content: str
    ) -> ToolResult:
        """Build the result of a call that the client ran: bounded, redacted and marked as untrusted."""
        return self._guard_result(
            call, prepared.tool, context, truncate_text(content, self._limits.tool_result_bytes_max)
        )

    @property
    def agent_tools(self) -> tuple[Tool, ...]:
        """The agent's tools without those that are of no use now (`Tool.wanted`); these can still be called."""
        unwanted = self._hidden_names()
        visible = self._visible_cache.get(unwanted)
        if visible is None:
            visible = self._visible_cache[unwanted] = tuple(
                tool for tool in self._agent_tools if tool.name not in unwanted
            )
        return visible

    def _hidden_names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self._conditional_tools if not tool.is_available())

    @property
    def local_tools(self) -> tuple[Tool, ...]:
        return tuple(tool for tool in self.agent_tools if not tool_origin(tool))

    @property
    def callable_tools(self) -> tuple[Tool, ...]:
        return tuple(self._by_name.values())

    def select_for_request(self, *, memory: bool, inline: bool, keep_local: bool = False) -> tuple[Tool, ...]:
        """Select the tools that a request carries; a cached object, so that it is encoded and counted once.

        If not `inline`, the tools are in a searchable catalogue: all of them, or with `keep_local` only external ones.
        """
        key = memory, inline, keep_local, self._hidden_names()
        tools = self._request_cache.get(key)
        if tools is None:
            visible = self.agent_tools if inline else self._build_searchable(keep_local)
            tools = self._request_cache[key] = (*visible, *self._memory_tools) if memory else visible
        return tools

    def _build_searchable(self, keep_local: bool) -> tuple[Tool, ...]:
        """Return the tools that stay inline, and the two that search and call the catalogue."""
        if keep_local not in self._catalogues:
            folded = [tool for tool in self._agent_tools if tool_origin(tool)] if keep_local else self._agent_tools
            self._catalogues[keep_local] = ToolCatalogue(folded)
        widest = self._catalogues[min(self._catalogues)]  # that of a session with a smaller model may hold more
        self._by_name.update({tool.name: tool for tool in widest.tools})
        visible = self._catalogues[keep_local].tools
        return (*self.local_tools, *visible) if keep_local else visible

    def find_tool(self, name: str) -> Tool | None:
        return self._by_name.get(name)

    def prepare(self, call: ToolCall) -> PreparedCall | ToolResult:
        """Parse a call; a mistake in it becomes an error result that the model can act on."""
        if not call.finished:
            return error_result(
                call, "The call was cut off, by the output limit or a filter, and was not run. Make it shorter."
            )
        name, input, agent_tools = call.name, call.input, ""
        if name == CALL_TOOL and name in self._by_name and (inner := parse_catalogue_call(input)) is not None:
            name, input = inner.name, msgspec.json.encode(inner.arguments).decode()
            agent_tools = input
        tool = self._by_name.get(name)
        if tool is None or name == CALL_TOOL:
            return error_result(call, self._describe_unknown_tool(name))
        if len(call.input.encode(errors="replace")) > self._limits.tool_input_bytes_max:
            return error_result(
                call, f"The arguments are over {self._limits.tool_input_bytes_max} bytes. Nothing was run."
            )
        try:
            return PreparedCall(tool, tool.parse(input), agent_tools)
        except BadArguments as error:
            return error_result(call, truncate_text(str(error), self._limits.tool_result_bytes_max))

    async def execute(
        self,
        call: ToolCall,
        prepared: PreparedCall,
        context: ToolContext,
        control: TurnControl,
        *,
        is_resumed: bool,
        wording: JournalWording,
    ) -> ToolResult:
        """Run a call, bounded by its timeout and guarded by its circuit breaker.

        `is_resumed`: a process stopped while this call was running; whether it runs again depends on its effect.
        `wording`: the turn's version of the runtime's sentences.
        """
        tool, arguments = prepared.tool, prepared.arguments
        if is_resumed and tool.effect == "unsafe":
            return error_result(call, wording.outcome_unknown)
        breaker = self._breaker_for(tool.name) if self._breaker_for is not None else None
        if breaker is not None and not breaker.admit():
            return self._refuse_broken_tool(call, tool, context, breaker.open_for_s())
        running = _RunningCall(call, tool, context, breaker, wording)
        try:
            if is_resumed and tool.effect == "reconcile":
                reconciled = await self._run_bounded(running, tool.reconcile(arguments, context), control)
                if reconciled is not None:
                    return reconciled
            result = await self._run_bounded(running, tool.run(arguments, context), control)
        finally:
            running.report_outcome()
        assert result is not None, "only `reconcile` may return None"
        return result

    async def settle_changes(
        self,
        call: ToolCall,
        prepared: PreparedCall,
        context: ToolContext,
        control: TurnControl,
        changes: AnsweredChanges,
    ) -> ToolResult:
        """Apply the changes of a call that has run, if that was approved; return the call's result."""
        request, tool = changes.request, prepared.tool
        if (refused := find_refused_result(changes)) is not None:
            return refused
        assert request.ran is not None
        if changes.mark_released is not None and not changes.is_repeated:
            await changes.mark_released()
        apply: ApplyHeldChanges = tool.apply_held_changes  # type: ignore[attr-defined]  # it had changes held back
        applying = asyncio.ensure_future(
            apply(request.input, context, folder=request.where, is_repeated=changes.is_repeated)
        )
        try:
            await control.wait_for(applying, "applying changes", self._limits.tool_timeout_s)
        finally:
            if not applying.done():
                context.cancel()  # those that are not applied yet are left out
                await asyncio.wait((applying,), timeout=CANCEL_GRACE_S)
        return add_note(request.ran, applying.result()) if applying.done() else build_unknown_result(changes)

    def _refuse_broken_tool(self, call: ToolCall, tool: Tool, context: ToolContext, open_for_s: float) -> ToolResult:
        event = Guarded(
            "tool",
            "held",
            ("breaker",),
            call.id,
            describe_open_breaker(tool.name, open_for_s),
            turn=context.turn,
            step=context.step,
        )
        context.guard_events = (*context.guard_events, event)
        return error_result(call, describe_open_breaker(tool.name, open_for_s))

    async def _run_bounded(
        self, running: _RunningCall, work: Awaitable[str | None], control: TurnControl
    ) -> ToolResult | None:
        """Wait for the call until it ends, times out or is aborted; None only if `work` returned None."""
        call, tool, context = running.call, running.tool, running.context
        timeout_s = tool.timeout_s if tool.timeout_s is not None else self._limits.tool_timeout_s
        task = work if isinstance(work, asyncio.Future) else asyncio.ensure_future(_contain_exit(work))
        try:
            await control.wait_for(task, f"running {tool.name}", timeout_s)
            if not task.done():
                context.cancel()
                if control.aborted:
                    return self._build_stopped_result(running, ABANDONED)
                task.cancel()
                await asyncio.wait((task,), timeout=CANCEL_GRACE_S)
                return self._build_stopped_result(running, _describe_timeout(tool, timeout_s))
        except asyncio.CancelledError:  # the agent is closing: the turn will be resumed
            context.cancel()
            task.cancel()
            raise
        if task.cancelled():
            context.cancel()
            running.failed = None if control.aborted else True
            itself = "CancelledError: the tool cancelled itself."
            return self._build_stopped_result(running, running.wording.cancelled if control.aborted else itself)
        if (error := task.exception()) is not None:
            running.failed = True if counts_as_failure(error) else None
            self._log_failure(tool, error)
            text = truncate_text(_describe_error(error), self._limits.tool_result_bytes_max)
            return self._guard_result(call, tool, context, text, is_error=True)
        running.failed = False
        content = task.result()
        if content is None:
            return None
        return self._guard_result(call, tool, context, await self._fit_result(content, context))

    def _build_stopped_result(self, running: _RunningCall, sentence: str) -> ToolResult:
        """Build the result of a call that did not end by itself, with its output so far."""
        call, tool, context = running.call, running.tool, running.context
        try:
            output = context.partial_output()
        except Exception:  # a tool's own code
            log.info("the output so far of the stopped tool %s could not be read", tool.name)
            output = ""
        if not output.strip():
            return error_result(call, sentence)
        text = truncate_text(f"{sentence} {OUTPUT_SO_FAR}\n{output}", self._limits.tool_result_bytes_max)
        return self._guard_result(call, tool, context, text, is_error=True)

    def _log_failure(self, tool: Tool, error: BaseException) -> None:
        """Log the error with secrets redacted, because it may quote an API key: with its traceback if it is unexpected,
        in one line if it reports a state, such as that of a plugin that exited."""
        if not log.isEnabledFor(logging.INFO):
            return
        if isinstance(error, MainstayError):
            text = f": {error}"
        else:
            import traceback  # loaded only if it is logged

            text = "\n" + "".join(traceback.format_exception(error))
        log.info("tool %s failed%s", tool.name, self._guards.redactor.redact(text)[0] if self._guards else text)

    def _guard_result(
        self, call: ToolCall, tool: Tool, context: ToolContext, content: str, *, is_error: bool = False
    ) -> ToolResult:
        """Build the result: redacted, labelled with its origin, and marked as data if it is untrusted."""
        # the type of a result says nothing about the text of an error
        outside = tool.untrusted or context.untrusted or (is_error and "untrusted" in undeclared_fields(tool))
        origin = format_origin(
            tool.name, untrusted=outside, private=context.private or is_declared_private(tool) is True
        )
        if self._guards is None:
            return ToolResult(call.id, call.name, content, is_error=is_error, origin=origin)
        try:
            cleaned = self._guards.check_result(content, external=bool(tool_origin(tool)), untrusted=outside)
            mark = self._guards.compute_delimiter(context.key) if outside else ""
        except GuardFailed as error:
            log.error("a guard failed on the result of %s: %s", context.key, error)
            return error_result(call, RESULT_WITHHELD)
        if cleaned.action:
            event = Guarded("tool", cleaned.action, cleaned.kinds, call.id, turn=context.turn, step=context.step)
            context.guard_events = (*context.guard_events, event)
        return ToolResult(call.id, call.name, cleaned.content, is_error=is_error, origin=origin, mark=mark)

    async def _fit_result(self, content: str, context: ToolContext) -> str:
        """Cut a result that is too large; the whole is stored for the `result` tool, if the toolbox has it."""
        most = self._limits.tool_result_bytes_max
        truncated = truncate_text(content, most)
        if len(truncated) >= len(content) or self._store_result is None or "result" not in self._by_name:
            return truncated
        whole = truncate_text(content, self._limits.kept_bytes_max)
        try:
            await self._store_result(context.session, context.call_id, whole)
        except StoreError as error:  # the call has run: losing the end of its result is not an error
            log.warning("the large result of %s could not be stored: %s", context.key, error)
            return truncated
        head = content.encode(errors="replace")[:most].decode(errors="ignore")
        rest = f'{len(content)} characters in all; read on with result(ref="{context.call_id}", offset={len(head)})'
        return f"{head}\n[cut: {rest}]"

    def _describe_unknown_tool(self, name: str) -> str:
        shortened = name[: self._limits.tool_name_chars_max]
        near = difflib.get_close_matches(name, self._by_name, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        if name in self._denied_names:
            hint = " It is installed, but no rule in policy.allow or policy.ask names it, so it is not offered."
        names = list(self._by_name)
        known = ", ".join(names[:LISTED_NAMES_MAX]) or "none"
        more = f" and {len(names) - LISTED_NAMES_MAX} more" if len(names) > LISTED_NAMES_MAX else ""
        return f"{UNKNOWN_TOOL_PREFIX}{shortened!r}.{hint} Available: {known}{more}."


class _RunningCall:
    """A running call, and its outcome for the tool's circuit breaker."""

    __slots__ = ("_breaker", "_failures_before", "call", "context", "failed", "tool", "wording")

    def __init__(
        self,
        call: ToolCall,
        tool: Tool,
        context: ToolContext,
        breaker: ToolCircuitBreaker | None,
        wording: JournalWording,
    ) -> None:
        self.call = call
        self.tool = tool
        self.context = context
        self.failed: bool | None = None  # None: the outcome counts neither for nor against the tool
        self.wording = wording  # of the turn
        self._breaker = breaker
        self._failures_before = breaker.failures_total if breaker is not None else 0

    def report_outcome(self) -> None:
        if self._breaker is None:
            return
        match self.failed:
            case None:
                self._breaker.record_ignored()
            case False:
                self._breaker.record_success()
            case True if self._breaker.record_failure(failures_before=self._failures_before):
                log.warning("circuit breaker opened for tool %s after repeated failures", self.tool.name)


async def _contain_exit(work: Awaitable[str | None]) -> str | None:
    """Turn a tool's `SystemExit` into an error, so that it does not end the process."""
    try:
        return await work
    except SystemExit as exit:
        raise RuntimeError(f"the tool called exit({exit.code})") from exit


def _describe_error(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {describe_shortage(error) or error}"
    except Exception:  # `__str__` of a tool's exception may raise
        return type(error).__name__


def error_result(call: ToolCall, content: str) -> ToolResult:
    return ToolResult(call.id, call.name, content, is_error=True)


def truncate_text(content: str, bytes_max: int) -> str:
    """Cut text at a character boundary and append a notice if it is over `bytes_max`."""
    content = content.encode(errors="replace").decode()  # lone surrogates cannot be encoded as UTF-8
    if len(content) * 4 <= bytes_max or len(encoded := content.encode()) <= bytes_max:
        return content
    head = encoded[:bytes_max].decode(errors="ignore")
    return f"{head}\n[cut here: {len(encoded)} bytes in all, {bytes_max} shown]"


def _describe_timeout(tool: Tool, timeout_s: float) -> str:
    if tool.effect == "pure":
        return f"Timed out after {timeout_s:g} s."
    return f"Timed out after {timeout_s:g} s and was abandoned: its outcome is unknown."
