"""The tables of one person's accounts, and the decorators that mark a method as a tool.

The ledger, the three styles of declaration and the services' base class are those of `benchmarks/flow_blind/state.py`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from state import Service, Table, World, port


@dataclass
class OfficeWorld(World):
    """The tables of the thirteen services; what `World` has besides the ledger is not used."""

    messages: Table = field(default_factory=dict)  # mail
    people: Table = field(default_factory=dict)  # address book
    filters: Table = field(default_factory=dict)
    events: Table = field(default_factory=dict)
    documents: Table = field(default_factory=dict)  # by path
    rooms: Table = field(default_factory=dict)  # chat channels
    chat_users: Table = field(default_factory=dict)
    flights: Table = field(default_factory=dict)
    stays: Table = field(default_factory=dict)
    tables: Table = field(default_factory=dict)  # restaurants
    reservations: Table = field(default_factory=dict)
    transactions: Table = field(default_factory=dict)
    beneficiaries: Table = field(default_factory=dict)
    scheduled: Table = field(default_factory=dict)
    bank_accounts: Table = field(default_factory=dict)
    issues: Table = field(default_factory=dict)  # by "repo#number"
    pulls: Table = field(default_factory=dict)
    code: dict[str, str] = field(default_factory=dict)  # by "repo:path"
    companies: Table = field(default_factory=dict)
    opportunities: Table = field(default_factory=dict)
    devices: Table = field(default_factory=dict)
    catalog: Table = field(default_factory=dict)
    basket: Table = field(default_factory=dict)
    shop_orders: Table = field(default_factory=dict)
    employees: Table = field(default_factory=dict)
    leave: Table = field(default_factory=dict)
    payslips: Table = field(default_factory=dict)
    tasks: Table = field(default_factory=dict)
    site: dict[str, str] = field(default_factory=dict)  # web pages by address


class OfficeService(Service):
    """A group of tools that work on an `OfficeWorld`."""

    world: OfficeWorld


def flatten(value: Any) -> list[str]:
    match value:
        case None | "" | []:
            return []
        case list():
            return [str(one) for one in value]
        case float() if value == int(value):
            return [str(int(value))]  # the agent converts 120 to 120.0, a direct call does not
    return [str(value)]


def reads(
    *, untrusted: bool, private: bool | None = None, readers: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], Any]:
    """Mark a method as a tool that only reads."""
    return port(effect="pure", untrusted=untrusted, sink=False, private=private, readers=readers)


def acts(
    *, sink: bool | Sequence[str], effect: str = "unsafe", untrusted: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Mark a method as a tool that changes or sends something; every successful call is in the ledger.

    The entry has the name of the tool, the values of all parameters that were given as targets, and their text.
    """

    def mark(method: Callable[..., Any]) -> Any:
        @functools.wraps(method)
        async def run(self: OfficeService, *args: Any, **given: Any) -> Any:
            result = await method(self, *args, **given)
            bound = inspect.signature(method).bind(self, *args, **given)
            bound.apply_defaults()
            values = [text for value in bound.args[1:] for text in flatten(value)]
            self.world.log(method.__name__, *values, text=" | ".join(values))
            return result

        return port(effect=effect, untrusted=untrusted, sink=sink)(run)

    return mark
