"""What a conversation has read, as evidence for destinations: records of tool results, public links, and readers.

Computed only for a call that would otherwise need approval. What is not understood counts against the call: a result
that is not JSON has no records, a summary and an attachment are private and have no readers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice

import msgspec

from mainstay.core.memory_tiers import RUNTIME, is_private, is_untrusted
from mainstay.core.messages import Binary, Message, Text, ToolCall, ToolResult
from mainstay.core.ports import Tool
from mainstay.core.session import Session
from mainstay.core.tool_ports import CALL_TOOL_NAME, declared_readers, is_declared_private, only_reads
from mainstay.guards.line_escaping import one_line
from mainstay.trust.requested_actions import lists_things
from mainstay.trust.result_records import (
    FIELD_CHARS_MAX,
    ResultRecord,
    build_record,
    iterate_lines,
    normalise_reader,
)
from mainstay.trust.tool_invocation import iterate_texts

_RESULTS_MAX = 400  # newest results that are examined
_RESULT_CHARS_MAX = 400_000  # a longer result is not parsed
_RECORDS_MAX = 5_000  # of one result
_DEPTH_MAX = 12
_PART_FIELDS_MAX = 6
_PARSED_MAX = 256  # results whose records are remembered
_ID_KEY = re.compile(r"(?:.*[_-])?(?:id|uuid|uid)|.*(?:Id|ID)")
_REFERENCE_KEY = re.compile(r"(?:.*[_-])?(?:ref|sku|number)")  # the id of a record without another one


class SeenResult(msgspec.Struct, frozen=True):
    """A tool result that the model has read."""

    content: str
    arguments: Mapping[str, object]
    tool: Tool | None  # None: it is not known any more
    is_trusted: bool  # the developer or the owner declared its content as the user's own data
    is_public: bool
    is_own_action: bool  # a call that changed something and succeeded
    has_records: bool  # its objects, or the rows of a list, were built by the tool, not by text of others
    input: str  # the arguments as the model wrote them, in lower case: what they contain is no evidence
    is_planned: bool  # the model had read nothing from outside when it made the call


class SeenContent:
    """Everything that the model has read in a conversation, in order.

    `find_tool` returns the tool of a result; its declaration decides whether a result is trusted or public.
    """

    def __init__(self, messages: Sequence[Message], find_tool: Callable[[str], Tool | None]) -> None:
        self._records: list[tuple[ResultRecord, SeenResult]] | None = None
        self.results: list[SeenResult] = []
        self.public_results: list[SeenResult] = []  # read before anything private
        self.reader_sets: list[frozenset[str]] = []  # of each private thing: who can read it already
        calls: dict[str, ToolCall] = {}
        self._planned_calls: set[str] = set()
        has_read = False  # something from outside
        for message in messages:
            has_read = has_read or any(is_untrusted(part.origin) for part in message.parts)
            if message.role == "assistant":
                calls.update({call.id: call for call in message.calls})
                if not has_read:
                    self._planned_calls.update(call.id for call in message.calls)
                continue
            for part in message.parts:
                match part:
                    case ToolResult():
                        self._add_result(part, calls.get(part.call_id), find_tool)
                    case Binary():
                        self.reader_sets.append(frozenset())
                    case Text(origin=origin) if (origin and origin != RUNTIME) and not origin.startswith("context:"):
                        self.reader_sets.append(frozenset())  # pasted, forwarded, a summary
                    case _:
                        pass

    def _add_result(self, part: ToolResult, call: ToolCall | None, find_tool: Callable[[str], Tool | None]) -> None:
        tool = find_tool(part.name) if part.name != CALL_TOOL_NAME else None  # which tool that called is not known here
        # built-in tools declare nothing here: whether a file is trusted differs from call to call
        declares_source = tool is not None and hasattr(tool, "undeclared") and "untrusted" not in tool.undeclared
        is_trusted = (
            declares_source
            and tool is not None
            and not tool.untrusted
            and not is_untrusted(part.origin)
            and not part.is_error  # it may quote the arguments
        )
        is_public = tool is not None and is_declared_private(tool) is False and not is_private(part.origin)
        arguments = _parse_object(call.input) if call is not None else {}
        acted = tool is not None and not only_reads(tool) and not part.is_error
        has_records = not part.is_error and (
            is_trusted or getattr(tool, "is_structured", False) or (tool is not None and lists_things(tool.name))
        )
        written = call.input.casefold() if call is not None else ""
        is_planned = not part.is_error and part.call_id in self._planned_calls
        result = SeenResult(
            part.content, arguments, tool, is_trusted, is_public, acted, has_records, written, is_planned
        )
        self.results.append(result)
        if is_public:
            if not self.reader_sets:
                self.public_results.append(result)
        else:
            self.reader_sets.append(_find_readers(result))

    def records(self) -> Sequence[tuple[ResultRecord, SeenResult]]:
        """Return the records of the newest results; of a trusted one that is not structured, its lines."""
        if self._records is None:
            self._records = list(self._iterate_records())
        return self._records

    def _iterate_records(self) -> Iterator[tuple[ResultRecord, SeenResult]]:
        for result in self.results[-_RESULTS_MAX:]:
            if not result.has_records:
                continue
            is_structured = result.is_trusted or getattr(result.tool, "is_structured", False)
            for record in _parse_records(result.content, is_trusted=result.is_trusted, is_structured=is_structured):
                yield record, result


def iterate_names(result: SeenResult) -> Iterator[str]:
    """Yield the items of a result that is a list of names, and the short texts of its records."""
    value = parse_json(result.content)
    items = value if isinstance(value, list) else []
    yield from (item for item in items if isinstance(item, str) and len(item) <= FIELD_CHARS_MAX)
    for record in _parse_records(result.content, is_trusted=result.is_trusted):
        yield from record.texts


def _parse_object(text: str) -> Mapping[str, object]:
    try:
        value = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# --- readers ---------------------------------------------------------------------------------------


def _find_readers(result: SeenResult) -> frozenset[str]:
    """Return who can read the whole result already, by the fields that its tool declares as `readers`."""
    names = declared_readers(result.tool) if result.tool is not None else ()
    if not names:
        return frozenset()
    named = [text for name in names for text in iterate_texts(result.arguments.get(name))]
    if named:
        return frozenset(map(normalise_reader, named))
    value = parse_json(result.content)
    objects = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict)]
    if not objects or (isinstance(value, list) and len(objects) < len(value)):
        return frozenset()
    sets = [
        frozenset(normalise_reader(text) for name in names for text in iterate_texts(item.get(name)))
        for item in objects
    ]
    return frozenset.intersection(*sets)


# --- records ---------------------------------------------------------------------------------------


def parse_json(text: str) -> object:
    stripped = text.lstrip()
    if not stripped.startswith(("{", "[", '"')) or len(text) > _RESULT_CHARS_MAX:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


@lru_cache(maxsize=_PARSED_MAX)
def _parse_records(content: str, *, is_trusted: bool, is_structured: bool = True) -> tuple[ResultRecord, ...]:
    value = parse_json(content)  # a list or search that returns JSON as text has built all of it
    if isinstance(value, str) and is_structured:
        content = value
        value = parse_json(content)
    records = tuple(islice(_iterate_objects(value, 0), _RECORDS_MAX))
    if not records and value is None:
        records = _blank_doubtful(tuple(islice(iterate_lines(content[:_RESULT_CHARS_MAX]), _RECORDS_MAX)))
    if records or not is_trusted:
        return records
    # a trusted result that is no object: its items or lines
    items = value if isinstance(value, list) else content[:_RESULT_CHARS_MAX].splitlines()
    texts = [text for item in items[:_RECORDS_MAX] for text in iterate_texts(item) if text.strip()]
    return tuple(build_record("", (text[:FIELD_CHARS_MAX],)) for text in texts)


def _blank_doubtful(records: tuple[ResultRecord, ...]) -> tuple[ResultRecord, ...]:
    """Return the rows of a table without the texts of those whose id another row has with other texts: one of them may
    be forged by the text of a cell."""
    texts: dict[str, tuple[str, ...]] = {}
    rows = [record for record in records if record.is_row]
    doubtful = {record.id for record in rows if texts.setdefault(record.id, record.texts) != record.texts}
    blank = {id: msgspec.structs.replace(build_record(id, ()), is_row=True) for id in doubtful}
    return tuple(blank.get(record.id, record) if record.is_row else record for record in records)


def _iterate_objects(value: object, depth: int) -> Iterator[ResultRecord]:
    if depth > _DEPTH_MAX:
        return
    if isinstance(value, list):
        for item in value:
            yield from _iterate_objects(item, depth + 1)
    elif isinstance(value, dict):
        parts = {key: part for key, item in value.items() if (part := _find_part(item))}
        scalars = {key: item for key, item in value.items() if isinstance(item, str | int | float)}
        if scalars:
            scalars |= _flatten_parts(parts, scalars)
        else:
            parts = {}  # a mere wrapper
        id_key = next((key for key in scalars if key.strip("_").lower() == "id"), "") or next(
            (key for pattern in (_ID_KEY, _REFERENCE_KEY) for key in scalars if pattern.fullmatch(key.strip("_"))), ""
        )
        texts = [str(item) for key, item in scalars.items() if key != id_key and not isinstance(item, bool)]
        for item in value.values():
            if isinstance(item, list):
                texts += [text for text in item if isinstance(text, str)]
        if scalars or texts:
            short = tuple(text for text in texts if len(text) <= FIELD_CHARS_MAX)
            numbers = frozenset(
                float(item)
                for key, item in scalars.items()
                if key != id_key and isinstance(item, int | float) and not isinstance(item, bool)
            )
            id = str(scalars[id_key]) if id_key else ""
            is_group = any(isinstance(item, list) and item for item in value.values())
            fields = {key: str(item) for key, item in scalars.items() if len(str(item)) <= FIELD_CHARS_MAX}
            keys = frozenset(map(str.lower, scalars))
            yield build_record(id, short, keys, numbers, fields, is_group=is_group)
        for key, item in value.items():
            if key not in parts:
                yield from _iterate_objects(item, depth + 1)


def _find_part(value: object) -> Mapping[str, str | int | float]:
    """Return the fields of an object that is a part of another one: `from: {name, address}`, `price: {amount}`; empty
    for a thing of its own, which has an id or more than a few fields."""
    if not isinstance(value, dict) or not 0 < len(value) <= _PART_FIELDS_MAX:
        return {}
    is_flat = all(isinstance(item, str | int | float) or item is None for item in value.values())
    if not is_flat or any(key.strip("_").lower() == "id" or _ID_KEY.fullmatch(key.strip("_")) for key in value):
        return {}
    return {key: item for key, item in value.items() if item is not None}


def _flatten_parts(
    parts: Mapping[str, Mapping[str, str | int | float]], scalars: Mapping[str, str | int | float]
) -> dict[str, str | int | float]:
    """Return the fields of the parts by their own names, and by that of a part its address, number or first field."""
    flat: dict[str, str | int | float] = {}
    for key, part in parts.items():
        values = list(part.values())
        address = next((item for item in values if isinstance(item, str) and "@" in item), None)
        number = next((item for item in values if isinstance(item, int | float) and not isinstance(item, bool)), None)
        flat[key] = address or (number if number is not None else values[0])
        flat |= {
            f"{key}_{name}" if name in scalars or name in flat else name: item
            for name, item in part.items()
            if item != flat[key]
        }
    return flat


# --- for people ------------------------------------------------------------------------------------


def describe_flow(session: Session, find_tool: Callable[[str], Tool | None]) -> str:
    """Return what information flow control knows about a conversation, in two sentences; empty if nothing restricts
    it."""
    if not session.untrusted:
        return "Something private was read: sending data out needs approval." if session.private else ""
    origins = (part.origin for message in session.messages for part in message.parts)
    first = next((origin.partition(":")[2] for origin in origins if is_untrusted(origin)), "an earlier message")
    seen = SeenContent(session.messages, find_tool)
    links = (
        "Something private was read, too: links in it need approval."
        if seen.reader_sets
        else "Nothing private was read: links in it may be followed."
    )
    return (
        f"Content from outside was read (first: {one_line(first)}): calls that send data or change something need "
        f"approval, unless you asked for them and named the destination. {links}"
    )
