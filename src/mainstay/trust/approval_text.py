"""Approval requests as text for people: the whole call, every destination, and no character that hides or reorders."""

from __future__ import annotations

import base64
import json
import re
import unicodedata

from mainstay.core.events import ApprovalAsked
from mainstay.core.held_changes import APPLY_CHANGES, ShownChange, decode_changes
from mainstay.guards.terminal_sanitizer import escape_line

_INVISIBLE_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"))
_BLANK_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_VARIATION_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_SHORT_DESTINATIONS = 3  # so many are in the request's reason


def format_call(approval: ApprovalAsked) -> list[str]:
    """Return the lines of what would be done, none of them shortened: exactly this is approved."""
    if approval.ran is not None and approval.name == APPLY_CHANGES:
        lines = [line for change in decode_changes(approval.input) for line in _format_change(change)]
    else:
        lines = format_arguments(approval.input)
    if len(approval.destinations) > _SHORT_DESTINATIONS:
        lines.append(f"  destinations ({len(approval.destinations)}):")
        lines += [f"    {escape_approved(destination)}" for destination in approval.destinations]
    if approval.where:
        lines.append(f"  in {escape_approved(approval.where)}")
    return lines


def escape_approved(text: str) -> str:
    """Return the text on one line with every character escaped that is invisible or changes the direction of others,
    also where it is part of ordinary writing (joiners, variation selectors, direction marks, other spaces)."""
    line = escape_line(text)
    if line.isascii():
        return line
    return "".join(char if char.isascii() or not _is_invisible(char) else _escape(char) for char in line)


def _is_invisible(char: str) -> bool:
    if char in _BLANK_LETTERS or _VARIATION_SELECTORS.match(char):
        return True
    return unicodedata.category(char) in _INVISIBLE_CATEGORIES


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def format_arguments(input: str) -> list[str]:
    """Return a call's arguments, one below the other, none of them shortened."""
    lines = []
    for name, text in _parse_arguments(input):
        first, *rest = text.split("\n")
        lines.append(f"  {escape_approved(name)}: {escape_approved(first)}")
        lines += [f"  {' ' * len(escape_approved(name))}│ {escape_approved(line)}" for line in rest]
    return lines


def _parse_arguments(input: str) -> list[tuple[str, str]]:
    try:
        arguments = json.loads(input or "{}")
        if isinstance(arguments, dict):
            return [
                (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
                for name, value in arguments.items()
            ]
    except (ValueError, RecursionError):  # a model can write endlessly nested brackets
        pass
    return [("arguments", input)]


def _format_change(change: ShownChange) -> list[str]:
    path, mode = escape_approved(change.path), f" (mode {change.mode})" if change.mode else ""
    match change.change:
        case "delete folder":
            return [f"  delete {path}/ with {change.files} file{'' if change.files == 1 else 's'} in it"]
        case "link":
            return [f"  link {path} to {escape_approved(change.target)}"]
        case "create" | "replace" if change.base64 is not None:
            size = len(base64.b64decode(change.base64))
            return [f"  {change.change} {path}{mode}: {size} bytes that are no text, sha256 {change.sha256}"]
    content = change.diff if change.change == "edit" else change.content
    lines = content.split("\n") if content else []
    return [f"  {change.change} {path}{mode}", *(f"  │ {escape_approved(line)}" for line in lines)]
