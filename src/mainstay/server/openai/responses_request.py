"""Parses requests of the responses API, in which the client names a conversation or the response to continue."""

from __future__ import annotations

import msgspec

from mainstay.core.client_tools import ClientTool
from mainstay.core.json_types import JsonObject, JsonValue
from mainstay.core.messages import AnyPart, Text
from mainstay.server.openai.common_request import (
    ClientMessage,
    ClientToolCall,
    CompletionRequest,
    build_client_tool,
    build_tool_result,
    check_tool_choice,
    decode_image,
    decode_request,
    find_session_name,
    parse_parts,
    require_new_message,
    require_session_name,
)
from mainstay.server.openai.errors import OpenAIProblem

_IGNORED_ITEM_TYPES = ("reasoning",)  # item types that are ignored: the thinking of other models


class _ResponsesContentPart(msgspec.Struct, frozen=True):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None


class _ResponsesInputItem(msgspec.Struct, frozen=True):
    type: str = "message"
    role: str | None = None
    content: str | list[_ResponsesContentPart] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | list[_ResponsesContentPart] | None = None


class _ResponsesTool(msgspec.Struct, frozen=True):
    type: str
    name: str = ""
    description: str | None = None
    parameters: JsonObject | None = None


class _ResponsesConversation(msgspec.Struct, frozen=True):
    id: str


class _ResponsesTextFormat(msgspec.Struct, frozen=True):
    type: str = "text"


class _ResponsesTextOptions(msgspec.Struct, frozen=True):
    format: _ResponsesTextFormat | None = None


class ResponsesRequest(msgspec.Struct, frozen=True):
    model: str
    input: str | list[_ResponsesInputItem]
    instructions: str | None = None
    conversation: str | _ResponsesConversation | None = None
    previous_response_id: str | None = None
    stream: bool | None = None
    background: bool | None = None
    tools: list[_ResponsesTool] | None = None
    tool_choice: JsonValue = None
    text: _ResponsesTextOptions | None = None
    user: str | None = None
    session_id: str | None = None
    metadata: dict[str, str] | None = None
    prompt: JsonValue = None
    top_logprobs: int | None = None


def parse_responses_request(body: bytes) -> CompletionRequest:
    """Parse a request body. Raises OpenAIProblem."""
    request = decode_request(body, ResponsesRequest)
    _check_supported(request)
    items = (
        [_ResponsesInputItem(role="user", content=request.input)] if isinstance(request.input, str) else request.input
    )
    messages: list[ClientMessage] = []
    system = [request.instructions] if request.instructions else []
    for number, item in enumerate(items):
        param = f"input[{number}]"
        if item.type == "message" and item.role in ("system", "developer"):
            system.append(_parse_text(item.content, f"{param}.content"))
        elif item.type not in _IGNORED_ITEM_TYPES:
            messages.append(_parse_item(item, param))
    previous = request.previous_response_id or ""
    completion = CompletionRequest(
        model=request.model,
        messages=tuple(messages),
        system="\n\n".join(filter(None, system)),
        tools=_parse_tools(request),
        session=_session_name(request),
        previous_response_id=previous,
        stream=bool(request.stream),
        background=bool(request.background),
        metadata=request.metadata or {},
    )
    return require_new_message(completion, "input")


def _check_supported(request: ResponsesRequest) -> None:
    if request.conversation is not None and request.previous_response_id:
        raise OpenAIProblem("give a conversation or a previous_response_id, not both", "conversation")
    options = request.text
    if options is not None and options.format is not None and options.format.type != "text":
        raise OpenAIProblem("text.format must be 'text': an agent's answer has no schema", "text.format")
    if request.prompt is not None:
        raise OpenAIProblem("stored prompts are not supported: use instructions or input", "prompt")
    if request.top_logprobs:
        raise OpenAIProblem("logprobs are not supported", "top_logprobs")


def _session_name(request: ResponsesRequest) -> str:
    match request.conversation:
        case str(name) | _ResponsesConversation(id=name):
            return require_session_name(name, "conversation")
    if request.previous_response_id:
        return ""
    named = {"metadata.session": (request.metadata or {}).get("session"), "session_id": request.session_id}
    return find_session_name(named, request.user)


def _parse_item(item: _ResponsesInputItem, param: str) -> ClientMessage:
    match item:
        case _ResponsesInputItem(type="message", role="user", content=content):
            return ClientMessage(role="user", parts=parse_parts(content, _parse_part, f"{param}.content"))
        case _ResponsesInputItem(type="message", role="assistant", content=content):
            return ClientMessage(role="assistant", parts=parse_parts(content, _parse_part, f"{param}.content"))
        case _ResponsesInputItem(type="function_call", call_id=str(id), name=name, arguments=arguments):
            return ClientMessage(role="assistant", calls=(ClientToolCall(id, name or "", arguments or "{}"),))
        case _ResponsesInputItem(type="function_call_output", call_id=str(id), output=output):
            return build_tool_result(id, parse_parts(output, _parse_part, f"{param}.output"), f"{param}.output")
        case _ResponsesInputItem(type="message"):
            raise OpenAIProblem("the role must be system, developer, user or assistant", f"{param}.role")
        case _ResponsesInputItem(type="function_call" | "function_call_output"):
            raise OpenAIProblem("a function call needs a call_id", f"{param}.call_id")
    raise OpenAIProblem(f"items of the type {item.type[:40]!r} are not supported", f"{param}.type")


def _parse_text(content: str | list[_ResponsesContentPart] | None, param: str) -> str:
    return "\n".join(part.text for part in parse_parts(content, _parse_part, param) if isinstance(part, Text))


def _parse_part(part: _ResponsesContentPart, param: str) -> AnyPart:
    match part:
        case _ResponsesContentPart(type="input_text" | "output_text" | "text", text=str(text)):
            return Text(text)
        case _ResponsesContentPart(type="refusal", refusal=str(text)):
            return Text(text)
        case _ResponsesContentPart(type="input_image", image_url=str(url)):
            return decode_image(url, f"{param}.image_url")
    raise OpenAIProblem(f"content must be text or images, not {part.type[:40]!r}", param)


def _parse_tools(request: ResponsesRequest) -> tuple[ClientTool, ...]:
    tools: list[ClientTool] = []
    for number, tool in enumerate(request.tools or ()):
        if tool.type != "function":
            raise OpenAIProblem("only tools of the type 'function' are supported", f"tools[{number}].type")
        tools.append(build_client_tool(tool.name, tool.description, tool.parameters, f"tools[{number}].name"))
    return tuple(tools) if check_tool_choice(request.tool_choice) else ()
