"""The common form of chat completion and responses requests, and the parsing that both share."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Literal, TypeVar

import msgspec

from mainstay.core.client_tools import ClientTool
from mainstay.core.json_types import JsonObject, JsonValue
from mainstay.core.messages import AnyPart, Binary, Text
from mainstay.core.surrogates import describe_json_error
from mainstay.server.openai.errors import OpenAIProblem

PartT = TypeVar("PartT")
RequestT = TypeVar("RequestT")

IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
TOOL_NAME_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,", re.ASCII)
_ERROR_PATH = re.compile(r" - at `\$\.?(?P<path>[^`]*)`\Z")


class ClientToolCall(msgspec.Struct, frozen=True):
    """A tool call in the history that a client sends."""

    id: str
    name: str = ""
    arguments: str = "{}"


class ClientMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the history that a client sends."""

    role: Literal["user", "assistant", "tool"]
    parts: tuple[AnyPart, ...] = ()
    calls: tuple[ClientToolCall, ...] = ()  # of the assistant
    call_id: str = ""  # of a tool's result

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


class CompletionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of either API."""

    model: str
    messages: tuple[ClientMessage, ...]
    system: str = ""  # the client's system and developer messages
    tools: tuple[ClientTool, ...] = ()
    session: str = ""  # named by the client; empty: it sends its history instead
    previous_response_id: str = ""  # id of the response to continue
    stream: bool = False
    include_usage: bool = False  # token counts are wanted at the end of a stream
    background: bool = False
    metadata: dict[str, str] = {}

    @property
    def history(self) -> tuple[ClientMessage, ...]:
        """The messages up to the last answer."""
        return self.messages[: self._history_length]

    @property
    def new_messages(self) -> tuple[ClientMessage, ...]:
        """The messages after the last answer."""
        return self.messages[self._history_length :]

    @property
    def _history_length(self) -> int:
        answered = [number for number, message in enumerate(self.messages) if message.role == "assistant"]
        return answered[-1] + 1 if answered else 0


def find_session_name(named: Mapping[str, str | None], user: str | None) -> str:
    """Return the name that a client gave its session, by the parameter that it used; "" if it named none. Raises
    OpenAIProblem for an empty name."""
    for param, name in named.items():
        if name is not None:
            return require_session_name(name, param)
    return f"user-{user}" if user else ""


def require_session_name(name: str, param: str) -> str:
    if not name.strip():
        raise OpenAIProblem("a session's name must not be empty", param)
    return name


def require_new_message(completion: CompletionRequest, param: str) -> CompletionRequest:
    """Return the request. Raises OpenAIProblem if it has no new message."""
    if not completion.new_messages:
        raise OpenAIProblem("there is nothing to answer: the last message must be from the user or a tool", param)
    return completion


def decode_request(body: bytes, request_type: type[RequestT]) -> RequestT:
    """Decode a request body. Unknown fields (temperature and the like) are ignored. Raises OpenAIProblem."""
    try:
        return msgspec.json.decode(body, type=request_type)
    except msgspec.ValidationError as error:
        sentence = str(error)
        match = _ERROR_PATH.search(sentence)
        if match is None:
            raise OpenAIProblem(sentence) from None
        raise OpenAIProblem(_format_error(sentence, match), match["path"] or None) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise OpenAIProblem(f"the request is not valid JSON: {describe_json_error(body, error)}"[:300]) from None


def _format_error(sentence: str, path_match: re.Match[str]) -> str:
    """Rephrase a msgspec error: the path first."""
    reason = sentence[: path_match.start()].replace("`", "'")
    return f"{path_match['path'] or 'the request'}: {reason[:1].lower()}{reason[1:]}"


def parse_parts(
    content: str | list[PartT] | None, parse_part: Callable[[PartT, str], AnyPart], param: str
) -> tuple[AnyPart, ...]:
    """Parse the content of a message: a text, or a list of parts. `parse_part` gets a part and its path."""
    if isinstance(content, str):
        return (Text(content),) if content else ()
    return tuple(parse_part(part, f"{param}[{number}]") for number, part in enumerate(content or ()))


def decode_image(url: str, param: str) -> Binary:
    """Decode a data: URL. The server fetches no URLs for clients (SSRF). Raises OpenAIProblem."""
    head = _DATA_URL.match(url)
    if head is None:
        raise OpenAIProblem("send images as base64 data: URLs; other URLs are not fetched", param)
    if head[1].lower() not in IMAGE_TYPES:
        raise OpenAIProblem(f"the image type must be one of {', '.join(IMAGE_TYPES)}, not {head[1][:60]!r}", param)
    try:
        data = base64.b64decode(url[head.end() :], validate=True)
    except (binascii.Error, ValueError):
        raise OpenAIProblem("the image is not valid base64", param) from None
    if not data:
        raise OpenAIProblem("the image is empty", param)
    return Binary(head[1].lower(), data)


def build_tool_result(call_id: str, parts: tuple[AnyPart, ...], param: str) -> ClientMessage:
    if not all(isinstance(part, Text) for part in parts):
        raise OpenAIProblem("the result of a tool call must be text", param)
    return ClientMessage(role="tool", call_id=call_id, parts=parts)


def build_client_tool(name: str, description: str | None, schema: JsonObject | None, param: str) -> ClientTool:
    if not TOOL_NAME_PATTERN.fullmatch(name):
        raise OpenAIProblem("a tool's name must be 1 to 64 letters, digits, '_' or '-'", param)
    return ClientTool(name, description or "", schema or {})


def check_tool_choice(choice: JsonValue) -> bool:
    """Return True if the client's tools are to be offered. Raises OpenAIProblem."""
    if choice in (None, "auto"):
        return True
    if choice == "none":
        return False
    raise OpenAIProblem("tool_choice must be 'auto' or 'none': the agent decides which tool to call", "tool_choice")


def history_digest(messages: Sequence[ClientMessage]) -> bytes:
    """Return the digest of a conversation as a client sends it. System messages are not in it: they may change between
    requests. Of a message with tool calls only the calls count: clients often drop its text."""
    digest = hashlib.sha256()
    for message, following in zip_longest(messages, messages[1:]):
        if message.role == "assistant" and not message.calls and following is not None and following.calls:
            continue  # the responses API has the text of a message with calls as a message of its own
        calls = ",".join(call.id for call in message.calls)
        line = f"{message.role}\0{message.call_id}\0{calls}\0{'' if calls else message.text.strip()}"
        digest.update(hashlib.sha256(line.encode(errors="replace")).digest())
        for part in message.parts:
            if isinstance(part, Binary):
                digest.update(hashlib.sha256(part.data).digest())
    return digest.digest()


def to_import_history(messages: Sequence[ClientMessage]) -> list[JsonObject]:
    """Convert messages for `ImportHistory`."""
    history: list[JsonObject] = []
    for message in messages:
        images = sum(isinstance(part, Binary) for part in message.parts)
        text = "\n".join(filter(None, (message.text, "[an image]" * images)))
        if message.role == "tool":
            history.append({"role": "tool", "tool_call_id": message.call_id, "content": text})
        elif text or message.calls:
            entry: JsonObject = {"role": message.role, "content": text or None}
            if message.calls:
                entry["tool_calls"] = [
                    {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
                    for call in message.calls
                ]
            history.append(entry)
    return history
