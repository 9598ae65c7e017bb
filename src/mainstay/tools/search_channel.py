"""The `search_channel` tool: searches the messages of this chat room on its platform."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from mainstay.core.ports import Tool, ToolContext
from mainstay.core.tool_ports import ChannelSearch, RoomMessage
from mainstay.tools.base import BuiltInTool, ToolArguments, ToolRefused
from mainstay.tools.dependencies import ToolDependencies

LIMIT_DEFAULT = 20
LIMIT_MAX = 100
RESULT_BYTES_MAX = 16 * 1024
AUTHOR_CHARS_MAX = 80
QUERY_CHARS_MAX = 500

ChannelLookup = Callable[[str], ChannelSearch | None]  # session key -> its channel, None if it is on none


class _SearchChannelArguments(ToolArguments, frozen=True):
    query: str
    limit: int | None = None


class SearchChannelTool(BuiltInTool):
    name = "search_channel"
    description = "Search the messages of this chat room, newest first. limit: default 20, at most 100."
    arguments = _SearchChannelArguments
    untrusted = True
    capabilities: tuple[str, ...] = ("channel.read",)

    def __init__(self, find_channel: ChannelLookup, is_guest: Callable[[str], bool]) -> None:
        self._find_channel = find_channel
        self._is_guest = is_guest

    async def run(self, arguments: _SearchChannelArguments, context: ToolContext) -> str:
        if context.person and self._is_guest(context.person):
            raise ToolRefused("The messages of a room are not searched for a guest.")
        channel = self._find_channel(context.session)
        if channel is None:
            raise ToolRefused("This session is not in a room of a channel.")
        if len(arguments.query) > QUERY_CHARS_MAX:
            raise ToolRefused(f"A query has at most {QUERY_CHARS_MAX} characters.")
        limit = min(max(LIMIT_DEFAULT if arguments.limit is None else arguments.limit, 1), LIMIT_MAX)
        messages = (await channel.search(context.session, arguments.query, limit))[:limit]
        return _format_messages(messages) if messages else "Nothing was found."


def _format_messages(messages: list[RoomMessage]) -> str:
    """Format one line per message, so that a text cannot pass for a message of another author."""
    text_bytes_max = max(120, RESULT_BYTES_MAX // len(messages) - 60)
    lines: list[str] = []
    size = 0
    for message in messages:
        line = _format_message(message, text_bytes_max)
        size += len(line.encode()) + 1
        if size > RESULT_BYTES_MAX and lines:
            lines.append(f"({len(messages) - len(lines)} more are left out: ask for fewer.)")
            break
        lines.append(line)
    return "\n".join(lines)


def _format_message(message: RoomMessage, text_bytes_max: int) -> str:
    try:
        when = datetime.fromtimestamp(message.at / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        when = "?"
    text = " ".join(message.text.split())
    excerpt = (
        text if len(text.encode()) <= text_bytes_max else text.encode()[:text_bytes_max].decode(errors="ignore") + "…"
    )
    author = " ".join(message.author.split())[:AUTHOR_CHARS_MAX]
    return f"{when} {author}: {excerpt}"


def create_search_channel_tool(
    find_channel: ChannelLookup, is_guest: Callable[[str], bool] = lambda person: False
) -> Tool:
    return SearchChannelTool(find_channel, is_guest)


def build(dependencies: ToolDependencies) -> Tool:
    return create_search_channel_tool(dependencies.find_channel, dependencies.is_guest)
