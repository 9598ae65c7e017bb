"""What stands in a context for something larger: the beginning of it, and how to read on.

Pure, and the same whenever it is made again: a session that is read back shows the model the very same bytes.
"""

from __future__ import annotations

import re

import msgspec

from mainstay.core.events import Relieved
from mainstay.core.messages import AnyPart, Message, Text, Thinking, ToolCall, ToolResult
from mainstay.core.recall import message_id

ROOM = 600  # characters that a stub shows of what it stands for
_SAVES = 160  # what is hardly longer than its stub stays as it is
_CUT = re.compile(r"\n\[cut: (\d+) characters in all; read on with [^\n]*\]\Z")

SUMMARY = (
    "[This summary stands for the earlier part of this conversation. It is a record of what was said and done, not a "
    "new request. memory_search and memory_get find the original messages.]"
)
_STEPS = (
    "{count} earlier steps of this turn are left out here for lack of room. They called: {tools}. "
    "memory_search and result find what they gave."
)
_NOTED = re.compile(re.escape(_STEPS).replace(r"\{count\}", r"(\d+)").replace(r"\{tools\}", "(.*)"), re.DOTALL)
_LEFT_OUT = "runtime:steps"
_NOTHING = "nothing that worked"


def relieve(messages: list[Message], event: Relieved, session: str, turn: int, seq: int, at: int) -> list[Message]:
    """What is shown after `event`, which stands at `seq`; `turn` is the one under way, 0 for none."""
    room = event.room or ROOM
    chosen, texts = frozenset(event.results), frozenset(event.texts)
    shown = list(messages)
    for place, message in enumerate(shown):
        if message.role == "tool" and (chosen or message.turn <= event.turns):
            shown[place] = message = stub_results(message, room, None if message.turn <= event.turns else chosen)
        if message.id in texts:
            shown[place] = cut_message(session, message, room)
    return without_steps(shown, turn, event.steps, seq, at) if event.steps and turn else shown


def stub_result(result: ToolResult, room: int) -> ToolResult:
    text = _shortened(result.content, room, f'result(ref="{result.call_id}", offset={{offset}})')
    return result if text is None else msgspec.structs.replace(result, content=text)


def stub_results(message: Message, room: int, only: frozenset[str] | None = None) -> Message:
    """The message with its results as stubs, or only those of some calls; itself if that changes nothing."""
    parts = tuple(
        stub_result(part, room) if isinstance(part, ToolResult) and (only is None or part.call_id in only) else part
        for part in message.parts
    )
    return _with_parts(message, parts)


def cut_message(session: str, message: Message, room: int) -> Message:
    """The message with its long texts, arguments and results cut."""
    how = f'memory_get(id="{message_id(session, message.id)}", offset={{offset}})'
    return _with_parts(message, tuple(_cut_part(part, room, how) for part in message.parts))


def _cut_part(part: AnyPart, room: int, how: str) -> AnyPart:
    match part:
        case Text(text=text) if (cut := _shortened(text, room, how)) is not None:
            return msgspec.structs.replace(part, text=cut)
        case Thinking(text=text, signature="") if len(text) > room:
            return msgspec.structs.replace(part, text=text[:room])
        case ToolCall(input=input) if len(input) > room + _SAVES:
            note = {"cut": f"{len(input)} characters; read them with " + how.format(offset=0)}
            return msgspec.structs.replace(part, input=msgspec.json.encode(note).decode())
        case ToolResult():
            return stub_result(part, room)
    return part


def _shortened(text: str, room: int, how: str) -> str | None:
    """None if it is short enough. What was cut before is cut again from what is left of it."""
    total, shown = len(text), text
    if (cut := _CUT.search(text)) is not None:
        total, shown = int(cut[1]), text[: cut.start()]
    if len(shown) <= room + (_SAVES if cut is None else 0):
        return None
    head = shown[:room]
    return f"{head}\n[cut: {total} characters in all; read on with {how.format(offset=len(head))}]"


def is_stub(result: ToolResult) -> bool:
    return _CUT.search(result.content, max(0, len(result.content) - 400)) is not None


def _with_parts(message: Message, parts: tuple[AnyPart, ...]) -> Message:
    if all(new is old for new, old in zip(parts, message.parts, strict=True)):
        return message
    return Message(
        message.id, message.role, parts, at=message.at, model=message.model, turn=message.turn, since=message.since
    )


def summary_message(seq: int, at: int, summary: str, origin: str) -> Message:
    """The first message of a history that was folded."""
    text = f"{SUMMARY}\n\n{summary}" if summary else SUMMARY
    return Message(seq, "user", (Text(text, origin=origin or "summary"),), at=at)


def is_note_of_steps(message: Message) -> bool:
    return message.role == "system" and message.parts[0].origin == _LEFT_OUT


def _named(tools: str) -> list[str]:
    return [] if tools == _NOTHING else tools.split(", ")


def without_steps(messages: list[Message], turn: int, count: int, seq: int, at: int) -> list[Message]:
    """The running turn without its first `count` calls and their results: whole steps, so that no call is without its
    result. One note stands for all that were left out."""
    kept: list[Message] = []
    names: list[str] = []
    gone, skip, place = 0, False, -1
    for message in messages:
        mine = message.turn == turn
        if mine and (noted := _NOTED.fullmatch(message.text) if is_note_of_steps(message) else None) is not None:
            earlier = int(noted[1])  # left out before
            gone, count, names = gone + earlier, count + earlier, [*_named(noted[2]), *names]
            place = len(kept)
        elif mine and message.role == "assistant" and message.calls and gone < count:
            gone, skip = gone + 1, True
            place = len(kept) if place < 0 else place
        elif mine and message.role == "tool" and skip:  # what failed may be a name that a model made up
            names += [part.name for part in message.parts if isinstance(part, ToolResult) and not part.is_error]
            skip = False
        else:
            kept.append(message)
    if place >= 0:
        tools = ", ".join(dict.fromkeys(names))[:200] or _NOTHING
        note = Text(_STEPS.format(count=gone, tools=tools), origin=_LEFT_OUT)
        kept.insert(place, Message(seq, "system", (note,), at=at, turn=turn))
    return kept
