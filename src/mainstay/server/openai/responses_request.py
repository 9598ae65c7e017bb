"""A request of the newer dialect: the client names the response that it goes on from, or a conversation."""

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

_PASSED_OVER = ("reasoning",)  # what other models think is nothing to ours


class _Part(msgspec.Struct, frozen=True):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None


class _Item(msgspec.Struct, frozen=True):
    type: str = "message"
    role: str | None = None
    content: str | list[_Part] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | list[_Part] | None = None


class _Tool(msgspec.Struct, frozen=True):
    type: str
    name: str = ""
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Conversation(msgspec.Struct, frozen=True):
    id: str


class _Format(msgspec.Struct, frozen=True):
    type: str = "text"


class _TextOptions(msgspec.Struct, frozen=True):
    format: _Format | None = None


class ResponsesRequest(msgspec.Struct, frozen=True):
    model: str
    input: str | list[_Item]
    instructions: str | None = None
    conversation: str | _Conversation | None = None
    previous_response_id: str | None = None
    stream: bool | None = None
    background: bool | None = None
    tools: list[_Tool] | None = None
    tool_choice: Any = None
    text: _TextOptions | None = None
    user: str | None = None
    session_id: str | None = None
    metadata: dict[str, str] | None = None
    prompt: Any = None
    top_logprobs: int | None = None


def responses_wish(body: bytes) -> Wish:
    request = decode(body, ResponsesRequest)
    _check(request)
    items = [_Item(role="user", content=request.input)] if isinstance(request.input, str) else request.input
    messages: list[Said] = []
    system = [request.instructions] if request.instructions else []
    for number, item in enumerate(items):
        param = f"input[{number}]"
        if item.type == "message" and item.role in ("system", "developer"):
            system.append(_text(item.content, f"{param}.content"))
        elif item.type not in _PASSED_OVER:
            messages.append(_said(item, param))
    previous = request.previous_response_id or ""
    wish = Wish(
        model=request.model,
        messages=tuple(messages),
        system="\n\n".join(filter(None, system)),
        tools=_tools(request),
        session=_session(request),
        previous=previous,
        stream=bool(request.stream),
        background=bool(request.background),
        metadata=request.metadata or {},
    )
    return checked(wish, "input")


def _check(request: ResponsesRequest) -> None:
    if request.conversation is not None and request.previous_response_id:
        raise Refused("a response goes on from a conversation or from another response, not both", "conversation")
    told = request.text
    if told is not None and told.format is not None and told.format.type != "text":
        raise Refused("text.format is 'text' here: an agent's answer has no schema", "text.format")
    if request.prompt is not None:
        raise Refused("prompts are not kept here: say it in instructions or input", "prompt")
    if request.top_logprobs:
        raise Refused("logprobs cannot be had here", "top_logprobs")


def _session(request: ResponsesRequest) -> str:
    match request.conversation:
        case str(name):
            return name
        case _Conversation(id=name):
            return name
    if request.previous_response_id:
        return ""
    named = (request.metadata or {}).get("session") or request.session_id
    return named or (f"user-{request.user}" if request.user else "")


def _said(item: _Item, param: str) -> Said:
    match item:
        case _Item(type="message", role="user", content=content):
            return Said(role="user", parts=_parts(content, f"{param}.content"))
        case _Item(type="message", role="assistant", content=content):
            return Said(role="assistant", parts=_parts(content, f"{param}.content"))
        case _Item(type="function_call", call_id=str(id), name=name, arguments=arguments):
            return Said(role="assistant", calls=(CallSaid(id, name or "", arguments or "{}"),))
        case _Item(type="function_call_output", call_id=str(id), output=output):
            return result_of(id, _parts(output, f"{param}.output"), f"{param}.output")
        case _Item(type="message"):
            raise Refused("a role is system, developer, user or assistant", f"{param}.role")
        case _Item(type="function_call" | "function_call_output"):
            raise Refused("a call is known by its call_id", f"{param}.call_id")
    raise Refused(f"items of the type {item.type[:40]!r} are not taken here", f"{param}.type")


def _text(content: str | list[_Part] | None, param: str) -> str:
    return "\n".join(part.text for part in _parts(content, param) if isinstance(part, Text))


def _parts(content: str | list[_Part] | None, param: str) -> tuple[AnyPart, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    return tuple(_part(one, f"{param}[{number}]") for number, one in enumerate(content or ()))


def _part(part: _Part, param: str) -> AnyPart:
    match part:
        case _Part(type="input_text" | "output_text" | "text", text=str(text)):
            return Text(text)
        case _Part(type="refusal", refusal=str(text)):
            return Text(text)
        case _Part(type="input_image", image_url=str(url)):
            return image_of(url, f"{param}.image_url")
    raise Refused(f"content is text and images here, not {part.type[:40]!r}", param)


def _tools(request: ResponsesRequest) -> tuple[GuestTool, ...]:
    made: list[GuestTool] = []
    for number, one in enumerate(request.tools or ()):
        if one.type != "function":
            raise Refused("a client's tools are functions here", f"tools[{number}].type")
        made.append(tool_of(one.name, one.description, one.parameters, f"tools[{number}].name"))
    return tuple(made) if check_choice(request.tool_choice) else ()
