"""Chat platforms: what comes from them, what goes to them, and what each can show."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from mainstay.core.addresses import Address
from mainstay.core.errors import MainstayError
from mainstay.core.outside import Said

# --- what can be wrong ---------------------------------------------------------------------------


class ChannelError(MainstayError):
    """Something is wrong with a platform."""


class NotSent(ChannelError):
    """It was certainly not sent, and may be if it is tried again: after so many seconds, where the platform says."""

    def __init__(self, sentence: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(sentence)
        self.retry_after_s = retry_after_s


class MaybeSent(ChannelError):
    """Nobody knows: the connection was lost after it was handed over."""


class NeverSent(ChannelError):
    """It was not sent and never will be: the room is gone, the bot was thrown out, a file is too large."""


# --- what comes in -------------------------------------------------------------------------------


class Attached(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that came with a message, to be fetched by whoever knows the platform."""

    ref: str  # its address, or its id on the platform
    name: str = ""
    mime: str = ""
    size: int = 0  # as the platform says; 0: unknown


class Incoming(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message as a platform tells it."""

    id: str  # the platform's own, unique in its room
    address: Address
    user: str  # the platform's id of who said it
    name: str = ""  # and how it calls them
    text: str = ""  # as written, without the mention of us at its beginning
    at: int = 0  # ms
    direct: bool = False  # only the two of us are there
    mentioned: bool = False  # it names us
    own: bool = False  # we said it
    files: tuple[Attached, ...] = ()


Hear = Callable[[Incoming], Awaitable[None]]  # returns once that is durable; raises: tell me again later


# --- what can be shown ---------------------------------------------------------------------------


class Shows(msgspec.Struct, frozen=True, kw_only=True):
    """What a platform can do."""

    markup: Literal["markdown", "some", "plain"] = "plain"  # some: its own kind, which ours is turned into
    length: int = 4000  # characters of one message
    edits: bool = False
    deletes: bool = False
    files: bool = False
    typing: bool = False
    threads: bool = False
    history: bool = False  # what was said in a thread can be fetched
    search: bool = False
    once: Literal["key", "look", "none"] = "none"  # the same key is posted once; it can be looked for; neither
    once_s: float = 0.0  # how long the platform remembers a key; 0: always
    edit_every_s: float = 1.0  # at most so often
    file_bytes_max: int = 20 * 1024 * 1024


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A receipt. `thread` is where answers to it belong, where the platform has threads."""

    id: str
    thread: str = ""


class ChatChannel(Protocol):
    """A chat platform. Its methods raise `ChannelError`s and nothing else; each is bounded in time."""

    name: str  # as it is configured: the first part of its sessions' keys
    kind: str  # slack, telegram, …

    @property
    def shows(self) -> Shows: ...
    @property
    def state(self) -> str:
        """ "connected", or in a few words what is wrong; for people."""
        ...

    async def start(self, hear: Hear) -> None:
        """Begin to listen; what was said while nobody did comes first where the platform keeps it. Returns when it is
        connected; raises ConfigError if it never will be (a wrong token). A connection that is lost later is made
        again with a growing wait, for as long as it takes."""
        ...

    async def close(self) -> None: ...

    async def post(self, to: Address, text: str, *, key: str) -> Sent:
        """A message of at most `shows.length` characters, as `format` made it. An empty thread: the room itself, where
        it begins a thread of its own. The same key is the same message."""
        ...

    async def find(self, to: Address, key: str) -> Sent | None:
        """The message that was posted under this key, where `shows.once` is "look"; else nobody asks."""
        ...

    async def edit(self, to: Address, id: str, text: str) -> None: ...
    async def delete(self, to: Address, id: str) -> None: ...
    async def upload(self, to: Address, path: str, name: str, comment: str, *, key: str) -> Sent: ...
    async def typing(self, to: Address, note: str = "") -> None:
        """Busy, and with what, as far as it can be shown; for a few seconds. Never raises."""
        ...

    async def download(self, file: Attached, target: str, bytes_max: int) -> str:
        """Its content into a new file of this name; returns its type. Addresses that a message names are somebody
        else's word: they are fetched as such (edges/fetch), with the platform's token only to the platform itself."""
        ...

    async def history(self, at: Address, after: int, limit: int) -> Sequence[Incoming]:
        """What was said in a thread since (ms), the oldest first; our own among it, marked so."""
        ...

    async def search(self, at: Address, query: str, limit: int) -> Sequence[Said]:
        """In the room, the newest first."""
        ...

    def format(self, text: str) -> str:
        """Markdown as the platform takes it."""
        ...

    def app(self) -> Any:
        """An ASGI application for what the platform posts to us, mounted at `/channels/NAME`; None: it does not."""
        ...


@runtime_checkable
class Whispers(Protocol):
    """A channel that can also say something in a room for one person's eyes alone. Nobody finds or edits it later."""

    async def whisper(self, to: Address, user: str, text: str) -> Sent:
        """Like `post`; `user` is the platform's id of whoever is to see it."""
        ...


# --- what is kept of it --------------------------------------------------------------------------


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was taken in and waits for its files before it becomes a prompt."""

    id: str  # the envelope's: channel and message
    session: str
    person: str
    message: Incoming
    at: int = 0  # ms


DeliveryState = Literal["pending", "sending", "sent", "unknown", "failed"]


class Delivery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something to be posted. Under the same key it is there once."""

    key: str
    to: Address
    alone: str = ""  # the platform's id of the one person who is to see it, where that can be
    session: str = ""  # whose it is
    turn: int = 0  # whose answer it is; 0: a tool sent it, or the runtime says something
    text: str = ""
    files: tuple[tuple[str, str], ...] = ()  # path, and name
    state: DeliveryState = "pending"
    part: int = 0  # so many of its messages and files have been posted
    ids: tuple[str, ...] = ()  # of what was posted
    draft: bool = False  # the first of those is still being written
    attempts: int = 0
    next_at: int = 0  # ms
    at: int = 0  # ms: when it was put here
    note: str = ""  # what is wrong


class Mail(Protocol):
    """Keeps what has arrived and what is to be delivered. What returned is on disk."""

    async def arrive(self, arrival: Arrival) -> bool:
        """False if it was there before."""
        ...

    async def arrivals(self) -> Sequence[Arrival]: ...
    async def arrived(self, id: str) -> None:
        """It has become a prompt."""
        ...

    async def put(self, delivery: Delivery) -> Delivery:
        """As it is kept: as it was before, if the key was there."""
        ...

    async def update(self, delivery: Delivery) -> None: ...
    async def find(self, key: str) -> Delivery | None: ...
    async def due(self) -> Sequence[Delivery]:
        """Those that are neither sent, unknown nor failed, the oldest first."""
        ...

    async def recent(self, limit: int = 100) -> Sequence[Delivery]:
        """The newest first, for people."""
        ...

    async def prune(self, before: int) -> None:
        """Forget what was finished by then (ms)."""
        ...
