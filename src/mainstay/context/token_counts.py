"""Token counts of a whole request: texts, calls with arguments, results, tool schemas, and the overhead of each.

An upper bound costs next to nothing, because no text has more tokens than bytes. Only if the bound exceeds the budget
are tokens counted, and each message is counted once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import cast

import msgspec

from mainstay.context.tokenizers import IMAGE_TOKENS, IMAGE_TOKENS_MAX
from mainstay.core.messages import AnyPart, Binary, Finish, Message, Text, Thinking, ToolCall, ToolResult
from mainstay.core.ports import Tokenizer, Tool

MESSAGE_TOKENS = 4
NOTE_TOKENS = 20  # of a note of the runtime, with its mark
PART_TOKENS = 8  # ids and names around a call or a result
TOOL_TOKENS = 8
REQUEST_TOKENS = 16


def message_token_bound(message: Message) -> int:
    """Return an upper bound of a message's tokens, or their number if it was counted before."""
    if message.tokens >= 0:
        return message.tokens
    total = MESSAGE_TOKENS if message.role != "system" else NOTE_TOKENS
    for part in message.parts:
        kind = type(part)
        if kind is Text:  # by far the most frequent
            text = cast(Text, part).text
            total += PART_TOKENS + (len(text) if text.isascii() else len(text.encode(errors="replace")))
        elif kind is not Finish:
            total += PART_TOKENS + _utf8_bytes(_part_texts(part))
            if kind is Binary:
                total += IMAGE_TOKENS_MAX
    return total


def count_message_tokens(message: Message, tokenizer: Tokenizer) -> int:
    """Return a message's tokens, counted once and cached in it until `clear_token_counts` (for another tokenizer)."""
    if message.tokens < 0:
        overhead = MESSAGE_TOKENS if message.role != "system" else NOTE_TOKENS
        message.tokens = overhead + sum(count_part_tokens(part, tokenizer) for part in message.parts)
    return message.tokens


def clear_token_counts(messages: Iterable[Message]) -> None:
    for message in messages:
        message.tokens = -1


def count_part_tokens(part: AnyPart, tokenizer: Tokenizer) -> int:
    match part:
        case Text(text=text):
            return tokenizer.count(text) + 1
        case Thinking(text=text, signature=signature):
            return tokenizer.count(text) + (len(signature) + 2) // 3
        case ToolCall() | ToolResult():
            return PART_TOKENS + sum(tokenizer.count(text) for text in _part_texts(part))
        case Binary(mime=mime):
            image: int = getattr(tokenizer, "image_tokens", IMAGE_TOKENS)  # a user's own tokenizer may not have it
            return image if mime.startswith("image/") else PART_TOKENS + len(part.path)
    return 0


def _part_texts(part: AnyPart) -> tuple[str, ...]:
    match part:
        case Text(text=text):
            return (text,)
        case Thinking(text=text, signature=signature):
            return text, signature
        case ToolCall(name=name, input=input):
            return name, input
        case ToolResult(content=content):
            return (content,)
        case Binary(path=path):
            return (path,)
    return ()


def _utf8_bytes(texts: tuple[str, ...]) -> int:
    return sum(len(text) if text.isascii() else len(text.encode(errors="replace")) for text in texts)


def text_token_bound(text: str) -> int:
    return MESSAGE_TOKENS + (len(text) if text.isascii() else len(text.encode(errors="replace")))


def describe_tool(tool: Tool) -> str:
    """Return a tool's declaration as JSON, as a model reads it."""
    return msgspec.json.encode({"name": tool.name, "description": tool.description, "parameters": tool.schema}).decode()


@lru_cache(maxsize=64)
def tools_token_bound(tools: tuple[Tool, ...]) -> int:
    """Return an upper bound of the tokens of tool declarations."""
    return sum(TOOL_TOKENS + len(describe_tool(tool).encode()) for tool in tools)


@lru_cache(maxsize=64)
def count_tools_tokens(tools: tuple[Tool, ...], tokenizer: Tokenizer) -> int:
    return sum(TOOL_TOKENS + tokenizer.count(describe_tool(tool)) for tool in tools)
