"""Parses chat completion requests, in which the client sends the whole conversation every time."""

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
)
from mainstay.server.openai.errors import OpenAIProblem


class _ChatImageUrl(msgspec.Struct, frozen=True):
    url: str


class _ChatContentPart(msgspec.Struct, frozen=True):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: _ChatImageUrl | None = None


class _ChatFunctionCall(msgspec.Struct, frozen=True):
    name: str = ""
    arguments: str = "{}"


class _ChatMessageToolCall(msgspec.Struct, frozen=True):
    id: str
    function: _ChatFunctionCall | None = None


class _ChatMessage(msgspec.Struct, frozen=True):
    role: str
    content: str | list[_ChatContentPart] | None = None
    tool_calls: list[_ChatMessageToolCall] | None = None
    tool_call_id: str | None = None


class _ChatFunctionSpec(msgspec.Struct, frozen=True):
    name: str
    description: str | None = None
    parameters: JsonObject | None = None


class _ChatTool(msgspec.Struct, frozen=True):
    type: str = "function"
    function: _ChatFunctionSpec | None = None


class _ChatStreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class _ChatResponseFormat(msgspec.Struct, frozen=True):
    type: str = "text"


class ChatRequest(msgspec.Struct, frozen=True):
    model: str
    messages: list[_ChatMessage]
    stream: bool | None = None
    stream_options: _ChatStreamOptions | None = None
    tools: list[_ChatTool] | None = None
    tool_choice: JsonValue = None
    user: str | None = None
    session_id: str | None = None
    metadata: dict[str, str] | None = None
    response_format: _ChatResponseFormat | None = None
    n: int | None = None
    logprobs: bool | None = None
    modalities: list[str] | None = None
    audio: JsonValue = None
    functions: JsonValue = None
    web_search_options: JsonValue = None


def parse_chat_request(body: bytes) -> CompletionRequest:
    """Parse a request body. Raises OpenAIProblem."""
    request = decode_request(body, ChatRequest)
    _check_supported(request)
    metadata = request.metadata or {}
    named = {"metadata.session": metadata.get("session"), "session_id": request.session_id}
    numbered = list(enumerate(request.messages))
    conversation = [(number, message) for number, message in numbered if message.role not in ("system", "developer")]
    completion = CompletionRequest(
        model=request.model,
        messages=tuple(_parse_message(message, f"messages[{number}]") for number, message in conversation),
        system="\n\n".join(filter(None, (_system_text(message, number) for number, message in numbered))),
        tools=_parse_tools(request),
        session=find_session_name(named, request.user),
        stream=bool(request.stream),
        include_usage=bool(request.stream_options and request.stream_options.include_usage),
        metadata=metadata,
    )
    return require_new_message(completion, "messages")


def _check_supported(request: ChatRequest) -> None:
    if request.n not in (None, 1):
        raise OpenAIProblem("n must be 1: a request gets one answer", "n")
    if request.logprobs:
        raise OpenAIProblem("logprobs are not supported", "logprobs")
    if request.audio is not None or any(modality != "text" for modality in request.modalities or ()):
        raise OpenAIProblem("audio is not supported: answers are text", "modalities")
    if request.response_format is not None and request.response_format.type != "text":
        raise OpenAIProblem("response_format must be 'text': an agent's answer has no schema", "response_format")
    if request.functions:
        raise OpenAIProblem("functions are not supported: use tools", "functions")
    if request.web_search_options is not None:
        raise OpenAIProblem("web_search_options are not supported: the agent has its own tools", "web_search_options")


def _system_text(message: _ChatMessage, number: int) -> str:
    if message.role not in ("system", "developer"):
        return ""
    parts = parse_parts(message.content, _parse_part, f"messages[{number}].content")
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def _parse_message(message: _ChatMessage, param: str) -> ClientMessage:
    parts = parse_parts(message.content, _parse_part, f"{param}.content")
    match message:
        case _ChatMessage(role="user"):
            return ClientMessage(role="user", parts=parts)
        case _ChatMessage(role="assistant", tool_calls=calls):
            return ClientMessage(role="assistant", parts=parts, calls=tuple(_parse_call(call) for call in calls or ()))
        case _ChatMessage(role="tool", tool_call_id=str(id)):
            return build_tool_result(id, parts, f"{param}.content")
        case _ChatMessage(role="tool"):
            raise OpenAIProblem("a message of a tool needs a tool_call_id", f"{param}.tool_call_id")
    raise OpenAIProblem("the role must be system, developer, user, assistant or tool", f"{param}.role")


def _parse_call(call: _ChatMessageToolCall) -> ClientToolCall:
    function = call.function or _ChatFunctionCall()
    return ClientToolCall(call.id, function.name, function.arguments)


def _parse_part(part: _ChatContentPart, param: str) -> AnyPart:
    match part:
        case _ChatContentPart(type="text", text=str(text)):
            return Text(text)
        case _ChatContentPart(type="refusal", refusal=str(text)):
            return Text(text)
        case _ChatContentPart(type="image_url", image_url=_ChatImageUrl(url=url)):
            return decode_image(url, f"{param}.image_url.url")
    raise OpenAIProblem(f"content must be text or images, not {part.type[:40]!r}", param)


def _parse_tools(request: ChatRequest) -> tuple[ClientTool, ...]:
    tools: list[ClientTool] = []
    for number, tool in enumerate(request.tools or ()):
        function = tool.function
        if tool.type != "function" or function is None:
            raise OpenAIProblem("only tools of the type 'function' are supported", f"tools[{number}].type")
        tools.append(
            build_client_tool(
                function.name, function.description, function.parameters, f"tools[{number}].function.name"
            )
        )
    return tuple(tools) if check_tool_choice(request.tool_choice) else ()
