"""What comes in, from wherever, and which session it belongs to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from mainstay.core.addresses import Heard, plain
from mainstay.core.errors import InputRefused
from mainstay.core.limits import Limits
from mainstay.core.messages import AnyPart, Binary, Text
from mainstay.core.recall import UNTRUSTED

_HOPS = re.compile(r" \[(\d{1,6})\](?: \(.*\))?\Z", re.DOTALL)
KeyPolicy = Literal["thread", "user", "single"]
SINGLE = "main"
# of a conversation that was brought from elsewhere: what its model had read is unknown, and nobody said it here
IMPORTED = {"assistant": f"{UNTRUSTED}:import", "user": "import"}
ATTACHMENT = f"{UNTRUSTED}:attachment"  # of files in an input, unless whoever hands them over says where they are from


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """An input and where it came from. `thread` is a session key where the sender chose one itself."""

    parts: tuple[AnyPart, ...]
    thread: str = ""
    room: str = ""
    channel: str = ""
    sender: str = ""
    id: str = ""  # the sender's own; the same id is accepted once
    at: int = 0
    heard: Heard | None = None  # on a chat platform, as that tells it

    @property
    def digest(self) -> str:
        return hashlib.sha256(msgspec.json.encode((self.parts, self.sender))).hexdigest()[:32]


def session_key(envelope: Envelope, policy: KeyPolicy) -> str:
    """One lane per key: a conversation, a person, or one agent that hears everything."""
    match policy:
        case "single":
            return SINGLE
        case "user":
            sender = plain(envelope.sender)
            return f"user:{plain(envelope.channel)}:{sender}" if envelope.channel else f"user:{sender}"
        case "thread":
            if not envelope.channel:  # the caller named the session itself
                return envelope.thread
            return ":".join(plain(part) for part in (envelope.channel, envelope.room, envelope.thread))


def on_behalf(session: str, person: str, hops: int = 1) -> str:
    """How an agent that speaks to another is called there, whose errand it is on, and how many agents have passed it
    on since somebody spoke."""
    return f"agent:{session} [{hops}] ({person})" if person else f"agent:{session} [{hops}]"


def hops_of(sender: str) -> int:
    found = _HOPS.search(sender) if sender.startswith("agent:") else None
    return int(found[1]) if found else 0


def person_of(sender: str) -> str:
    """Whose rules hold for what a sender wants: an agent may do no more for somebody than they may themselves."""
    if not sender.startswith("agent:") or not sender.endswith(")"):
        return sender
    return sender.rpartition(" (")[2].removesuffix(")")


def named_in(sender: str) -> str:
    """The person among those who speak here; empty: the owner, or an agent that nobody sent."""
    person = person_of(sender)
    return "" if person.startswith("agent:") else person


def identity(envelope: Envelope) -> str:
    """An id for an input whose platform gave none: the same delivery twice has the same one."""
    if envelope.id:
        return envelope.id
    fields = (envelope.channel, envelope.room, envelope.thread, envelope.sender, envelope.at, envelope.digest)
    return "hash:" + hashlib.sha256(msgspec.json.encode(fields)).hexdigest()[:32]


def as_parts(prompt: str | AnyPart | Sequence[str | AnyPart]) -> tuple[AnyPart, ...]:
    """Text, an image, or several of them."""
    given: Sequence[Any] = list(prompt) if isinstance(prompt, list | tuple) else [prompt]
    parts: list[AnyPart] = []
    for one in given:
        if isinstance(one, str):
            parts.append(Text(one))
        elif isinstance(one, Text | Binary):
            parts.append(one)
        else:
            raise InputRefused(f"a prompt is made of text and files, not {type(one).__name__}")
    return tuple(parts)


def check_envelope(envelope: Envelope, limits: Limits) -> Envelope:
    """The same, fit to be kept; refuses what is empty or too large."""
    parts = check_input(envelope.parts, limits)
    return msgspec.structs.replace(envelope, parts=parts, id=_keepable(envelope.id), sender=_keepable(envelope.sender))


def _keepable(text: str) -> str:
    """Without half characters (lone surrogates)."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def check_input(parts: tuple[AnyPart, ...], limits: Limits) -> tuple[AnyPart, ...]:
    """Refuse what is empty or too large, in one sentence; text is made fit to be kept."""
    size = 0
    checked: list[AnyPart] = []
    for part in parts:
        if isinstance(part, Text):
            text = _keepable(part.text)
            size += len(text.encode())
            checked.append(part if text == part.text else Text(text, origin=part.origin))
        elif isinstance(part, Binary):
            if len(part.data) > limits.attachment_bytes_max:
                raise InputRefused(f"an attachment is over {limits.attachment_bytes_max} bytes")
            checked.append(part if part.origin else msgspec.structs.replace(part, origin=ATTACHMENT))
    if size > limits.input_bytes_max:
        raise InputRefused(f"the message has {size} bytes; at most {limits.input_bytes_max} are accepted")
    if not any(isinstance(part, Binary) or (isinstance(part, Text) and part.text.strip()) for part in checked):
        raise InputRefused("the message is empty")
    return tuple(checked)


def check_session_name(name: str, limits: Limits) -> str:
    if not isinstance(name, str):
        raise InputRefused(f"a session's name is text, not {type(name).__name__}")
    if not name or name != name.strip():
        raise InputRefused("a session's name must not be empty, nor begin or end with a space")
    if len(name.encode(errors="replace")) > limits.session_name_bytes_max:
        raise InputRefused(f"a session's name has at most {limits.session_name_bytes_max} bytes")
    if any(ord(char) < 32 or 0xD800 <= ord(char) <= 0xDFFF for char in name):
        raise InputRefused("a session's name must not hold control characters")
    return name
