"""Safe YAML loader: size limits (alias bombs), plain values only, and the line of every key.

Scalars follow the core schema of YAML 1.2, so that `no`, `on`, `2024-01-31` and `0123` stay strings; keys are always
strings. The document is built from the parser's events one by one, so that a text that exceeds a limit is refused
before it takes memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import closing
from typing import TYPE_CHECKING, Literal

import msgspec

from mainstay.core.json_types import JsonObject, JsonValue

if TYPE_CHECKING:
    from yaml.error import Mark
    from yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, Event, ScalarEvent

BYTES_MAX = 1024 * 1024
ALIASES_MAX = 100
DEPTH_MAX = 50
_DIGITS_MAX = 100
_DIRECTIVES_MAX = 16

YamlPath = tuple[str | int, ...]
YamlScalar = None | bool | int | float | str

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INF_OR_NAN = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_CORE_TAG_PREFIX = "tag:yaml.org,2002:"
_TYPES_BY_TAG: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
}


class YamlRefused(ValueError):
    """The text is not valid YAML, or not allowed here; `reason` says why, `line` (from 1) where."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(f"line {line}: {reason}")
        self.reason = reason
        self.line = line


class YamlPosition(msgspec.Struct):
    """The position of a value: line (from 1) and column of its key or item, and start and end in characters.

    A byte-order mark at the start of the text is not counted.
    """

    line: int
    column: int
    start: int
    end: int
    kind: Literal["scalar", "alias", "flow", "block"]
    children: dict[str | int, YamlPosition] = {}
    # counted as if every alias were expanded
    node_count: int = 1
    alias_count: int = 0
    height: int = 0

    def add_child(self, key: str | int, child: YamlPosition) -> None:
        self.children[key] = child
        self.node_count += child.node_count
        self.alias_count += child.alias_count
        self.height = max(self.height, child.height + 1)


class YamlDocument(msgspec.Struct, frozen=True):
    """A parsed document. Treat `data` as read-only: an alias and its anchor are the same object."""

    data: JsonValue
    root_position: YamlPosition

    def find_line(self, path: YamlPath) -> int:
        """Return the line of a key, or of its nearest existing parent."""
        position = self.root_position
        for key in path:
            if key not in position.children:
                break
            position = position.children[key]
        return position.line

    def find_position(self, path: YamlPath) -> YamlPosition | None:
        position: YamlPosition | None = self.root_position
        for key in path:
            position = position.children.get(key) if position is not None else None
        return position


def load_yaml(
    text: str | bytes,
    *,
    bytes_max: int = BYTES_MAX,
    aliases_max: int = ALIASES_MAX,
    depth_max: int = DEPTH_MAX,
    scalars_as_text: bool = False,
    strict: bool = False,
) -> YamlDocument:
    """Parse one document. Raises `YamlRefused`, and nothing else, whatever the text.

    With `scalars_as_text`, every scalar is its source text: `1.0` stays "1.0", and an empty value is "". `strict`
    accepts block style only, without tags, anchors and tabs, as the strictest parsers do; it is slow.
    """
    source = _decode_source(text, bytes_max)
    builder = _DocumentBuilder(
        bytes_max, aliases_max, depth_max, _resolve_as_text if scalars_as_text else _resolve_scalar
    )
    with closing(_parse_events(source, strict=strict)) as events:
        for event in events:
            if strict:
                _check_strict_style(event)
            builder.add_event(event)
    return builder.build_document()


def load_all_yaml(
    text: str | bytes, *, bytes_max: int = BYTES_MAX, scalars_as_text: bool = False
) -> list[YamlDocument]:
    """Parse every document of a text, as `load_yaml` parses one; the limits apply to all of them together."""
    source = _decode_source(text, bytes_max)
    builder = _DocumentBuilder(
        bytes_max, ALIASES_MAX, DEPTH_MAX, _resolve_as_text if scalars_as_text else _resolve_scalar
    )
    documents: list[YamlDocument] = []
    with closing(_parse_events(source)) as events:
        for event in events:
            builder.add_event(event)
            if type(event).__name__ == "DocumentEndEvent":
                documents.append(builder.build_document())
                builder.start_next_document()
    return documents


def parse_plain_scalar(text: str) -> YamlScalar:
    """Return the value of an unquoted scalar."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if _INT.fullmatch(text) and len(text) <= _DIGITS_MAX:
        return int(text, {"0x": 16, "0o": 8}.get(text[:2], 10))
    if _FLOAT.fullmatch(text) and len(text) <= _DIGITS_MAX:
        return float(text)
    if _INF_OR_NAN.fullmatch(text):
        return float(text.replace(".", "", 1))
    return text


def _decode_source(text: str | bytes, bytes_max: int) -> str:
    if len(text) > bytes_max:
        raise YamlRefused(f"the text is larger than {bytes_max} bytes", 1)
    if isinstance(text, bytes):
        try:
            source = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise YamlRefused("the text is not UTF-8", text.count(b"\n", 0, error.start) + 1) from None
    else:
        try:
            size = len(text.encode("utf-8"))
        except UnicodeEncodeError as error:
            raise YamlRefused(
                "the text contains half a character (a lone surrogate)", text.count("\n", 0, error.start) + 1
            ) from None
        if size > bytes_max:
            raise YamlRefused(f"the text is larger than {bytes_max} bytes", 1)
        source = text
    if len(re.findall(r"^%", source, re.MULTILINE)) > _DIRECTIVES_MAX:  # the parser is quadratic in them
        raise YamlRefused("there are too many directives", 1)
    return source


def _parse_events(source: str, *, strict: bool = False) -> Generator[Event, None, None]:
    """Yield the parser's events; all its errors become YamlRefused. `strict` needs the slow parser: C allows tabs."""
    import yaml  # slow to import

    loader = yaml.SafeLoader if strict else getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        yield from yaml.parse(source.removeprefix("\ufeff"), Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1  # may be beyond the last line
        raise YamlRefused(
            _explain_problem(error.problem, error.problem_mark, source), min(line, source.count("\n") + 1)
        ) from None
    except yaml.reader.ReaderError as error:
        line = source.count("\n", 0, error.position) + 1
        raise YamlRefused("a character is not allowed in YAML", line) from None
    except (yaml.YAMLError, ValueError, OverflowError):  # the Python parser leaks some internal errors
        raise YamlRefused("this is not YAML", 1) from None


def _check_strict_style(event: Event) -> None:
    if getattr(event, "tag", None) is not None:
        raise YamlRefused("a value begins with a tag (!); put it in quotes if it is text", _line_number(event))
    if getattr(event, "anchor", None) is not None:
        raise YamlRefused("an anchor (&) or alias (*) is used; put it in quotes if it is text", _line_number(event))
    if getattr(event, "flow_style", False):
        raise YamlRefused("braces or brackets are used; put them in quotes if they are text", _line_number(event))


def _explain_problem(problem: str | None, mark: Mark | None, source: str) -> str:
    body = source.removeprefix("\ufeff")
    if mark is not None and body[mark.index : mark.index + 1] == "\t":
        return "a tab cannot be used for indentation; use spaces"
    return problem or "this is not YAML"


class _OpenCollection:
    """A mapping or sequence whose end event has not come yet."""

    __slots__ = ("anchor", "key", "key_position", "position", "value")

    def __init__(self, value: JsonObject | list[JsonValue], position: YamlPosition, anchor: str | None) -> None:
        self.value = value
        self.position = position
        self.anchor = anchor
        self.key: str | None = None
        self.key_position = (0, 0)


class _DocumentBuilder:
    """Builds plain data from events, counting what every alias would add if it were expanded."""

    def __init__(
        self,
        bytes_max: int,
        aliases_max: int,
        depth_max: int,
        resolve: Callable[[ScalarEvent], YamlScalar] | None = None,
    ) -> None:
        self._resolve = resolve or _resolve_scalar
        self._nodes_max = bytes_max  # a text without aliases has no more nodes than bytes
        self._aliases_max = aliases_max
        self._depth_max = depth_max
        self._node_count = 0
        self._alias_count = 0
        self._open: list[_OpenCollection] = []
        self._anchors: dict[str, tuple[JsonValue, YamlPosition] | None] = {}  # None: the collection is still open
        self._root: tuple[JsonValue, YamlPosition] | None = None
        self._document_count = 0

    def build_document(self) -> YamlDocument:
        data, position = self._root or (None, YamlPosition(1, 0, 0, 0, "scalar"))
        return YamlDocument(data, position)

    def start_next_document(self) -> None:
        """Prepare for the next document. Counts go on; anchors do not carry over."""
        self._root = None
        self._anchors.clear()
        self._document_count = 0

    def add_event(self, event: Event) -> None:
        from yaml import events  # slow to import, but the parser is loaded by now

        match event:
            case events.ScalarEvent() if self._expects_key():
                self._add_key(event)
            case events.ScalarEvent():
                self._add_value(self._resolve(event), self._create_position(event, "scalar"), event.anchor)
            case events.AliasEvent():
                self._add_alias(event)
            case events.MappingStartEvent():
                self._begin_collection({}, event, "map")
            case events.SequenceStartEvent():
                self._begin_collection([], event, "seq")
            case events.CollectionEndEvent():
                self._end_collection(event)
            case events.DocumentStartEvent():
                self._document_count += 1
                if self._document_count > 1:
                    raise YamlRefused("there is more than one document", _line_number(event))

    def _expects_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is None

    def _add_key(self, event: ScalarEvent) -> None:
        top = self._open[-1]
        key, line = _read_scalar_text(event), _line_number(event)
        if event.tag not in (None, "!", _CORE_TAG_PREFIX + "str"):
            raise YamlRefused("only plain tags are allowed", line)
        if event.implicit[0] and key == "<<":
            raise YamlRefused("merge keys (<<) are not supported", line)
        if event.implicit[0] and not key and self._resolve is _resolve_scalar:  # as text, an empty key is ""
            raise YamlRefused("a key is missing before ':'", line)
        if key in top.value:
            raise YamlRefused(f"the key {_quote_name(key)} is given twice", line)
        if event.anchor is not None:
            self._anchors[event.anchor] = (key, self._create_position(event, "scalar"))
        top.key = key
        assert event.start_mark is not None, "the parser marks every event"
        top.key_position = (line, event.start_mark.column)

    def _add_alias(self, event: AliasEvent) -> None:
        line = _line_number(event)
        if self._expects_key():
            raise YamlRefused("an alias cannot be a key", line)
        assert event.anchor is not None, "an alias names its anchor"
        if event.anchor not in self._anchors:
            raise YamlRefused(f"the alias {_quote_name(event.anchor)} has no anchor above it", line)
        target = self._anchors[event.anchor]
        if target is None:
            raise YamlRefused(f"the alias {_quote_name(event.anchor)} is inside of the value that it refers to", line)
        value, origin = target
        position = self._create_position(event, "alias")
        position.children, position.node_count, position.height = origin.children, origin.node_count, origin.height
        position.alias_count = origin.alias_count + 1
        self._node_count += origin.node_count
        self._alias_count += position.alias_count
        if self._alias_count > self._aliases_max:
            raise YamlRefused(f"more than {self._aliases_max} aliases would have to be followed", line)
        if self._node_count > self._nodes_max:
            raise YamlRefused("the aliases would make the document too large", line)
        if len(self._open) + origin.height > self._depth_max:
            raise YamlRefused(f"it is nested deeper than {self._depth_max} levels", line)
        self._add_value(value, position, None)

    def _begin_collection(self, value: JsonObject | list[JsonValue], event: CollectionStartEvent, tag: str) -> None:
        line = _line_number(event)
        if self._expects_key():
            raise YamlRefused("a key must be a plain string", line)
        if len(self._open) >= self._depth_max:
            raise YamlRefused(f"it is nested deeper than {self._depth_max} levels", line)
        if event.tag not in (None, "!", _CORE_TAG_PREFIX + tag):
            raise YamlRefused("only plain tags are allowed", line)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(
            _OpenCollection(value, self._create_position(event, "flow" if event.flow_style else "block"), event.anchor)
        )

    def _end_collection(self, event: CollectionEndEvent) -> None:
        collection = self._open.pop()
        assert event.end_mark is not None, "the parser marks every event"
        collection.position.end = event.end_mark.index
        self._add_value(collection.value, collection.position, collection.anchor)

    def _add_value(self, value: JsonValue, position: YamlPosition, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, position)
        self._node_count += 1
        if not self._open:
            self._root = (value, position)
            return
        top = self._open[-1]
        if isinstance(top.value, list):
            top.position.add_child(len(top.value), position)
            top.value.append(value)
            return
        assert top.key is not None, "a mapping's value comes after its key"
        position.line, position.column = top.key_position
        top.position.add_child(top.key, position)
        top.value[top.key] = value
        top.key = None

    def _create_position(self, event: Event, kind: Literal["scalar", "alias", "flow", "block"]) -> YamlPosition:
        start, end = event.start_mark, event.end_mark
        assert start is not None, "the parser marks every event"
        assert end is not None, "the parser marks every event"
        return YamlPosition(start.line + 1, start.column, start.index, end.index, kind)


def _resolve_scalar(event: ScalarEvent) -> YamlScalar:
    text = _read_scalar_text(event)
    if event.tag is None:
        if not event.implicit[0]:
            return text
        value = parse_plain_scalar(text)
        if isinstance(value, str) and len(text) > _DIGITS_MAX and (_INT.fullmatch(text) or _FLOAT.fullmatch(text)):
            raise YamlRefused("a number is too long; put it in quotes if it is text", _line_number(event))
        return value
    if event.tag in ("!", _CORE_TAG_PREFIX + "str"):
        return text
    types = (
        _TYPES_BY_TAG.get(event.tag.removeprefix(_CORE_TAG_PREFIX)) if event.tag.startswith(_CORE_TAG_PREFIX) else None
    )
    if types is None:
        raise YamlRefused("only plain tags are allowed", _line_number(event))
    value = parse_plain_scalar(text)
    if type(value) not in types:
        raise YamlRefused("a value does not fit its tag", _line_number(event))
    return float(value) if types[0] is float and value is not None else value


def _resolve_as_text(event: ScalarEvent) -> str:
    """Return the source text of a scalar, whatever its type; a null is its text too."""
    if event.tag not in (None, "!", *(_CORE_TAG_PREFIX + kind for kind in ("str", *_TYPES_BY_TAG))):
        raise YamlRefused("only plain tags are allowed", _line_number(event))
    return _read_scalar_text(event)


def _read_scalar_text(event: ScalarEvent) -> str:
    text = event.value
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise YamlRefused("an escape names half a character", _line_number(event)) from None
    return text


def _line_number(event: Event) -> int:
    assert event.start_mark is not None, "the parser marks every event"
    return event.start_mark.line + 1


def _quote_name(name: str) -> str:
    """Quote a name from the text so that it is safe to print, cut to 60 characters."""
    return repr(name) if len(name) <= 60 else repr(name[:60]) + "…"
