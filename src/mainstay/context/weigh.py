"""What a request weighs, whole: texts, calls and their arguments, results, schemas, and the frame around each.

Two ways. A bound costs next to nothing: no text has more tokens than bytes. Only when the bound says that it might be
too much is anything counted, and each message is counted once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import cast

import msgspec

from mainstay.context.tokens import IMAGE_TOKENS, IMAGE_TOKENS_MAX
from mainstay.core.messages import AnyPart, Binary, Finish, Message, Text, Thinking, ToolCall, ToolResult
from mainstay.core.ports import Tokenizer, Tool

MESSAGE_TOKENS = 4
PART_TOKENS = 8  # ids and names around a call or a result
TOOL_TOKENS = 8
REQUEST_TOKENS = 16


def bound(message: Message) -> int:
    """Never less than it weighs."""
    if message.tokens >= 0:
        return message.tokens
    total = MESSAGE_TOKENS
    for part in message.parts:
        kind = type(part)
        if kind is Text:  # nearly all there is
            text = cast(Text, part).text
            total += PART_TOKENS + (len(text) if text.isascii() else len(text.encode(errors="replace")))
        elif kind is not Finish:
            total += PART_TOKENS + _bytes(_texts(part))
            if kind is Binary:
                total += IMAGE_TOKENS_MAX
    return total


def weigh(message: Message, tokenizer: Tokenizer) -> int:
    """Counted once; whoever changes tokenizers forgets the counts (`forget_weights`)."""
    if message.tokens < 0:
        message.tokens = MESSAGE_TOKENS + sum(weigh_part(part, tokenizer) for part in message.parts)
    return message.tokens


def forget_weights(messages: Iterable[Message]) -> None:
    for message in messages:
        message.tokens = -1


def weigh_part(part: AnyPart, tokenizer: Tokenizer) -> int:
    match part:
        case Text(text=text):
            return tokenizer.count(text) + 1
        case Thinking(text=text, signature=signature):
            return tokenizer.count(text) + (len(signature) + 2) // 3
        case ToolCall() | ToolResult():
            return PART_TOKENS + sum(tokenizer.count(text) for text in _texts(part))
        case Binary(mime=mime):
            image: int = getattr(tokenizer, "image", IMAGE_TOKENS)  # of somebody's own it is not known
            return image if mime.startswith("image/") else PART_TOKENS + len(part.path)
    return 0


def _texts(part: AnyPart) -> tuple[str, ...]:
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


def _bytes(texts: tuple[str, ...]) -> int:
    return sum(len(text) if text.isascii() else len(text.encode(errors="replace")) for text in texts)


def text_bound(text: str) -> int:
    return MESSAGE_TOKENS + (len(text) if text.isascii() else len(text.encode(errors="replace")))


def describe(tool: Tool) -> str:
    """A tool as a model is told of it."""
    return msgspec.json.encode({"name": tool.name, "description": tool.description, "parameters": tool.schema}).decode()


@lru_cache(maxsize=64)
def tools_bound(tools: tuple[Tool, ...]) -> int:
    """Never less than they weigh."""
    return sum(TOOL_TOKENS + len(describe(tool).encode()) for tool in tools)


@lru_cache(maxsize=64)
def weigh_tools(tools: tuple[Tool, ...], tokenizer: Tokenizer) -> int:
    return sum(TOOL_TOKENS + tokenizer.count(describe(tool)) for tool in tools)
