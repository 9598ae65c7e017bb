"""A tool invocation under policy review: arguments by name, main argument, and the analysed shell script, if any."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from mainstay.core.ports import Tool
from mainstay.trust.named_destinations import UNKNOWN_DESTINATION

if TYPE_CHECKING:
    from mainstay.trust.shell.analysis import ScriptAnalysis
    from mainstay.trust.shell.reading import ReadAccess

MAIN_ARGUMENTS = (
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
_FOLDER_ARGUMENTS = ("folder", "directory", "dir", "root", "cwd")
PATH_ARGUMENTS = frozenset(
    ("path", "file_path", "file", "filename", "paths", "files", "source", "target", *_FOLDER_ARGUMENTS)
)
URL_ARGUMENTS = frozenset(("url", "uri", "href", "link", "urls"))
_VALUES_MAX = 1000


def can_run_commands(tool: Tool) -> bool:
    return any(capability == "exec" or capability.startswith("exec.") for capability in tool.capabilities)


class ToolInvocation:
    """A tool, the arguments of one call, and the session's working directory.

    `arguments_by_name` uses the names that the model sees. A tool may define `subjects(arguments)`, which adds
    entries, such as the paths in a patch. `to_host_path` translates a path that commands see.
    """

    def __init__(
        self,
        tool: Tool,
        arguments: object,
        cwd: str = "",
        read_access: Callable[[], ReadAccess | None] = lambda: None,
        to_host_path: Callable[[str], str] = lambda path: path,
    ) -> None:
        self._to_host_path = to_host_path
        self.tool = tool
        self.arguments = arguments
        self.cwd = cwd
        self._read_access = read_access

    @cached_property
    def arguments_by_name(self) -> Mapping[str, object]:
        values = arguments_to_dict(self.arguments)
        subjects = getattr(self.tool, "subjects", None)
        return {**values, **subjects(self.arguments)} if subjects is not None else values

    @cached_property
    def script(self) -> ScriptAnalysis | None:
        """The analysis of its shell command; None if the call runs no command."""
        if not can_run_commands(self.tool):
            return None
        from mainstay.trust.shell.analysis import ScriptAnalysis, analyse_script  # loaded with the first command

        command = self.arguments_by_name.get("command")
        if command is None:
            if self.arguments_by_name.get("input") is None:
                return None
            return ScriptAnalysis(
                opaque_reasons=("What is written to a running command may be a command itself.",), is_ambiguous=True
            )
        if isinstance(command, list | tuple) and all(isinstance(word, str) for word in command):
            import shlex  # rarely needed: a command is nearly always a string

            command = shlex.join(command)
        return (
            analyse_script(command)
            if isinstance(command, str)
            else ScriptAnalysis(opaque_reasons=("The command is not a text.",), is_ambiguous=True)
        )

    def only_reads(self, folder: str) -> bool:
        """Return whether its shell command, started in a folder of the session, provably only reads, and only what the
        session may read."""
        from mainstay.trust.shell.reading import reads_only_inside  # loaded with the first command

        runs_in_sandbox = getattr(self.tool, "runs_in_sandbox", False)  # a tool of the developer's may do anything
        access = self._read_access() if self.script is not None and runs_in_sandbox and self.cwd else None
        if access is None or self.script is None:
            return False
        return reads_only_inside(self.script, posixpath.join(self.cwd, folder), access)

    def main_argument_names(self) -> Iterator[str]:
        """Yield the names of the arguments that an unnamed pattern applies to, the likeliest first."""
        known = [name for name in MAIN_ARGUMENTS if self.arguments_by_name.get(name) is not None]
        if known:
            yield from known
            return
        texts = [name for name, value in self.arguments_by_name.items() if isinstance(value, str)]
        if len(texts) == 1:
            yield texts[0]

    def argument_texts(self, name: str) -> list[str]:
        texts = list(iterate_texts(self.arguments_by_name.get(name)))
        return [self._to_host_path(text) for text in texts] if name in PATH_ARGUMENTS else texts


def arguments_to_dict(arguments: object) -> Mapping[str, object]:
    if isinstance(arguments, Mapping):
        return arguments
    if isinstance(arguments, msgspec.Struct):
        names = zip(arguments.__struct_encode_fields__, arguments.__struct_fields__, strict=True)
        return {encoded_name: getattr(arguments, field) for encoded_name, field in names}
    return {}


def iterate_texts(value: object) -> Iterator[str]:
    """Yield every text in a nested value, keys of mappings included. None is skipped; other scalars are converted to
    text. After `_VALUES_MAX` entries of a collection follows `?`, which no rule and no user can name."""
    match value:
        case None:
            return
        case str():
            yield value
        case bool():
            yield "true" if value else "false"
        case Mapping():
            for key, item in list(value.items())[:_VALUES_MAX]:
                yield str(key)
                yield from iterate_texts(item)
            if len(value) > _VALUES_MAX:
                yield UNKNOWN_DESTINATION
        case list() | tuple() | set() | frozenset():
            for item in list(value)[:_VALUES_MAX]:
                yield from iterate_texts(item)
            if len(value) > _VALUES_MAX:
                yield UNKNOWN_DESTINATION
        case msgspec.Struct():
            for item in arguments_to_dict(value).values():
                yield from iterate_texts(item)
        case _:
            yield str(value)
