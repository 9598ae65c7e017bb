"""What the kernel asks of the world, as Protocols. Rooms implement them; `app` wires them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol

import msgspec

from mainstay.core.allowance import Allowance
from mainstay.core.events import ApprovalAsked, Event, Spawned, ToolProgress
from mainstay.core.journal import Record
from mainstay.core.messages import Binary, FinishReason, Message, Text, Usage
from mainstay.core.models import ModelInfo as ModelInfo
from mainstay.core.recall import Fact

# --- time and chance -----------------------------------------------------------------------------


class Clock(Protocol):
    """Wall time for people, monotonic time for bounds; a jump of the first never moves the second."""

    def now_ms(self) -> int: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


class Ids(Protocol):
    def new(self) -> str: ...
    def random(self) -> float: ...


# --- tools ---------------------------------------------------------------------------------------

Effect = Literal["pure", "idempotent", "reconcile", "unsafe"]


class Tool(Protocol):
    """Something the model may call. `parse` raises `BadArguments`; `run` may raise anything. One that is not the
    owner's own has an `origin` (core/outside); one of no use at times says so: `wanted() -> bool`."""

    name: str
    description: str
    schema: dict[str, Any]
    effect: Effect
    timeout_s: float | None
    untrusted: bool  # what it answers comes from outside
    sink: bool | tuple[str, ...]  # the arguments that are destinations; a `reach` of its own says more (core/outside)
    capabilities: tuple[str, ...]

    def parse(self, input: str) -> Any: ...
    def run(self, arguments: Any, context: ToolContext) -> Awaitable[str]: ...
    def reconcile(self, arguments: Any, context: ToolContext) -> Awaitable[str | None]: ...


class ToolContext:
    """What a running call may know: who it is, whether it is still wanted, and how to report progress.

    `key` is the same whenever this very call is run again; hand it to services that de-duplicate.
    """

    __slots__ = (
        "_cancelled", "_emit", "_loop", "attached", "call_id", "calls", "cost", "guarded", "messages", "news", "person",
        "private", "removable", "secret", "session", "source", "step", "tainted", "turn", "untrusted", "usage",
    )  # fmt: skip

    def __init__(self, session: str, turn: int, step: int, call_id: str, emit: Callable[[Event], None]) -> None:
        self.session = session
        self.turn = turn
        self.step = step
        self.call_id = call_id
        self.person = ""  # who is being answered; empty: the owner
        self.source = 0  # sequence of the message that asked for this call
        self.tainted = False  # content from outside is in the context that made this call
        self.secret = False  # so is something private
        self.untrusted = False  # to be set by a tool whose result brings something in from outside
        self.private = False  # and by one whose result nobody else should see
        self.guarded = False  # a command of this call must not remove what was there before
        self.removable: tuple[str, ...] = ()  # but these it may, as it names them
        self.usage: Usage | None = None  # what a sub-agent spent on this call
        self.cost = 0.0
        self.calls = 0  # and how many tools it called
        self.messages: Sequence[Message] = ()  # the conversation as the model sees it; for looking, not for changing
        self.attached: tuple[Binary, ...] = ()
        self.news: tuple[Event, ...] = ()  # what guards did about its result, for the journal
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._cancelled = False

    @property
    def key(self) -> str:
        return f"{self.session}/{self.call_id}"

    @property
    def cancelled(self) -> bool:
        """True once the call was aborted or timed out; a tool in a thread should look now and then."""
        return self._cancelled

    def cancel(self) -> None:
        self._cancelled = True

    def attach(self, mime: str, data: bytes, path: str = "") -> None:
        """An image that the model is to see beside the result."""
        self.attached = (*self.attached, Binary(mime, data, path))

    def progress(self, note: str, data: Any = None) -> None:
        """Shown to whoever watches; not kept."""
        event = ToolProgress(self.call_id, note, data, session=self.session, turn=self.turn, step=self.step)
        if asyncio._get_running_loop() is self._loop:
            self._emit(event)
        elif not self._loop.is_closed():  # from a tool's thread; watchers are only ever reached from the loop
            self._loop.call_soon_threadsafe(self._emit, event)


# --- models --------------------------------------------------------------------------------------


class Context(msgspec.Struct, frozen=True, gc=False):
    """What the model will see: the fixed section and the tools, the profile, and the history in order (its summary
    first). The first two are marked for the provider's prompt cache where it has marks."""

    system: str
    messages: Sequence[Message]
    tools: tuple[Tool, ...] = ()
    profile: str = ""


class Options(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How to ask this time. `notice` is told about waiting (a sentence, seconds)."""

    tool_choice: Literal["auto", "none"] = "auto"
    output_tokens: int | None = None
    turn: int = 0
    step: int = 0
    notice: Callable[[str, float], None] | None = None
    weigh: Callable[[], int] | None = None  # tokens of the context, as we count them
    sent: Callable[[], None] | None = None  # told each time it goes out, by those who may hold it back before (meter)
    heard: Callable[[Allowance], None] | None = None  # told what is left, once the provider has taken the request


class TextPiece(msgspec.Struct, frozen=True, gc=False):
    text: str


class ThinkingPiece(msgspec.Struct, frozen=True, gc=False):
    text: str
    signature: str = ""


class CallPiece(msgspec.Struct, frozen=True, gc=False):
    """Part of a call. Pieces of one call share `index`; the name comes with the first."""

    index: int
    name: str = ""
    input: str = ""


class Finished(msgspec.Struct, frozen=True, gc=False):
    """The last thing a stream says. A stream that ends without it was cut."""

    reason: FinishReason
    usage: Usage = Usage()
    by: ModelInfo | None = None  # who answered, where it was not the model that was meant


Piece = TextPiece | ThinkingPiece | CallPiece | Finished


class Provider(Protocol):
    """One model. Raises only `ProviderError`s; everything else it does wrong is a bug of ours."""

    def model(self) -> ModelInfo: ...
    def stream(self, context: Context, options: Options) -> AsyncIterator[Piece]: ...
    async def close(self) -> None: ...


class Tokenizer(Protocol):
    """Counts as a model counts. `scale` is what its counts are multiplied by where it is not the model's own."""

    name: str
    scale: float

    def __hash__(self) -> int: ...
    def count(self, text: str) -> int: ...


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be summarised: whole turns, after what was summarised before."""

    messages: Sequence[Message]
    before: str = ""
    origin: str = ""  # of what came before: untrusted, if anything was that went into it
    tokens: int = 1000  # at most so long
    focus: str = ""  # what whoever asked for it wants kept above all
    facts: bool = True


class Digest(msgspec.Struct, frozen=True):
    """A passage in fewer words, and what it taught."""

    text: str
    facts: tuple[Fact, ...] = ()
    by: str = ""
    usage: Usage = Usage()
    cost: float = 0.0


class Summariser(Protocol):
    """Raises ProviderError or SummaryUnusable; whoever asked then does without."""

    async def summarise(self, passage: Passage, model: str) -> Digest:
        """`model` is the session's own; "" for the default."""
        ...


class Contributor(Protocol):
    """What joins a context from outside its conversation. Asked on the way of every turn, so it never waits."""

    tools: tuple[Tool, ...]

    def fixed(self, session: str) -> str:
        """For the fixed section: asked when a session begins, and again at a fold."""
        ...

    def errand(self, session: str) -> str:
        """For the fixed section of a sub-agent: rules that hold for everyone, and no more."""
        ...

    def brief(self, session: str) -> str:
        """For the fixed section of a small model, which reads slowly: what it cannot do without."""
        ...

    def profile(self, session: str) -> str:
        """For the profile section; changes only when what it says changes."""
        ...

    def turn(self, session: str, prompt: str) -> tuple[Text, ...]:
        """To be appended to this turn, after the person's words, each with its origin; mostly nothing."""
        ...


# --- the journal's keeper ------------------------------------------------------------------------


UNWEIGHED = (0, 0, "")  # messages from the first on, tokens, and by whose count; empty: no more than that by anyone's


class Standing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What is known of a session without reading its journal; written with every append."""

    key: str
    head: int = 0  # sequence of the last record
    fold: int = 0  # sequence of the last `Folded`, 0 for none
    floor: int = 0  # lowest sequence needed to go on: whatever waits, and the newest turn whole
    unfinished: bool = False  # a turn is open or an input waits
    status: Literal["active", "paused", "archived", "deleted"] = "active"
    turns: int = 0
    messages: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    calls: int = 0  # of tools that ran
    created: int = 0
    updated: int = 0
    title: str = ""
    parent: str = ""
    model: str = ""
    fixed: int = 0  # sequence of the record that holds the fixed section, 0 for none
    amended: int = 0  # and of the one that holds a newer one
    untrusted: bool = False  # content from outside has entered the conversation
    private: bool = False  # and something that nobody else should see
    approval: ApprovalAsked | None = None  # what its turn waits for
    errand: Spawned | None = None  # whose sub-agent it is
    person: str = ""  # who began it, of those who have a name; empty: the owner
    workspace: str = ""  # whose file it is in, for whoever is shown it; not kept
    profile: dict[str, str] = {}
    metadata: dict[str, str] = {}
    delivered: int = 0  # the last turn whose answer a chat platform was handed
    guested: int = 0  # sequence of the record that holds the tools of whoever asks, 0 for none
    weighed: tuple[int, int, str] = UNWEIGHED  # so much of the window was weighed, to spare whoever wakes it the work


class Once(msgspec.Struct, frozen=True):
    """Append this input only if its id is new to the session."""

    id: str
    digest: str


class Tail(msgspec.Struct, frozen=True):
    """The newest part of a session: enough to go on. `complete`: nothing older is left to see. `landmarks` are older
    records that still hold something: the fixed section."""

    standing: Standing
    records: list[Record]
    complete: bool
    landmarks: list[Record] = []


class Store(Protocol):
    """Keeps journals. What `append` returned is on disk; who appends names the sequence it expects."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...

    def append(
        self,
        standing: Standing,
        expected: int,
        events: Sequence[bytes],
        once: Once | None = None,
        *,
        synced: bool = True,
    ) -> Awaitable[None]:
        """Add events after `expected`; raises StaleWriter, DuplicateInput or another StoreError. What is not `synced`
        outlives the process, is read with the next append, and outlives the power from then on."""
        ...

    async def load(self, key: str, bytes_max: int) -> Tail | None:
        """All records after the last fold; without one the newest, about `bytes_max` but never above the floor."""
        ...

    async def read(self, key: str, after: int = 0, limit: int = 1000) -> list[Record]:
        """Records in order, a page at a time."""
        ...

    async def seen(self, key: str, id: str) -> tuple[int, str] | None:
        """Sequence and digest of the input that was accepted under this id."""
        ...

    async def unfinished(self) -> list[str]: ...
    async def sessions(self, *, limit: int = 100, offset: int = 0, include_deleted: bool = False) -> list[Standing]: ...
    async def get(self, key: str) -> Standing | None: ...

    async def fork(self, source: str, upto: int, standing: Standing, event: bytes) -> None:
        """Copy records 1..upto of `source` into a new session and append `event`."""
        ...

    async def blank(self, key: str, at: int) -> None:
        """Forget a session's contents in place; its sequence stays."""
        ...

    async def redact(self, key: str, seqs: Sequence[int]) -> None:
        """Forget what these records say, in place: they keep their shape. Folds that saw them are undone: each is
        blanked, and the session goes on from the newest one before them, or from its beginning."""
        ...

    async def unlearn(self, key: str, facts: Sequence[Fact]) -> None:
        """Take these facts out of the session's folds; nothing else of them changes."""
        ...

    async def keep(self, key: str, ref: str, body: str) -> None:
        """A value too large for the history, to be paged through; gone with its session."""
        ...

    async def kept(self, key: str, ref: str, offset: int, limit: int) -> tuple[str, int] | None:
        """A page of it, in characters, and how many it has in all."""
        ...

    async def heads(self) -> dict[str, int]:
        """The head of every session: what a follower compares its positions with."""
        ...


# --- what a turn is given ------------------------------------------------------------------------


class Scribe(Protocol):
    """A turn's way to its journal."""

    async def record(self, *events: Event) -> None:
        """Returns when these, and all noted before, are on disk."""
        ...

    def note(self, *events: Event, soon: bool = False) -> None:
        """Rides along with the next record; `soon` bounds how long it may wait for one."""
        ...


class Emit(Protocol):
    """Carries partial things to whoever watches; never blocks, never fails."""

    def __call__(self, event: Event) -> None: ...
    @property
    def wanted(self) -> bool: ...
