"""Reads a server's tool list page by page, within limits, and cleans the descriptions. Imports the SDK."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

import mcp_types as types
import msgspec
from mcp.client.session import ClientSession

from mainstay.core.json_types import JsonObject, JsonValue
from mainstay.core.worker_threads import run_in_thread
from mainstay.guards.line_escaping import INVISIBLE_CHARACTERS, one_line
from mainstay.io.json_schema import CompiledJsonSchema, SchemaRefused
from mainstay.plugins.mcp.data_types import ListedTool, ServerListing, ToolHints
from mainstay.plugins.mcp.server_config import McpLimits
from mainstay.plugins.mcp.tool_names import ORIGINAL_NAME_CHARS_MAX, similarity_key
from mainstay.plugins.mcp.tool_pins import hash_definition

# Invisible characters. Joiners and the emoji variation selector stay: they are part of writing.
_INVISIBLE = re.compile(
    f"[{INVISIBLE_CHARACTERS}\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u061c\u2028-\u202e\u2066-\u2069\ufff9-\ufffb"
    "\ufe00-\ufe0e\U000e0100-\U000e01ef]"
)
_PROSE_KEYS = ("description", "title", "$comment")

T = TypeVar("T")
PageT = TypeVar("PageT", bound=types.PaginatedResult)
PageT_co = TypeVar("PageT_co", bound=types.PaginatedResult, covariant=True)


class PageRequest(Protocol[PageT_co]):
    """A method of the session that requests one page of a list."""

    def __call__(self, *, params: types.PaginatedRequestParams | None) -> Awaitable[PageT_co]: ...


async def read_listing(session: ClientSession, limits: McpLimits) -> ServerListing:
    """Return all tools that can be offered, and why the others are left out. Raises what the session raises."""
    capabilities = session.server_capabilities
    assert capabilities is not None, "the session is connected"
    listing = _ListingBuilder(limits)
    if capabilities.tools is not None:
        async for page in _iter_pages(session.list_tools, limits.pages_max):
            # In a thread: schemas are checked and compiled, which can take a second.
            if not await run_in_thread(partial(listing.add_page, page.tools)):
                break
    return ServerListing(
        tools=tuple(listing.tools),
        left_out=listing.left_out,
        resources=capabilities.resources is not None,
        prompts=capabilities.prompts is not None,
    )


class _ListingBuilder:
    """Collects the tools that were listed so far, and why some are left out."""

    def __init__(self, limits: McpLimits) -> None:
        self._limits = limits
        self._name_keys: set[str] = set()
        self._size_bytes = 0
        self.tools: list[ListedTool] = []
        self.left_out: dict[str, str] = {}

    def add_page(self, page: list[types.Tool]) -> bool:
        """Add the tools of a page; False if a limit is reached."""
        limits = self._limits
        for tool in page:
            self._size_bytes += len(tool.model_dump_json(by_alias=True, exclude_none=True))
            if len(self.tools) >= limits.tools_max or self._size_bytes > limits.listing_bytes_max:
                self.left_out["…"] = f"it lists more than {limits.tools_max} tools or {limits.listing_bytes_max} bytes"
                return False
            if reason := _rejection_reason(tool, self._name_keys, limits):
                self.left_out[one_line(tool.name[:ORIGINAL_NAME_CHARS_MAX])] = reason
            else:
                self._name_keys.add(similarity_key(tool.name))
                self.tools.append(to_listed_tool(tool, limits))
        return True


def _rejection_reason(tool: types.Tool, name_keys: set[str], limits: McpLimits) -> str:
    if not 0 < len(tool.name) <= ORIGINAL_NAME_CHARS_MAX:
        return f"its name has {len(tool.name)} characters"
    if similarity_key(tool.name) in name_keys:
        return "its name is the same as that of another tool, or too similar"
    try:
        CompiledJsonSchema(tool.input_schema, bytes_max=limits.schema_bytes_max)
        msgspec.json.encode(tool.input_schema)
    except SchemaRefused as error:
        return str(error)
    except (OverflowError, ValueError):
        return "the schema contains something that cannot be stored"
    return ""


def to_listed_tool(tool: types.Tool, limits: McpLimits) -> ListedTool:
    hints = tool.annotations or types.ToolAnnotations()
    annotations = hints.model_dump(by_alias=True, exclude_none=True, mode="json")
    return ListedTool(
        name=tool.name,
        description=clean_text(tool.description or tool.title or "", limits.description_chars_max),
        schema=_clean_schema(tool.input_schema, limits.description_chars_max),
        hints=ToolHints(hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint),
        hash=hash_definition([tool.name, tool.title, tool.description, tool.input_schema, annotations]),
    )


def clean_text(text: str, chars_max: int) -> str:
    """Return text as the model may read it: without invisible characters, and cut to a length."""
    plain = _INVISIBLE.sub("", text.encode(errors="replace").decode()).strip()
    return plain if len(plain) <= chars_max else plain[: chars_max - 1] + "…"


def _clean_schema(schema: JsonObject, chars_max: int) -> JsonObject:
    """Clean the prose in a schema (descriptions, titles, comments); everything else stays."""
    return {
        key: clean_text(value, chars_max)
        if key in _PROSE_KEYS and isinstance(value, str)
        else _clean_value(value, chars_max)
        for key, value in schema.items()
    }


def _clean_value(value: JsonValue, chars_max: int) -> JsonValue:
    match value:
        case list():
            return [_clean_value(item, chars_max) for item in value]
        case dict():
            return _clean_schema(value, chars_max)
    return value


async def read_paginated(
    request_page: PageRequest[PageT], get_items: Callable[[PageT], list[T]], pages_max: int, items_max: int
) -> list[T]:
    """Return up to `items_max` items of a paginated list."""
    items: list[T] = []
    async for page in _iter_pages(request_page, pages_max):
        items += get_items(page)
        if len(items) >= items_max:
            break
    return items[:items_max]


async def _iter_pages(request_page: PageRequest[PageT], pages_max: int) -> AsyncIterator[PageT]:
    cursor: str | None = None
    seen_cursors: set[str | None] = {None}
    for _ in range(pages_max):
        page = await request_page(params=types.PaginatedRequestParams(cursor=cursor))
        yield page
        cursor = page.next_cursor
        if cursor in seen_cursors:  # the end (None), or a cycle
            return
        seen_cursors.add(cursor)
