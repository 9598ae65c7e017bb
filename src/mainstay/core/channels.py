"""Chat channels: the port that each platform implements, its messages, capabilities and errors, and the queue port."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

from mainstay.core.asgi import ASGIApp
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import InputRefused, MainstayError
from mainstay.core.rate_limits import bound_wait_s
from mainstay.core.tool_ports import RoomMessage

# --- errors --------------------------------------------------------------------------------------


class ChannelError(MainstayError):
    """A chat platform failed or refused a request."""


class DeliveryDeferred(ChannelError):
    """The message was certainly not sent; a retry may succeed, after `retry_after_s` if the platform names a delay."""

    def __init__(self, sentence: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(sentence)
        self.retry_after_s = bound_wait_s(retry_after_s)


class DeliveryUnknown(ChannelError):
    """The message may have been sent: the connection was lost after it was handed over."""


class DeliveryRejected(ChannelError):
    """The message was not sent and a retry cannot help: the room is gone, the bot was removed, a file is too large."""


# --- incoming messages ---------------------------------------------------------------------------


class IncomingFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file attached to an incoming message; `ChatChannel.download` fetches it."""

    ref: str  # its URL, or its id on the platform
    name: str = ""
    mime: str = ""
    size: int = 0  # bytes as the platform reports them; 0: unknown


class QuotedText(msgspec.Struct, frozen=True, omit_defaults=True):
    """Text in a message that its sender did not type: a forwarded or shared message, or a quote. It is untrusted."""

    text: str
    kind: Literal["forward", "share", "quote"]  # share: a shared message, link preview or other embedded content
    author: str = ""  # the author's name as the platform gives it; empty: unknown


class IncomingMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message as a platform delivers it. The gateway moves quoted lines (`> …`) from `text` to `quoted`."""

    id: str  # the platform's id, unique in its room
    address: ChatAddress
    user: str  # the sender's id on the platform
    name: str = ""  # the sender's display name
    text: str = ""  # what the sender typed, without a leading mention of the agent
    at: int = 0  # ms
    direct: bool = False  # sent in a direct conversation with the agent
    mentioned: bool = False  # it mentions the agent
    own: bool = False  # the agent itself sent it
    files: tuple[IncomingFile, ...] = ()
    quoted: tuple[QuotedText, ...] = ()  # what the sender forwards, shares or quotes

    @property
    def full_text(self) -> str:
        """Return the text and the quoted texts, for searches and comparisons. Only `text` is the sender's own."""
        return "\n".join(filter(None, (self.text, *(quoted.text for quoted in self.quoted))))


# Returns once the message is durable; if it raises, the channel delivers the message again later.
MessageHandler = Callable[[IncomingMessage], Awaitable[None]]


# --- the channel port ----------------------------------------------------------------------------


class ChannelCapabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a platform supports."""

    markup: Literal["markdown", "some", "plain"] = "plain"  # some: a format of its own that `format` converts to
    length_max: int = 4000  # maximal characters of one message
    edits: bool = False
    deletes: bool = False
    files: bool = False
    typing: bool = False
    threads: bool = False
    history: bool = False  # earlier messages of a thread can be fetched
    search: bool = False
    idempotency: Literal["key", "look", "none"] = "none"  # idempotency: posts take a key; can be searched for; neither
    idempotency_window_s: float = 0.0  # how long the platform remembers a key; 0: for ever
    edit_interval_s: float = 1.0  # shortest interval between two edits of a message
    file_bytes_max: int = 20 * 1024 * 1024


class SentMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Receipt of a posted message. `thread` is the thread for replies to it, if the platform has threads."""

    id: str
    thread: str = ""


class ChatChannel(Protocol):
    """Connection to a chat platform. Methods raise only `ChannelError`s and have timeouts of their own.

    An attribute `account` is optional: the name of the agent's account on the platform, shown by `channel test`.
    """

    name: str  # its name in the configuration: the first part of its sessions' keys
    kind: str  # slack, telegram, …

    @property
    def capabilities(self) -> ChannelCapabilities: ...
    @property
    def state(self) -> str:
        """Return "connected", or a few words for the operator about what is wrong."""
        ...

    async def start(self, on_message: MessageHandler) -> None:
        """Connect and pass every message to the handler, first those missed while offline if the platform keeps them.

        Returns when connected; raises ConfigError if a retry cannot help (a wrong token), else ChannelError: then the
        caller retries with backoff. A connection that is lost later is re-established by the channel itself, with
        backoff and without a limit on attempts. Works again after `close`: a channel is restarted if a task in one of
        its attributes, such as its receive loop, raises.
        """
        ...

    async def close(self) -> None: ...

    async def post(self, to: ChatAddress, text: str, *, key: str) -> SentMessage:
        """Post a message of at most `capabilities.length_max` characters, formatted by `format`.

        Without a thread it is posted to the room, where it begins a new thread. `key` is the idempotency key. Raises
        DeliveryDeferred (also before `start` and after `close`), DeliveryUnknown or DeliveryRejected.
        """
        ...

    async def find_posted(self, to: ChatAddress, key: str) -> SentMessage | None:
        """Return the message that was posted under this key; only called if `capabilities.idempotency` is "look"."""
        ...

    async def edit(self, to: ChatAddress, id: str, text: str) -> None: ...
    async def delete(self, to: ChatAddress, id: str) -> None: ...
    async def upload(self, to: ChatAddress, path: str, name: str, comment: str, *, key: str) -> SentMessage: ...
    async def show_typing(self, to: ChatAddress, note: str = "") -> None:
        """Show a typing indicator for a few seconds, with the note if the platform can show it. Never raises."""
        ...

    async def download(self, file: IncomingFile, target: str, bytes_max: int) -> str:
        """Download a file to the new path `target`; returns its MIME type.

        URLs in a message are untrusted: they are fetched with io/fetch, and the platform's token is sent only to the
        platform itself.
        """
        ...

    async def history(self, at: ChatAddress, after: int, limit: int) -> Sequence[IncomingMessage]:
        """Return a thread's messages since `after` (ms), oldest first; those of the agent are marked `own`. Without a
        thread: those of the room that are in none, or begin one."""
        ...

    async def search(self, at: ChatAddress, query: str, limit: int) -> Sequence[RoomMessage]:
        """Search the room; newest first."""
        ...

    def format(self, text: str) -> str:
        """Convert Markdown to the platform's markup."""
        ...

    def asgi_app(self) -> ASGIApp | None:
        """Return an ASGI application for the platform's callbacks, mounted at `/channels/NAME`; None: it has none."""
        ...


@runtime_checkable
class SupportsEphemeral(Protocol):
    """A channel that can post ephemeral messages: visible to one user only, and not to be found or edited later."""

    async def post_ephemeral(self, to: ChatAddress, user: str, text: str) -> SentMessage:
        """Post a message that only `user` (an id on the platform) sees."""
        ...


@runtime_checkable
class SupportsStreams(Protocol):
    """A channel whose platform has message streams: messages that grow by appended text until they are finished.

    Texts are Markdown, and always the whole text so far. `edit` and `delete` finish a stream first.
    """

    async def start_stream(self, to: ChatAddress, text: str, *, asker: str, key: str) -> SentMessage | None:
        """Start a stream for the user `asker` (an id on the platform; empty: unknown); None if this text cannot be
        streamed to that address: it is posted then. `key` is the idempotency key."""
        ...

    async def extend_stream(self, to: ChatAddress, id: str, text: str) -> bool:
        """Append what is new in the text. False if that is impossible, because the text begins differently or the
        stream has ended: the message is edited then."""
        ...

    async def finish_stream(self, to: ChatAddress, id: str, text: str) -> bool:
        """Append what is new in the text and finish the stream. False if that is impossible: it is edited then."""
        ...

    async def find_stream(self, to: ChatAddress, since: int) -> SentMessage | None:
        """Return the stream that was started since that time (ms) and never finished, after a lost connection or a
        crash."""
        ...


# --- the channel queue ---------------------------------------------------------------------------


class PendingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """An accepted message that waits for its files to be downloaded before it becomes a prompt."""

    id: str  # the envelope's: channel and message
    session: str
    person: str
    message: IncomingMessage
    at: int = 0  # ms


DeliveryState = Literal["pending", "sending", "sent", "unknown", "failed"]


class Delivery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"ephemeral_user": "alone"}):
    """A message to be posted on a chat platform. `key` is its idempotency key."""

    key: str
    to: ChatAddress
    ephemeral_user: str = (
        ""  # the platform's id of the only user who may see it (an ephemeral message); empty: everyone
    )
    session: str = ""  # the session that sends it
    turn: int = 0  # the turn that it answers; 0: sent by a tool, or a notice of the runtime
    text: str = ""
    files: tuple[tuple[str, str], ...] = ()  # path and name of each
    state: DeliveryState = "pending"
    part: int = 0  # how many of its messages and files have been posted
    ids: tuple[str, ...] = ()  # the platform's ids of what was posted
    draft: bool = False  # the first posted message is a draft that is still being edited
    attempts: int = 0
    next_at: int = 0  # ms: when to try again
    at: int = 0  # ms: when it was queued
    note: str = ""  # the last error
    attached: tuple[tuple[str, str], ...] = ()  # name and text of each text that is sent as a file, after the files
    opened: bool = False  # its first message began the thread of `to`


class ChannelQueue(Protocol):
    """Durable queues between chat platforms and sessions: messages that arrived, and deliveries to be posted.

    A change is on disk when the method returns.
    """

    async def add_pending(self, message: PendingMessage) -> bool:
        """Add an arrived message; returns False if its id is in the queue already."""
        ...

    async def list_pending(self) -> Sequence[PendingMessage]: ...
    async def remove_pending(self, id: str) -> None:
        """Remove a message that has become a prompt."""
        ...

    async def add_delivery(self, delivery: Delivery) -> Delivery:
        """Add a delivery and return it; if its key is known, return the stored one unchanged."""
        ...

    async def update_delivery(self, delivery: Delivery) -> None: ...
    async def find_delivery(self, key: str) -> Delivery | None: ...
    async def list_due(self) -> Sequence[Delivery]:
        """Return the deliveries that are not finished (sent, unknown or failed), oldest first."""
        ...

    async def list_recent(self, limit: int = 100) -> Sequence[Delivery]:
        """Return the newest deliveries, newest first."""
        ...

    async def prune(self, before_ms: int) -> None:
        """Remove finished deliveries that were queued before this time (ms)."""
        ...


def encode_queued(item: PendingMessage | Delivery) -> str:
    """Encode as JSON; raises InputRefused if a text contains lone surrogates."""
    try:
        return msgspec.json.encode(item).decode()
    except UnicodeEncodeError:
        raise InputRefused("this text cannot be stored: it contains half characters (lone surrogates)") from None
