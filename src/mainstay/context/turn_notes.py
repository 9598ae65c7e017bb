"""Selects the notes of a turn: what the model sees already is not appended again, and all notes together are bounded.

Pure: what was shown is read from the visible messages, so a restart, a fold and a fork need no further state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from mainstay.core.memory_tiers import CONTEXT_ORIGIN, UNTRUSTED
from mainstay.core.messages import Message, Text, ToolResult
from mainstay.core.ports import TurnNote

LOADING_TOOLS = ("skill", "pattern")  # their results may be the same text as a note
CATALOGUE_TOOL = "call_tool"  # calls them by name


def select_notes(visible: Sequence[Message], notes: Iterable[Text], bytes_max: int) -> Iterator[Text]:
    """Yield the texts to append. `visible` are the messages that the model will see; `bytes_max` bounds the notes in
    them together with the new ones, 0 for no bound."""
    texts = list(_visible_texts(visible))
    shown = {text for _, text in texts}
    sizes = [(origin, len(text.encode())) for origin, text in texts if origin]
    for item in notes:
        note = item if isinstance(item, TurnNote) else TurnNote(item.text, origin=item.origin)
        text = note.text
        forms = {text, *note.other_forms}
        if not shown.isdisjoint(forms) and not (note.kind and _is_replaced(note, forms, texts)):
            text = note.if_shown
        elif note.if_full and not _fits(note, sizes, bytes_max):
            text = "" if note.if_full in shown else note.if_full
        if text:
            shown.add(text)
            sizes.append((_kind_of(note.origin), len(text.encode())))
            yield Text(text, origin=note.origin)


def _is_replaced(note: TurnNote, forms: Collection[str], texts: Sequence[tuple[str, str]]) -> bool:
    """Return whether a later note about the same subject says something else: what changed and changed back is shown
    again."""
    subject = _kind_of(note.origin)
    for origin, text in reversed(texts):
        if text in forms:
            return False
        if origin == subject and text not in (note.if_shown, note.if_full):
            return True
    return False


def _fits(note: TurnNote, sizes: Sequence[tuple[str, int]], bytes_max: int) -> bool:
    size = len(note.text.encode())
    if bytes_max and size + sum(used for _, used in sizes) > bytes_max:
        return False
    of_kind = sum(used for origin, used in sizes if origin.startswith(note.kind))
    return not note.bytes_max or size + of_kind <= note.bytes_max


def _visible_texts(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """Yield the origin and the text of each visible note, and the results of tools that load the same texts, without an
    origin: the model asked for those."""
    for message in messages:
        if message.role not in ("system", "tool"):
            continue
        for part in message.parts:
            match part:
                case Text(text=text, origin=origin) if message.role == "system" and (kind := _kind_of(origin)):
                    yield kind, text
                case ToolResult(name=name, content=content, is_error=False, mark=mark) if name in LOADING_TOOLS or (
                    name == CATALOGUE_TOOL and not mark
                ):
                    yield "", content


def _kind_of(origin: str) -> str:
    """Return the origin of a contributor's note without its trust label; empty for another origin."""
    origin = origin.removeprefix(f"{UNTRUSTED}:")
    return origin if origin.startswith(CONTEXT_ORIGIN) else ""
