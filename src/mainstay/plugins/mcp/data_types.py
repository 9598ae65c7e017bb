"""Data types for what MCP servers offer and answer, independent of the SDK."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mainstay.core.json_types import JsonObject

McpProgressCallback = Callable[[float, float | None, str], None]  # progress, total if known, message


class ToolHints(msgspec.Struct, frozen=True, omit_defaults=True):
    """A server's hints about a tool's effects. None: no hint."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


class ListedTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as its server describes it."""

    name: str  # the server's own name for it
    description: str = ""  # cleaned and cut, for the model
    schema: JsonObject = {}
    hints: ToolHints = ToolHints()
    hash: str = ""  # of the definition as the server sent it, before cleaning


class ServerListing(msgspec.Struct, frozen=True, kw_only=True):
    """What a server offered when it was last read."""

    tools: tuple[ListedTool, ...] = ()
    left_out: dict[str, str] = {}  # by tool: why it is not offered
    resources: bool = False  # True: it has the capability
    prompts: bool = False


class ToolChange(msgspec.Struct, frozen=True, kw_only=True):
    """A difference between a tool as approved and as listed now."""

    name: str
    old: ListedTool | None  # None: it is new
    new: ListedTool | None  # None: it was removed


class McpAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tool call, or the content of a resource."""

    text: str
    images: tuple[tuple[str, bytes], ...] = ()  # media type and data
    is_error: bool = False


class McpResource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource, or a resource template, whose uri has variables: `file:///{path}`."""

    uri: str
    name: str
    description: str = ""
    mime: str = ""
    template: bool = False


class McpResourcePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of resources."""

    resources: tuple[McpResource, ...]
    cursor: str = ""  # of the next page; empty: this is the last


class McpPromptArgument(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str = ""
    required: bool = False


class McpPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt template of the server, for the user."""

    name: str
    description: str = ""
    arguments: tuple[McpPromptArgument, ...] = ()
