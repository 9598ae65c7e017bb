"""`search_channel`: what was said in this room, as its platform keeps it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from mainstay.core.outside import Channel, Said
from mainstay.core.ports import Tool, ToolContext
from mainstay.tools.common import Arguments, BuiltIn, ToolRefused

LIMIT = 20
LIMIT_MAX = 100
RESULT_BYTES = 16 * 1024
AUTHOR_CHARS_MAX = 80
QUERY_CHARS_MAX = 500

Channels = Callable[[str], Channel | None]  # the one that a session is on


class _SearchChannel(Arguments, frozen=True):
    query: str
    limit: int | None = None


class SearchChannel(BuiltIn):
    name = "search_channel"
    description = "Search the messages of this chat room, newest first. limit: default 20, at most 100."
    arguments = _SearchChannel
    untrusted = True
    capabilities: tuple[str, ...] = ("channel.read",)

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    async def run(self, arguments: _SearchChannel, context: ToolContext) -> str:
        channel = self._channels(context.session)
        if channel is None:
            raise ToolRefused("This conversation is in no room of a channel.")
        if len(arguments.query) > QUERY_CHARS_MAX:
            raise ToolRefused(f"A query has at most {QUERY_CHARS_MAX} characters.")
        limit = min(max(LIMIT if arguments.limit is None else arguments.limit, 1), LIMIT_MAX)
        found = (await channel.search(context.session, arguments.query, limit))[:limit]
        return _told(found) if found else "Nothing was found."


def _told(found: list[Said]) -> str:
    """One line each, whatever it holds: a text must not be able to pass for a message of somebody else."""
    room = max(120, RESULT_BYTES // len(found) - 60)
    lines: list[str] = []
    size = 0
    for one in found:
        line = _line(one, room)
        size += len(line.encode()) + 1
        if size > RESULT_BYTES and lines:
            lines.append(f"({len(found) - len(lines)} more are left out: ask for fewer.)")
            break
        lines.append(line)
    return "\n".join(lines)


def _line(one: Said, room: int) -> str:
    try:
        when = datetime.fromtimestamp(one.at / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        when = "?"
    text = " ".join(one.text.split())
    shown = text if len(text.encode()) <= room else text.encode()[:room].decode(errors="ignore") + "…"
    author = " ".join(one.author.split())[:AUTHOR_CHARS_MAX]
    return f"{when} {author}: {shown}"


def search_channel_tool(channels: Channels) -> Tool:
    return SearchChannel(channels)
