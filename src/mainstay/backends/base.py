"""Base classes for backends: the protocol, tools, context section, name cleaning and pagination.

A backend is data that the owner configured and a third party wrote. Its texts reach the model only as tool results: the
fixed section of the context contains names from the data, never sentences, and names are cleaned first.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import ClassVar, Generic, Protocol, TypeVar

import msgspec

from mainstay.core.backend_settings import BackendSettings
from mainstay.core.errors import MainstayError
from mainstay.core.json_types import JsonObject
from mainstay.core.messages import Text
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.tool_arguments import build_schema, parse_arguments
from mainstay.core.tool_ports import CallDestinations

T = TypeVar("T")
ArgumentsT = TypeVar("ArgumentsT", bound=msgspec.Struct)

BYTES_PER_TOKEN = 3  # names and brackets take more tokens than prose
NAME_CHARS_MAX = 80
LINE_CHARS_MAX = 200
SECTION_TOKENS_MAX = 8_000  # for all backends together, whatever the limit of each one
SECTION_HEADING = "## Data"


class BackendRefused(MainstayError):
    """The request cannot be served, with a sentence for the model. Nothing was changed. `owner_message` is the sentence
    for the backend's owner, if it says more: a file name, a host, the driver's message."""

    def __init__(self, message: str, owner_message: str = "") -> None:
        super().__init__(message)
        self.owner_message = owner_message


class BackendToolArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the arguments of a backend's tool: fields are parameters, a field with a default is optional."""


class Backend(Protocol):
    """A source of domain data. `tools` are known before it starts."""

    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> BackendSettings: ...
    @property
    def tools(self) -> tuple[Tool, ...]: ...
    def schema_summary(self) -> str:
        """Return the text for the fixed section: bounded, without blocking.

        Before the schema is loaded, the text refers to `describe`.
        """
        ...

    async def start(self) -> None:
        """Connect or load the schema.

        Raises ConfigError if the configuration must be corrected, and BackendRefused if the source is unreachable now:
        the next tool call tries again.
        """
        ...

    async def close(self) -> None: ...


class BackendTool(Generic[ArgumentsT]):
    """Base of a backend's tools. A subclass defines `action`, `arguments`, `execute`, and `writes` if it changes data.

    `schema` is derived from `arguments` unless the subclass defines it.
    """

    action: ClassVar[str]  # describe, query or change; the tool is named <backend>__<action>
    arguments: type[ArgumentsT]
    writes: ClassVar[bool] = False
    schema: JsonObject
    effect: Effect = "pure"
    untrusted: bool = True

    def __init_subclass__(cls) -> None:
        if "arguments" in cls.__dict__ and "schema" not in cls.__dict__:
            cls.schema = build_schema(cls.arguments)

    def __init__(self, backend: Backend, description: str) -> None:
        self.settings = backend.settings
        self.backend_name = backend.name
        self.name = f"{backend.name}__{self.action}"
        self.description = description
        self.origin = f"backend:{backend.name}"
        self.timeout_s: float | None = backend.settings.timeout_s + 2.0  # the backend's own timeout error comes first
        self.sink: bool | tuple[str, ...] = self.writes
        self.capabilities: tuple[str, ...] = (f"backend.{backend.name}",)

    def parse(self, input: str) -> ArgumentsT:
        return parse_arguments(input, self.arguments, self.schema)

    async def run(self, arguments: ArgumentsT, context: ToolContext) -> str:
        context.private = context.private or self.settings.private  # before the call: an error may quote data, too
        return await self.execute(arguments, context)

    async def execute(self, arguments: ArgumentsT, context: ToolContext) -> str:
        raise NotImplementedError

    async def reconcile(self, arguments: ArgumentsT, context: ToolContext) -> str | None:
        return None

    def reach(self, arguments: ArgumentsT, context: ToolContext) -> CallDestinations:
        """Return the effects of a call: a query reads the configured source only, a change can carry data out."""
        if not self.writes:
            return CallDestinations()
        return CallDestinations(
            sink=True,
            leaves_workspace=True,
            destinations=(self.origin,),
            description=f"changes data of {self.backend_name}",
        )


def explain_error(backend: Backend, error: MainstayError) -> str:
    """Return an error's text for the owner, with details that the model does not get, such as file names."""
    if isinstance(error, BackendRefused) and error.owner_message:
        return error.owner_message
    return str(error).removeprefix(f"backends.{backend.name}: ").removeprefix(f"backends.{backend.name}.")


class BackendContextContributor:
    """Context contributor that lists the backends and summarizes the schema of each."""

    tools: tuple[Tool, ...] = ()

    def __init__(self, backends: Sequence[Backend]) -> None:
        self._backends = tuple(backends)

    def fixed_section(self, session: str) -> str:
        parts = [text for backend in self._backends if (text := backend.schema_summary())]
        if not parts:
            return ""
        section = "\n\n".join((SECTION_HEADING, *parts))
        return truncate_bytes(
            section,
            SECTION_TOKENS_MAX * BYTES_PER_TOKEN,
            "\n[truncated: call the describe tool of a backend for the rest]",
        )

    def sub_agent_section(self, session: str) -> str:
        return self.fixed_section(session)

    def small_model_section(self, session: str) -> str:
        return self.fixed_section(session)

    def profile_section(self, session: str) -> str:
        return ""

    def turn_notes(self, session: str, prompt: str) -> tuple[Text, ...]:
        return ()


# --- cleaning of third-party text ----------------------------------------------------------------

_PLAIN_NAME = re.compile(r"[\w.$@:/{}<>*#+~-]+")
_WHITESPACE = re.compile(r"\s+")
# letters and symbols that render as nothing
_INVISIBLE_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")


def _is_invisible(char: str) -> bool:
    if char.isascii():
        return not " " <= char <= "~"
    code = ord(char)
    if 0xFE00 <= code <= 0xFE0F or 0xE0000 <= code <= 0xE0FFF or 0x180B <= code <= 0x180F:
        return True
    return char in _INVISIBLE_FILLERS or unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def clean_line(text: str, chars_max: int = LINE_CHARS_MAX) -> str:
    """Return text from data as one line: without invisible characters, at most `chars_max` characters."""
    start = text[: chars_max * 4]
    if not (start.isascii() and start.isprintable()):
        start = "".join(" " if char.isspace() else "" if _is_invisible(char) else char for char in start)
    line = _WHITESPACE.sub(" ", start).strip()
    return line if len(line) <= chars_max and len(text) <= chars_max * 4 else f"{line[: chars_max - 1]}…"


def clean_name(text: str, chars_max: int = NAME_CHARS_MAX) -> str:
    """Return a name from data as `clean_line` does, in quotes unless it is one plain word."""
    line = clean_line(text, chars_max)
    return line if _PLAIN_NAME.fullmatch(line) else json.dumps(line, ensure_ascii=False)


_SINGLE_WORD = re.compile(r"[\w.$@:/{}~+#-]{1,60}")


def is_single_word(name: str) -> bool:
    """Return whether a name is a single short word: it cannot be an instruction, so the fixed section may show it."""
    return _SINGLE_WORD.fullmatch(name) is not None


# --- result limits -------------------------------------------------------------------------------


def truncate_bytes(text: str, bytes_max: int, notice: str) -> str:
    """Truncate to at most `bytes_max` bytes including the notice, at a character boundary."""
    raw = text.encode(errors="replace")
    if len(raw) <= bytes_max:
        return text
    return raw[: max(0, bytes_max - len(notice.encode()))].decode(errors="ignore") + notice


def fit_lines(lines: Iterable[str], tokens_max: int, remainder_label: str, omitted: int = 0) -> str:
    """Return as many whole lines as fit, then the number of the others, which `remainder_label` describes ("tables;
    describe lists them"). `omitted`: lines that were left out before."""
    bytes_left = tokens_max * BYTES_PER_TOKEN - len(remainder_label) - 16
    fitting: list[str] = []
    for line in lines:
        bytes_left -= len(line.encode(errors="replace")) + 1
        if bytes_left < 0:
            omitted += 1
        else:
            fitting.append(line)
    if omitted:
        fitting.append(f"[{omitted} more {remainder_label}]")
    return "\n".join(fitting)


def paginate(rows: Sequence[T], offset: int | None, rows_max: int) -> tuple[Sequence[T], str]:
    """Return the rows from `offset` on and a note with their position, which is empty if all rows are returned."""
    total, start = len(rows), max(offset or 0, 0)
    end = min(start + rows_max, total)
    if start == 0 and end == total:
        return rows, ""
    if start >= total:
        return (), f"[{total} in total; none from {start} on]"
    hint = f"; continue with offset={end}" if end < total else ""
    return rows[start:end], f"[{start + 1} to {end} of {total}{hint}]"
