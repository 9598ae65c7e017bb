"""Sub-agents: runs a child session to its end for the `spawn` call that started it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from fnmatch import fnmatchcase
from weakref import WeakValueDictionary

import msgspec

from mainstay.core.builtin_tool_table import list_tool_names
from mainstay.core.errors import InputRefused
from mainstay.core.events import Spawned
from mainstay.core.input_envelope import InputEnvelope, check_session_name
from mainstay.core.memory_tiers import format_origin
from mainstay.core.messages import Text
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Reply
from mainstay.core.ports import Tool
from mainstay.core.session import Session
from mainstay.core.tool_ports import SubAgentResult, SubAgentTask
from mainstay.lane.lane import Lane
from mainstay.lane.registry import LaneRegistry
from mainstay.lane.services import LaneServices

SUB_AGENT_TOOLS = (*list_tool_names("sub_agent"), "memory_search", "memory_get")  # unless the call names others
SPAWN = "spawn"
PROMPT_ID = "errand"  # id of a child's only prompt; a retry after a crash finds the same child


class SubAgentRules(msgspec.Struct, frozen=True):
    """What the owner lets sub-agents do, and where they work."""

    # names (globs) of tools that they may have beside those that only read; None: any of the parent's
    tools: tuple[str, ...] | None = None
    # (child, parent): the child works in the parent's folder; called before the child starts
    share_folder: Callable[[str, str], None] = lambda child, parent: None


class SubAgentRunner:
    """Implements `Spawner` on the agent's lanes."""

    def __init__(self, lanes: LaneRegistry, services: LaneServices, rules: SubAgentRules | None = None) -> None:
        self._lanes = lanes
        self._services = services
        self._rules = rules or SubAgentRules()
        # by running parent session
        self._semaphores: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def run(self, task: SubAgentTask) -> SubAgentResult:
        """Run a sub-agent and return its result. Raises InputRefused if it may not be started."""
        parent = await self._lanes.get(task.session).load_session()
        spawned = self._build_spawned(parent, task)
        key = check_session_name(f"{task.session}/{task.call_id}", self._services.limits)
        self._rules.share_folder(key, task.session)
        most = self._services.limits.spawn_beside_max
        async with self._semaphores.setdefault(task.session, asyncio.Semaphore(most)):
            return await self._run_child(self._lanes.get(key), spawned, task)

    def _build_spawned(self, parent: Session, task: SubAgentTask) -> Spawned:
        """Build the child's first event; a child never has a tool that its parent does not have, nor one that the owner
        does not give to sub-agents, and is not offered one that would be refused."""
        depth = parent.spawned.depth + 1 if parent.spawned is not None else 1
        if depth > self._services.limits.spawn_depth_max:
            raise InputRefused("a sub-agent cannot start sub-agents of its own here; do it yourself, or report back")
        offered = {tool.name for tool in self._services.tools.callable_tools}
        has = offered if parent.spawned is None else offered & set(parent.spawned.tools)
        wanted = SUB_AGENT_TOOLS if task.tools is None else task.tools
        if task.tools is not None and (missing := [name for name in wanted if name not in has]):
            raise InputRefused(f"a sub-agent cannot have tools that you do not have: {', '.join(missing)}")
        by_name = {tool.name: tool for tool in self._services.tools.callable_tools}
        if withheld := [name for name in wanted if name in has and not self._may_have(by_name[name])]:
            raise InputRefused(
                f"sub-agents may not have {', '.join(withheld)} here: they only read, unless the owner lists a tool in "
                "`tools.sub_agents`; name others, or do it yourself"
            )
        tools = tuple(name for name in wanted if name in has and not self._is_useless(by_name[name], parent, depth))
        return Spawned(
            task.session,
            task.call_id,
            tools,
            depth,
            untrusted=task.tainted,
            private=task.private,
            person=parent.person,
        )

    def _may_have(self, tool: Tool) -> bool:
        """Return whether the owner lets sub-agents have this tool."""
        if self._rules.tools is None or tool.name in (*SUB_AGENT_TOOLS, SPAWN):
            return True
        if any(fnmatchcase(tool.name, pattern) for pattern in self._rules.tools):
            return True
        return tool.effect == "pure" and tool.sink is False

    def _is_useless(self, tool: Tool, parent: Session, depth: int) -> bool:
        """Return whether every call of this tool by the sub-agent would be refused."""
        if tool.name == SPAWN and depth >= self._services.limits.spawn_depth_max:
            return True
        policy = self._services.trust.policy
        return policy is not None and policy.refuses_sub_agents(tool, parent.person)

    async def _run_child(self, lane: Lane, spawned: Spawned, task: SubAgentTask) -> SubAgentResult:
        if not (await lane.load_session()).head:
            await lane.record_changes(spawned)
        origin = format_origin("parent", untrusted=task.tainted, private=task.private) or f"agent:{task.session}"
        prompt = Text(task.prompt, origin=origin)
        pending = await lane.accept(
            InputEnvelope(parts=(prompt,), thread=lane.key, sender=f"agent:{task.session}", id=PROMPT_ID)
        )
        reply: Reply | None = None
        try:
            reply = await asyncio.shield(pending.reply)
        except asyncio.CancelledError:
            if self._lanes.is_closed:  # the agent is closing: parent and child resume later
                raise
            await lane.abort()  # the parent's call was aborted or timed out; what was spent is still reported
        await (await lane.load_context_compiler()).fold_runner.close()  # the child gets no further prompt
        return _build_report(reply, await lane.load_session())


def _build_report(reply: Reply | None, child: Session) -> SubAgentResult:
    """Build the result, with all that the child has spent, whatever its outcome."""
    outcome = reply.outcome if reply is not None else Aborted()
    answer = reply.text if reply is not None else ""
    match outcome:
        case Answered():
            text, ok = answer, True
        case Exhausted(bound=bound):
            text, ok = f"{answer}\n[The sub-agent reached its limit: {bound}.]", True
        case Failed(sentence=sentence):
            text, ok = f"The sub-agent failed: {sentence}", False
        case Aborted():
            text, ok = "The sub-agent was stopped before it could report.", False
        case other:
            text, ok = f"The sub-agent ended without a report ({type(other).__name__}).", False
    return SubAgentResult(
        text=text or "The sub-agent returned no text.",
        ok=ok,
        usage=child.usage,
        cost=child.cost,
        calls=child.calls,
        untrusted=child.untrusted,
        private=child.private,
    )
