"""The tools of a turn, and what happens to one call: found, checked, run, bounded."""

from __future__ import annotations

import asyncio
import difflib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from mainstay.core.errors import StoreError
from mainstay.core.events import Guarded
from mainstay.core.guests import GuestTool
from mainstay.core.limits import Limits
from mainstay.core.messages import ToolCall, ToolResult
from mainstay.core.outside import origin_of_tool, told_by_others
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.recall import origin_of
from mainstay.core.tools import BadArguments
from mainstay.trust.guards.guard import GuardFailed, Guards
from mainstay.turn.catalogue import CALL, Catalogue, read_call
from mainstay.turn.control import CANCEL_GRACE_S, Control
from mainstay.turn.handed import Handed
from mainstay.turn.resting import Breaker, counts, rests

log = logging.getLogger("mainstay.turn")

CANCELLED = "Cancelled: the turn was aborted before this call finished."
NOT_STARTED = "Cancelled: the turn was aborted before this call ran."
ABANDONED = "Cancelled: the turn was aborted, but this call did not stop: its outcome is unknown."
SKIPPED = "Skipped: the person added something before this call ran."
WITHHELD = "Withheld: what this call answered could not be checked."
JOINED_MAX = 256
NAMES_MAX = 40  # that a call of a tool that is not there is answered with
UNKNOWN = "Outcome unknown: the process stopped while this ran. It was not run again; find out before repeating it."


class Prepared(msgspec.Struct, frozen=True):
    """A call that can run. `input` is its own, where it was called through another tool."""

    tool: Tool
    arguments: Any
    input: str = ""

    @property
    def effect(self) -> Effect:
        return self.tool.effect


class Tools(Protocol):
    """What a turn needs of its tools. Replay has its own, which answers from the journal."""

    @property
    def own(self) -> tuple[Tool, ...]: ...
    @property
    def ours(self) -> tuple[Tool, ...]:
        """Of `own`, those that do not come from elsewhere."""
        ...

    @property
    def offered(self) -> tuple[Tool, ...]: ...
    @property
    def foreign(self) -> bool:
        """The model is told what they do by somebody else than the owner."""
        ...

    def offer(self, *, memory: bool, inline: bool, ours: bool = False) -> tuple[Tool, ...]: ...
    def narrowed(self, names: tuple[str, ...], result_bytes: int | None = None) -> Tools: ...
    def joined(self, guests: tuple[GuestTool, ...]) -> Tools:
        """With those that whoever asks brought along."""
        ...

    def prepare(self, call: ToolCall) -> Prepared | ToolResult: ...
    def handed(self, call: ToolCall, prepared: Prepared, context: ToolContext, content: str) -> ToolResult: ...
    async def execute(
        self, call: ToolCall, prepared: Prepared, context: ToolContext, control: Control, *, again: bool
    ) -> ToolResult: ...


Keep = Callable[[str, str, str], Awaitable[None]]  # session, call id, content


class Toolbox:
    """The agent's own tools, and those of its memory. `keep` takes what is too large to be shown; `breaker` gives each
    tool its own, by its name."""

    def __init__(
        self,
        tools: Sequence[Tool],
        limits: Limits,
        *,
        memory: Sequence[Tool] = (),
        keep: Keep | None = None,
        guards: Guards | None = None,
        breaker: Callable[[str], Breaker] | None = None,
    ) -> None:
        self._own = tuple(tools)
        self._sometimes = tuple(tool for tool in tools if hasattr(tool, "wanted"))
        self._shown: dict[tuple[str, ...], tuple[Tool, ...]] = {(): self._own}  # by those that are not wanted now
        self.foreign = any(told_by_others(tool) for tool in tools)
        names = {tool.name for tool in tools}
        self._memory = tuple(tool for tool in memory if tool.name not in names)
        self._by_name = {tool.name: tool for tool in (*self._own, *self._memory)}
        self._catalogues: dict[bool, Catalogue] = {}
        self._offers: dict[tuple[bool, bool, bool, tuple[str, ...]], tuple[Tool, ...]] = {}
        self._limits = limits
        self._keep = keep
        self._guards = guards
        self._breaker = breaker
        self._narrowed: dict[tuple[tuple[str, ...], int | None], Toolbox] = {}
        self._joined: dict[bytes, Toolbox] = {}

    def narrowed(self, names: tuple[str, ...], result_bytes: int | None = None) -> Toolbox:
        """Only these, for a sub-agent or a small model; which is also shown less of a long result."""
        made = self._narrowed.get((names, result_bytes))
        if made is None:
            own, memory = ([tool for tool in tools if tool.name in names] for tools in (self._own, self._memory))
            limits = self._limits
            if result_bytes is not None and result_bytes < limits.tool_result_bytes_max:
                limits = msgspec.structs.replace(limits, tool_result_bytes_max=result_bytes)
            made = self._with(own, memory, limits)
            self._narrowed[names, result_bytes] = made
        return made

    def joined(self, guests: tuple[GuestTool, ...]) -> Toolbox:
        """The agent's own go first: nobody takes the place of one by its name."""
        if not guests:
            return self
        key = msgspec.json.encode(guests)
        made = self._joined.get(key)
        if made is None:
            own = (*self._own, *(Handed(one) for one in guests if one.name not in self._by_name))
            made = self._with(own, self._memory, self._limits)
            if len(self._joined) >= JOINED_MAX:
                self._joined.clear()
            self._joined[key] = made
        return made

    def _with(self, own: Sequence[Tool], memory: Sequence[Tool], limits: Limits) -> Toolbox:
        return Toolbox(own, limits, memory=memory, keep=self._keep, guards=self._guards, breaker=self._breaker)

    def handed(self, call: ToolCall, prepared: Prepared, context: ToolContext, content: str) -> ToolResult:
        """What came of a call that somebody else ran: from outside, like all that is not made here."""
        return self._guarded(call, prepared.tool, context, bound(content, self._limits.tool_result_bytes_max))

    @property
    def own(self) -> tuple[Tool, ...]:
        """Without those that have nothing to work with at present (`wanted`); they can be called all the same."""
        unwanted = self._unwanted()
        shown = self._shown.get(unwanted)
        if shown is None:
            shown = self._shown[unwanted] = tuple(tool for tool in self._own if tool.name not in unwanted)
        return shown

    def _unwanted(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self._sometimes if not tool.wanted())

    @property
    def ours(self) -> tuple[Tool, ...]:
        return tuple(tool for tool in self.own if not origin_of_tool(tool))

    @property
    def offered(self) -> tuple[Tool, ...]:
        """Everything that can be called."""
        return tuple(self._by_name.values())

    def offer(self, *, memory: bool, inline: bool, ours: bool = False) -> tuple[Tool, ...]:
        """What a request carries; the same object every time, so that it is encoded and counted once.

        Where not all are `inline`, the rest is searched: everything, or with `ours` only what comes from elsewhere.
        """
        key = memory, inline, ours, self._unwanted()
        made = self._offers.get(key)
        if made is None:
            shown = self.own if inline else self._searchable(ours)
            made = self._offers[key] = (*shown, *self._memory) if memory else shown
        return made

    def _searchable(self, ours: bool) -> tuple[Tool, ...]:
        """Those that stay where they are, and the two that find and call the others."""
        if ours not in self._catalogues:
            folded = [tool for tool in self._own if origin_of_tool(tool)] if ours else self._own
            self._catalogues[ours] = Catalogue(folded)
        widest = self._catalogues[min(self._catalogues)]  # a session with a smaller model may have more to find
        self._by_name.update({tool.name: tool for tool in widest.tools})
        shown = self._catalogues[ours].tools
        return (*self.ours, *shown) if ours else shown

    def prepare(self, call: ToolCall) -> Prepared | ToolResult:
        """Everything that can be wrong with a call is a result that the model can act on."""
        if not call.finished:
            return refuse(
                call, "The call was cut off, by the output limit or a filter, and was not run. Make it shorter."
            )
        name, input, own = call.name, call.input, ""
        if name == CALL and name in self._by_name and (inner := read_call(input)) is not None:
            name, input = inner.name, msgspec.json.encode(inner.arguments).decode()
            own = input
        tool = self._by_name.get(name)
        if tool is None or name == CALL:
            return refuse(call, self._unknown(name))
        if len(call.input.encode(errors="replace")) > self._limits.tool_input_bytes_max:
            return refuse(call, f"The arguments are over {self._limits.tool_input_bytes_max} bytes. Nothing was run.")
        try:
            return Prepared(tool, tool.parse(input), own)
        except BadArguments as error:
            return refuse(call, bound(str(error), self._limits.tool_result_bytes_max))

    async def execute(
        self, call: ToolCall, prepared: Prepared, context: ToolContext, control: Control, *, again: bool
    ) -> ToolResult:
        """`again`: a process died while this call was running, and it is being taken up."""
        tool, arguments = prepared.tool, prepared.arguments
        if again and tool.effect == "unsafe":
            return refuse(call, UNKNOWN)
        breaker = self._breaker(tool.name) if self._breaker is not None else None
        if breaker is not None and not breaker.admit():
            return self._resting(call, tool, context, breaker.closed_for_s())
        running = _Running(call, tool, context, breaker)
        try:
            if again and tool.effect == "reconcile":
                found = await self._run(running, tool.reconcile(arguments, context), control)
                if found is not None:
                    return found
            result = await self._run(running, tool.run(arguments, context), control)
        finally:
            running.end()
        assert result is not None, "only reconcile may say that nothing happened"
        return result

    def _resting(self, call: ToolCall, tool: Tool, context: ToolContext, closed_s: float) -> ToolResult:
        news = Guarded(
            "tool", "held", ("breaker",), call.id, rests(tool.name, closed_s), turn=context.turn, step=context.step
        )
        context.news = (*context.news, news)
        return refuse(call, rests(tool.name, closed_s))

    async def _run(self, running: _Running, work: Awaitable[str | None], control: Control) -> ToolResult | None:
        call, tool, context = running.call, running.tool, running.context
        timeout_s = tool.timeout_s if tool.timeout_s is not None else self._limits.tool_timeout_s
        task = work if isinstance(work, asyncio.Future) else asyncio.ensure_future(_contained(work))
        try:
            await control.wait_for(task, f"running {tool.name}", timeout_s)
            if not task.done():
                context.cancel()
                if control.aborted:
                    return refuse(call, ABANDONED)
                task.cancel()
                await asyncio.wait((task,), timeout=CANCEL_GRACE_S)
                return refuse(call, _timed_out(tool, timeout_s))
        except asyncio.CancelledError:  # the agent is closing: the turn will be taken up again
            context.cancel()
            task.cancel()
            raise
        if task.cancelled():
            context.cancel()
            running.failed = None if control.aborted else True
            return refuse(call, CANCELLED if control.aborted else "CancelledError: the tool cancelled itself.")
        if (error := task.exception()) is not None:
            running.failed = True if counts(error) else None
            self._note(tool, error)
            said = bound(_told(error), self._limits.tool_result_bytes_max)
            return self._guarded(call, tool, context, said, is_error=True)
        running.failed = False
        content = task.result()
        if content is None:
            return None
        return self._guarded(call, tool, context, await self._fit(content, context))

    def _note(self, tool: Tool, error: BaseException) -> None:
        """A tool's error may quote a key, and whoever reads the log need not know it."""
        if log.isEnabledFor(logging.INFO):
            import traceback  # only for those who look

            trace = "".join(traceback.format_exception(error))
            log.info("tool %s failed\n%s", tool.name, self._guards.redactor.whole(trace)[0] if self._guards else trace)

    def _guarded(
        self, call: ToolCall, tool: Tool, context: ToolContext, content: str, *, is_error: bool = False
    ) -> ToolResult:
        """As it may be shown: cleaned, labelled, and marked as data where it comes from outside."""
        outside = tool.untrusted or context.untrusted
        origin = origin_of(tool.name, untrusted=outside, private=context.private)
        if self._guards is None:
            return ToolResult(call.id, call.name, content, is_error=is_error, origin=origin)
        try:
            cleaned = self._guards.result(content, foreign=bool(origin_of_tool(tool)), outside=outside)
            mark = self._guards.mark(context.key) if outside else ""
        except GuardFailed as error:
            log.error("a guard failed on %s: %s", context.key, error)
            return refuse(call, WITHHELD)
        if cleaned.action:
            news = Guarded("tool", cleaned.action, cleaned.kinds, call.id, turn=context.turn, step=context.step)
            context.news = (*context.news, news)
        return ToolResult(call.id, call.name, cleaned.content, is_error=is_error, origin=origin, mark=mark)

    async def _fit(self, content: str, context: ToolContext) -> str:
        """Small enough to be shown; the rest is kept where `result` finds it."""
        most = self._limits.tool_result_bytes_max
        shown = bound(content, most)
        if len(shown) >= len(content) or self._keep is None or "result" not in self._by_name:
            return shown
        whole = bound(content, self._limits.kept_bytes_max)
        try:
            await self._keep(context.session, context.call_id, whole)
        except StoreError as error:  # it has run, and that counts more than the end of what it said
            log.warning("a large result of %s could not be kept: %s", context.key, error)
            return shown
        head = content.encode(errors="replace")[:most].decode(errors="ignore")
        rest = f'{len(content)} characters in all; read on with result(ref="{context.call_id}", offset={len(head)})'
        return f"{head}\n[cut: {rest}]"

    def _unknown(self, name: str) -> str:
        shown = name[: self._limits.tool_name_chars_max]
        near = difflib.get_close_matches(name, self._by_name, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        names = list(self._by_name)
        known = ", ".join(names[:NAMES_MAX]) or "none"
        more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
        return f"There is no tool {shown!r}.{hint} Available: {known}{more}."


class _Running:
    """A call that runs, and what its tool's breaker is to know of it."""

    __slots__ = ("_breaker", "call", "context", "failed", "tool")

    def __init__(self, call: ToolCall, tool: Tool, context: ToolContext, breaker: Breaker | None) -> None:
        self.call = call
        self.tool = tool
        self.context = context
        self.failed: bool | None = None  # None: it says nothing about the tool how it ended
        self._breaker = breaker

    def end(self) -> None:
        if self._breaker is None:
            return
        match self.failed:
            case None:
                self._breaker.left()
            case False:
                self._breaker.succeeded()
            case True if self._breaker.failed():
                log.warning("the tool %s failed too often and is left alone for a while", self.tool.name)


async def _contained(work: Awaitable[str | None]) -> str | None:
    """A tool that ends itself must not end the process that everyone shares."""
    try:
        return await work
    except SystemExit as exit:
        raise RuntimeError(f"the tool called exit({exit.code})") from exit


def _told(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # a tool's exception may fail even at saying what it is
        return type(error).__name__


def refuse(call: ToolCall, content: str) -> ToolResult:
    return ToolResult(call.id, call.name, content, is_error=True)


def bound(content: str, bytes_max: int) -> str:
    """Cut at a character boundary, and say so."""
    content = content.encode(errors="replace").decode()  # lone surrogates can be neither kept nor sent
    if len(content) * 4 <= bytes_max or len(encoded := content.encode()) <= bytes_max:
        return content
    kept = encoded[:bytes_max].decode(errors="ignore")
    return f"{kept}\n[cut here: {len(encoded)} bytes in all, {bytes_max} shown]"


def _timed_out(tool: Tool, timeout_s: float) -> str:
    if tool.effect == "pure":
        return f"Timed out after {timeout_s:g} s."
    return f"Timed out after {timeout_s:g} s and was abandoned: its outcome is unknown."
