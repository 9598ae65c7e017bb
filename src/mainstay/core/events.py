"""Event types of a session, named in the past tense: those stored in its journal, and those only emitted to watchers.

Both use the same types. Durable events are journaled; partial ones (`Partial`) are only emitted. A watcher's copy has
`session` and `sequence` set; the journal does not store them, because they are the key of the record.

The tag is the type's name. A changed shape gets a new tag ("TurnEnded.2") and an upcast in `core.journal`, so that
journals of older releases remain readable.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from mainstay.core.chat_addresses import ChatAddress, PlatformMessage
from mainstay.core.client_tools import ClientTool
from mainstay.core.json_types import ReadOnlyJson
from mainstay.core.limits import SessionBudget
from mainstay.core.memory_tiers import Fact, Summary
from mainstay.core.messages import AnyPart, Role, ToolResult, Usage
from mainstay.core.outcome import Event as Event
from mainstay.core.outcome import Outcome

# --- durable: stored in the journal --------------------------------------------------------------


class Received(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """An input was accepted. One of kind `overheard` starts no turn: it is shown with the next prompt."""

    parts: tuple[AnyPart, ...]
    kind: Literal["prompt", "steer", "overheard"] = "prompt"
    sender: str = ""
    id: str = ""  # chosen by the sender; empty: none
    heard: PlatformMessage | None = None  # the platform's message, if it came from a chat platform
    shared: bool = False  # not only the sender reads the answer: a trigger's, or that of a model that calls this one


class TurnStarted(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """A turn began; these inputs (by sequence) became its user message."""

    inputs: tuple[int, ...]
    model: str = ""
    wording: str = ""  # version of the sentences that the runtime writes into this turn; empty: 0.1


class TurnResumed(Event, frozen=True, omit_defaults=True, tag=True):
    """This turn goes on after an interruption: in another process, after a failure of the store, or released after it
    was set aside."""

    after_crash: bool = False  # the process that ran it ended without an orderly shutdown
    released: bool = False


class TurnSetAside(Event, frozen=True, omit_defaults=True, tag=True):
    """This turn is not resumed until it is released: several processes in a row ended while they ran it."""

    crashes: int = 0


class MessageAdded(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """A message was added to the conversation. A `provisional` one becomes an answer only when judges passed it."""

    role: Role
    parts: tuple[AnyPart, ...]
    model: str = ""
    usage: Usage | None = None
    cost: float = 0.0  # dollars
    provisional: Literal["", "held", "shown"] = ""  # until `Judged`: held is not shown to users, shown is a draft


class ToolStarted(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """A tool call is about to run. Written before every call that is not `pure`: without it the call has not run."""

    call_id: str


class ToolFinished(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """A tool call has its result; every call gets exactly one."""

    result: ToolResult
    usage: Usage | None = None  # tokens that a sub-agent used in this call
    cost: float = 0.0  # dollars that it spent
    calls: int = 1  # tool calls to count: 0 if it did not run, more with those of a sub-agent


class ApprovalAsked(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """The turn waits for a person to approve this call. No answer until `expires` denies it."""

    id: str
    call_id: str
    name: str
    input: str
    why: str = ""
    digest: str = ""  # of name and input: the approval is valid for exactly this call
    expires: int = 0  # ms
    always: str = ""  # the rule that "always allow" would add
    where: str = ""  # the folder that its paths are relative to
    client: bool = False  # a client tool: the client runs the call and sends its result, no approval is needed
    destinations: tuple[str, ...] = ()  # every destination that the user did not name
    ran: ToolResult | None = None  # the call has run, with this result: approved are the changes it had held back


class ApprovalAnswered(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """A pending approval was answered, or expired."""

    id: str
    verdict: Literal["approved", "denied", "expired"]
    by: str = ""
    reason: str = ""
    input: str | None = None  # amended arguments to run instead; None: unchanged
    always: str = ""  # the rule that was added
    result: str | None = None  # the result that a client sent for its own tool


class Guarded(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """A guard acted on an input, a tool call or an output, or only flagged it. `released`: changes that were held back
    are about to be applied, as a person approved; on disk before the first of them is."""

    stage: Literal["input", "tool", "output", "policy"]
    action: Literal["flagged", "blocked", "redacted", "neutralised", "held", "denied", "released"]
    kinds: tuple[str, ...] = ()
    call_id: str = ""
    note: str = ""


class Spawned(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """This session was started as a sub-agent, by this call of its parent session and with these tools."""

    parent: str
    call_id: str
    tools: tuple[str, ...] = ()
    depth: int = 1
    untrusted: bool = False  # the parent's context contained untrusted content
    private: bool = False  # the parent's context contained private content
    person: str = ""  # the person it acts for, whose permissions apply


class Steered(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """These inputs (by sequence) were added to the running turn."""

    inputs: tuple[int, ...]


class StepCheckpointed(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """The next part of a step's streamed output was saved; only used if the step never finishes."""

    text: str = ""
    thinking: str = ""
    held: bool = False  # it may be part of an answer that is not shown before it was judged
    calls: str = ""  # of tool calls: each begins with its name and a parenthesis


class StepRestarted(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """The model is asked again for this step: what had streamed is an interrupted partial, not an answer."""

    reason: str = ""


class Reserved(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """The maximal cost of a model call was reserved. On disk before the call is sent; only where budgets are set.

    It is closed by the record of the call's result (the message, fold or verdict that it names by `id`) or by
    `Settled`. A reservation that is never closed, because its process died, counts as spent in full.
    """

    id: str  # the purpose: "3.2" is the second step of turn 3, "fold:1", "judge:3.2:kind"
    model: str
    prompt: int  # tokens by our count
    output: int  # maximal tokens of the answer, as sent to the provider
    cost: int  # maximal cost in nanodollars
    guessed: bool = False  # the model's prices are not known
    person: str = ""  # the person who pays, beside the session and the workspace; empty: the owner


class Settled(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """A reserved call ended without a record of its own: it failed, broke off, or its process died (`lost`)."""

    id: str
    usage: Usage | None = None  # None: the call was not answered; as far as known if it broke off
    cost: float = 0.0  # dollars
    lost: bool = False  # the process died: the whole reservation counts as spent


class Score(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One judge's score of an answer. A judge that failed has an `error` and no score."""

    judge: str
    score: float | None = None  # 0 to 1
    reason: str = ""
    error: str = ""
    weight: float = 1.0
    usage: Usage | None = None
    cost: float = 0.0  # dollars
    seconds: float = 0.0


class Judged(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """The turn's latest answer was judged."""

    scores: tuple[Score, ...]
    score: float  # combined
    passed: bool
    attempt: int = 1  # counts from 1
    last: bool = False  # the final attempt, which is returned whether it passed or not
    tries: int = 1  # maximal number of attempts
    held: bool = False  # the judged answer was not shown to users


class Relieved(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """The context was reduced: the model sees less of old and large messages from now on. The journal keeps them whole.

    A stub names what it replaces, which can be paged through.
    """

    results: tuple[str, ...] = ()  # ids of calls whose results become stubs
    turns: int = 0  # all results of turns up to this one become stubs too
    texts: tuple[int, ...] = ()  # messages whose texts and arguments are cut
    steps: int = 0  # how many of the running turn's first steps are left out
    room: int = 0  # characters that a stub shows; 0: the default


class Folded(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """The oldest turns were replaced by a summary in the context.

    A fold is one record, together with what it adds to the workspace's summaries (`parts`) and facts (`facts`), so that
    it is never half done.
    """

    upto: int  # records up to and including this sequence are not needed to continue
    summary: str
    through: int = 0  # the last turn that was folded
    version: int = 1  # counts the session's folds
    by: str = ""  # the model that wrote the summary; empty: it is an outline, made without a model
    origin: str = ""  # untrusted if any of the summarised content was
    parts: tuple[Summary, ...] = ()
    facts: tuple[Fact, ...] = ()
    usage: Usage | None = None
    cost: float = 0.0  # dollars


class TurnEnded(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    outcome: Outcome


class Delivered(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """A message was posted on a chat platform. If it is an answer, `turn` is the turn that it answers."""

    key: str
    to: ChatAddress
    ids: tuple[str, ...] = ()  # the platform's ids of the posted messages
    state: Literal["sent", "unknown", "failed", "silent"] = "sent"  # unknown: it may have been sent and is not retried
    note: str = ""


class SessionChanged(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """Settings of the session were changed; None leaves a setting as it was."""

    title: str | None = None
    status: Literal["active", "paused", "archived"] | None = None
    model: str | None = None
    instructions: str | None = None  # the fixed section; stays until a fold renews it
    amended: str | None = None  # a newer fixed section, appended to the history until then
    told: tuple[str, ...] = ()  # untrusted skills whose text is in the fixed section
    profile: dict[str, str] | None = None
    metadata: dict[str, str] | None = None
    guests: tuple[ClientTool, ...] | None = None  # the client's tools; replace the earlier ones
    note_mark: str = ""  # with instructions: what notes of the runtime begin with; empty: unmarked, as before 0.2
    budget: SessionBudget | None = None  # replaces the earlier one as a whole


class Forked(Event, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """This session was forked: all records before this one were copied from another session."""

    parent: str
    upto: int


class Blanked(Event, frozen=True, omit_defaults=True, tag=True):
    """A record was erased here."""


DurableEvent = (
    Received
    | TurnStarted
    | TurnResumed
    | TurnSetAside
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


# --- partial: only emitted to watchers -----------------------------------------------------------


class Partial(Event, frozen=True, omit_defaults=True, tag=True):
    """Base of events that are emitted and not stored; a slow watcher may miss some and then gets `Lagged`."""


class TextDelta(Partial, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    text: str
    provisional: Literal["", "shown"] = ""  # shown: a draft of an answer that is not judged yet


class ThinkingDelta(Partial, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    text: str


class ToolCallStarted(Partial, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """The model began to write a tool call."""

    call_id: str
    name: str


class ToolCallDelta(Partial, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    call_id: str
    input: str


class ToolCallReady(Partial, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """A tool call is complete; it will now be checked and run."""

    call_id: str
    name: str
    input: str


class ToolProgress(Partial, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    call_id: str
    note: str
    data: ReadOnlyJson = None


class Waiting(Partial, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """The turn waits: for a retry, a rate limit, a budget, a summary or a failing store."""

    reason: str
    seconds: float = 0.0


class Warned(Partial, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """A warning for the user: a budget is nearly exhausted."""

    sentence: str


class Stuck(Partial, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """The watchdog found this turn past its declared timeouts."""

    doing: str
    seconds: float = 0.0


class Lagged(Partial, frozen=True, omit_defaults=True, tag=True, kw_only=False):
    """This watcher was too slow: `missed` events are missing here. The durable ones are in the journal."""

    missed: int


PartialEvent = (
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

MessageFinished = MessageAdded  # its public name for watchers
