"""Changes to mainstay.yaml that commands make: an item more in a list, an entry less in a section.

The rest of the file stays as it is, comments and all; what cannot be done that way is left to an editor.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mainstay.config import loading as config
from mainstay.config.yaml_file import Keys, appended, changing, edited, offset, with_value, written
from mainstay.core.errors import ConfigError
from mainstay.io.yaml import Document, Place

EDITOR = "its layout is too unusual to change by itself; use an editor"


def entry(home: Path, keys: Keys) -> Any:
    """What the file says there; None where it says nothing."""
    return _at(config.read_document(home)[1].data, keys)


def add_entry(home: Path, keys: Keys, value: Any) -> bool:
    """Put a value where the file says nothing yet. False: it says something, and that stays."""
    with changing(home / config.FILE):
        text, document = config.read_document(home)
        if _at(document.data, keys) is not None:
            return False
        with config.leaving_unchanged():
            new = edited(text, document, keys, value)
        config.save(home, new, with_value(document.data, keys, value))
        return True


def add_item(home: Path, keys: Keys, value: str) -> bool:
    """Put a text at the end of a list. False: it is in it already."""
    with changing(home / config.FILE):
        return _add_item(home, keys, value)


def _add_item(home: Path, keys: Keys, value: str) -> bool:
    text, document = config.read_document(home)
    items = _at(document.data, keys) or []
    if not isinstance(items, list):
        items = [items]
    if value in items:
        return False
    place = document.place(keys)
    if place is None or place.kind != "block" or not place.children:
        with config.leaving_unchanged():
            if place is not None and place.kind == "flow" and place.children:
                new = appended(text, place, written(value), "\n")
            else:
                new = edited(text, document, keys, [*items, value])
        config.save(home, new, with_value(document.data, keys, [*items, value]))
        return True
    last = place.children[len(items) - 1]
    line = text.rfind("\n", 0, last.start) + 1
    before = text[line : last.start]
    with config.leaving_unchanged():
        if before.strip() != "-":
            raise ConfigError(EDITOR)
    end = _line_end(text, _end(last, text))
    new = f"{text[:end]}{_newline(text, end)}{before}{written(value)}\n{text[end:]}"
    config.save(home, new, _with(document.data, keys, [*items, value]))
    return True


def drop_entry(home: Path, keys: Keys) -> bool:
    """Take a key out of its section, and the section if nothing else is in it. False: there is no such key."""
    with changing(home / config.FILE):
        return _drop_entry(home, keys)


def _drop_entry(home: Path, keys: Keys) -> bool:
    text, document = config.read_document(home)
    if document.place(keys) is None:
        return False
    while len(keys) > 1 and len(_at(document.data, keys[:-1])) == 1:
        keys = keys[:-1]
    above = document.place(keys[:-1])
    assert above is not None, "what has a key is there"
    with config.leaving_unchanged():
        if above.kind not in ("block", "flow"):
            raise ConfigError(EDITOR)
    place = above.children[keys[-1]]
    if above.kind == "flow":
        start, end = _flow_extent(text, above, keys[-1])
        config.save(home, text[:start] + text[end:], _without(document, keys))
        return True
    start = offset(text, place) - place.column
    end = _line_end(text, _end(place, text))
    config.save(home, text[:start] + text[end:], _without(document, keys) or None)
    return True


def _flow_extent(text: str, above: Place, key: str | int) -> tuple[int, int]:
    """What to cut out of `{…}`: the entry, and the comma that it leaves behind."""
    beside = list(above.children.values())
    if len(beside) == 1:
        return above.start + 1, above.end - 1
    at = list(above.children).index(key)
    return (beside[at - 1].end, beside[at].end) if at else (offset(text, beside[0]), offset(text, beside[1]))


def _at(data: Any, keys: Keys) -> Any:
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _with(data: Any, keys: Keys, value: Any) -> Any:
    return {**data, keys[0]: _with(data[keys[0]], keys[1:], value)} if keys else value


def _without(document: Document, keys: Keys) -> Any:
    section = {key: one for key, one in _at(document.data, keys[:-1]).items() if key != keys[-1]}
    return _with(document.data, keys[:-1], section)


def _end(place: Place, text: str) -> int:
    """Where a value ends; a block's own end lies behind the comments that follow it."""
    if place.kind == "block" and place.children:
        return max(_end(child, text) for child in place.children.values())
    return max(len(text[: place.end].rstrip()), place.start)


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return found + 1 if found >= 0 else len(text)


def _newline(text: str, end: int) -> str:
    return "" if text[:end].endswith("\n") else "\n"
