"""Edits mainstay.yaml for commands: adds an item to a list, adds or removes an entry of a section.

The rest of the file stays as it is, comments included. Layouts that cannot be edited in place are refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mainstay.config import loader as config
from mainstay.config.yaml_file import Keys, append_flow_entry, edit_text, entry_offset, lock_file, to_yaml, with_value
from mainstay.core.errors import ConfigError
from mainstay.io.yaml import YamlDocument, YamlPosition

USE_AN_EDITOR = "its layout cannot be edited automatically; use an editor"


def read_entry(home: Path, keys: Keys) -> Any:
    """Return the value in the file; None if the key is not there."""
    return _value_at(config.read_document(home)[1].data, keys)


def add_entry(home: Path, keys: Keys, value: Any) -> bool:
    """Add a value under a new key. Returns False, and changes nothing, if the key has a value."""
    with lock_file(home / config.FILE):
        text, document = config.read_document(home)
        if _value_at(document.data, keys) is not None:
            return False
        with config.explain_unchanged():
            new = edit_text(text, document, keys, value)
        config.save_text(home, new, with_value(document.data, keys, value))
        return True


def add_item(home: Path, keys: Keys, value: str) -> bool:
    """Append a text to a list. Returns False if it is in the list already."""
    with lock_file(home / config.FILE):
        return _add_item(home, keys, value)


def _add_item(home: Path, keys: Keys, value: str) -> bool:
    text, document = config.read_document(home)
    items = _value_at(document.data, keys) or []
    if not isinstance(items, list):
        items = [items]
    if value in items:
        return False
    place = document.find_position(keys)
    if place is None or place.kind != "block" or not place.children:
        with config.explain_unchanged():
            if place is not None and place.kind == "flow" and place.children:
                new = append_flow_entry(text, place, to_yaml(value), "\n")
            else:
                new = edit_text(text, document, keys, [*items, value])
        config.save_text(home, new, with_value(document.data, keys, [*items, value]))
        return True
    last = place.children[len(items) - 1]
    line = text.rfind("\n", 0, last.start) + 1
    bullet = text[line : last.start]
    with config.explain_unchanged():
        if bullet.strip() != "-":
            raise ConfigError(USE_AN_EDITOR)
    end = _next_line_start(text, _value_end(last, text))
    new = f"{text[:end]}{_missing_newline(text, end)}{bullet}{to_yaml(value)}\n{text[end:]}"
    config.save_text(home, new, _replace_at(document.data, keys, [*items, value]))
    return True


def remove_entry(home: Path, keys: Keys) -> bool:
    """Remove a key, and its section if nothing else is in it. Returns False if there is no such key."""
    with lock_file(home / config.FILE):
        return _remove_entry(home, keys)


def _remove_entry(home: Path, keys: Keys) -> bool:
    text, document = config.read_document(home)
    if document.find_position(keys) is None:
        return False
    while len(keys) > 1 and len(_value_at(document.data, keys[:-1])) == 1:
        keys = keys[:-1]
    above = document.find_position(keys[:-1])
    assert above is not None, "the section of an existing key exists"
    with config.explain_unchanged():
        if above.kind not in ("block", "flow"):
            raise ConfigError(USE_AN_EDITOR)
    place = above.children[keys[-1]]
    if above.kind == "flow":
        start, end = _flow_entry_range(text, above, keys[-1])
        config.save_text(home, text[:start] + text[end:], _without_entry(document, keys))
        return True
    start = entry_offset(text, place) - place.column
    end = _next_line_start(text, _value_end(place, text))
    config.save_text(home, text[:start] + text[end:], _without_entry(document, keys) or None)
    return True


def _flow_entry_range(text: str, parent: YamlPosition, key: str | int) -> tuple[int, int]:
    """Return the range to cut out of `{…}`: the entry and one comma."""
    entries = list(parent.children.values())
    if len(entries) == 1:
        return parent.start + 1, parent.end - 1
    at = list(parent.children).index(key)
    return (
        (entries[at - 1].end, entries[at].end)
        if at
        else (entry_offset(text, entries[0]), entry_offset(text, entries[1]))
    )


def _value_at(data: Any, keys: Keys) -> Any:
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _replace_at(data: Any, keys: Keys, value: Any) -> Any:
    return {**data, keys[0]: _replace_at(data[keys[0]], keys[1:], value)} if keys else value


def _without_entry(document: YamlDocument, keys: Keys) -> Any:
    section = {key: value for key, value in _value_at(document.data, keys[:-1]).items() if key != keys[-1]}
    return _replace_at(document.data, keys[:-1], section)


def _value_end(position: YamlPosition, text: str) -> int:
    """Return the offset where a value ends; the parser's end of a block includes the comments after it."""
    if position.kind == "block" and position.children:
        return max(_value_end(child, text) for child in position.children.values())
    return max(len(text[: position.end].rstrip()), position.start)


def _next_line_start(text: str, at: int) -> int:
    newline = text.find("\n", at)
    return newline + 1 if newline >= 0 else len(text)


def _missing_newline(text: str, end: int) -> str:
    return "" if text[:end].endswith("\n") else "\n"
