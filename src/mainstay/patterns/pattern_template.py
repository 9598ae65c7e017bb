"""Data model of patterns (reusable instructions with templates), and template filling."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from mainstay.core.errors import MainstayError

VALUE_CHARS_MAX = 20_000
FILLED_CHARS_MAX = 100_000
FILE_BYTES_MAX = 1024 * 1024  # of a pattern file
_PLACEHOLDER = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_PLACEHOLDER_NAME = re.compile(r"\s*\.?([A-Za-z_][\w-]*)\s*")  # {{name}}, {{ name }}, {{.name}}
_SHOWN_CHARS = 60


class PatternParameter(msgspec.Struct, frozen=True):
    """A declared parameter of a pattern's templates."""

    name: str
    description: str = ""
    type: str = ""
    required: bool = False
    default: str | None = None
    example: str = ""


class PatternTemplate(msgspec.Struct, frozen=True):
    """A text with `{{placeholders}}`."""

    name: str
    text: str
    description: str = ""

    def placeholders(self) -> list[str]:
        """Return the placeholders' names, each once, in order. Raises TemplateUnfillable for loops and conditions."""
        names: dict[str, None] = {}
        for match in _PLACEHOLDER.finditer(self.text):
            name = _PLACEHOLDER_NAME.fullmatch(match[1])
            if name is None:
                excerpt = " ".join(match[0].split())
                excerpt = excerpt if len(excerpt) <= _SHOWN_CHARS else f"{excerpt[:_SHOWN_CHARS]}…"
                raise TemplateUnfillable(
                    f"The template {self.name!r} has more than plain placeholders ({excerpt}): read it "
                    "with show, and fill it in yourself."
                )
            names[name[1]] = None
        return list(names)


class PatternExample(msgspec.Struct, frozen=True):
    """An example of using a pattern, in free text."""

    name: str = ""
    text: str = ""


class PatternCommonError(msgspec.Struct, frozen=True):
    """A common error, its cause and its solution."""

    error: str
    cause: str = ""
    solution: str = ""


class InstructionPattern(msgspec.Struct, frozen=True, kw_only=True):
    """A pattern. Only name and description are required in the file; `path` and `line` are its location."""

    name: str
    title: str
    description: str
    category: str = ""
    intents: tuple[str, ...] = ()
    use_cases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    parameters: tuple[PatternParameter, ...] = ()
    templates: tuple[PatternTemplate, ...] = ()
    examples: tuple[PatternExample, ...] = ()
    best_practices: str = ""
    common_errors: tuple[PatternCommonError, ...] = ()
    related: tuple[str, ...] = ()
    path: str = ""
    line: int = 0

    def find_template(self, name: str) -> PatternTemplate | None:
        return next((template for template in self.templates if template.name == name), None)

    def has_same_content(self, other: InstructionPattern) -> bool:
        """Return whether the content is the same, regardless of path and line."""
        return self is other or msgspec.structs.replace(self, path=other.path, line=other.line) == other


class TemplateUnfillable(MainstayError):
    """The template cannot be filled with the given values. The message is a sentence for the model."""


def fill_template(pattern: InstructionPattern, template: PatternTemplate, arguments: Mapping[str, object]) -> str:
    """Replace all placeholders in one pass; placeholders inside of values are not replaced.

    Raises TemplateUnfillable if a value is missing or too long, or unknown to both the template and the pattern.
    """
    places = template.placeholders()
    declared = {parameter.name: parameter for parameter in pattern.parameters}
    if unknown := sorted(name for name in arguments if name not in declared and name not in places):
        known = ", ".join(dict.fromkeys((*places, *declared))) or "none"
        raise TemplateUnfillable(f"There is no parameter {_join_names(unknown)}; there are: {known}.")
    values = {name: text for name, value in arguments.items() if (text := format_value(value)) is not None}
    for name in places:
        default = declared[name].default if name in declared else None
        if name not in values and default is not None:
            values[name] = default
    if missing := [name for name in places if name not in values]:
        needed = _join_names([_describe_parameter(name, declared) for name in missing])
        raise TemplateUnfillable(f"The template {template.name!r} needs {needed}.")
    if too_long := next((name for name in places if len(values[name]) > VALUE_CHARS_MAX), None):
        raise TemplateUnfillable(f"The value of {too_long} is longer than {VALUE_CHARS_MAX} characters.")
    size = len(template.text) + sum(len(values[placeholder]) for placeholder in _placeholder_names(template.text))
    if size > FILLED_CHARS_MAX:
        raise TemplateUnfillable(f"The text would be longer than {FILLED_CHARS_MAX} characters.")
    return _PLACEHOLDER.sub(lambda match: values[_placeholder_name(match[1])], template.text)


def format_value(value: object) -> str | None:
    """Return a value as text: lists joined with commas, other values as JSON; None for None."""
    match value:
        case None:
            return None
        case str():
            return value
        case list() | tuple() if all(isinstance(item, str | int | float) for item in value):
            return ", ".join(format_value(item) or "" for item in value)
        case _:
            return msgspec.json.encode(value).decode()


def _placeholder_names(text: str) -> list[str]:
    return [_placeholder_name(place) for place in _PLACEHOLDER.findall(text)]


def _placeholder_name(placeholder: str) -> str:
    match = _PLACEHOLDER_NAME.fullmatch(placeholder)
    assert match is not None, "placeholders() has checked the template"
    return match[1]


def _describe_parameter(name: str, declared: Mapping[str, PatternParameter]) -> str:
    about = " ".join(declared[name].description.split()) if name in declared else ""
    return f"{name} ({about})" if about else name


def _join_names(names: list[str]) -> str:
    listed = names[:20]
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(listed) + more


class PatternFileProblem(msgspec.Struct, frozen=True):
    """A problem of a pattern file and its location. `lost`: a pattern could not be read because of it."""

    path: str
    line: int
    reason: str
    lost: bool = True

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}" if self.line else f"{self.path}: {self.reason}"
