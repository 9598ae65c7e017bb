"""Core ports: Protocols for clock, tools, providers, store and journal, which other packages implement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from mainstay.core.events import ApprovalAsked, Event, Spawned, ToolProgress
from mainstay.core.held_changes import HeldChange
from mainstay.core.journal import Record
from mainstay.core.json_types import JsonObject, ReadOnlyJson
from mainstay.core.limits import NO_SESSION_BUDGET, SessionBudget
from mainstay.core.memory_tiers import Fact
from mainstay.core.messages import Binary, FinishReason, Message, Text, Usage
from mainstay.core.model_info import ModelInfo as ModelInfo
from mainstay.core.rate_limits import RateLimitStatus

# --- time, ids and randomness --------------------------------------------------------------------


class Clock(Protocol):
    """Wall-clock time for timestamps, monotonic time for timeouts; a jump of the first does not affect the second."""

    def now_ms(self) -> int: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


class IdGenerator(Protocol):
    """Generates unique ids, and random numbers in [0, 1); a port so that tests and simulations are deterministic."""

    def new_id(self) -> str: ...
    def random(self) -> float: ...


# --- tools ---------------------------------------------------------------------------------------

Effect = Literal["pure", "idempotent", "reconcile", "unsafe"]


class Tool(Protocol):
    """A function that the model may call. `parse` decodes JSON or raises `BadArguments`; `run` may raise anything.

    Optional members: `origin` (the plugin, MCP server or backend that the tool comes from, see core/tool_ports),
    `reach(arguments, context)` (the destinations of one call), `undeclared` (which of `untrusted` and `sink` are
    assumptions, because the developer declared nothing), `private` and `readers` (whether results are private, and who
    can read them already), `is_read_only` (a call changes nothing at its destination, although its effect is not
    `pure`), `runs_in_sandbox` (its commands run in the agent's sandbox),
    `wanted() -> bool` (False: do not offer it now).
    """

    name: str
    description: str
    schema: JsonObject  # JSON Schema of the arguments
    effect: Effect
    timeout_s: float | None  # None: `Limits.tool_timeout_s`
    untrusted: bool  # its results contain content from outside the workspace
    sink: bool | tuple[str, ...]  # carries data out or changes things; a tuple: the arguments that are destinations
    capabilities: tuple[str, ...]

    def parse(self, input: str) -> object: ...
    def run(self, arguments: Any, context: ToolContext) -> Awaitable[str]: ...
    def reconcile(self, arguments: Any, context: ToolContext) -> Awaitable[str | None]:
        """Find out what an interrupted call did: its result, or None if it had no effect and may run again."""
        ...


class ToolContext:
    """Context of one running tool call: its identity, cancellation, progress and taint.

    `key` is the idempotency key: it is the same whenever this call is run again; pass it to services that de-duplicate.
    """

    __slots__ = (
        "_cancelled",
        "_emit",
        "_loop",
        "attachments",
        "call_id",
        "cost",
        "deletable_paths",
        "guard_events",
        "has_private_content",
        "held_changes",
        "is_approved",
        "is_removal_requested",
        "message_seq",
        "messages",
        "partial_output",
        "person",
        "private",
        "protect_deletions",
        "read_turn_texts",
        "read_user_texts",
        "session",
        "step",
        "sub_agent_calls",
        "tainted",
        "turn",
        "untrusted",
        "usage",
    )  # fmt: skip

    def __init__(self, session: str, turn: int, step: int, call_id: str, emit: Callable[[Event], None]) -> None:
        self.session = session
        self.turn = turn
        self.step = step
        self.call_id = call_id
        self.person = ""  # the user whose prompt is being answered; empty: the owner
        self.message_seq = 0  # sequence of the message that contains this call
        self.tainted = False  # the context that made this call contains untrusted content
        self.has_private_content = False  # the context that made this call contains private content
        self.untrusted = False  # set by the tool if its result contains untrusted content
        self.private = False  # set by the tool if its result is private
        self.protect_deletions = False  # a command of this call must not delete files that existed before
        self.deletable_paths: tuple[str, ...] = ()  # exceptions from that: paths as the command names them
        self.is_approved = False  # a person approved this very call
        # returns what the person wrote in this turn, without forwarded or attached content
        self.read_turn_texts: Callable[[], Sequence[str]] = tuple
        # returns what the person wrote in this and in earlier turns
        self.read_user_texts: Callable[[], Sequence[str]] = tuple
        # (absolute path): the user asked in this turn for its removal, or that of a folder above it
        self.is_removal_requested: Callable[[str], bool] = lambda path: False
        self.held_changes: tuple[HeldChange, ...] = ()  # set by the tool: what the user may still approve
        self.usage: Usage | None = None  # tokens that a sub-agent used in this call
        self.cost = 0.0  # dollars that it spent
        self.sub_agent_calls = 0  # tool calls that it made
        self.messages: Sequence[Message] = ()  # the conversation as the model sees it; read only
        self.attachments: tuple[Binary, ...] = ()
        self.guard_events: tuple[Event, ...] = ()  # what guards did to the result, to be journaled
        # set by the tool: returns its output so far, which is kept if the call is aborted or times out
        self.partial_output: Callable[[], str] = str
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._cancelled = False

    @property
    def key(self) -> str:
        return f"{self.session}/{self.call_id}"

    @property
    def cancelled(self) -> bool:
        """True once the call was aborted or timed out; a tool that runs in a thread should check it regularly."""
        return self._cancelled

    def cancel(self) -> None:
        self._cancelled = True

    def attach(self, mime: str, data: bytes, path: str = "") -> None:
        """Attach an image that the model sees beside the result."""
        self.attachments = (*self.attachments, Binary(mime, data, path))

    def progress(self, note: str, data: ReadOnlyJson = None) -> None:
        """Emit a progress event to watchers; it is not journaled. May be called from any thread."""
        event = ToolProgress(self.call_id, note, data, session=self.session, turn=self.turn, step=self.step)
        if asyncio._get_running_loop() is self._loop:
            self._emit(event)
        elif not self._loop.is_closed():  # called from a tool's thread; watchers are only notified from the loop
            self._loop.call_soon_threadsafe(self._emit, event)


# --- models --------------------------------------------------------------------------------------


class Context(msgspec.Struct, frozen=True, gc=False):
    """One model request: fixed section, tools, profile, and the history in order (its summary first). The fixed and
    profile sections are marked for the provider's prompt cache where the API has such marks."""

    system: str
    messages: Sequence[Message]
    tools: tuple[Tool, ...] = ()
    profile: str = ""


class Options(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Options and callbacks of one model call."""

    tool_choice: Literal["auto", "none"] = "auto"
    output_tokens_max: int | None = None  # at most; None: the model's own limit
    turn: int = 0
    step: int = 0
    on_wait: Callable[[str, float], None] | None = None  # called when the call has to wait: a sentence, seconds
    count_context_tokens: Callable[[], int] | None = None  # returns our count of the context's tokens
    on_sent: Callable[[], None] | None = None  # called on each send by wrappers that may delay the call (metering)
    on_rate_limits: Callable[[RateLimitStatus], None] | None = (
        None  # called with the rate limits of an accepted request
    )


class TextPiece(msgspec.Struct, frozen=True, gc=False):
    text: str


class ThinkingPiece(msgspec.Struct, frozen=True, gc=False):
    text: str
    signature: str = ""


class ToolCallPiece(msgspec.Struct, frozen=True, gc=False):
    """Part of a tool call. Pieces of one call share `index`; the name comes with the first."""

    index: int
    name: str = ""
    input: str = ""


class StreamFinished(msgspec.Struct, frozen=True, gc=False):
    """The last piece of a stream. A stream that ends without it was cut off."""

    reason: FinishReason
    usage: Usage = Usage()
    model: ModelInfo | None = None  # the model that answered, if it is not the requested one (failover)


Piece = TextPiece | ThinkingPiece | ToolCallPiece | StreamFinished


class Provider(Protocol):
    """One model of a provider's API. Raises only `ProviderError`s; anything else is a bug in the provider."""

    def model(self) -> ModelInfo: ...
    def stream(self, context: Context, options: Options) -> AsyncIterator[Piece]: ...
    async def close(self) -> None: ...


@runtime_checkable
class LoadableProvider(Provider, Protocol):
    """A provider that loads its model itself, and can do so ahead of the first request."""

    async def load(self) -> None:
        """Load the model. Raises ProviderError."""
        ...


class Tokenizer(Protocol):
    """Counts tokens. `scale` is the factor for its counts if the vocabulary is not the model's own."""

    name: str
    scale: float

    def __hash__(self) -> int: ...
    def count(self, text: str) -> int: ...


class SummaryRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Whole turns that are to be summarised, and the summary that precedes them."""

    messages: Sequence[Message]
    previous_summary: str = ""  # the previous summary
    previous_origin: str = ""  # of the previous summary: untrusted if any of its sources was
    tokens_max: int = 1000  # maximal length of the new summary
    focus: str = ""  # what the user who asked for the summary wants kept above all
    extract_facts: bool = True  # extract facts too


class SummaryResult(msgspec.Struct, frozen=True):
    """A summary and the facts extracted with it."""

    text: str
    facts: tuple[Fact, ...] = ()
    model: str = ""  # name of the model that wrote it
    usage: Usage = Usage()
    cost: float = 0.0


class Summariser(Protocol):
    """Summarises turns that leave the context window. Raises ProviderError or SummaryUnusable."""

    async def summarise(self, request: SummaryRequest, model: str) -> SummaryResult:
        """Return the summary. `model` is the session's own model; "" for the default."""
        ...


class TurnNote(Text, frozen=True, omit_defaults=True, tag="text"):
    """A note for one turn, and what is appended instead if it is in the window already or the window has no room. The
    journal gets a plain `Text`."""

    other_forms: tuple[str, ...] = ()  # other texts with the same content: each counts as this note
    if_shown: str = ""  # appended instead if the model sees the note already; empty: nothing
    if_full: str = ""  # appended instead if the notes of this kind have no room left; empty: nothing
    # prefix of the origins of all notes that share the room; a note with it is shown again if the newest note of its
    # origin says something else
    kind: str = ""
    bytes_max: int = 0  # of the texts of this kind in the window, together; 0: no limit of its own


class ContextContributor(Protocol):
    """Adds text and tools to a session's context, as skills, patterns and memory files do. Must not block: every turn
    calls it."""

    tools: tuple[Tool, ...]

    def fixed_section(self, session: str) -> str:
        """Return text for the fixed section. Called when a session begins and again at a fold."""
        ...

    def sub_agent_section(self, session: str) -> str:
        """Return text for the fixed section of a sub-agent: only the rules that apply to every agent."""
        ...

    def small_model_section(self, session: str) -> str:
        """Return text for the fixed section of a small, slow model: only what is indispensable."""
        ...

    def profile_section(self, session: str) -> str:
        """Return text for the profile section; must not change while its sources do not."""
        ...

    def turn_notes(self, session: str, prompt: str) -> tuple[Text, ...]:
        """Return notes (`TurnNote`, or plain texts) to append to this turn after the user's message, each with its
        origin; usually none.

        A note that the model sees already is not appended again: contributors need not remember what was shown.
        """
        ...


# --- the journal store ---------------------------------------------------------------------------


# messages counted from the first on, their tokens, and the tokenizer; "" means: an upper bound
NO_TOKEN_COUNT = (0, 0, "")
SessionStatus = Literal["active", "paused", "archived", "deleted"]


class SessionInfo(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    gc=False,
    rename={"spawned": "errand", "client_tools_seq": "guested", "window_tokens": "weighed"},
):
    """Summary row of a session: what is known without reading its journal. Written with every append."""

    key: str
    head: int = 0  # sequence of the last record
    fold: int = 0  # sequence of the last `Folded`, 0 for none
    floor: int = 0  # lowest sequence needed to continue: all queued inputs, and the newest turn whole
    unfinished: bool = False  # a turn is open or an input is queued
    status: SessionStatus = "active"
    turns: int = 0
    messages: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0  # dollars
    calls: int = 0  # tool calls that ran
    created: int = 0  # ms
    updated: int = 0  # ms
    title: str = ""
    parent: str = ""
    model: str = ""
    fixed: int = 0  # sequence of the record that holds the fixed section, 0 for none
    amended: int = 0  # sequence of the record that holds a newer fixed section, 0 for none
    untrusted: bool = False  # untrusted content has entered the conversation
    private: bool = False  # private content has entered the conversation
    approval: ApprovalAsked | None = None  # the approval that its turn waits for
    spawned: Spawned | None = None  # set if this is a sub-agent's session: its parent and the spawning call
    person: str = ""  # the user who started it; empty: the owner
    workspace: str = ""  # filled in for display; not stored
    profile: dict[str, str] = {}
    metadata: dict[str, str] = {}
    delivered: int = 0  # the last turn whose answer was handed to a chat platform
    client_tools_seq: int = 0  # sequence of the record that holds the client's tools, 0 for none
    window_tokens: tuple[int, int, str] = (
        NO_TOKEN_COUNT  # token count of the window; saves a recount when the lane wakes
    )
    stopped_turn: int = 0  # the turn that ran when its process was told to stop; 0: none
    set_aside: bool = False  # its turn is not resumed until it is released
    budget: SessionBudget = NO_SESSION_BUDGET
    compacted: int = 0  # ms: time of the last `Folded`; 0: none, or it was written by a release before 0.2


class IdempotencyKey(msgspec.Struct, frozen=True):
    """Idempotency key of an input: the append is refused if the session has accepted this id before."""

    id: str
    digest: str  # of the input, to tell a retry from another input under the same id


class SessionTail(msgspec.Struct, frozen=True):
    """The newest part of a session's journal: enough to continue it."""

    info: SessionInfo
    records: list[Record]
    complete: bool  # there are no older records that matter: `records` begins at the start or after the last fold
    pinned_records: list[Record] = []  # older records that are still needed: those that hold the fixed section


@runtime_checkable
class Store(Protocol):
    """Stores the journals of a workspace's sessions. An `append` that returned is on disk. Every append names the
    sequence that it expects; a stale writer is refused (optimistic concurrency control)."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...

    def append(
        self,
        info: SessionInfo,
        expected: int,
        events: Sequence[bytes],
        idempotency_key: IdempotencyKey | None = None,
        *,
        synced: bool = True,
    ) -> Awaitable[None]:
        """Add events after sequence `expected`; raises StaleWriter, DuplicateInput or another StoreError. Events that
        are not `synced` survive a crash of the process; they are readable and survive a power cut after the next
        append."""
        ...

    async def load_tail(self, key: str, bytes_max: int) -> SessionTail | None:
        """Return all records after the last fold; without a fold the newest `bytes_max` or so, and always from the
        floor on. None if there is no such session."""
        ...

    async def read_records(self, key: str, after: int = 0, limit: int = 1000) -> list[Record]:
        """Return one page of records in order."""
        ...

    async def find_input(self, key: str, id: str) -> tuple[int, str] | None:
        """Return the sequence and digest of the input that was accepted under this id."""
        ...

    async def list_unfinished(self) -> list[str]: ...
    async def list_sessions(
        self, *, limit: int = 100, offset: int = 0, include_deleted: bool = False
    ) -> list[SessionInfo]:
        """Return one page of sessions, the last updated first."""
        ...

    async def get_session(self, key: str) -> SessionInfo | None: ...

    async def fork_session(self, source: str, upto: int, info: SessionInfo, event: bytes) -> None:
        """Copy records 1..upto of `source` into a new session and append `event`."""
        ...

    async def blank_session(self, key: str, at: int) -> None:
        """Erase the contents of a session in place; its sequence numbers stay."""
        ...

    async def redact_records(self, key: str, seqs: Sequence[int]) -> None:
        """Erase the contents of these records in place; their types stay. Folds that summarised them are blanked, and
        the session continues from the newest fold before them, or from its beginning."""
        ...

    async def remove_facts(self, key: str, facts: Sequence[Fact]) -> None:
        """Remove these facts from the session's folds, and nothing else."""
        ...

    async def save_value(self, key: str, ref: str, body: str) -> None:
        """Store a value that is too large for the history, for paging; it is deleted with its session."""
        ...

    async def read_value(self, key: str, ref: str, offset: int, limit: int) -> tuple[str, int] | None:
        """Return a page of a stored value and its total length, both in characters."""
        ...

    async def list_heads(self) -> dict[str, int]:
        """Return the head of every session, for projections to compare with their positions."""
        ...


# --- what a turn is given ------------------------------------------------------------------------


class EventRecorder(Protocol):
    """Records the events of a turn in its session's journal."""

    async def record(self, *events: Event) -> None:
        """Append events; returns when they, and all events buffered before, are on disk."""
        ...

    def record_nowait(self, *events: Event, flush_soon: bool = False) -> None:
        """Buffer events; they are written with the next `record`, or with `flush_soon` after a short delay."""
        ...


class EventEmitter(Protocol):
    """Emits partial events to the session's watchers; never blocks, never raises."""

    def __call__(self, event: Event) -> None: ...
    @property
    def has_watchers(self) -> bool: ...
