"""What the kernel asks of the world, as Protocols. Rooms implement them; `app` wires them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol

import msgspec

from mainstay.core.events import Event, ToolProgress
from mainstay.core.journal import Record
from mainstay.core.messages import FinishReason, Message, Usage

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
    """Something the model may call. `parse` raises `BadArguments`; `run` may raise anything."""

    name: str
    description: str
    schema: dict[str, Any]
    effect: Effect
    timeout_s: float | None
    untrusted: bool
    sink: bool | tuple[str, ...]
    capabilities: tuple[str, ...]

    def parse(self, input: str) -> Any: ...
    def run(self, arguments: Any, context: ToolContext) -> Awaitable[str]: ...
    def reconcile(self, arguments: Any, context: ToolContext) -> Awaitable[str | None]: ...


class ToolContext:
    """What a running call may know: who it is, whether it is still wanted, and how to report progress.

    `key` is the same whenever this very call is run again; hand it to services that de-duplicate.
    """

    __slots__ = ("_cancelled", "_emit", "_loop", "call_id", "session", "step", "turn")

    def __init__(self, session: str, turn: int, step: int, call_id: str, emit: Callable[[Event], None]) -> None:
        self.session = session
        self.turn = turn
        self.step = step
        self.call_id = call_id
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

    def progress(self, note: str, data: Any = None) -> None:
        """Shown to whoever watches; not kept."""
        event = ToolProgress(self.call_id, note, data, session=self.session, turn=self.turn, step=self.step)
        if asyncio._get_running_loop() is self._loop:
            self._emit(event)
        elif not self._loop.is_closed():  # from a tool's thread; watchers are only ever reached from the loop
            self._loop.call_soon_threadsafe(self._emit, event)


# --- models --------------------------------------------------------------------------------------


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is: sizes in tokens, prices in dollars per million tokens."""

    name: str
    window: int = 128_000
    output: int = 16_384
    images: bool = True
    thinking: bool = False
    price_prompt: float = 0.0
    price_completion: float = 0.0
    price_cached: float | None = None

    def cost(self, usage: Usage) -> float:
        cached = self.price_prompt if self.price_cached is None else self.price_cached
        fresh = usage.prompt - usage.cached
        total = fresh * self.price_prompt + usage.cached * cached + usage.completion * self.price_completion
        return total / 1_000_000


class Context(msgspec.Struct, frozen=True, gc=False):
    """What the model will see: fixed instructions, tools, and the history in order."""

    system: str
    messages: Sequence[Message]
    tools: tuple[Tool, ...] = ()


class Options(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How to ask this time. `notice` is told about waiting (a sentence, seconds)."""

    tool_choice: Literal["auto", "none"] = "auto"
    output_tokens: int | None = None
    turn: int = 0
    step: int = 0
    notice: Callable[[str, float], None] | None = None


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


# --- the journal's keeper ------------------------------------------------------------------------


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
    created: int = 0
    updated: int = 0
    title: str = ""
    parent: str = ""
    model: str = ""
    instructions: str = ""
    metadata: dict[str, str] = {}


class Once(msgspec.Struct, frozen=True):
    """Append this input only if its id is new to the session."""

    id: str
    digest: str


class Tail(msgspec.Struct, frozen=True):
    """The newest part of a session: enough to go on. `complete`: nothing older is left to see."""

    standing: Standing
    records: list[Record]
    complete: bool


class Store(Protocol):
    """Keeps journals. What `append` returned is on disk; who appends names the sequence it expects."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...

    def append(
        self, standing: Standing, expected: int, events: Sequence[bytes], once: Once | None = None
    ) -> Awaitable[None]:
        """Add events after `expected`; raises StaleWriter, DuplicateInput or another StoreError."""
        ...

    async def load(self, key: str, bytes_max: int) -> Tail | None:
        """The newest records after the last fold, about `bytes_max` of them but never above the floor."""
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
