"""What a server offers, read page by page and never more than can be held. Imports the SDK."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import mcp_types as types
import msgspec
from mcp.client.session import ClientSession

from mainstay.core.workers import in_thread
from mainstay.io.json_schema import Schema, SchemaRefused
from mainstay.plugins.mcp.names import SAID_CHARS_MAX, alike
from mainstay.plugins.mcp.nouns import Hints, Listed, Listing
from mainstay.plugins.mcp.pins import hash_of
from mainstay.plugins.mcp.server import McpLimits
from mainstay.trust.guards.lines import INVISIBLE_CLASS, one_line

# What nobody sees; joiners and the selector of emoji are part of writing.
_UNSEEN = re.compile(
    f"[{INVISIBLE_CLASS}\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u061c\u2028-\u202e\u2066-\u2069\ufff9-\ufffb"
    "\ufe00-\ufe0e\U000e0100-\U000e01ef]"
)
_WORDS = ("description", "title", "$comment")

T = TypeVar("T")


async def read_listing(session: ClientSession, limits: McpLimits) -> Listing:
    """All its tools, but for those that cannot be offered. Raises what the session raises."""
    can = session.server_capabilities
    assert can is not None, "the session is connected"
    found = _Found(limits)
    if can.tools is not None:
        async for page in _pages(session.list_tools, limits.pages_max):
            # Beside the loop: schemas are looked through and tried, which can take a second.
            if not await in_thread(partial(found.take, page.tools)):
                break
    return Listing(
        tools=tuple(found.tools),
        left_out=found.left_out,
        resources=can.resources is not None,
        prompts=can.prompts is not None,
    )


class _Found:
    """What was listed so far, and why some of it is left out."""

    def __init__(self, limits: McpLimits) -> None:
        self._limits = limits
        self._taken: set[str] = set()
        self._size = 0
        self.tools: list[Listed] = []
        self.left_out: dict[str, str] = {}

    def take(self, page: list[types.Tool]) -> bool:
        """False: that is enough."""
        most = self._limits
        for tool in page:
            self._size += len(tool.model_dump_json(by_alias=True, exclude_none=True))
            if len(self.tools) >= most.tools_max or self._size > most.listing_bytes_max:
                self.left_out["…"] = f"it lists more than {most.tools_max} tools or {most.listing_bytes_max} bytes"
                return False
            if reason := _refused(tool, self._taken, most):
                self.left_out[one_line(tool.name[:SAID_CHARS_MAX])] = reason
            else:
                self._taken.add(alike(tool.name))
                self.tools.append(listed(tool, most))
        return True


def _refused(tool: types.Tool, taken: set[str], limits: McpLimits) -> str:
    if not 0 < len(tool.name) <= SAID_CHARS_MAX:
        return f"its name has {len(tool.name)} characters"
    if alike(tool.name) in taken:
        return "its name is that of another tool, or too much like it"
    try:
        Schema(tool.input_schema, bytes_max=limits.schema_bytes_max)
        msgspec.json.encode(tool.input_schema)
    except SchemaRefused as error:
        return str(error)
    except (OverflowError, ValueError):
        return "the schema holds something that cannot be kept"
    return ""


def listed(tool: types.Tool, limits: McpLimits) -> Listed:
    hints = tool.annotations or types.ToolAnnotations()
    said = hints.model_dump(by_alias=True, exclude_none=True, mode="json")
    return Listed(
        name=tool.name,
        description=shown(tool.description or tool.title or "", limits.description_chars_max),
        schema=_shown_schema(tool.input_schema, limits.description_chars_max),
        hints=Hints(hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint),
        hash=hash_of([tool.name, tool.title, tool.description, tool.input_schema, said]),
    )


def shown(text: str, chars_max: int) -> str:
    """As the model may read it: without what nobody sees, and not without end."""
    plain = _UNSEEN.sub("", text.encode(errors="replace").decode()).strip()
    return plain if len(plain) <= chars_max else plain[: chars_max - 1] + "…"


def _shown_schema(part: Any, chars_max: int) -> Any:
    """The same, where it is only words; what is checked stays as it is."""
    if isinstance(part, list):
        return [_shown_schema(one, chars_max) for one in part]
    if not isinstance(part, dict):
        return part
    return {
        key: shown(value, chars_max) if key in _WORDS and isinstance(value, str) else _shown_schema(value, chars_max)
        for key, value in part.items()
    }


async def read_all(
    ask: Callable[..., Awaitable[Any]], parts: Callable[[Any], list[T]], pages_max: int, most: int
) -> list[T]:
    """At most so many of what comes in pages."""
    found: list[T] = []
    async for page in _pages(ask, pages_max):
        found += parts(page)
        if len(found) >= most:
            break
    return found[:most]


async def _pages(ask: Callable[..., Awaitable[Any]], pages_max: int) -> AsyncIterator[Any]:
    cursor: str | None = None
    seen: set[str | None] = {None}
    for _ in range(pages_max):
        page = await ask(params=types.PaginatedRequestParams(cursor=cursor))
        yield page
        cursor = page.next_cursor
        if cursor in seen:  # the end, or a circle
            return
        seen.add(cursor)
