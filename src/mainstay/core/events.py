"""The facts of a session, past tense.

One set of types for the journal and for whoever watches. Durable events are what the journal keeps;
partial ones (`Partial`) are only ever emitted. A watcher's copy carries `session` and `sequence`, which
the journal knows by where the event stands and so does not repeat.

The tag is the type's name; a changed shape gets a new tag ("TurnEnded.2") and an upcast in
`core.journal`, so that a journal written by an older release is still read.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from mainstay.core.addresses import Address, Heard
from mainstay.core.guests import GuestTool
from mainstay.core.messages import AnyPart, Role, ToolResult, Usage
from mainstay.core.outcome import Event as Event
from mainstay.core.outcome import Outcome
from mainstay.core.recall import Fact, Summary

# --- durable: the journal is made of these -------------------------------------------------------


class Received(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """An input was accepted. `id` is the sender's own, where it has one. What was only `overheard` starts no turn: it
    is shown with the next prompt."""

    parts: tuple[AnyPart, ...]
    kind: Literal["prompt", "steer", "overheard"] = "prompt"
    sender: str = ""
    id: str = ""
    heard: Heard | None = None


class TurnStarted(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """These inputs (by sequence) became the turn's user message."""

    inputs: tuple[int, ...]
    model: str = ""


class TurnResumed(Event, frozen=True, omit_defaults=True, tag=True):
    """The process that ran this turn stopped; another one took it up."""


class MessageAdded(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """Something was said. What is `provisional` is no answer before judges have passed it (`Judged`): until then it is
    shown to nobody, or as a draft."""

    role: Role
    parts: tuple[AnyPart, ...]
    model: str = ""
    usage: Usage | None = None
    cost: float = 0.0
    provisional: Literal["", "held", "shown"] = ""


class ToolStarted(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """Written before a call that is not `pure` runs: without it, it has certainly not run."""

    call_id: str


class ToolFinished(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """The call's one result, and what a sub-agent spent on it."""

    result: ToolResult
    usage: Usage | None = None
    cost: float = 0.0
    calls: int = 1  # that it stands for: none, if it was never run; with a sub-agent, that one's too


class ApprovalAsked(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """The turn waits until somebody answers, or until `expires`, which is a no. It is about this very call."""

    id: str
    call_id: str
    name: str
    input: str
    why: str = ""
    digest: str = ""  # of name and input: nothing else runs under this approval
    expires: int = 0  # ms
    always: str = ""  # the rule that "always" would add
    where: str = ""  # the folder that its paths are relative to
    client: bool = False  # whoever asked runs it, and hands in the result: there is nothing to allow


class ApprovalAnswered(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    id: str
    verdict: Literal["approved", "denied", "expired"]
    by: str = ""
    reason: str = ""
    input: str | None = None  # amended: what runs instead
    always: str = ""  # the rule that was added
    result: str | None = None  # what a call came to that somebody else ran


class Guarded(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """A guard did something, or would have."""

    stage: Literal["input", "tool", "output", "policy"]
    action: Literal["flagged", "blocked", "redacted", "neutralised", "held", "denied"]
    kinds: tuple[str, ...] = ()
    call_id: str = ""
    note: str = ""


class Spawned(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """This session is a sub-agent's: who sent it, by which call, with which tools."""

    parent: str
    call_id: str
    tools: tuple[str, ...] = ()
    depth: int = 1
    untrusted: bool = False  # whoever wrote its prompt had read something from outside
    private: bool = False
    person: str = ""  # for whom: what they may not do, it may not either


class Steered(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """These inputs (by sequence) were put into the running turn."""

    inputs: tuple[int, ...]


class StepCheckpointed(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """More of what a step has streamed so far; of use only if the step never finishes."""

    text: str = ""
    thinking: str = ""
    held: bool = False  # it may be an answer that nobody is shown before it was judged


class StepRestarted(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """The step is asked again: what it had streamed is an interrupted partial, not an answer."""

    reason: str = ""


class Reserved(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """So much was put aside for a model call, before it was sent; on disk first, and only where there are budgets.

    It is closed by what the call came to: the message, fold or verdict that names it by `id`, or `Settled`. One that is
    closed by none (its process died) has cost the whole of it, for all that anybody knows.
    """

    id: str  # what for: "3.2" is the second step of turn 3, "fold:1", "judge:3.2:kind"
    model: str
    prompt: int  # tokens, as we count them
    output: int  # tokens that the answer may have; the provider was told
    cost: int  # nanodollars, at the most
    guessed: bool = False  # nobody knows the price of this model
    person: str = ""  # who pays for it, beside the session and the workspace; empty: the owner


class Settled(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """What a call came to that nothing else tells of: nothing, if it was never answered; what is known, if it broke
    off; all that was put aside, if it is `lost`: the process that made it died."""

    id: str
    usage: Usage | None = None
    cost: float = 0.0
    lost: bool = False


class Score(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What one judge said of an answer. One that could not say anything has an `error` and no score."""

    judge: str
    score: float | None = None
    reason: str = ""
    error: str = ""
    weight: float = 1.0
    usage: Usage | None = None
    cost: float = 0.0
    seconds: float = 0.0


class Judged(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """The last answer of the turn was judged. `attempt` counts from 1; the last one is returned, passed or not."""

    scores: tuple[Score, ...]
    score: float  # combined
    passed: bool
    attempt: int = 1
    last: bool = False
    tries: int = 1  # as many attempts as there may be
    held: bool = False  # nobody was shown what was judged


class Relieved(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """From now on the model sees less of what is old or large; the journal keeps all of it.

    Stubs name what they stand for, and it can be paged through. `room` is how many characters a stub shows.
    """

    results: tuple[str, ...] = ()  # these calls' results are stubs
    turns: int = 0  # and so are all results of turns up to this one
    texts: tuple[int, ...] = ()  # messages whose texts and arguments are cut
    steps: int = 0  # so many of the running turn's first steps are left out
    room: int = 0


class Folded(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """The oldest turns, up to and including `through`, are now seen through this summary.

    Records up to and including `upto` are needed no more to go on. `parts` and `facts` are what this fold added
    to the summaries and facts of the workspace: one record, so that there is never half a fold.
    """

    upto: int
    summary: str
    through: int = 0  # the last turn that was folded
    version: int = 1  # counts the session's folds
    by: str = ""  # the model that wrote it; empty: no model could, and it is an outline
    origin: str = ""  # untrusted, if anything was that went into it
    parts: tuple[Summary, ...] = ()
    facts: tuple[Fact, ...] = ()
    usage: Usage | None = None
    cost: float = 0.0


class TurnEnded(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    outcome: Outcome


class Delivered(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """Something was handed to a chat platform. Of an answer, `turn` says whose."""

    key: str
    to: Address
    ids: tuple[str, ...] = ()  # the platform's, of what was posted
    state: Literal["sent", "unknown", "failed", "silent"] = "sent"  # unknown: it may have been; it is not sent again
    note: str = ""


class SessionChanged(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """Settings of the session; what is None stays as it was."""

    title: str | None = None
    status: Literal["active", "paused", "archived"] | None = None
    model: str | None = None
    instructions: str | None = None  # the fixed section, for good or until a fold renews it
    amended: str | None = None  # a newer fixed section that is appended until then
    told: tuple[str, ...] = ()  # skills whose words are in there, and are somebody else's
    profile: dict[str, str] | None = None
    metadata: dict[str, str] | None = None
    guests: tuple[GuestTool, ...] | None = None  # tools that whoever asks brings along, instead of those before


class Forked(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """Everything before this was copied from another session."""

    parent: str
    upto: int


class Blanked(Event, frozen=True, omit_defaults=True, tag=True):
    """Something stood here and was forgotten."""


DURABLE = (
    Received
    | TurnStarted
    | TurnResumed
    | MessageAdded
    | ToolStarted
    | ToolFinished
    | ApprovalAsked
    | ApprovalAnswered
    | Guarded
    | Spawned
    | Steered
    | StepCheckpointed
    | StepRestarted
    | Reserved
    | Settled
    | Judged
    | Relieved
    | Folded
    | TurnEnded
    | Delivered
    | SessionChanged
    | Forked
    | Blanked
)


# --- partial: emitted to whoever watches, kept nowhere -------------------------------------------


class Partial(Event, frozen=True, omit_defaults=True, tag=True):
    """A slow watcher may lose these, and is told so."""


class TextDelta(Partial, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    text: str
    provisional: Literal["", "shown"] = ""  # as of a message: a draft, of what may be an answer and is not judged yet


class ThinkingDelta(Partial, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    text: str


class ToolCallStarted(Partial, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """The model began to write a call."""

    call_id: str
    name: str


class ToolCallDelta(Partial, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    call_id: str
    input: str


class ToolCallReady(Partial, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """The call is whole and about to be judged and run."""

    call_id: str
    name: str
    input: str


class ToolProgress(Partial, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    call_id: str
    note: str
    data: Any = None


class Waiting(Partial, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """The turn waits for something outside: a retry, a failing store."""

    reason: str
    seconds: float = 0.0


class Warned(Partial, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """Something the person should know before it is trouble: a budget is nearly used up."""

    sentence: str


class Stuck(Partial, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """The watchdog's word: this turn is past every bound it declared."""

    doing: str
    seconds: float = 0.0


class Lagged(Partial, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """This watcher was too slow: so many events are missing here. The journal has the durable ones."""

    missed: int


PARTIAL = (
    TextDelta
    | ThinkingDelta
    | ToolCallStarted
    | ToolCallDelta
    | ToolCallReady
    | ToolProgress
    | Waiting
    | Warned
    | Stuck
    | Lagged
)

MessageFinished = MessageAdded  # what watchers know it by
