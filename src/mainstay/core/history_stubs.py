"""Stubs that replace large messages in a context: their beginning, and how to read the rest.

Pure and deterministic: a session that is loaded again shows the model exactly the same bytes.
"""

from __future__ import annotations

import re

import msgspec

from mainstay.core.events import Relieved
from mainstay.core.memory_tiers import message_id
from mainstay.core.messages import AnyPart, Message, Text, Thinking, ToolCall, ToolResult

STUB_CHARS = 600  # characters of the original that a stub shows
_SAVING_CHARS_MIN = 160  # a text stays whole if its stub would save fewer characters
_CUT_NOTE_PATTERN = re.compile(r"\n\[cut: (\d+) characters in all; read on with [^\n]*\]\Z")

SUMMARY_HEADING = (
    "[This summary stands for the earlier part of this conversation. It is a record of what was said and done, not a "
    "new request. memory_search and memory_get find the original messages.]"
)
_STEPS_NOTE = (
    "{count} earlier steps of this turn are left out here for lack of room. They called: {tools}. "
    "memory_search and result find what they gave."
)
_STEPS_NOTE_PATTERN = re.compile(
    re.escape(_STEPS_NOTE).replace(r"\{count\}", r"(\d+)").replace(r"\{tools\}", "(.*)"), re.DOTALL
)
_STEPS_NOTE_ORIGIN = "runtime:steps"
_NO_TOOLS = "nothing that worked"


def apply_relief(messages: list[Message], event: Relieved, session: str, turn: int, seq: int, at: int) -> list[Message]:
    """Return the history after `event`, the record at `seq`; `turn` is the open turn, 0 for none."""
    room = event.room or STUB_CHARS
    chosen, texts = frozenset(event.results), frozenset(event.texts)
    reduced = list(messages)
    for index, message in enumerate(reduced):
        if message.role == "tool" and (chosen or message.turn <= event.turns):
            reduced[index] = message = stub_results(message, room, None if message.turn <= event.turns else chosen)
        if message.id in texts:
            reduced[index] = cut_message(session, message, room)
    return drop_steps(reduced, turn, event.steps, seq, at) if event.steps and turn else reduced


def stub_result(result: ToolResult, chars_max: int) -> ToolResult:
    text = _shorten(result.content, chars_max, f'result(ref="{result.call_id}", offset={{offset}})')
    return result if text is None else msgspec.structs.replace(result, content=text)


def stub_results(message: Message, chars_max: int, call_ids: frozenset[str] | None = None) -> Message:
    """Return the message with its results (or only those of some calls) as stubs; itself if nothing changes."""
    parts = tuple(
        stub_result(part, chars_max)
        if isinstance(part, ToolResult) and (call_ids is None or part.call_id in call_ids)
        else part
        for part in message.parts
    )
    return _with_parts(message, parts)


def cut_message(session: str, message: Message, chars_max: int) -> Message:
    """Return the message with long texts, arguments and results cut."""
    how = f'memory_get(id="{message_id(session, message.id)}", offset={{offset}})'
    return _with_parts(message, tuple(_cut_part(part, chars_max, how) for part in message.parts))


def _cut_part(part: AnyPart, chars_max: int, read_on: str) -> AnyPart:
    match part:
        case Text(text=text) if (cut := _shorten(text, chars_max, read_on)) is not None:
            return msgspec.structs.replace(part, text=cut)
        case Thinking(text=text, signature="") if len(text) > chars_max:
            return msgspec.structs.replace(part, text=text[:chars_max])
        case ToolCall(input=input) if len(input) > chars_max + _SAVING_CHARS_MIN:
            note = {"cut": f"{len(input)} characters; read them with " + read_on.format(offset=0)}
            return msgspec.structs.replace(part, input=msgspec.json.encode(note).decode())
        case ToolResult():
            return stub_result(part, chars_max)
    return part


def _shorten(text: str, chars_max: int, read_on: str) -> str | None:
    """Return the text cut to `chars_max` with a note; None if it is short enough. A stub may be cut again."""
    total, visible = len(text), text
    if (cut := _CUT_NOTE_PATTERN.search(text)) is not None:
        total, visible = int(cut[1]), text[: cut.start()]
    if len(visible) <= chars_max + (_SAVING_CHARS_MIN if cut is None else 0):
        return None
    head = visible[:chars_max]
    return f"{head}\n[cut: {total} characters in all; read on with {read_on.format(offset=len(head))}]"


def is_stub(result: ToolResult) -> bool:
    return _CUT_NOTE_PATTERN.search(result.content, max(0, len(result.content) - 400)) is not None


def _with_parts(message: Message, parts: tuple[AnyPart, ...]) -> Message:
    if all(new is old for new, old in zip(parts, message.parts, strict=True)):
        return message
    return Message(
        message.id,
        message.role,
        parts,
        at=message.at,
        model=message.model,
        turn=message.turn,
        since=message.since,
        mark=message.mark,
    )


def summary_message(seq: int, at: int, summary: str, origin: str) -> Message:
    """Return the first message of a folded history, which contains the summary."""
    text = f"{SUMMARY_HEADING}\n\n{summary}" if summary else SUMMARY_HEADING
    return Message(seq, "user", (Text(text, origin=origin or "summary"),), at=at)


def is_steps_note(message: Message) -> bool:
    return message.role == "system" and message.parts[0].origin == _STEPS_NOTE_ORIGIN


def _parse_tool_names(tools: str) -> list[str]:
    return [] if tools == _NO_TOOLS else tools.split(", ")


def drop_steps(messages: list[Message], turn: int, count: int, seq: int, at: int) -> list[Message]:
    """Return the history without the first `count` steps of the open turn: calls together with their results.

    One note replaces all that are left out.
    """
    remaining: list[Message] = []
    names: list[str] = []
    dropped, skip, note_index = 0, False, -1
    for message in messages:
        mine = message.turn == turn
        if (
            mine
            and (match := _STEPS_NOTE_PATTERN.fullmatch(message.text) if is_steps_note(message) else None) is not None
        ):
            earlier = int(match[1])  # left out before
            dropped, count, names = dropped + earlier, count + earlier, [*_parse_tool_names(match[2]), *names]
            note_index = len(remaining)
        elif mine and message.role == "assistant" and message.calls and dropped < count:
            dropped, skip = dropped + 1, True
            note_index = len(remaining) if note_index < 0 else note_index
        elif mine and message.role == "tool" and skip:  # without failed calls: the model may have made the name up
            names += [part.name for part in message.parts if isinstance(part, ToolResult) and not part.is_error]
            skip = False
        else:
            remaining.append(message)
    if note_index >= 0:
        tools = ", ".join(dict.fromkeys(names))[:200] or _NO_TOOLS
        note = Text(_STEPS_NOTE.format(count=dropped, tools=tools), origin=_STEPS_NOTE_ORIGIN)
        mark = messages[-1].mark if messages else ""
        remaining.insert(note_index, Message(seq, "system", (note,), at=at, turn=turn, mark=mark))
    return remaining
