"""The state of one person's services, and tools that work on it in three styles of declaration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from mainstay import tool

Style = Literal["careful", "effect", "none"]
STYLES: tuple[Style, ...] = get_args(Style)
Record = dict[str, Any]
Rows = list[Record]


@dataclass
class World:
    """Tables of records, and one line for everything that was changed, sent or requested."""

    tables: dict[str, dict[Any, Record]]
    log: list[str] = field(default_factory=list)
    created: int = 500

    def find(self, table: str, key: Any) -> Record:
        if key not in self.tables[table]:
            raise ValueError(f"no such entry in {table}: {key}")
        return self.tables[table][key]

    def rows(self, table: str, text: str = "") -> Rows:
        """The records of a table that contain all words of the text."""
        words = text.lower().split()
        return [row for row in self.tables[table].values() if all(word in str(row).lower() for word in words)]

    def note(self, event: str, **fields: object) -> None:
        shown = (f"{name}={','.join(map(str, v)) if isinstance(v, list) else v}" for name, v in fields.items())
        self.log.append(" ".join([event, *shown]))

    def new_id(self, prefix: str) -> str:
        self.created += 1
        return f"{prefix}{self.created}"


class Api:
    """The tools of one service. The world can be exchanged, because making tools is slow."""

    def __init__(self) -> None:
        self.world = World({})


@dataclass(frozen=True)
class Declared:
    effect: Literal["pure", "idempotent", "unsafe"]
    untrusted: bool
    sink: bool | Sequence[str]
    private: bool | None = None
    readers: Sequence[str] = ()


def reads(*, untrusted: bool, private: bool | None = None, readers: Sequence[str] = ()) -> Callable[[Any], Any]:
    """Declare a method as a tool that only reads."""
    return _declare(Declared("pure", untrusted, False, private, readers))


def acts(*sink: str, again: bool = False) -> Callable[[Any], Any]:
    """Declare a method as a tool that sends or changes something, with the parameters that are destinations."""
    return _declare(Declared("idempotent" if again else "unsafe", False, sink or True))


def gets(*sink: str) -> Callable[[Any], Any]:
    """Declare a method as a tool that fetches public content from an address."""
    return _declare(Declared("pure", True, sink, False))


def _declare(declared: Declared) -> Callable[[Any], Any]:
    def mark(method: Any) -> Any:
        method.declared = declared
        return method

    return mark


def methods_of(apis: Sequence[Api]) -> dict[str, Any]:
    """Every tool's bound method, by the name of the tool."""
    methods = [getattr(api, name) for api in apis for name in vars(type(api))]
    return {method.__name__: method for method in methods if hasattr(method, "declared")}


def make_tools(apis: Sequence[Api], style: Style) -> list[Any]:
    return [_make_tool(method, style) for method in methods_of(apis).values()]


def _make_tool(method: Any, style: Style) -> Any:
    one: Declared = method.declared
    match style:
        case "careful":
            return tool(
                effect=one.effect, untrusted=one.untrusted, sink=one.sink, private=one.private, readers=one.readers
            )(method)
        case "effect":
            return tool(effect=one.effect)(method)
        case "none":
            return tool()(method)
