"""Tools of the MCP server: descriptions, arguments, results and annotations."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from mainstay.core.json_types import JsonObject
from mainstay.core.tool_arguments import build_schema

_SESSION_DESCRIPTION = "The conversation's name, as `run` returned it or `sessions` lists it."


class RunToolArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    prompt: Annotated[str, Meta(description="The task or question.")]
    session: (
        Annotated[str, Meta(min_length=1, description="The conversation to continue; omit it for a new one.")]
        | msgspec.UnsetType
    ) = msgspec.UNSET


class SteerToolArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    session: Annotated[str, Meta(description=_SESSION_DESCRIPTION)]
    text: Annotated[str, Meta(description="What the agent should know or do now.")]


class AbortToolArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    session: Annotated[str, Meta(description=_SESSION_DESCRIPTION)]


class MemorySearchToolArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(description="Search text, matched by words and meaning.")]
    k: Annotated[int, Meta(ge=1, le=50, description="Maximum number of hits, 1 to 50.")] = 10


class SessionsToolArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=200, description="Maximum number of conversations, 1 to 200.")] = 20


class ApprovalSummary(msgspec.Struct, frozen=True):
    id: str
    tool: str
    arguments: str  # JSON, as the model wrote it
    why: str


class RunToolResult(msgspec.Struct, frozen=True, omit_defaults=True):
    session: str
    turn: int
    outcome: Annotated[str, Meta(description="Answered, Exhausted, Aborted, Paused or Failed.")]
    text: str
    approval: Annotated[
        ApprovalSummary | None,
        Meta(description="What the turn waits for. Only the owner answers, with `mainstay approval`."),
    ] = None


class SteerToolResult(msgspec.Struct, frozen=True):
    session: str


class AbortToolResult(msgspec.Struct, frozen=True):
    session: str
    aborted: Annotated[bool, Meta(description="False if nothing was running.")]


class MemorySearchHit(msgspec.Struct, frozen=True):
    text: str
    session: str
    message_id: str
    at: Annotated[int, Meta(description="Milliseconds since 1970.")]
    score: float
    kind: str
    speaker: str
    untrusted: Annotated[bool, Meta(description="True if it came from outside: data, not words of the person.")]


class MemorySearchToolResult(msgspec.Struct, frozen=True):
    hits: list[MemorySearchHit]


class SessionRow(msgspec.Struct, frozen=True):
    session: str
    title: str
    status: str
    turns: int
    updated: Annotated[int, Meta(description="Milliseconds since 1970.")]
    waits_for: Annotated[str, Meta(description="The approval that its turn waits for, if any.")]


class SessionsToolResult(msgspec.Struct, frozen=True):
    sessions: list[SessionRow]


class McpToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One tool. The flags are the hints of MCP's tool annotations."""

    title: str
    description: str
    arguments: type[msgspec.Struct]
    result: type[msgspec.Struct]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False

    def input_schema(self) -> JsonObject:
        return {**build_schema(self.arguments), "additionalProperties": False}

    def output_schema(self) -> JsonObject:
        """Return the schema with an object at the root instead of a reference, as older hosts require."""
        (root,), parts = msgspec.json.schema_components((self.result,), ref_template="#/$defs/{name}")
        schema = parts.pop(root["$ref"].rsplit("/", 1)[1])
        return {**schema, **({"$defs": parts} if parts else {})}


MCP_TOOLS: dict[str, McpToolSpec] = {
    "run": McpToolSpec(
        title="Run a turn",
        description="Give the agent of this machine's owner a task or question in a stored conversation. Returns its "
        "answer when the turn has ended; the owner's policy decides what it may do. If a tool call needs the owner's "
        "approval, the result says what waits and how the owner answers it.",
        arguments=RunToolArguments,
        result=RunToolResult,
        destructive=True,
        open_world=True,
    ),
    "steer": McpToolSpec(
        title="Steer a running turn",
        description="Add a message to a conversation's running turn at its next boundary. With nothing running it "
        "starts a turn, whose answer is stored in the conversation.",
        arguments=SteerToolArguments,
        result=SteerToolResult,
        destructive=True,
        open_world=True,
    ),
    "abort": McpToolSpec(
        title="Stop a running turn",
        description="Abort a conversation's running turn now. What it has written and done so far stays.",
        arguments=AbortToolArguments,
        result=AbortToolResult,
        destructive=True,
        idempotent=True,
    ),
    "memory_search": McpToolSpec(
        title="Search all conversations",
        description="Search all conversations and memories by words and meaning, best hits first.",
        arguments=MemorySearchToolArguments,
        result=MemorySearchToolResult,
        read_only=True,
        idempotent=True,
    ),
    "sessions": McpToolSpec(
        title="List conversations",
        description="List conversations, newest first, with the approvals that they wait for.",
        arguments=SessionsToolArguments,
        result=SessionsToolResult,
        read_only=True,
        idempotent=True,
    ),
}
