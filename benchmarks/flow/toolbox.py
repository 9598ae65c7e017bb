"""Declarations of the benchmark's tools in three styles, and the list of all tools for a world.

A tool is a method of a class like `MailTools`. `declared` notes what a careful developer declares; `build_tools` uses
all of it, only the effect, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from mainstay import tool

Style = Literal["careful", "effect", "none"]
STYLES: tuple[Style, ...] = ("careful", "effect", "none")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Declaration:
    effect: str
    untrusted: bool
    sink: bool | Sequence[str]
    private: bool | None = None
    readers: Sequence[str] = ()

    def keywords(self, style: Style) -> dict[str, Any]:
        """Return the arguments of `@tool` in this style."""
        if style == "none":
            return {}
        if style == "effect":
            return {"effect": self.effect}
        keywords: dict[str, Any] = {"effect": self.effect, "untrusted": self.untrusted, "sink": self.sink}
        if self.private is not None:
            keywords["private"] = self.private
        if self.readers:
            keywords["readers"] = list(self.readers)
        return keywords


def reads(
    *, untrusted: bool, private: bool | None = None, readers: Sequence[str] = (), sink: bool | Sequence[str] = False
) -> Callable[[F], F]:
    """Declare a tool that changes nothing."""
    return _attach(Declaration("pure", untrusted, sink, private, readers))


def writes(sink: bool | Sequence[str], *, effect: str = "unsafe", untrusted: bool = False) -> Callable[[F], F]:
    """Declare a tool that sends or changes something. Its result is a confirmation unless `untrusted` is set."""
    return _attach(Declaration(effect, untrusted, sink))


def _attach(declaration: Declaration) -> Callable[[F], F]:
    def mark(function: F) -> F:
        function.declaration = declaration  # type: ignore[attr-defined]
        return function

    return mark


def tools_of(services: Sequence[object], style: Style) -> list[Any]:
    """Return the declared methods of these objects as Mainstay tools."""
    found = []
    for service in services:
        for name, attribute in vars(type(service)).items():
            declaration = getattr(attribute, "declaration", None)
            if declaration is None:
                continue
            method = getattr(service, name)
            keywords = declaration.keywords(style)
            found.append(tool(**keywords)(method) if keywords else tool(method))
    return found
