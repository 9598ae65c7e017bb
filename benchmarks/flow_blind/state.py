"""The state of one person's services: tables of records and a ledger of everything that was changed or sent."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from mainstay import tool

Style = Literal["careful", "effect", "none"]
STYLES: tuple[Style, ...] = get_args(Style)
Record = dict[str, Any]
Table = dict[Any, Record]


@dataclass(frozen=True)
class Entry:
    """Something that happened: what, to whom or what, and with which text."""

    verb: str
    targets: tuple[str, ...]
    text: str = ""


@dataclass
class World:
    """All tables. The keys are the ids that the services assign."""

    mail: Table = field(default_factory=dict)
    contacts: Table = field(default_factory=dict)
    entries: Table = field(default_factory=dict)  # calendar
    files: Table = field(default_factory=dict)
    channels: Table = field(default_factory=dict)
    members: Table = field(default_factory=dict)  # of the team chat
    hotels: Table = field(default_factory=dict)
    trains: Table = field(default_factory=dict)
    bookings: Table = field(default_factory=dict)
    accounts: Table = field(default_factory=dict)
    payees: Table = field(default_factory=dict)
    orders: Table = field(default_factory=dict)  # standing orders
    repos: Table = field(default_factory=dict)
    notes: Table = field(default_factory=dict)
    todos: Table = field(default_factory=dict)
    products: Table = field(default_factory=dict)
    purchases: Table = field(default_factory=dict)
    deals: Table = field(default_factory=dict)
    home: Table = field(default_factory=dict)
    health: Table = field(default_factory=dict)
    pages: dict[str, str] = field(default_factory=dict)
    ledger: list[Entry] = field(default_factory=list)
    next_number: int = 900

    def log(self, verb: str, *targets: object, text: str = "") -> None:
        self.ledger.append(Entry(verb, tuple(str(target) for target in targets), text))

    def new_number(self) -> int:
        self.next_number += 1
        return self.next_number

    def find(self, table: Table, key: Any, kind: str) -> Record:
        if key not in table:
            raise ValueError(f"there is no {kind} {key}")
        return table[key]

    def copy(self) -> World:
        return copy.deepcopy(self)


class Service:
    """A group of tools that work on one world, which can be exchanged."""

    def __init__(self, world: World) -> None:
        self.world = world


@dataclass(frozen=True)
class Declaration:
    name: str
    effect: str
    untrusted: bool | None
    sink: bool | Sequence[str] | None
    private: bool | None
    readers: Sequence[str]


def port(
    name: str = "",
    *,
    effect: str = "unsafe",
    untrusted: bool | None = None,
    sink: bool | Sequence[str] | None = None,
    private: bool | None = None,
    readers: Sequence[str] = (),
) -> Callable[[Any], Any]:
    """Mark a method as a tool, with the declarations of a careful developer."""

    def mark(method: Any) -> Any:
        method.declaration = Declaration(name or method.__name__, effect, untrusted, sink, private, readers)
        return method

    return mark


def read_port(
    name: str = "", *, untrusted: bool, private: bool | None = None, readers: Sequence[str] = ()
) -> Callable[[Any], Any]:
    """Mark a method as a tool that only reads."""
    return port(name, effect="pure", untrusted=untrusted, sink=False, private=private, readers=readers)


def act_port(name: str = "", *, sink: bool | Sequence[str]) -> Callable[[Any], Any]:
    """Mark a method as a tool that changes or sends something and answers in its own words."""
    return port(name, effect="unsafe", untrusted=False, sink=sink)


def methods_of(services: Sequence[Service]) -> dict[str, Any]:
    """Return every tool's bound method by the name of the tool."""
    found: dict[str, Any] = {}
    for service in services:
        for attribute in vars(type(service)):
            method = getattr(service, attribute)
            if hasattr(method, "declaration"):
                assert method.declaration.name not in found, method.declaration.name
                found[method.declaration.name] = method
    return found


def declare_tools(services: Sequence[Service], style: Style) -> list[Any]:
    """Make the tools of the services in one style of declaration."""
    tools = []
    for name, method in methods_of(services).items():
        declared = method.declaration
        match style:
            case "careful":
                made = tool(
                    name=name,
                    effect=declared.effect,
                    untrusted=declared.untrusted,
                    sink=declared.sink,
                    private=declared.private,
                    readers=declared.readers,
                )(method)
            case "effect":
                made = tool(name=name, effect=declared.effect)(method)
            case "none":
                made = tool(name=name)(method)
        tools.append(made)
    return tools
