"""Messages between users, models and tools, and the parts they consist of.

None of these can be part of a reference cycle, so the garbage collector does not track them (`gc=False`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

import msgspec

Role = Literal["user", "assistant", "tool", "system"]

TOKENS_MAX = 10**15  # sums of tokens stop here: SQLite and many clients hold 64 bits, JavaScript 53


class Part(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag=str.lower, kw_only=True, gc=False):
    """A part of a message. `origin` names its author if that is not the one the role implies."""

    origin: str = ""


class Text(Part, frozen=True, omit_defaults=True, tag="text", kw_only=False):
    text: str


class Thinking(Part, frozen=True, omit_defaults=True, tag="thinking", kw_only=False):
    """The model's reasoning. Some providers require `signature` when it is sent back to them."""

    text: str
    signature: str = ""


class ToolCall(Part, frozen=True, omit_defaults=True, tag="tool_call", kw_only=False):
    """A tool call of the model. `input` is the JSON text that the model wrote, valid or not."""

    id: str
    name: str
    input: str
    finished: bool = True


class ToolResult(Part, frozen=True, omit_defaults=True, tag="tool_result", kw_only=False):
    """The result of a tool call; every call has exactly one, also if it failed or did not run.

    `mark` is the unguessable delimiter of the block in which the model is shown untrusted content; empty: no block.
    """

    call_id: str
    name: str
    content: str
    is_error: bool = False
    mark: str = ""

    @property
    def model_text(self) -> str:
        """Return the content as the model sees it."""
        if not self.mark:
            return self.content
        content = self.content.replace(self.mark, "…")  # so that content cannot end its own block
        return f"<data {self.mark} from {self.name}>\n{content}\n</data {self.mark}>"


class Binary(Part, frozen=True, omit_defaults=True, tag="binary", kw_only=False):
    """An image or a file: its bytes, or the path where they are stored."""

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
    """Why the model's message ended. The time is that of its record."""

    reason: FinishReason


AnyPart = Text | Thinking | ToolCall | ToolResult | Binary | Finish


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Tokens of one or more model calls."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0  # part of `prompt`: read from the provider's cache
    reasoning: int = 0  # part of `completion`
    written: int = 0  # part of `prompt`: written to the provider's cache
    correction: str = ""  # what was wrong with the provider's report, and what was done; empty: these are its counts

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            min(self.prompt + other.prompt, TOKENS_MAX),
            min(self.completion + other.completion, TOKENS_MAX),
            min(self.cached + other.cached, TOKENS_MAX),
            min(self.reasoning + other.reasoning, TOKENS_MAX),
            min(self.written + other.written, TOKENS_MAX),
            self.correction or other.correction,
        )


class Message(msgspec.Struct, eq=False, gc=False):
    """One message of a session's history: a view of journal records, not stored itself."""

    id: int  # sequence of its record
    role: Role
    parts: tuple[AnyPart, ...]
    at: int = 0  # ms
    model: str = ""
    tokens: int = -1  # cached token count; -1: not counted
    wire: tuple[str, Any] | None = None  # cache of a provider: the message in the API's format
    turn: int = 0  # 0: imported
    since: int = 0  # sequence of the first of several inputs that were joined into it
    sender: str = ""  # of a user's message
    # the joined inputs, each with its sender, if they have different senders
    inputs: tuple[tuple[str, tuple[AnyPart, ...]], ...] = ()
    mark: str = ""  # the session's mark: notes of the runtime begin with it, and no other text contains it

    def __repr__(self) -> str:
        return f"Message({self.id}, {self.role!r}, {self.parts!r})"

    @property
    def text(self) -> str:
        return parts_text(self.parts)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


def is_truncated(parts: tuple[AnyPart, ...]) -> bool:
    """Return whether the end is missing, because of the length limit or the provider's content filter."""
    return any(
        isinstance(part, Finish) and part.reason in (FinishReason.LENGTH, FinishReason.FILTERED) for part in parts
    )


def parts_text(parts: tuple[AnyPart, ...]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Text))


def join_inputs(inputs: list[tuple[AnyPart, ...]]) -> tuple[AnyPart, ...]:
    """Join the parts of several inputs: adjacent texts of one origin are concatenated, each input on its own lines."""
    if len(inputs) == 1:
        return inputs[0]
    joined: list[AnyPart] = []
    for parts in inputs:
        for index, part in enumerate(parts):
            last = joined[-1] if joined else None
            if isinstance(part, Text) and isinstance(last, Text) and part.origin == last.origin:
                joined[-1] = Text(last.text + "\n" + part.text, origin=part.origin)
                continue
            if index == 0 and isinstance(last, Text) and not last.text.endswith("\n"):
                joined[-1] = Text(last.text + "\n", origin=last.origin)
            joined.append(part)
    return tuple(joined)
