"""`AgentClient`: the methods of an agent, for one in this process and for one behind the socket of its home."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from mainstay.core.errors import InputRefused, SessionUnknown
from mainstay.core.events import Event, Lagged
from mainstay.core.input_envelope import to_parts
from mainstay.core.memory_tiers import is_untrusted
from mainstay.core.messages import AnyPart, Binary, Text
from mainstay.core.outcome import Reply
from mainstay.operations.operation import Operation
from mainstay.operations.turns import Abort, FileInput, ImportHistory, Prompt, Steer, TextInput, WatchEvents

if TYPE_CHECKING:  # each is loaded on first use
    from mainstay.agent.approvals import AgentApprovals
    from mainstay.agent.memory import AgentMemory
    from mainstay.agent.sessions import Sessions
    from mainstay.agent.triggers import AgentTriggers
    from mainstay.agent.user_profile import Profile
    from mainstay.core.budget_reports import BudgetReport
    from mainstay.operations.runtime_protocols import SkillInfo

R = TypeVar("R")
PromptInput = str | AnyPart | Sequence[str | AnyPart]


class AgentClient(ABC):
    """Base class of clients. Every method is an operation; subclasses implement how an operation reaches the agent."""

    @abstractmethod
    async def execute(self, operation: Operation[R]) -> R: ...

    @abstractmethod
    def open_stream(self, operation: Operation[Any]) -> AsyncIterator[Event]: ...

    @abstractmethod
    async def settled(self) -> None:
        """Return when nothing is running or waiting."""

    @abstractmethod
    async def aclose(self) -> None: ...

    # --- a conversation --------------------------------------------------------------------------

    async def run(self, session: str, prompt: PromptInput, *, id: str = "", sender: str = "") -> Reply:
        """Run one turn to its end. The same `id` is accepted once and gives the same reply."""
        reply = await self.execute(Prompt(session=session, parts=to_operation_inputs(prompt), id=id, sender=sender))
        assert isinstance(reply, Reply), "the operation waits for the reply"
        return reply

    async def stream(
        self, session: str, prompt: PromptInput, *, id: str = "", sender: str = ""
    ) -> AsyncIterator[Event]:
        """Run one turn and yield its events as they happen."""
        stream = self.open_stream(Prompt(session=session, parts=to_operation_inputs(prompt), id=id, sender=sender))
        try:
            async for event in stream:
                if event.turn or isinstance(event, Lagged):  # not the input itself
                    yield event
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()

    async def steer(self, session: str, text: PromptInput, *, id: str = "", sender: str = "") -> None:
        """Add a message to the running turn at its next tool boundary; without a running turn it is a prompt. The
        message of another sender than the turn's waits for the next turn."""
        await self.execute(Steer(session=session, parts=to_operation_inputs(text), id=id, sender=sender))

    async def abort(self, session: str, *, sender: str = "") -> bool:
        """End the running turn now; True if there was one. Returns when that is on disk."""
        try:
            return (await self.execute(Abort(session=session, sender=sender))).aborted
        except SessionUnknown:
            return False

    async def import_history(
        self, session: str, messages: Sequence[Mapping[str, Any]], *, metadata: Mapping[str, str] | None = None
    ) -> None:
        """Add messages of an earlier conversation: a list of {"role": "user" | "assistant", "content": text}; tool
        calls and their results as OpenAI's chat API writes them ("tool_calls", "tool_call_id").

        `metadata` is added to the session's own."""
        rows = [dict(message) if isinstance(message, Mapping) else message for message in messages]
        await self.execute(ImportHistory(session=session, messages=rows, metadata=dict(metadata or {})))

    def watch(self, session: str | None = None) -> AsyncIterator[Event]:
        """Yield every event of one session or of all, until you stop iterating."""
        return self.open_stream(WatchEvents(session=session or ""))

    # --- sessions, memory, approvals, triggers, profile ------------------------------------------

    @cached_property
    def sessions(self) -> Sessions:
        from mainstay.agent.sessions import Sessions

        return Sessions(self)

    @cached_property
    def memory(self) -> AgentMemory:
        from mainstay.agent.memory import AgentMemory

        return AgentMemory(self)

    @cached_property
    def approvals(self) -> AgentApprovals:
        from mainstay.agent.approvals import AgentApprovals

        return AgentApprovals(self)

    @cached_property
    def triggers(self) -> AgentTriggers:
        from mainstay.agent.triggers import AgentTriggers

        return AgentTriggers(self)

    def profile(self, session: str) -> Profile:
        """Return the profile of a session's person: who they are, goals, preferences."""
        from mainstay.agent.user_profile import Profile

        return Profile(session, self)

    async def model(self) -> str:
        """Return the name of the default model; a session may have chosen another."""
        from mainstay.operations.home import WhoAmI

        return (await self.execute(WhoAmI())).model

    async def problems(self) -> list[str]:
        """Return one sentence for each configured part that could not be used: a plugin that has changed, for
        example."""
        from mainstay.operations.errors_and_audit import ListProblems

        return (await self.execute(ListProblems())).problems

    async def troubles(self) -> list[str]:
        """Deprecated name of `problems`."""
        warnings.warn("agent.troubles() is deprecated: use agent.problems()", DeprecationWarning, stacklevel=2)
        return await self.problems()

    async def budget(self) -> BudgetReport:
        """Return what was spent in the home, and how much of each budget of this workspace is used; through the socket
        of a server, of all workspaces."""
        from mainstay.operations.budgets import ShowBudget

        return await self.execute(ShowBudget())

    async def skills(self, session: str) -> list[SkillInfo]:
        """Return the skills that a session of this name can use."""
        from mainstay.operations.sessions import ListSkills

        return await self.execute(ListSkills(session=session))


def to_operation_inputs(message: PromptInput) -> tuple[TextInput | FileInput, ...]:
    """Convert a message to the inputs of an operation. The caller is their origin, unless a text says that it is
    content from outside (`untrusted:stdin`). Raises InputRefused for a part with another origin of its own."""
    inputs: list[TextInput | FileInput] = []
    for part in to_parts(message):
        if isinstance(part, Text) and is_untrusted(part.origin):
            inputs.append(TextInput(part.text, origin=part.origin.partition(":")[2]))
        elif part.origin or not isinstance(part, Text | Binary):
            raise InputRefused("a part with an origin of its own can only be passed to an agent in this process")
        else:
            inputs.append(TextInput(part.text) if isinstance(part, Text) else FileInput(part.mime, part.data))
    return tuple(inputs)
