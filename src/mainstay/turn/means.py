"""What a turn works with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from mainstay.core.accounts import Purse
from mainstay.core.errors import ContextTooLong, RequestRefused
from mainstay.core.judging import Panel
from mainstay.core.limits import Limits
from mainstay.core.outcome import Failed
from mainstay.core.ports import Context, Provider, Scribe
from mainstay.core.session import Session
from mainstay.trust.guards.guard import Guards
from mainstay.trust.policy import Narrowing, Policy
from mainstay.turn.toolbox import Tools

Review = Callable[[str], str | None]


class Contexts(Protocol):
    """Where the requests of a turn come from."""

    async def compile(self, scribe: Scribe) -> Context:
        """What the model will see now, small enough for it; raises ContextOverflow if that cannot be."""
        ...

    def prompt_tokens(self) -> int:
        """What the last one weighs, as we count, rather more than less."""
        ...

    def count(self, text: str) -> int:
        """Tokens of what the model has said, rather more than less."""
        ...

    def unreported(self) -> None:
        """What is told of the last one is our own count: nothing is to be learnt from it."""
        ...

    def tighten(self, error: ContextTooLong) -> bool:
        """The provider found the last one too long: the next will be shorter. False if it would not be."""
        ...

    def do_without_tools(self, error: RequestRefused) -> bool:
        """True if this model was refused for having tools offered to it, and will be asked without them."""
        ...


class Trust(msgspec.Struct, frozen=True):
    """Who may do what, and what may be said."""

    policy: Policy | None = None  # None: whatever was called may run, as in a replay
    guards: Guards | None = None  # what an answer must not say
    now: Callable[[], int] = lambda: 0  # ms
    cwd: Callable[[str], str] = lambda session: ""  # where paths of a session begin
    made: Callable[[str, str], bool] = lambda session, path: False  # this session made that file
    told: Callable[[str, tuple[str, ...]], tuple[str, ...]] = lambda session, before: (
        before
    )  # skills of others that nobody
    # vouches for, among its instructions as they would be now and as they were when they were written
    narrowing: Callable[[Sequence[str]], tuple[Narrowing, ...]] = lambda followed: ()  # by the skills of a turn

    def clean(self, failed: Failed) -> Failed:
        """An error may quote what it was given; a key must not end up in a journal by way of one."""
        if self.guards is None:
            return failed
        sentence, details = (self.guards.redactor.whole(text)[0] for text in (failed.sentence, failed.details))
        return msgspec.structs.replace(failed, sentence=sentence, details=details)


class Means(msgspec.Struct, frozen=True):
    provider: Provider
    tools: Tools
    limits: Limits
    contexts: Contexts
    review: Review | None = None  # what is wrong with a final answer, for the model to mend
    trust: Trust = Trust()
    purse: Purse | None = None  # None: nothing is bounded
    panel: Panel | None = None  # None: nobody judges the answers


def is_tainted(session: Session, means: Means) -> bool:
    """The model has read something that nobody vouches for: in the conversation, of a tool, among its instructions."""
    return session.untrusted or means.tools.foreign or bool(means.trust.told(session.key, session.told))
