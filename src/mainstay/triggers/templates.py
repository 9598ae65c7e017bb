"""What is shown of what came: `{{ issue.title }}` is replaced by that field, and there is no more to it.

No conditions, no loops, nothing is evaluated, and what was put in is not looked at again: it is somebody else's text.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any

import msgspec

from mainstay.core.errors import ConfigError

TEMPLATE_CHARS_MAX = 16 * 1024
PLACES_MAX = 200
PATH_CHARS_MAX = 500
BODY = "body"  # all of what came, unless there is a field of that name
CUT = "\n(the rest was left out)"

_PRETTY_LEVELS_MAX = 32  # what is nested deeper is shown on one line: its indentation would be most of it
_STEP = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s."{}|()\[\]]+')  # a name, or one in quotes that may hold anything
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
_NOTHING = object()


class Place(msgspec.Struct, frozen=True):
    """Where something is to be put in, as the template says it and step by step."""

    said: str
    steps: tuple[str, ...]


def check_template(template: str) -> None:
    """Raises ConfigError."""
    _pieces(template)


def render(template: str, payload: Any, *, chars_max: int) -> str:
    """`payload` is JSON's: strings are put in as they are, all else as JSON. Without a template, all of it is shown."""
    pieces = _pieces(template) if template.strip() else (Place(BODY, ()),)
    shown: list[str] = []
    room = chars_max
    for piece in pieces:
        text = piece if isinstance(piece, str) else clean(_put_in(piece, payload, room))
        shown.append(text[: room + 1])  # one too many tells that there was more
        room -= len(shown[-1])
        if room < 0:
            break
    made = "".join(shown)
    return made if len(made) <= chars_max else made[: max(chars_max - len(CUT), 0)] + CUT[:chars_max]


def clean(text: str) -> str:
    """Without control characters and half characters; lines and tabs stay."""
    return text if text.isprintable() else _CONTROLS.sub("\ufffd", text)


def _put_in(place: Place, payload: Any, room: int) -> str:
    found = _find(payload, place.steps)
    if found is _NOTHING and place.steps == (BODY,):
        found = payload
    if found is _NOTHING:
        return f"(there is no {place.said})"
    return found if isinstance(found, str) else _as_json(found, room)


def _find(payload: Any, steps: tuple[str, ...]) -> Any:
    at = payload
    for step in steps:
        match at:
            case dict() if step in at:
                at = at[step]
            case list() if step.isascii() and step.isdecimal() and len(step) < 10 and int(step) < len(at):
                at = at[int(step)]
            case _:
                return _NOTHING
    return at


def _as_json(value: Any, room: int) -> str:
    """Laid out to be read where it fits, on one line where it does not."""
    try:
        line = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return "(it is nested too deeply to be shown)"
    if not isinstance(value, dict | list) or len(line) > room or not is_shallow(value):
        return line
    return msgspec.json.format(line.encode(errors="replace"), indent=2).decode()


def is_shallow(value: Any) -> bool:
    """It can be indented without becoming many times as long."""
    level, below = [value], 0
    while level and below <= _PRETTY_LEVELS_MAX:
        level = [child for one in level for child in (one.values() if isinstance(one, dict) else one)]
        level = [child for child in level if isinstance(child, dict | list)]
        below += 1
    return not level


# --- reading a template --------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _pieces(template: str) -> tuple[str | Place, ...]:
    """Literal text and places, in order."""
    if len(template) > TEMPLATE_CHARS_MAX:
        raise ConfigError(f"a template has at most {TEMPLATE_CHARS_MAX} characters, not {len(template)}")
    if "{%" in template or "{#" in template:
        raise ConfigError("a template knows `{{ path }}` only, neither `{% … %}` nor `{# … #}`")
    literal, *rest = template.split("{{")
    if len(rest) > PLACES_MAX:
        raise ConfigError(f"a template has at most {PLACES_MAX} places, not {len(rest)}")
    pieces: list[str | Place] = [literal]
    for one in rest:
        path, closed, literal = one.partition("}}")
        if not closed:
            raise ConfigError(f"a `{{{{` of the template is not closed: {one.strip()[:40]!r}")
        pieces += [_place(path.strip()), literal]
    return tuple(piece for piece in pieces if piece)


def _place(path: str) -> Place:
    if not path:
        raise ConfigError("a template has an empty `{{ }}`; `{{ body }}` is all of what came")
    if len(path) > PATH_CHARS_MAX:
        raise ConfigError(f"a path of the template has over {PATH_CHARS_MAX} characters")
    steps: list[str] = []
    at = 0
    while (found := _STEP.match(path, at)) is not None:
        steps.append(_name(found[0], path))
        at = found.end()
        if at == len(path):
            return Place(path, tuple(steps))
        if path[at] != ".":
            break
        at += 1
    raise ConfigError(f"`{{{{ {path[:80]} }}}}` is not a path such as issue.labels.0.name")


def _name(step: str, path: str) -> str:
    if not step.startswith('"'):
        return step
    try:
        return str(json.loads(step))
    except ValueError:
        raise ConfigError(f"`{{{{ {path[:80]} }}}}` is not a path: {step[:40]} is no name in quotes") from None
