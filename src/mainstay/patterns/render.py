"""A pattern in words for a model: what matters most comes first, and what does not fit is named."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mainstay.patterns.pattern import Parameter, Pattern, Template

_FENCE = re.compile(r"`{3,}")
_HEAD_BYTES = 120  # kept free for the line that says what was left out


def render(pattern: Pattern, bytes_max: int) -> str:
    """As many of its parts as fit, whole; the first that does not is cut at a line."""
    parts = [f"## Pattern: {_line(pattern.title)} ({pattern.name})"]
    left = bytes_max - _size(parts[0]) - _HEAD_BYTES
    skipped: list[str] = []
    for name, text in _parts(pattern):
        if _size(text) <= left:
            parts.append(text)
            left -= _size(text)
            continue
        if name == "description" and (cut := _cut(text, left)):
            parts.append(cut)
            left -= _size(cut)
        skipped.append(name)
    if skipped:
        parts.append(_missing(pattern, skipped))
    return "\n\n".join(parts)


def brief(pattern: Pattern, chars_max: int = 200) -> str:
    """One line."""
    text = _line(pattern.description)
    return text if len(text) <= chars_max else f"{text[:chars_max]}…"


def show_template(template: Template) -> str:
    longest = max((len(found) for found in _FENCE.findall(template.text)), default=2)
    fence = "`" * (longest + 1)
    about = f": {_line(template.description)}" if template.description else ""
    return f"Template {_line(template.name)}{about}\n{fence}\n{template.text}\n{fence}"


def _parts(pattern: Pattern) -> Iterator[tuple[str, str]]:
    yield "description", pattern.description
    if pattern.use_cases:
        yield "use cases", _bullets("Use it for:", pattern.use_cases)
    if pattern.parameters:
        yield "parameters", _bullets("Parameters:", [_parameter(one) for one in pattern.parameters])
    for template in pattern.templates:
        yield f"template {_line(template.name)}", show_template(template)
    if pattern.common_errors:
        errors = [_sentences(one.error, one.cause, one.solution) for one in pattern.common_errors]
        yield "common errors", _bullets("Common errors:", errors)
    if pattern.best_practices:
        yield "best practices", f"Best practices:\n{pattern.best_practices}"
    for number, example in enumerate(pattern.examples, 1):
        name = _line(example.name) or str(number)
        yield f"example {name}", f"Example {name}:\n{example.text}"
    if pattern.related:
        yield "related patterns", f"Related patterns: {', '.join(map(_line, pattern.related))}"


def _parameter(one: Parameter) -> str:
    kind = ", ".join(filter(None, (_line(one.type), "required" if one.required else "")))
    said = f"{one.name} ({kind})" if kind else one.name
    said += f": {_line(one.description)}" if one.description else ""
    said += f" Default: {_line(one.default)}." if one.default is not None else ""
    return said + (f" Example: {_line(one.example)}" if one.example else "")


def _missing(pattern: Pattern, names: Sequence[str]) -> str:
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"(Not shown: {shown[:400]}. `pattern` with action show, name {pattern.name} has all of it.)"


def _bullets(head: str, items: Sequence[str]) -> str:
    return "\n".join((head, *(f"- {_line(item)}" for item in items)))


def _sentences(*texts: str) -> str:
    return " ".join(text if text.endswith((".", "!", "?")) else f"{text}." for text in map(_line, texts) if text)


def _line(text: str) -> str:
    return " ".join(text.split())


def _cut(text: str, bytes_max: int) -> str:
    """Whole lines, or the beginning of the first one."""
    if bytes_max < 40:
        return ""
    kept = text.encode()[: bytes_max - 4].decode(errors="ignore")
    whole = kept.rpartition("\n")[0] or kept.rpartition(" ")[0] or kept
    return f"{whole.rstrip()} …"


def _size(text: str) -> int:
    return len(text.encode()) + 2
