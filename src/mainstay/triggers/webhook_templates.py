"""Webhook templates: `{{ issue.title }}` is replaced by that field of the payload.

There are no conditions or loops, nothing is evaluated, and inserted text is not expanded again: it is untrusted.
"""

from __future__ import annotations

import functools
import json
import re

import msgspec

from mainstay.core.errors import ConfigError

TEMPLATE_CHARS_MAX = 16 * 1024
PLACEHOLDERS_MAX = 200
PATH_CHARS_MAX = 500
BODY_PLACEHOLDER = "body"  # the whole payload, unless it has a field of that name
TRUNCATION_NOTE = "\n(the rest was left out)"

_PRETTY_LEVELS_MAX = 32  # deeper nesting is shown on one line: indentation would be most of it
_STEP = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s."{}|()\[\]]+')  # a name, or a quoted name with any characters
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
_MISSING = object()


class TemplatePlaceholder(msgspec.Struct, frozen=True):
    """A placeholder of a template: its path as written, and as steps."""

    text: str
    steps: tuple[str, ...]


def check_template(template: str) -> None:
    """Raise ConfigError if the template is not valid."""
    _parse_template(template)


def render_template(template: str, payload: object, *, chars_max: int) -> str:
    """Return the template filled from the payload (decoded JSON), cut to a length. Strings are inserted as they are,
    other values as JSON. An empty template shows the whole payload."""
    pieces = _parse_template(template) if template.strip() else (TemplatePlaceholder(BODY_PLACEHOLDER, ()),)
    texts: list[str] = []
    chars_left = chars_max
    for piece in pieces:
        text = (
            piece
            if isinstance(piece, str)
            else replace_control_characters(_fill_placeholder(piece, payload, chars_left))
        )
        texts.append(text[: chars_left + 1])  # one character too many shows that there was more
        chars_left -= len(texts[-1])
        if chars_left < 0:
            break
    rendered = "".join(texts)
    return (
        rendered
        if len(rendered) <= chars_max
        else rendered[: max(chars_max - len(TRUNCATION_NOTE), 0)] + TRUNCATION_NOTE[:chars_max]
    )


def replace_control_characters(text: str) -> str:
    """Replace control characters and lone surrogates; line breaks and tabs stay."""
    return text if text.isprintable() else _CONTROLS.sub("\ufffd", text)


def _fill_placeholder(placeholder: TemplatePlaceholder, payload: object, chars_left: int) -> str:
    value = _get_field(payload, placeholder.steps)
    if value is _MISSING and placeholder.steps == (BODY_PLACEHOLDER,):
        value = payload
    if value is _MISSING:
        return f"(there is no {placeholder.text})"
    return value if isinstance(value, str) else _to_json(value, chars_left)


def _get_field(payload: object, steps: tuple[str, ...]) -> object:
    value = payload
    for step in steps:
        match value:
            case dict() if step in value:
                value = value[step]
            case list() if step.isascii() and step.isdecimal() and len(step) < 10 and int(step) < len(value):
                value = value[int(step)]
            case _:
                return _MISSING
    return value


def _to_json(value: object, chars_left: int) -> str:
    """Return JSON, indented if it fits and is not nested too deeply, on one line otherwise."""
    try:
        line = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return "(it is nested too deeply to be shown)"
    if not isinstance(value, dict | list) or len(line) > chars_left or not is_shallow(value):
        return line
    return msgspec.json.format(line.encode(errors="replace"), indent=2).decode()


def is_shallow(value: object) -> bool:
    """True if indenting the value does not make it many times as long."""
    level, depth = [value] if isinstance(value, dict | list) else [], 0
    while level and depth <= _PRETTY_LEVELS_MAX:
        children = (child for parent in level for child in (parent.values() if isinstance(parent, dict) else parent))
        level = [child for child in children if isinstance(child, dict | list)]
        depth += 1
    return not level


# --- parsing a template --------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _parse_template(template: str) -> tuple[str | TemplatePlaceholder, ...]:
    """Parse a template into literal texts and placeholders, in order. Raises ConfigError."""
    if len(template) > TEMPLATE_CHARS_MAX:
        raise ConfigError(f"a template has at most {TEMPLATE_CHARS_MAX} characters, not {len(template)}")
    if "{%" in template or "{#" in template:
        raise ConfigError("a template supports `{{ path }}` only, neither `{% … %}` nor `{# … #}`")
    literal, *rest = template.split("{{")
    if len(rest) > PLACEHOLDERS_MAX:
        raise ConfigError(f"a template has at most {PLACEHOLDERS_MAX} placeholders, not {len(rest)}")
    pieces: list[str | TemplatePlaceholder] = [literal]
    for part in rest:
        path, closed, literal = part.partition("}}")
        if not closed:
            raise ConfigError(f"a `{{{{` of the template is not closed: {part.strip()[:40]!r}")
        pieces += [_parse_placeholder(path.strip()), literal]
    return tuple(piece for piece in pieces if piece)


def _parse_placeholder(path: str) -> TemplatePlaceholder:
    if not path:
        raise ConfigError("a template has an empty `{{ }}`; write `{{ body }}` for the whole payload")
    if len(path) > PATH_CHARS_MAX:
        raise ConfigError(f"a path of the template has more than {PATH_CHARS_MAX} characters")
    steps: list[str] = []
    at = 0
    while (match := _STEP.match(path, at)) is not None:
        steps.append(_parse_step(match[0], path))
        at = match.end()
        if at == len(path):
            return TemplatePlaceholder(path, tuple(steps))
        if path[at] != ".":
            break
        at += 1
    raise ConfigError(f"`{{{{ {path[:80]} }}}}` is not a path such as issue.labels.0.name")


def _parse_step(step: str, path: str) -> str:
    if not step.startswith('"'):
        return step
    try:
        return str(json.loads(step))
    except ValueError:
        raise ConfigError(f"`{{{{ {path[:80]} }}}}` is not a path: {step[:40]} is not a valid quoted name") from None
