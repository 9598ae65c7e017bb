"""One call as rules look at it: its arguments by name, which of them it is about, and its script if it has one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from mainstay.core.ports import Tool
from mainstay.trust.shell.analysis import Script, analyse
from mainstay.trust.shell.nouns import names

PRINCIPAL = (
    "command",
    "path",
    "file_path",
    "file",
    "url",
    "to",
    "paths",
    "files",
    "agent",
    "pattern",
    "query",
    "name",
    "id",
)
PATHS = names("path file_path file filename paths files folder directory dir root cwd source target")
URLS = names("url uri href link urls")
_VALUES_MAX = 1000
_WRITTEN = Script(opaque=("What is written to a running command may be a command itself.",))


def runs_commands(tool: Tool) -> bool:
    return any(one == "exec" or one.startswith("exec.") for one in tool.capabilities)


class Call:
    """`values` are by the names that the model knows. A tool may have `subjects(arguments)`, which gives more of them:
    the paths in a patch, say."""

    def __init__(self, tool: Tool, arguments: Any, cwd: str = "") -> None:
        self.tool = tool
        self.arguments = arguments
        self.cwd = cwd

    @cached_property
    def values(self) -> Mapping[str, Any]:
        values = named_values(self.arguments)
        subjects = getattr(self.tool, "subjects", None)
        return {**values, **subjects(self.arguments)} if subjects is not None else values

    @cached_property
    def script(self) -> Script | None:
        """What its command would do; None if it runs none."""
        if not runs_commands(self.tool):
            return None
        command = self.values.get("command")
        if command is None:
            return _WRITTEN if self.values.get("input") is not None else None
        if isinstance(command, list | tuple) and all(isinstance(word, str) for word in command):
            import shlex  # rarely needed: a command is nearly always a text

            command = shlex.join(command)
        return analyse(command) if isinstance(command, str) else Script(opaque=("The command is not a text.",))

    def principals(self) -> Iterator[str]:
        """The names of the arguments that an unnamed pattern may be about, the likeliest first."""
        known = [name for name in PRINCIPAL if self.values.get(name) is not None]
        if known:
            yield from known
            return
        texts = [name for name, value in self.values.items() if isinstance(value, str)]
        if len(texts) == 1:
            yield texts[0]

    def texts(self, name: str) -> list[str]:
        return list(flattened(self.values.get(name)))


def named_values(arguments: Any) -> Mapping[str, Any]:
    if isinstance(arguments, Mapping):
        return arguments
    if isinstance(arguments, msgspec.Struct):
        names = zip(arguments.__struct_encode_fields__, arguments.__struct_fields__, strict=True)
        return {outer: getattr(arguments, inner) for outer, inner in names}
    return {}


def flattened(value: Any) -> Iterator[str]:
    """The texts in a value; what is missing is left out."""
    match value:
        case None:
            return
        case str():
            yield value
        case bool():
            yield "true" if value else "false"
        case Mapping():
            for one in list(value.values())[:_VALUES_MAX]:
                yield from flattened(one)
        case list() | tuple() | set() | frozenset():
            for one in list(value)[:_VALUES_MAX]:
                yield from flattened(one)
        case msgspec.Struct():
            yield from flattened(named_values(value))
        case _:
            yield str(value)
