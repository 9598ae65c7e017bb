"""What all backends share: the base of their tools, their part of the fixed section, names from data, and pages of it.

A backend is data that the owner pointed at and somebody else wrote. Our words describe it; its own words are results.
So what of it stands in the fixed section are names, never sentences, and even names are cleaned first.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec

from mainstay.core.arguments import read_arguments, schema_of
from mainstay.core.errors import MainstayError
from mainstay.core.messages import Text
from mainstay.core.outside import Reach
from mainstay.core.ports import Effect, Tool, ToolContext

T = TypeVar("T")

BYTES_PER_TOKEN = 3  # names and brackets have more tokens than prose has
NAME_CHARS_MAX = 80
LINE_CHARS_MAX = 200
NOTES_TOKENS_MAX = 8_000  # of all backends together, whatever each of them was given
HEADING = "## Data"


class BackendRefused(MainstayError):
    """What was asked for cannot be had here, in a sentence for the model. Nothing was changed."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the arguments of a backend's tool: its fields are the parameters, with a default they may be left out."""


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner says of a backend, whichever kind it is."""

    name: str
    about: str = ""  # what it holds, in a sentence
    write: bool = False
    private: bool = False
    rows_max: int = 100
    timeout_s: float = 30.0
    schema_tokens: int = 800

    @property
    def origin(self) -> str:
        return f"backend:{self.name}"


class Backend(Protocol):
    """A source of domain data. `tools` are known before it starts."""

    @property
    def name(self) -> str: ...
    @property
    def tools(self) -> tuple[Tool, ...]: ...
    def schema(self) -> str:
        """For the fixed section: bounded, and at once. Until it is known, what `describe` is good for."""
        ...

    async def start(self) -> None:
        """Raises ConfigError if the owner must mend something, and BackendRefused if it is only out of reach now: it is
        tried again whenever it is asked something."""
        ...

    async def close(self) -> None: ...


class BackendTool:
    """Base of a backend's tools. A subclass has `action`, `arguments` and `answer`; one that changes things `writes`.

    A schema that a struct cannot say is given as `schema`.
    """

    action: ClassVar[str]  # describe, query, change
    arguments: ClassVar[type[msgspec.Struct]]
    writes: ClassVar[bool] = False
    schema: dict[str, Any]
    effect: Effect = "pure"
    untrusted: bool = True

    def __init_subclass__(cls) -> None:
        if "arguments" in cls.__dict__ and "schema" not in cls.__dict__:
            cls.schema = schema_of(cls.arguments)

    def __init__(self, traits: Traits, description: str) -> None:
        self.traits = traits
        self.name = f"{traits.name}__{self.action}"
        self.description = description
        self.origin = traits.origin
        self.timeout_s: float | None = traits.timeout_s + 2.0  # our own bound says more than that of whoever calls
        self.sink: bool | tuple[str, ...] = self.writes
        self.capabilities: tuple[str, ...] = (f"backend.{traits.name}",)

    def parse(self, input: str) -> Any:
        return read_arguments(input, self.arguments, self.schema)

    async def run(self, arguments: Any, context: ToolContext) -> str:
        context.private = context.private or self.traits.private  # an error may quote what is there, too
        return await self.answer(arguments, context)

    async def answer(self, arguments: Any, context: ToolContext) -> str:
        raise NotImplementedError

    async def reconcile(self, arguments: Any, context: ToolContext) -> str | None:
        return None

    def reach(self, arguments: Any, context: ToolContext) -> Reach:
        """Reading goes where the owner pointed; a change is a way out for whatever it carries."""
        if not self.writes:
            return Reach()
        return Reach(sink=True, outward=True, destinations=(self.origin,), what=f"changes data of {self.traits.name}")


class BackendNotes:
    """The Contributor port: what backends there are, and what each of them has."""

    tools: tuple[Tool, ...] = ()

    def __init__(self, backends: Sequence[Backend]) -> None:
        self._backends = tuple(backends)

    def fixed(self, session: str) -> str:
        parts = [text for backend in self._backends if (text := backend.schema())]
        if not parts:
            return ""
        whole = "\n\n".join((HEADING, *parts))
        return cut(whole, NOTES_TOKENS_MAX * BYTES_PER_TOKEN, "\n[the rest is left out: ask each one's describe]")

    def errand(self, session: str) -> str:
        return self.fixed(session)

    def brief(self, session: str) -> str:
        return self.fixed(session)

    def profile(self, session: str) -> str:
        return ""

    def turn(self, session: str, prompt: str) -> tuple[Text, ...]:
        return ()


# --- what others wrote ---------------------------------------------------------------------------

_PLAIN = re.compile(r"[\w.$@:/{}<>*#+~-]+")
_SPACE = re.compile(r"\s+")
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")  # letters and signs that nobody sees


def _unseen(char: str) -> bool:
    if char.isascii():
        return not " " <= char <= "~"
    code = ord(char)
    if 0xFE00 <= code <= 0xFE0F or 0xE0000 <= code <= 0xE0FFF or 0x180B <= code <= 0x180F:
        return True
    return char in _FILLERS or unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def clean_line(text: str, chars_max: int = LINE_CHARS_MAX) -> str:
    """Text from data on one line: nothing unseen in it, and not endless."""
    start = text[: chars_max * 4]
    if not (start.isascii() and start.isprintable()):
        start = "".join(" " if char.isspace() else "" if _unseen(char) else char for char in start)
    line = _SPACE.sub(" ", start).strip()
    return line if len(line) <= chars_max and len(text) <= chars_max * 4 else f"{line[: chars_max - 1]}…"


def clean_name(text: str, chars_max: int = NAME_CHARS_MAX) -> str:
    """A name from data: as `clean_line`, and quoted where it is more than one plain word."""
    line = clean_line(text, chars_max)
    return line if _PLAIN.fullmatch(line) else json.dumps(line, ensure_ascii=False)


_ONE_WORD = re.compile(r"[\w.$@:/{}~+#-]{1,60}")


def is_one_word(name: str) -> bool:
    """A name that can stand where it is always shown, and by itself says nothing."""
    return _ONE_WORD.fullmatch(name) is not None


# --- bounds --------------------------------------------------------------------------------------


def cut(text: str, bytes_max: int, notice: str) -> str:
    """At most so many bytes, the notice among them, cut at a character."""
    raw = text.encode(errors="replace")
    if len(raw) <= bytes_max:
        return text
    return raw[: max(0, bytes_max - len(notice.encode()))].decode(errors="ignore") + notice


def fit_lines(lines: Iterable[str], tokens: int, more: str, missing: int = 0) -> str:
    """As many whole lines as fit, and how many do not: `more` names them ("tables; describe lists them")."""
    left = tokens * BYTES_PER_TOKEN - len(more) - 16
    shown: list[str] = []
    for line in lines:
        left -= len(line.encode(errors="replace")) + 1
        if left < 0:
            missing += 1
        else:
            shown.append(line)
    if missing:
        shown.append(f"[{missing} more {more}]")
    return "\n".join(shown)


def page(rows: Sequence[T], offset: int | None, rows_max: int) -> tuple[Sequence[T], str]:
    """Some of them from `offset` on, and a line that says which these are: empty, if they are all."""
    total, begin = len(rows), max(offset or 0, 0)
    end = min(begin + rows_max, total)
    if begin == 0 and end == total:
        return rows, ""
    if begin >= total:
        return (), f"[there are {total}; nothing from {begin} on]"
    rest = f"; go on with offset={end}" if end < total else ""
    return rows[begin:end], f"[{begin + 1} to {end} of {total}{rest}]"
