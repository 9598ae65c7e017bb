"""Renders patterns as text for the model: the most important parts first; parts that do not fit are named."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mainstay.patterns.pattern_template import InstructionPattern, PatternParameter, PatternTemplate

SHOWN_BYTES_MAX = 15_000  # by the tool: below the size at which the context replaces a result by a stub
_BACKTICKS = re.compile(r"`{3,}")
_OMITTED_LINE_BYTES = 120  # reserved for the line that names the omitted parts


def render_pattern(pattern: InstructionPattern, bytes_max: int) -> str:
    """Render as many whole parts as fit. A description that does not fit is truncated at a line end."""
    parts = [f"## Pattern: {_to_line(pattern.title)} ({pattern.name})"]
    left = bytes_max - _size_bytes(parts[0]) - _OMITTED_LINE_BYTES
    skipped: list[str] = []
    for name, text in _render_parts(pattern):
        if _size_bytes(text) <= left:
            parts.append(text)
            left -= _size_bytes(text)
            continue
        if name == "description" and (truncated := _truncate(text, left)):
            parts.append(truncated)
            left -= _size_bytes(truncated)
        skipped.append(name)
    if skipped:
        parts.append(_omitted_line(pattern, skipped))
    return "\n\n".join(parts)


def describe_briefly(pattern: InstructionPattern, chars_max: int = 200) -> str:
    """Return the description on one line, truncated."""
    text = _to_line(pattern.description)
    return text if len(text) <= chars_max else f"{text[:chars_max]}…"


def render_template(template: PatternTemplate) -> str:
    longest = max((len(run) for run in _BACKTICKS.findall(template.text)), default=2)
    fence = "`" * (longest + 1)
    about = f": {_to_line(template.description)}" if template.description else ""
    return f"Template {_to_line(template.name)}{about}\n{fence}\n{template.text}\n{fence}"


def _render_parts(pattern: InstructionPattern) -> Iterator[tuple[str, str]]:
    yield "description", pattern.description
    if pattern.use_cases:
        yield "use cases", _render_bullets("Use it for:", pattern.use_cases)
    if pattern.parameters:
        yield "parameters", _render_bullets("Parameters:", [_render_parameter(item) for item in pattern.parameters])
    for template in pattern.templates:
        yield f"template {_to_line(template.name)}", render_template(template)
    if pattern.common_errors:
        errors = [_join_sentences(item.error, item.cause, item.solution) for item in pattern.common_errors]
        yield "common errors", _render_bullets("Common errors:", errors)
    if pattern.best_practices:
        yield "best practices", f"Best practices:\n{pattern.best_practices}"
    for number, example in enumerate(pattern.examples, 1):
        name = _to_line(example.name) or str(number)
        yield f"example {name}", f"Example {name}:\n{example.text}"
    if pattern.related:
        yield "related patterns", f"Related patterns: {', '.join(map(_to_line, pattern.related))}"


def _render_parameter(parameter: PatternParameter) -> str:
    kind = ", ".join(filter(None, (_to_line(parameter.type), "required" if parameter.required else "")))
    text = f"{parameter.name} ({kind})" if kind else parameter.name
    text += f": {_to_line(parameter.description)}" if parameter.description else ""
    text += f" Default: {_to_line(parameter.default)}." if parameter.default is not None else ""
    return text + (f" Example: {_to_line(parameter.example)}" if parameter.example else "")


def _omitted_line(pattern: InstructionPattern, names: Sequence[str]) -> str:
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"(Not shown: {listed[:400]}. `pattern` with action show, name {pattern.name} has all of it.)"


def _render_bullets(head: str, items: Sequence[str]) -> str:
    return "\n".join((head, *(f"- {_to_line(item)}" for item in items)))


def _join_sentences(*texts: str) -> str:
    return " ".join(text if text.endswith((".", "!", "?")) else f"{text}." for text in map(_to_line, texts) if text)


def _to_line(text: str) -> str:
    return " ".join(text.split())


def _truncate(text: str, bytes_max: int) -> str:
    """Keep whole lines, or the beginning of the first one; empty if there is hardly any room."""
    if bytes_max < 40:
        return ""
    prefix = text.encode()[: bytes_max - 4].decode(errors="ignore")
    whole = prefix.rpartition("\n")[0] or prefix.rpartition(" ")[0] or prefix
    return f"{whole.rstrip()} …"


def _size_bytes(text: str) -> int:
    return len(text.encode()) + 2
