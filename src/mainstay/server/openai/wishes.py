"""What a client asks for, however it says so: one shape for both of its dialects."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, Literal, TypeVar

import msgspec

from mainstay.core.guests import GuestTool
from mainstay.core.messages import AnyPart, Binary, Text
from mainstay.server.openai.refusals import Refused

T = TypeVar("T")

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DATA = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,", re.ASCII)
_PLACE = re.compile(r" - at `\$\.?(?P<path>[^`]*)`\Z")


class CallSaid(msgspec.Struct, frozen=True):
    """A call of a client's tool, as the client tells it."""

    id: str
    name: str = ""
    arguments: str = "{}"


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the history that a client sends along."""

    role: Literal["user", "assistant", "tool"]
    parts: tuple[AnyPart, ...] = ()
    calls: tuple[CallSaid, ...] = ()  # of an assistant
    call_id: str = ""  # whose result it is

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """A request."""

    model: str
    messages: tuple[Said, ...]
    system: str = ""  # the client's own words to the agent
    tools: tuple[GuestTool, ...] = ()
    session: str = ""  # as the client calls it; empty: it sends its history instead
    previous: str = ""  # the response that this goes on from
    stream: bool = False
    usage: bool = False  # wanted at the end of a stream
    background: bool = False
    metadata: dict[str, str] = {}

    @property
    def history(self) -> tuple[Said, ...]:
        """What has been answered already."""
        return self.messages[: self._split]

    @property
    def news(self) -> tuple[Said, ...]:
        return self.messages[self._split :]

    @property
    def _split(self) -> int:
        answered = [number for number, one in enumerate(self.messages) if one.role == "assistant"]
        return answered[-1] + 1 if answered else 0


def checked(wish: Wish, param: str) -> Wish:
    if not wish.news:
        raise Refused("there is nothing to answer: the last word is a person's, or a tool's", param)
    return wish


def decode(body: bytes, kind: type[T]) -> T:
    """Fields that are not ours to heed (temperature, and the like) are passed over."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        sentence = str(error)
        found = _PLACE.search(sentence)
        if found is None:
            raise Refused(sentence) from None
        raise Refused(_told(sentence, found), found["path"] or None) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(f"the request is not JSON: {error}"[:300]) from None


def _told(sentence: str, found: re.Match[str]) -> str:
    said = sentence[: found.start()].replace("`", "'")
    return f"{found['path'] or 'the request'}: {said[:1].lower()}{said[1:]}"


def image_of(url: str, param: str) -> Binary:
    """Only what came along: the server fetches nothing that a client names."""
    head = _DATA.match(url)
    if head is None:
        raise Refused("images are taken as data: URLs (base64) only; nothing is fetched from elsewhere", param)
    if head[1].lower() not in IMAGES:
        raise Refused(f"an image is one of {', '.join(IMAGES)}, not {head[1][:60]!r}", param)
    try:
        data = base64.b64decode(url[head.end() :], validate=True)
    except (binascii.Error, ValueError):
        raise Refused("the image is not base64", param) from None
    if not data:
        raise Refused("the image is empty", param)
    return Binary(head[1].lower(), data)


def result_of(call_id: str, parts: tuple[AnyPart, ...], param: str) -> Said:
    if not all(isinstance(part, Text) for part in parts):
        raise Refused("the result of a call is text here", param)
    return Said(role="tool", call_id=call_id, parts=parts)


def tool_of(name: str, description: str | None, schema: dict[str, Any] | None, param: str) -> GuestTool:
    if not TOOL_NAME.fullmatch(name):
        raise Refused("a tool's name has 1 to 64 letters, digits, '_' and '-'", param)
    return GuestTool(name, description or "", schema or {})


def check_choice(choice: Any) -> bool:
    """Whether the client's tools are to be offered."""
    if choice in (None, "auto"):
        return True
    if choice == "none":
        return False
    raise Refused("tool_choice is 'auto' or 'none' here: the agent decides which tool to call", "tool_choice")


def digest_of(messages: Sequence[Said]) -> bytes:
    """Of a conversation as a client tells it. What the client says to the agent itself is left out: it may well
    change from one request to the next. Of a message with calls only those count: its text is often dropped."""
    made = hashlib.sha256()
    for one, after in zip_longest(messages, messages[1:]):
        if one.role == "assistant" and not one.calls and after is not None and after.calls:
            continue  # one dialect has the text of a message with calls as a message of its own
        calls = ",".join(call.id for call in one.calls)
        seen = f"{one.role}\0{one.call_id}\0{calls}\0{'' if calls else one.text.strip()}"
        made.update(hashlib.sha256(seen.encode(errors="replace")).digest())
        for part in one.parts:
            if isinstance(part, Binary):
                made.update(hashlib.sha256(part.data).digest())
    return made.digest()


def as_history(messages: Sequence[Said]) -> list[dict[str, Any]]:
    """For whoever keeps it."""
    told: list[dict[str, Any]] = []
    for one in messages:
        images = sum(isinstance(part, Binary) for part in one.parts)
        text = "\n".join(filter(None, (one.text, "[an image]" * images)))
        if one.role == "tool":
            told.append({"role": "tool", "tool_call_id": one.call_id, "content": text})
        elif text or one.calls:
            calls = [{"id": c.id, "function": {"name": c.name, "arguments": c.arguments}} for c in one.calls]
            told.append({"role": one.role, "content": text or None} | ({"tool_calls": calls} if calls else {}))
    return told
