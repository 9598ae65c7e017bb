"""Input envelopes: an input with its source, its session key, and the checks that it must pass."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from mainstay.core.chat_addresses import PlatformMessage, escape_part
from mainstay.core.errors import InputRefused
from mainstay.core.limits import Limits
from mainstay.core.memory_tiers import UNTRUSTED
from mainstay.core.messages import AnyPart, Binary, Text
from mainstay.core.surrogates import refuse_surrogates

_HOPS_PATTERN = re.compile(r" \[(\d{1,6})\](?: \(.*\))?\Z", re.DOTALL)
SessionKeyPolicy = Literal["thread", "user", "single"]
SINGLE_SESSION_KEY = "main"
# Origins of imported messages: it is unknown what the model had read, and the user's text was not typed here.
IMPORT_ORIGINS = {"assistant": f"{UNTRUSTED}:import", "user": "import"}
ATTACHMENT_ORIGIN = f"{UNTRUSTED}:attachment"  # origin of files in an input, unless the caller names another


class InputEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    """An input and its source. Without a channel, `thread` is the session key, chosen by the caller."""

    parts: tuple[AnyPart, ...]
    thread: str = ""
    room: str = ""
    channel: str = ""
    sender: str = ""
    id: str = ""  # chosen by the sender; each id is accepted once
    at: int = 0  # ms
    platform_message: PlatformMessage | None = None  # the platform's message, if it came from a chat platform
    shared: bool = False  # not only the sender reads the answer

    @property
    def digest(self) -> str:
        """Return a digest of the content and the sender, which tells a retry from another input with the same id."""
        return hashlib.sha256(msgspec.json.encode((self.parts, self.sender))).hexdigest()[:32]


def session_key(envelope: InputEnvelope, policy: SessionKeyPolicy) -> str:
    """Return the session that an input belongs to: one per thread, one per user, or a single one for all inputs."""
    match policy:
        case "single":
            return SINGLE_SESSION_KEY
        case "user":
            sender = escape_part(envelope.sender)
            return f"user:{escape_part(envelope.channel)}:{sender}" if envelope.channel else f"user:{sender}"
        case "thread":
            if not envelope.channel:  # the caller named the session itself
                return envelope.thread
            return ":".join(escape_part(part) for part in (envelope.channel, envelope.room, envelope.thread))


def agent_sender(session: str, person: str, hops: int = 1) -> str:
    """Return the sender name of a message from one agent to another: its session, the person it acts for, and the
    number of agents that have passed the request on."""
    return f"agent:{session} [{hops}] ({person})" if person else f"agent:{session} [{hops}]"


def count_hops(sender: str) -> int:
    """Return how many agents have passed this request on; 0 for a person's."""
    match = _HOPS_PATTERN.search(sender) if sender.startswith("agent:") else None
    return int(match[1]) if match else 0


def effective_sender(sender: str) -> str:
    """Return the sender whose permissions apply: an agent that acts for a person has that person's permissions."""
    if not sender.startswith("agent:") or not sender.endswith(")"):
        return sender
    return sender.rpartition(" (")[2].removesuffix(")")


def sender_person(sender: str) -> str:
    """Return the person behind a sender; empty: the owner, or an agent that acts for no person."""
    person = effective_sender(sender)
    return "" if person.startswith("agent:") else person


def to_parts(prompt: str | AnyPart | Sequence[str | AnyPart]) -> tuple[AnyPart, ...]:
    """Convert a prompt (text, a part, or several of them) to message parts; raises InputRefused."""
    items: Sequence[object] = list(prompt) if isinstance(prompt, list | tuple) else [prompt]
    parts: list[AnyPart] = []
    for item in items:
        if isinstance(item, str):
            parts.append(Text(item))
        elif isinstance(item, Text | Binary):
            parts.append(item)
        else:
            raise InputRefused(f"a prompt consists of text and files, not {type(item).__name__}")
    return tuple(parts)


def check_envelope(envelope: InputEnvelope, limits: Limits) -> InputEnvelope:
    """Return the envelope in a form that can be stored; raises InputRefused if it is empty or too large."""
    parts = check_input(envelope.parts, limits)
    return msgspec.structs.replace(
        envelope, parts=parts, id=_replace_surrogates(envelope.id), sender=_replace_surrogates(envelope.sender)
    )


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def check_input(parts: tuple[AnyPart, ...], limits: Limits) -> tuple[AnyPart, ...]:
    """Return the parts in a form that can be stored; raises InputRefused if they are empty or too large."""
    size = 0
    checked: list[AnyPart] = []
    for part in parts:
        if isinstance(part, Text):
            text = _replace_surrogates(part.text)
            size += len(text.encode())
            checked.append(part if text == part.text else Text(text, origin=part.origin))
        elif isinstance(part, Binary):
            if len(part.data) > limits.attachment_bytes_max:
                raise InputRefused(f"an attachment is larger than {limits.attachment_bytes_max} bytes")
            checked.append(part if part.origin else msgspec.structs.replace(part, origin=ATTACHMENT_ORIGIN))
    if size > limits.input_bytes_max:
        raise InputRefused(f"the message has {size} bytes; at most {limits.input_bytes_max} are accepted")
    if not any(isinstance(part, Binary) or (isinstance(part, Text) and part.text.strip()) for part in checked):
        raise InputRefused("the message is empty")
    return tuple(checked)


def check_session_name(name: str, limits: Limits) -> str:
    if not isinstance(name, str):
        raise InputRefused(f"a session's name must be text, not {type(name).__name__}")
    if not name or name != name.strip():
        raise InputRefused("a session's name must not be empty, nor begin or end with a space")
    refuse_surrogates(name, "the session's name")
    if len(name.encode()) > limits.session_name_bytes_max:
        raise InputRefused(f"a session's name must not be longer than {limits.session_name_bytes_max} bytes")
    if any(ord(char) < 32 for char in name):
        raise InputRefused("a session's name must not contain control characters")
    return name
