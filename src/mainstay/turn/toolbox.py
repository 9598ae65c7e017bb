"""The tools of a turn, and what happens to one call: found, checked, run, bounded."""

from __future__ import annotations

import asyncio
import difflib
import logging
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

import msgspec

from mainstay.core.limits import Limits
from mainstay.core.messages import ToolCall, ToolResult
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.tools import BadArguments
from mainstay.turn.control import CANCEL_GRACE_S, Control

log = logging.getLogger("mainstay.turn")

CANCELLED = "Cancelled: the turn was aborted before this call finished."
NOT_STARTED = "Cancelled: the turn was aborted before this call ran."
ABANDONED = "Cancelled: the turn was aborted, but this call did not stop: its outcome is unknown."
SKIPPED = "Skipped: the person added something before this call ran."
UNKNOWN = "Outcome unknown: the process stopped while this ran. It was not run again; find out before repeating it."


class Prepared(msgspec.Struct, frozen=True):
    """A call that may run."""

    tool: Tool
    arguments: Any

    @property
    def effect(self) -> Effect:
        return self.tool.effect


class Tools(Protocol):
    """What a turn needs of its tools. Replay has its own, which answers from the journal."""

    @property
    def offered(self) -> tuple[Tool, ...]: ...
    def prepare(self, call: ToolCall) -> Prepared | ToolResult: ...
    async def execute(
        self, call: ToolCall, prepared: Prepared, context: ToolContext, control: Control, *, again: bool
    ) -> ToolResult: ...


class Toolbox:
    def __init__(self, tools: Sequence[Tool], limits: Limits) -> None:
        self.offered = tuple(tools)
        self._by_name = {tool.name: tool for tool in tools}
        self._limits = limits

    def prepare(self, call: ToolCall) -> Prepared | ToolResult:
        """Everything that can be wrong with a call is a result that the model can act on."""
        if not call.finished:
            return refuse(call, "The call was cut off by the output limit and was not run. Make it shorter.")
        tool = self._by_name.get(call.name)
        if tool is None:
            return refuse(call, self._unknown(call.name))
        if len(call.input.encode(errors="replace")) > self._limits.tool_input_bytes_max:
            return refuse(call, f"The arguments are over {self._limits.tool_input_bytes_max} bytes. Nothing was run.")
        try:
            return Prepared(tool, tool.parse(call.input))
        except BadArguments as error:
            return refuse(call, bound(str(error), self._limits.tool_result_bytes_max))

    async def execute(
        self, call: ToolCall, prepared: Prepared, context: ToolContext, control: Control, *, again: bool
    ) -> ToolResult:
        """`again`: a process died while this call was running, and it is being taken up."""
        tool, arguments = prepared.tool, prepared.arguments
        if again and tool.effect == "unsafe":
            return refuse(call, UNKNOWN)
        if again and tool.effect == "reconcile":
            found = await self._run(call, tool, tool.reconcile(arguments, context), context, control)
            if found is not None:
                return found
        result = await self._run(call, tool, tool.run(arguments, context), context, control)
        assert result is not None, "only reconcile may say that nothing happened"
        return result

    async def _run(
        self,
        call: ToolCall,
        tool: Tool,
        work: Awaitable[str | None],
        context: ToolContext,
        control: Control,
    ) -> ToolResult | None:
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
            return refuse(call, CANCELLED if control.aborted else "CancelledError: the tool cancelled itself.")
        if (error := task.exception()) is not None:
            log.info("tool %s failed", tool.name, exc_info=error)
            return refuse(call, bound(_told(error), self._limits.tool_result_bytes_max))
        content = task.result()
        if content is None:
            return None
        return ToolResult(call.id, call.name, bound(content, self._limits.tool_result_bytes_max))

    def _unknown(self, name: str) -> str:
        shown = name[: self._limits.tool_name_chars_max]
        near = difflib.get_close_matches(name, self._by_name, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        known = ", ".join(list(self._by_name)[:40]) or "none"
        return f"There is no tool {shown!r}.{hint} Available: {known}."


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
