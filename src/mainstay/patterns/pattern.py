"""A pattern: how something is done here, written down once, with templates to fill in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from mainstay.core.errors import MainstayError

VALUE_CHARS_MAX = 20_000
FILLED_CHARS_MAX = 100_000
_PLACE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_NAMED = re.compile(r"\s*\.?([A-Za-z_][\w-]*)\s*")  # {{name}}, {{ name }}, {{.name}}
_SHOWN_CHARS = 60


class Parameter(msgspec.Struct, frozen=True):
    """What a template is filled with."""

    name: str
    description: str = ""
    type: str = ""
    required: bool = False
    default: str | None = None
    example: str = ""


class Template(msgspec.Struct, frozen=True):
    """A text with `{{places}}` in it."""

    name: str
    text: str
    description: str = ""

    def places(self) -> list[str]:
        """The names in it, each once, in order. Raises Unfillable where it has more than names."""
        found: dict[str, None] = {}
        for place in _PLACE.finditer(self.text):
            named = _NAMED.fullmatch(place[1])
            if named is None:
                shown = " ".join(place[0].split())
                shown = shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}…"
                raise Unfillable(
                    f"The template {self.name!r} has more than names in it ({shown}): read it with show, and write out "
                    "what it means yourself."
                )
            found[named[1]] = None
        return list(found)


class Case(msgspec.Struct, frozen=True):
    """An example: what was asked, what came of it, whatever its writer found worth telling."""

    name: str = ""
    text: str = ""


class Mistake(msgspec.Struct, frozen=True):
    """What often goes wrong, and what helps."""

    error: str
    cause: str = ""
    solution: str = ""


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """Everything but the name and the description may be missing. `path` and `line` say where it stands."""

    name: str
    title: str
    description: str
    category: str = ""
    intents: tuple[str, ...] = ()
    use_cases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    templates: tuple[Template, ...] = ()
    examples: tuple[Case, ...] = ()
    best_practices: str = ""
    common_errors: tuple[Mistake, ...] = ()
    related: tuple[str, ...] = ()
    path: str = ""
    line: int = 0

    def template(self, name: str) -> Template | None:
        return next((one for one in self.templates if one.name == name), None)

    def same(self, other: Pattern) -> bool:
        """Says the same, wherever it stands."""
        return self is other or msgspec.structs.replace(self, path=other.path, line=other.line) == other


class Unfillable(MainstayError):
    """A template cannot be filled in with what was given, in a sentence."""


def fill(pattern: Pattern, template: Template, given: Mapping[str, Any]) -> str:
    """The template with a value in every place, all at once: what a value holds is never looked at again.

    Raises Unfillable where one is missing, or where one was given that neither the template nor the pattern knows.
    """
    places = template.places()
    declared = {one.name: one for one in pattern.parameters}
    if unknown := sorted(name for name in given if name not in declared and name not in places):
        known = ", ".join(dict.fromkeys((*places, *declared))) or "none"
        raise Unfillable(f"There is no parameter {_listed(unknown)}; there are: {known}.")
    values = {name: text for name, value in given.items() if (text := written(value)) is not None}
    for name in places:
        standard = declared[name].default if name in declared else None
        if name not in values and standard is not None:
            values[name] = standard
    if missing := [name for name in places if name not in values]:
        raise Unfillable(
            f"The template {template.name!r} needs {_listed([_said(name, declared) for name in missing])}."
        )
    if long := next((name for name in places if len(values[name]) > VALUE_CHARS_MAX), None):
        raise Unfillable(f"The value of {long} is longer than {VALUE_CHARS_MAX} characters.")
    size = len(template.text) + sum(len(values[match]) for match in _names(template.text))
    if size > FILLED_CHARS_MAX:
        raise Unfillable(f"The text would be longer than {FILLED_CHARS_MAX} characters.")
    return _PLACE.sub(lambda place: values[_name(place[1])], template.text)


def written(value: Any) -> str | None:
    """A value as it is put into a text: several with commas, what is not plain as JSON; None for nothing."""
    match value:
        case None:
            return None
        case str():
            return value
        case list() | tuple() if all(isinstance(one, str | int | float) for one in value):
            return ", ".join(written(one) or "" for one in value)
        case _:
            return msgspec.json.encode(value).decode()


def _names(text: str) -> list[str]:
    return [_name(place) for place in _PLACE.findall(text)]


def _name(place: str) -> str:
    named = _NAMED.fullmatch(place)
    assert named is not None, "the places of this template were looked at"
    return named[1]


def _said(name: str, declared: Mapping[str, Parameter]) -> str:
    about = " ".join(declared[name].description.split()) if name in declared else ""
    return f"{name} ({about})" if about else name


def _listed(names: list[str]) -> str:
    shown = names[:20]
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(shown) + more
