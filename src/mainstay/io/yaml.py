"""YAML without surprises: capped, plain values only, and every key knows its line.

Scalars follow the core rules of YAML 1.2, so that `no`, `on`, `2024-01-31` and `0123` stay the strings they
look like; keys are always strings. The document is built from the parser's events as they come, so that
whatever breaks a cap is refused before it grows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any, Literal

import msgspec

BYTES_MAX = 1024 * 1024
ALIASES_MAX = 100
DEPTH_MAX = 50
_DIGITS_MAX = 100
_DIRECTIVES_MAX = 16

Path = tuple[str | int, ...]
Scalar = None | bool | int | float | str

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_CORE = "tag:yaml.org,2002:"
_TAGGED: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
}


class YamlRefused(ValueError):
    """The text is not YAML we take; `sentence` says why, `line` (from 1) where."""

    def __init__(self, sentence: str, line: int) -> None:
        super().__init__(f"line {line}: {sentence}")
        self.sentence = sentence
        self.line = line


class Place(msgspec.Struct):
    """Where a value stands: the line and column of its key (or item), and its extent in characters.

    A byte-order mark at the start of the text is not counted.
    """

    line: int
    column: int
    start: int
    end: int
    kind: Literal["scalar", "alias", "flow", "block"]
    children: dict[str | int, Place] = {}
    # as they would be with every alias written out
    nodes: int = 1
    aliases: int = 0
    height: int = 0

    def adopt(self, key: str | int, child: Place) -> None:
        self.children[key] = child
        self.nodes += child.nodes
        self.aliases += child.aliases
        self.height = max(self.height, child.height + 1)


class Document(msgspec.Struct, frozen=True):
    """`data` is plain; what an alias repeats is the same object twice, so read it and leave it alone."""

    data: Any
    root: Place

    def line(self, path: Path) -> int:
        """The line of a key, or of the nearest thing above it that exists."""
        place = self.root
        for key in path:
            if key not in place.children:
                break
            place = place.children[key]
        return place.line

    def place(self, path: Path) -> Place | None:
        place: Place | None = self.root
        for key in path:
            place = place.children.get(key) if place is not None else None
        return place


def load(
    text: str | bytes,
    *,
    bytes_max: int = BYTES_MAX,
    aliases_max: int = ALIASES_MAX,
    depth_max: int = DEPTH_MAX,
    strings: bool = False,
    strict: bool = False,
) -> Document:
    """Read one document. Raises `YamlRefused`, and nothing else, whatever the text.

    With `strings`, every scalar is the text that it is written as: `1.0` stays "1.0", and nothing is "". `strict`
    takes only what the strictest readers do: blocks without tags, anchors and tabs. That reading is slow.
    """
    source = _decode(text, bytes_max)
    builder = _Builder(bytes_max, aliases_max, depth_max, _as_text if strings else _scalar)
    with closing(_events(source, strict=strict)) as events:
        for event in events:
            if strict:
                _look_at_style(event)
            builder.take(event)
    return builder.document()


def load_all(text: str | bytes, *, bytes_max: int = BYTES_MAX, strings: bool = False) -> list[Document]:
    """Read every document of a text, as `load` reads one: the caps are for all of them together."""
    source = _decode(text, bytes_max)
    builder = _Builder(bytes_max, ALIASES_MAX, DEPTH_MAX, _as_text if strings else _scalar)
    documents: list[Document] = []
    with closing(_events(source)) as events:
        for event in events:
            builder.take(event)
            if type(event).__name__ == "DocumentEndEvent":
                documents.append(builder.document())
                builder.begin_another()
    return documents


def plain(text: str) -> Scalar:
    """What an unquoted scalar means."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if _INT.fullmatch(text) and len(text) <= _DIGITS_MAX:
        return int(text, {"0x": 16, "0o": 8}.get(text[:2], 10))
    if _FLOAT.fullmatch(text) and len(text) <= _DIGITS_MAX:
        return float(text)
    if _SPECIAL.fullmatch(text):
        return float(text.replace(".", "", 1))
    return text


def _decode(text: str | bytes, bytes_max: int) -> str:
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
            raise YamlRefused("the text holds half a character", text.count("\n", 0, error.start) + 1) from None
        if size > bytes_max:
            raise YamlRefused(f"the text is larger than {bytes_max} bytes", 1)
        source = text
    if len(re.findall(r"^%", source, re.MULTILINE)) > _DIRECTIVES_MAX:  # the parser compares each with all others
        raise YamlRefused("there are too many directives", 1)
    return source


def _events(source: str, *, strict: bool = False) -> Generator[Any, None, None]:
    """The parser's events, with everything it may raise mapped to one error. The one in C lets tabs pass."""
    import yaml  # only once there is something to read: it is slow to import

    loader = yaml.SafeLoader if strict else getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        yield from yaml.parse(source.removeprefix("\ufeff"), Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1  # which may lie behind the end
        raise YamlRefused(
            _explain(error.problem, error.problem_mark, source), min(line, source.count("\n") + 1)
        ) from None
    except yaml.reader.ReaderError as error:
        line = source.count("\n", 0, error.position) + 1
        raise YamlRefused("a character is not allowed in YAML", line) from None
    except (yaml.YAMLError, ValueError, OverflowError):  # the Python parser lets some of its own through
        raise YamlRefused("this is not YAML", 1) from None


def _look_at_style(event: Any) -> None:
    if getattr(event, "tag", None) is not None:
        raise YamlRefused("a tag (!) stands before a value; put it in quotes if it is text", _line(event))
    if getattr(event, "anchor", None) is not None:
        raise YamlRefused("an anchor (&) or alias (*) is used; put it in quotes if it is text", _line(event))
    if getattr(event, "flow_style", False):
        raise YamlRefused("braces or brackets are used; put them in quotes if they are text", _line(event))


def _explain(problem: str | None, mark: Any, source: str) -> str:
    body = source.removeprefix("\ufeff")
    if mark is not None and body[mark.index : mark.index + 1] == "\t":
        return "a tab cannot be used for indentation; use spaces"
    return problem or "this is not YAML"


class _Open:
    """A collection whose end has not come yet."""

    __slots__ = ("anchor", "key", "key_place", "place", "value")

    def __init__(self, value: dict[str, Any] | list[Any], place: Place, anchor: str | None) -> None:
        self.value = value
        self.place = place
        self.anchor = anchor
        self.key: str | None = None
        self.key_place = (0, 0)


class _Builder:
    """Makes plain data from events, counting what every alias would add if it were written out."""

    def __init__(
        self, bytes_max: int, aliases_max: int, depth_max: int, scalar: Callable[[Any], Scalar] | None = None
    ) -> None:
        self._scalar = scalar or _scalar
        self._nodes_max = bytes_max  # a text without aliases cannot hold more nodes than bytes
        self._aliases_max = aliases_max
        self._depth_max = depth_max
        self._nodes = 0
        self._aliases = 0
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, Place] | None] = {}  # None: still open
        self._root: tuple[Any, Place] | None = None
        self._documents = 0

    def document(self) -> Document:
        data, place = self._root or (None, Place(1, 0, 0, 0, "scalar"))
        return Document(data, place)

    def begin_another(self) -> None:
        """What was counted stays; names of the last document mean nothing in the next."""
        self._root = None
        self._anchors.clear()
        self._documents = 0

    def take(self, event: Any) -> None:
        match type(event).__name__:  # by name, so that this module does not import the parser
            case "ScalarEvent" if self._wants_key():
                self._take_key(event)
            case "ScalarEvent":
                self._add(self._scalar(event), self._place(event, "scalar"), event.anchor)
            case "AliasEvent":
                self._take_alias(event)
            case "MappingStartEvent":
                self._begin({}, event, "map")
            case "SequenceStartEvent":
                self._begin([], event, "seq")
            case "MappingEndEvent" | "SequenceEndEvent":
                self._finish(event)
            case "DocumentStartEvent":
                self._documents += 1
                if self._documents > 1:
                    raise YamlRefused("there is more than one document", _line(event))

    def _wants_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is None

    def _take_key(self, event: Any) -> None:
        top = self._open[-1]
        key, line = _text(event), _line(event)
        if event.tag not in (None, "!", _CORE + "str"):
            raise YamlRefused("only plain tags are allowed", line)
        if event.implicit[0] and key == "<<":
            raise YamlRefused("merge keys (<<) are not supported", line)
        if event.implicit[0] and not key and self._scalar is _scalar:  # as a text, nothing is ""
            raise YamlRefused("a key is missing before ':'", line)
        if key in top.value:
            raise YamlRefused(f"the key {_short(key)} is given twice", line)
        if event.anchor is not None:
            self._anchors[event.anchor] = (key, self._place(event, "scalar"))
        top.key = key
        top.key_place = (line, event.start_mark.column)

    def _take_alias(self, event: Any) -> None:
        line = _line(event)
        if self._wants_key():
            raise YamlRefused("an alias cannot be a key", line)
        if event.anchor not in self._anchors:
            raise YamlRefused(f"the alias {_short(event.anchor)} has no anchor above it", line)
        target = self._anchors[event.anchor]
        if target is None:
            raise YamlRefused(f"the alias {_short(event.anchor)} stands inside what it names", line)
        value, origin = target
        place = self._place(event, "alias")
        place.children, place.nodes, place.height = origin.children, origin.nodes, origin.height
        place.aliases = origin.aliases + 1
        self._nodes += origin.nodes
        self._aliases += place.aliases
        if self._aliases > self._aliases_max:
            raise YamlRefused(f"more than {self._aliases_max} aliases would have to be followed", line)
        if self._nodes > self._nodes_max:
            raise YamlRefused("the aliases would make the document too large", line)
        if len(self._open) + origin.height > self._depth_max:
            raise YamlRefused(f"it is nested deeper than {self._depth_max} levels", line)
        self._add(value, place, None)

    def _begin(self, value: dict[str, Any] | list[Any], event: Any, tag: str) -> None:
        line = _line(event)
        if self._wants_key():
            raise YamlRefused("a key must be a plain string", line)
        if len(self._open) >= self._depth_max:
            raise YamlRefused(f"it is nested deeper than {self._depth_max} levels", line)
        if event.tag not in (None, "!", _CORE + tag):
            raise YamlRefused("only plain tags are allowed", line)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(_Open(value, self._place(event, "flow" if event.flow_style else "block"), event.anchor))

    def _finish(self, event: Any) -> None:
        done = self._open.pop()
        done.place.end = event.end_mark.index
        self._add(done.value, done.place, done.anchor)

    def _add(self, value: Any, place: Place, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, place)
        self._nodes += 1
        if not self._open:
            self._root = (value, place)
            return
        top = self._open[-1]
        if isinstance(top.value, list):
            top.place.adopt(len(top.value), place)
            top.value.append(value)
            return
        assert top.key is not None, "a mapping's value comes after its key"
        place.line, place.column = top.key_place
        top.place.adopt(top.key, place)
        top.value[top.key] = value
        top.key = None

    def _place(self, event: Any, kind: Literal["scalar", "alias", "flow", "block"]) -> Place:
        start = event.start_mark
        return Place(start.line + 1, start.column, start.index, event.end_mark.index, kind)


def _scalar(event: Any) -> Scalar:
    text = _text(event)
    if event.tag is None:
        if not event.implicit[0]:
            return text
        value = plain(text)
        if isinstance(value, str) and len(text) > _DIGITS_MAX and (_INT.fullmatch(text) or _FLOAT.fullmatch(text)):
            raise YamlRefused("a number is too long; put it in quotes if it is text", _line(event))
        return value
    if event.tag in ("!", _CORE + "str"):
        return text
    wanted = _TAGGED.get(event.tag.removeprefix(_CORE)) if event.tag.startswith(_CORE) else None
    if wanted is None:
        raise YamlRefused("only plain tags are allowed", _line(event))
    value = plain(text)
    if type(value) not in wanted:
        raise YamlRefused("a value does not fit its tag", _line(event))
    return float(value) if wanted[0] is float and value is not None else value


def _as_text(event: Any) -> str:
    """A scalar that is not to mean anything; of a null there is nothing to tell."""
    if event.tag not in (None, "!", *(_CORE + kind for kind in ("str", *_TAGGED))):
        raise YamlRefused("only plain tags are allowed", _line(event))
    return _text(event)


def _text(event: Any) -> str:
    text: str = event.value
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise YamlRefused("an escape names half a character", _line(event)) from None
    return text


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _short(name: str) -> str:
    """A name from the text, safe to print."""
    return repr(name) if len(name) <= 60 else repr(name[:60]) + "…"
