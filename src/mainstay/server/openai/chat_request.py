"""A request of the older dialect: the client sends the whole conversation every time."""

from __future__ import annotations

from typing import Any

import msgspec

from mainstay.core.guests import GuestTool
from mainstay.core.messages import AnyPart, Text
from mainstay.server.openai.refusals import Refused
from mainstay.server.openai.wishes import (
    CallSaid,
    Said,
    Wish,
    check_choice,
    checked,
    decode,
    image_of,
    result_of,
    tool_of,
)


class _ImageUrl(msgspec.Struct, frozen=True):
    url: str


class _Part(msgspec.Struct, frozen=True):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: _ImageUrl | None = None


class _Function(msgspec.Struct, frozen=True):
    name: str = ""
    arguments: str = "{}"


class _Call(msgspec.Struct, frozen=True):
    id: str
    function: _Function | None = None


class _Message(msgspec.Struct, frozen=True):
    role: str
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None


class _Declared(msgspec.Struct, frozen=True):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Tool(msgspec.Struct, frozen=True):
    type: str = "function"
    function: _Declared | None = None


class _StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class _Format(msgspec.Struct, frozen=True):
    type: str = "text"


class ChatRequest(msgspec.Struct, frozen=True):
    model: str
    messages: list[_Message]
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    tools: list[_Tool] | None = None
    tool_choice: Any = None
    user: str | None = None
    session_id: str | None = None
    metadata: dict[str, str] | None = None
    response_format: _Format | None = None
    n: int | None = None
    logprobs: bool | None = None
    modalities: list[str] | None = None
    audio: Any = None
    functions: Any = None
    web_search_options: Any = None


def chat_wish(body: bytes) -> Wish:
    request = decode(body, ChatRequest)
    _check(request)
    metadata = request.metadata or {}
    session = metadata.get("session") or request.session_id or (f"user-{request.user}" if request.user else "")
    spoken = [(number, one) for number, one in enumerate(request.messages) if one.role not in ("system", "developer")]
    wish = Wish(
        model=request.model,
        messages=tuple(_said(one, f"messages[{number}]") for number, one in spoken),
        system="\n\n".join(filter(None, (_system(one, number) for number, one in enumerate(request.messages)))),
        tools=_tools(request),
        session=session,
        stream=bool(request.stream),
        usage=bool(request.stream_options and request.stream_options.include_usage),
        metadata=metadata,
    )
    return checked(wish, "messages")


def _check(request: ChatRequest) -> None:
    if request.n not in (None, 1):
        raise Refused("one answer is given to a request: n is 1", "n")
    if request.logprobs:
        raise Refused("logprobs cannot be had here", "logprobs")
    if request.audio is not None or any(one != "text" for one in request.modalities or ()):
        raise Refused("answers are text: audio cannot be had here", "modalities")
    if request.response_format is not None and request.response_format.type != "text":
        raise Refused("response_format is 'text' here: an agent's answer has no schema", "response_format")
    if request.functions:
        raise Refused("functions are offered as tools here", "functions")
    if request.web_search_options is not None:
        raise Refused("which tools of its own the agent has is not for a request to say", "web_search_options")


def _system(message: _Message, number: int) -> str:
    if message.role not in ("system", "developer"):
        return ""
    parts = _parts(message.content, f"messages[{number}].content")
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def _said(message: _Message, param: str) -> Said:
    parts = _parts(message.content, f"{param}.content")
    match message:
        case _Message(role="user"):
            return Said(role="user", parts=parts)
        case _Message(role="assistant", tool_calls=calls):
            return Said(role="assistant", parts=parts, calls=tuple(_call(one) for one in calls or ()))
        case _Message(role="tool", tool_call_id=str(id)):
            return result_of(id, parts, f"{param}.content")
        case _Message(role="tool"):
            raise Refused("a tool's message says whose result it is", f"{param}.tool_call_id")
    raise Refused("a role is system, developer, user, assistant or tool", f"{param}.role")


def _call(call: _Call) -> CallSaid:
    function = call.function or _Function()
    return CallSaid(call.id, function.name, function.arguments)


def _parts(content: str | list[_Part] | None, param: str) -> tuple[AnyPart, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    return tuple(_part(one, f"{param}[{number}]") for number, one in enumerate(content or ()))


def _part(part: _Part, param: str) -> AnyPart:
    match part:
        case _Part(type="text", text=str(text)):
            return Text(text)
        case _Part(type="refusal", refusal=str(text)):
            return Text(text)
        case _Part(type="image_url", image_url=_ImageUrl(url=url)):
            return image_of(url, f"{param}.image_url.url")
    raise Refused(f"content is text and images here, not {part.type[:40]!r}", param)


def _tools(request: ChatRequest) -> tuple[GuestTool, ...]:
    made: list[GuestTool] = []
    for number, one in enumerate(request.tools or ()):
        if one.type != "function" or one.function is None:
            raise Refused("a client's tools are functions here", f"tools[{number}].type")
        told = one.function
        made.append(tool_of(told.name, told.description, told.parameters, f"tools[{number}].function.name"))
    return tuple(made) if check_choice(request.tool_choice) else ()
