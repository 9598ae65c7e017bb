"""The table of built-in tools. Groups, configuration, template, documentation and tests are derived from it.

A tool is a module of `mainstay.tools` and one line here. The module is imported when an agent has the tool.
"""

from __future__ import annotations

from typing import Literal

import msgspec

# readonly, all: the groups of these names in `tools.builtin`
# sub_agent: a sub-agent has the tool unless the call of `spawn` names others
# commands: it runs commands, so it needs a sandbox
# channel: offered where a gateway has connected channels, and cannot be named in `tools.builtin`
ToolGroup = Literal["readonly", "all", "sub_agent", "commands", "channel"]


class BuiltInToolEntry(msgspec.Struct, frozen=True):
    """A line of the table."""

    name: str
    builder: str  # `module:function`, called with `ToolDependencies`; it returns None where the tool cannot be offered
    groups: tuple[ToolGroup, ...]
    summary: str  # what it does, for the table in docs/how-to/built-in-tools.md


_READS: tuple[ToolGroup, ...] = ("readonly", "all", "sub_agent")

_ENTRIES = (
    BuiltInToolEntry(
        "read", "mainstay.tools.read:build", _READS, "returns numbered lines; an image is shown to the model"
    ),
    BuiltInToolEntry("grep", "mainstay.tools.grep:build", _READS, "returns matching lines, files or counts"),
    BuiltInToolEntry("glob", "mainstay.tools.glob:build", _READS, "finds files by name, the newest first"),
    BuiltInToolEntry("ls", "mainstay.tools.ls:build", _READS, "lists a folder"),
    BuiltInToolEntry("write", "mainstay.tools.write:build", ("all",), "creates or replaces a file"),
    BuiltInToolEntry("edit", "mainstay.tools.edit:build", ("all",), "replaces a text that occurs exactly once"),
    BuiltInToolEntry(
        "apply_patch",
        "mainstay.tools.apply_patch:build",
        ("all",),
        "applies several changes to several files, all or none",
    ),
    BuiltInToolEntry(
        "bash",
        "mainstay.tools.bash:build",
        ("all", "commands"),
        "runs a command and returns its output; timeout 120 s by default, at most 600",
    ),
    BuiltInToolEntry(
        "process",
        "mainstay.tools.process:build",
        ("all", "commands"),
        "manages background commands: start, list, poll, write, stop",
    ),
    BuiltInToolEntry(
        "fetch",
        "mainstay.tools.fetch:build",
        ("all",),
        "returns a web page as Markdown; an image is shown to the model",
    ),
    BuiltInToolEntry(
        "spawn",
        "mainstay.tools.spawn:build",
        ("all",),
        "runs a sub-agent, with tools that only read unless others are named, and returns its report",
    ),
    BuiltInToolEntry(
        "schedule",
        "mainstay.tools.schedule:build",
        ("all",),
        "prompts this conversation later, at a time or by a cron expression of five fields: add, list, remove",
    ),
    BuiltInToolEntry(
        "message",
        "mainstay.tools.message:build",
        (),
        "posts to another room (`channel:room`) or to another agent of the workspace",
    ),
    BuiltInToolEntry(
        "upload", "mainstay.tools.upload:build", ("channel",), "posts a file into this conversation, up to 20 MB"
    ),
    BuiltInToolEntry(
        "search_channel",
        "mainstay.tools.search_channel:build",
        ("channel",),
        "searches the messages of this room, with time and author; 20 messages, at most 100",
    ),
)

BUILT_IN_TOOLS = {entry.name: entry for entry in _ENTRIES}


def list_tool_names(group: ToolGroup) -> tuple[str, ...]:
    """Return the names of the tools in a group, in the order of the table."""
    return tuple(entry.name for entry in _ENTRIES if group in entry.groups)


CHANNEL_TOOLS = list_tool_names("channel")
NAMEABLE_TOOLS = tuple(name for name in BUILT_IN_TOOLS if name not in CHANNEL_TOOLS)  # in `tools.builtin`
# groups by name, as in `tools.builtin`
TOOL_GROUPS: dict[str, tuple[str, ...]] = {
    "none": (),
    "readonly": list_tool_names("readonly"),
    "all": list_tool_names("all"),
}


def runs_commands(names: tuple[str, ...]) -> bool:
    """Return whether one of these tools runs commands."""
    return not set(list_tool_names("commands")).isdisjoint(names)
