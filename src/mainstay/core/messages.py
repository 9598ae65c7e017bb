"""What people, models and tools say to each other: messages and their parts.

None of these can be part of a cycle, so the garbage collector is spared looking at them (`gc=False`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

import msgspec

Role = Literal["user", "assistant", "tool", "system"]


class Part(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag=str.lower, kw_only=True, gc=False):
    """A piece of a message. `origin` says who wrote it when that is not who the role implies."""

    origin: str = ""


class Text(Part, frozen=True, omit_defaults=True, tag="text", kw_only=False):
    text: str


class Thinking(Part, frozen=True, omit_defaults=True, tag="thinking", kw_only=False):
    """The model's reasoning. `signature` is what some providers want back to accept it again."""

    text: str
    signature: str = ""


class ToolCall(Part, frozen=True, omit_defaults=True, tag="tool_call", kw_only=False):
    """What the model asked for. `input` is its JSON text as it came, valid or not."""

    id: str
    name: str
    input: str
    finished: bool = True


class ToolResult(Part, frozen=True, omit_defaults=True, tag="tool_result", kw_only=False):
    """The one answer a call gets, whatever happened to it. `mark` is the delimiter that nobody can guess of the block
    in which the model is shown content from outside."""

    call_id: str
    name: str
    content: str
    is_error: bool = False
    mark: str = ""

    @property
    def shown(self) -> str:
        """As the model sees it."""
        if not self.mark:
            return self.content
        content = self.content.replace(self.mark, "…")  # nobody can know it; should one, it ends nothing
        return f"<data {self.mark} from {self.name}>\n{content}\n</data {self.mark}>"


class Binary(Part, frozen=True, omit_defaults=True, tag="binary", kw_only=False):
    """An image or a file: its bytes, or the path where they are kept."""

    mime: str
    data: bytes = b""
    path: str = ""


class FinishReason(StrEnum):
    END = "end"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    FILTERED = "filtered"
    ABORTED = "aborted"
    STEERED = "steered"


class Finish(Part, frozen=True, omit_defaults=True, tag="finish", kw_only=False):
    """How the model's message ended; when, is the time of the record that holds it."""

    reason: FinishReason


AnyPart = Text | Thinking | ToolCall | ToolResult | Binary | Finish


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Tokens of one or more model calls. Cached, written (to the provider's cache) and reasoning tokens are parts of
    the other two."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    reasoning: int = 0
    written: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt + other.prompt,
            self.completion + other.completion,
            self.cached + other.cached,
            self.reasoning + other.reasoning,
            self.written + other.written,
        )


class Message(msgspec.Struct, eq=False, gc=False):
    """One entry of a session's history: a view of the record that holds it, never stored itself.

    `wire` and `tokens` are caches: what a provider made of this message, and how much it weighs.
    """

    id: int
    role: Role
    parts: tuple[AnyPart, ...]
    at: int = 0
    model: str = ""
    tokens: int = -1
    wire: tuple[Any, Any] | None = None
    turn: int = 0  # 0: brought from elsewhere
    since: int = 0  # the first of several inputs that it is made of

    def __repr__(self) -> str:
        return f"Message({self.id}, {self.role!r}, {self.parts!r})"

    @property
    def text(self) -> str:
        return text_of(self.parts)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


def is_cut(parts: tuple[AnyPart, ...]) -> bool:
    """The end is missing: it had the length that it may have, or a filter stopped it."""
    return any(
        isinstance(part, Finish) and part.reason in (FinishReason.LENGTH, FinishReason.FILTERED) for part in parts
    )


def text_of(parts: tuple[AnyPart, ...]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Text))


def join_inputs(inputs: list[tuple[AnyPart, ...]]) -> tuple[AnyPart, ...]:
    """The parts of several inputs as one: neighbouring texts of one origin are concatenated, each input on lines of its
    own."""
    if len(inputs) == 1:
        return inputs[0]
    joined: list[AnyPart] = []
    for parts in inputs:
        for place, part in enumerate(parts):
            last = joined[-1] if joined else None
            if isinstance(part, Text) and isinstance(last, Text) and part.origin == last.origin:
                joined[-1] = Text(last.text + "\n" + part.text, origin=part.origin)
                continue
            if place == 0 and isinstance(last, Text) and not last.text.endswith("\n"):
                joined[-1] = Text(last.text + "\n", origin=last.origin)
            joined.append(part)
    return tuple(joined)
