"""Dependencies of a turn: provider, tools, limits, context compiler, trust services, budget and judges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from mainstay.core.budget_ports import TurnBudget
from mainstay.core.errors import ContextTooLong, RequestRefused
from mainstay.core.judges import JudgePanel
from mainstay.core.limits import Limits
from mainstay.core.outcome import Failed
from mainstay.core.ports import Context, EventRecorder, Provider
from mainstay.core.session import Session
from mainstay.guards.guardrails import Guardrails
from mainstay.trust.policy import Policy, SkillRestriction
from mainstay.turn.toolbox import TurnTools

if TYPE_CHECKING:
    from mainstay.trust.shell.reading import ReadAccess

AnswerValidator = Callable[[str], str | None]  # what is wrong with an answer's text, for the model; None: it is valid


class ContextCompiler(Protocol):
    """Compiles the model requests of a turn and keeps them within the model's window."""

    async def compile(self, recorder: EventRecorder) -> Context:
        """Return the context for the next model call; raises ContextOverflow if it cannot be made to fit."""
        ...

    def prompt_tokens(self) -> int:
        """Return the size of the last context by our own count, estimated high."""
        ...

    def count_tokens(self, text: str) -> int:
        """Count the tokens of the model's output, estimated high."""
        ...

    def ignore_reported_usage(self) -> None:
        """Do not calibrate token counts by the last call: its usage is our own estimate."""
        ...

    def shrink_window(self, error: ContextTooLong) -> bool:
        """Shrink the assumed window after the provider refused a context as too long; False if it cannot shrink."""
        ...

    def drop_tools(self, error: RequestRefused) -> bool:
        """Return True if the model does not support tools; from then on contexts have none."""
        ...


class TrustServices(msgspec.Struct, frozen=True):
    """Policy, guards, and what they need to know about sessions, files and skills."""

    policy: Policy | None = None  # None: every call may run, as in a replay
    guards: Guardrails | None = None  # redact tool results and answers; None: nothing is redacted
    now_ms: Callable[[], int] = lambda: 0  # ms
    cwd: Callable[[str], str] = lambda session: ""  # working folder of a session
    to_host_path: Callable[[str], str] = lambda path: path  # translates a path that commands see
    # (session, path): the session created that file
    is_own_file: Callable[[str, str], bool] = lambda session, path: False
    read_access: Callable[[str], ReadAccess | None] = lambda session: None  # what a session may read
    # (session, path): the text of a file of the workspace that the agent has not written; empty for others
    read_own_file: Callable[[str, str], str] = lambda session, path: ""
    # (session, recorded): untrusted skills in the instructions, those of now together with the recorded ones
    untrusted_skills: Callable[[str, tuple[str, ...]], tuple[str, ...]] = lambda session, before: before
    # by the skills of a turn
    skill_restrictions: Callable[[Sequence[str]], tuple[SkillRestriction, ...]] = lambda followed: ()

    def redact_failure(self, failed: Failed) -> Failed:
        """Redact secrets from a failure before it is journaled: an error may quote its input."""
        if self.guards is None:
            return failed
        sentence, details = (self.guards.redactor.redact(text)[0] for text in (failed.sentence, failed.details))
        return msgspec.structs.replace(failed, sentence=sentence, details=details)


class TurnDependencies(msgspec.Struct, frozen=True):
    provider: Provider
    tools: TurnTools
    limits: Limits
    context_compiler: ContextCompiler
    validate_answer: AnswerValidator | None = None  # None: every answer is valid
    trust: TrustServices = TrustServices()
    turn_budget: TurnBudget | None = None  # None: no budget applies
    judges: JudgePanel | None = None  # None: answers are not judged


def is_tainted(session: Session, dependencies: TurnDependencies) -> bool:
    """Return True if the model has read untrusted content: in the conversation, a tool description or a skill."""
    return (
        session.untrusted
        or dependencies.tools.has_external_descriptions
        or bool(dependencies.trust.untrusted_skills(session.key, session.untrusted_skills))
    )
