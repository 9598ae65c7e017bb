"""From a YAML file to patterns. Lenient about the shapes that people write, strict about names and kinds.

A file is a pattern, several documents, a list, or a library: `patterns:` or `entries:`, at the top or below `spec:`.
Every scalar is taken as the text that it is written as, so that `no`, `0123` and a date stay what they look like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

import msgspec

from mainstay.io.yaml import Document, Path, YamlRefused, load_all
from mainstay.patterns.pattern import Case, Mistake, Parameter, Pattern, Template, written

FILE_BYTES_MAX = 1024 * 1024
PATTERNS_MAX = 2_000  # in one file
ITEMS_MAX = 500  # in one list
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_PLACE_NAME = re.compile(r"[A-Za-z_][\w-]{0,63}")
_KINDS: dict[type, str] = {dict: "a map", list: "a list", str: "text"}
_LIBRARY = ("patterns", "entries")
_TEXTS = ("content", "text", "template", "sql", "body", "code", "query", "prompt")
_BULLET = re.compile(r"^\s*[-*]\s+")
_NOTHING = ("", "~", "null", "Null", "NULL")

# What a pattern may say; the second words are others' for the same.
_FIELDS = (
    "name", "title", "description", "category", "intents", "use_cases", "parameters", "templates", "examples",
    "best_practices", "common_errors", "tags",
    "template", "example", "related_patterns", "trigger_conditions", "intent_keywords", "keywords", "rule",
)  # fmt: skip


class Trouble(msgspec.Struct, frozen=True):
    """What is wrong with a file, and where. `lost`: something in it could not be taken."""

    path: str
    line: int
    reason: str
    lost: bool = True

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}" if self.line else f"{self.path}: {self.reason}"


class Page(msgspec.Struct, frozen=True):
    """What a file holds."""

    patterns: tuple[Pattern, ...] = ()
    troubles: tuple[Trouble, ...] = ()


class _Refused(Exception):
    """This pattern cannot be taken; `path` leads to what is wrong with it."""

    def __init__(self, sentence: str, path: Path) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.path = path


def read_page(path: str, data: bytes) -> Page:
    """Everything in a file that can be read, and everything that cannot. Never raises."""
    try:
        documents = load_all(data, bytes_max=FILE_BYTES_MAX, strings=True)
    except YamlRefused as refused:
        return Page((), (Trouble(path, refused.line, refused.sentence),))
    patterns: dict[str, Pattern] = {}
    troubles: list[Trouble] = []
    if any(document.root.aliases for document in documents) and _chars(documents) > FILE_BYTES_MAX:
        return Page((), (Trouble(path, 1, "the aliases would make the text too large"),))
    for document in documents:
        for at, body in _bodies(document.data):
            if len(patterns) >= PATTERNS_MAX:
                troubles.append(Trouble(path, document.line(at), f"there are more than {PATTERNS_MAX} patterns"))
                return Page(tuple(patterns.values()), tuple(troubles))
            try:
                made = _Reader(document, at).pattern(body, path)
            except _Refused as refused:
                troubles.append(Trouble(path, document.line(refused.path), refused.sentence))
                continue
            if made.name in patterns:
                reason = f"the pattern {made.name!r} is in this file twice; the first one is used"
                troubles.append(Trouble(path, made.line, reason))
                continue
            patterns[made.name] = made
            troubles += _misspelt(document, at, body, path)
    return Page(tuple(patterns.values()), tuple(troubles))


def _chars(documents: list[Document]) -> int:
    """How much text there is with every alias written out; how many values those make was bounded in reading."""
    total = 0
    waiting: list[Any] = [document.data for document in documents]
    while waiting:
        match waiting.pop():
            case str() as text:
                total += len(text)
            case dict() as mapping:
                waiting += mapping.values()
            case list() as items:
                waiting += items
    return total


def _bodies(data: Any) -> Iterator[tuple[Path, Any]]:
    """Where each pattern of a document stands."""
    at: Path = ()
    if isinstance(data, dict) and isinstance(data.get("spec"), dict) and "name" not in data:
        at, data = ("spec",), data["spec"]
    if isinstance(data, dict) and (key := next((key for key in _LIBRARY if key in data), None)) is not None:
        at, data = (*at, key), data[key]
        if isinstance(data, dict):  # by name
            yield from (((*at, name), _with_name(name, body)) for name, body in data.items())
            return
    if isinstance(data, list):
        yield from (((*at, number), body) for number, body in enumerate(data))
    elif data not in _NOTHING:
        yield at, data


def _with_name(name: str, body: Any) -> Any:
    return {"name": name, **body} if isinstance(body, dict) else body


def _misspelt(document: Document, at: Path, body: Any, path: str) -> Iterator[Trouble]:
    """Fields of others are left alone; one that is nearly ours is a slip."""
    for key in body if isinstance(body, dict) else ():
        if key in _FIELDS:
            continue
        near = get_close_matches(key, _FIELDS, n=1, cutoff=0.86)
        if near and near[0] not in body:
            reason = f"{_short(key)} is not a field of a pattern; did you mean {near[0]!r}?"
            yield Trouble(path, document.line((*at, key)), reason, lost=False)


class _Reader:
    """One pattern of a document."""

    def __init__(self, document: Document, at: Path) -> None:
        self._document = document
        self._at = at

    def pattern(self, body: Any, path: str) -> Pattern:
        if not isinstance(body, dict):
            raise _Refused(f"a pattern is a map with name and description, and this is {_kind(body)}", self._at)
        name = self._text(body, "name")
        if not name:
            raise _Refused("the pattern has no name", self._at)
        if not _NAME.fullmatch(name):
            raise _Refused(
                f"{_short(name)} is no name: letters, digits, '_', '-' and '.', at most 64", (*self._at, "name")
            )
        description = self._text(body, "description")
        if not description:
            raise _Refused(f"the pattern {name!r} has no description", self._at)
        return Pattern(
            name=name,
            title=self._text(body, "title") or name.replace("_", " ").replace("-", " "),
            description=description,
            category=self._text(body, "category"),
            intents=self._several(body, "intents", "trigger_conditions", "intent_keywords", "keywords"),
            use_cases=self._several(body, "use_cases"),
            tags=self._several(body, "tags"),
            parameters=self._parameters(body.get("parameters")),
            templates=self._templates(body),
            examples=self._examples(body),
            best_practices=self._advice(body),
            common_errors=self._mistakes(body.get("common_errors")),
            related=self._several(body, "related_patterns"),
            path=path,
            line=self._document.line((*self._at, "name")),
        )

    def _text(self, body: dict[str, Any], key: str) -> str:
        value = body.get(key, "")
        if not isinstance(value, str):
            raise _Refused(f"{key} must be text, and is {_kind(value)}", (*self._at, key))
        return "" if value in _NOTHING else value.strip()

    def _several(self, body: dict[str, Any], *keys: str) -> tuple[str, ...]:
        """Texts; a single one counts as a list of one, and its lines as several."""
        found: dict[str, None] = {}
        for key in keys:
            value = body.get(key, "")
            if isinstance(value, str):
                value = [] if value in _NOTHING else [_BULLET.sub("", line) for line in value.splitlines()]
            for number, one in enumerate(self._list(value, key)):
                if not isinstance(one, str):
                    raise _Refused(f"an item of {key} must be text, and is {_kind(one)}", (*self._at, key, number))
                if one.strip():
                    found[one.strip()] = None
        return tuple(found)

    def _list(self, value: Any, key: str) -> list[Any]:
        if not isinstance(value, list):
            raise _Refused(f"{key} must be a list, and is {_kind(value)}", (*self._at, key))
        if len(value) > ITEMS_MAX:
            raise _Refused(f"{key} has more than {ITEMS_MAX} items", (*self._at, key))
        return value

    def _named(self, value: Any, key: str) -> Iterator[tuple[Path, str, Any]]:
        """Things with names, however they are written: a list of maps or of names, or a map by name."""
        if value is None or value in _NOTHING:
            return
        if isinstance(value, dict):
            pairs = [((*self._at, key, name), name, body) for name, body in value.items()]
        elif not isinstance(value, list):
            raise _Refused(f"{key} must be a list or a map, and is {_kind(value)}", (*self._at, key))
        else:
            pairs = []
            for number, one in enumerate(self._list(value, key)):
                at = (*self._at, key, number)
                name = one.get("name") if isinstance(one, dict) else one
                if not isinstance(name, str) or not name.strip():
                    raise _Refused(f"an item of {key} has no name", at)
                pairs.append((at, name.strip(), one if isinstance(one, dict) else {}))
        seen: set[str] = set()
        for at, name, body in pairs[: ITEMS_MAX + 1]:
            if name in seen or len(seen) >= ITEMS_MAX:
                many = f"{key} has more than {ITEMS_MAX} items"
                raise _Refused(f"{_short(name)} is in {key} twice" if name in seen else many, at)
            seen.add(name)
            yield at, name, body

    def _parameters(self, value: Any) -> tuple[Parameter, ...]:
        made = []
        for at, name, body in self._named(value, "parameters"):
            if not _PLACE_NAME.fullmatch(name):
                raise _Refused(f"{_short(name)} is no name of a parameter: letters, digits, '_' and '-'", at)
            if isinstance(body, str):
                body = {"description": body}
            if not isinstance(body, dict):
                raise _Refused(f"the parameter {name!r} must be a map or text, and is {_kind(body)}", at)
            made.append(
                Parameter(
                    name=name,
                    description=_said(body.get("description")),
                    type=_said(body.get("type")),
                    required=self._truth(body.get("required", ""), (*at, "required")),
                    default=_standard(body.get("default")),
                    example=_said(body.get("example")),
                )
            )
        return tuple(made)

    def _truth(self, value: Any, at: Path) -> bool:
        said = value.lower() if isinstance(value, str) else None
        if said in ("true", "yes"):
            return True
        if said in ("false", "no", *_NOTHING):
            return False
        raise _Refused("required must be true or false", at)

    def _templates(self, body: dict[str, Any]) -> tuple[Template, ...]:
        value = body.get("templates")
        if isinstance(value, str) and value not in _NOTHING:
            value = {"template": value}
        made = [self._template(at, name, one) for at, name, one in self._named(value, "templates")]
        if (single := body.get("template")) is not None and single not in _NOTHING:
            made.append(self._template((*self._at, "template"), "template", single))
        return tuple(made)

    def _template(self, at: Path, name: str, body: Any) -> Template:
        if isinstance(body, str):
            body = {"content": body}
        if not isinstance(body, dict):
            raise _Refused(f"the template {_short(name)} must be a map or text, and is {_kind(body)}", at)
        text = next((body[key] for key in _TEXTS if isinstance(body.get(key), str)), "")
        if not text.strip():
            raise _Refused(f"the template {_short(name)} has no text: give it as {', '.join(_TEXTS[:4])}", at)
        return Template(name, text.rstrip("\n"), _said(body.get("description")))

    def _examples(self, body: dict[str, Any]) -> tuple[Case, ...]:
        value = body.get("examples", "")
        if isinstance(value, dict):  # by name
            value = [_with_name(name, one) if isinstance(one, dict) else one for name, one in value.items()]
        listed = [value] if isinstance(value, str) else self._list(value, "examples")
        listed = [*listed, body.get("example", "")]
        return tuple(_case(one) for one in listed if one not in (None, *_NOTHING))

    def _advice(self, body: dict[str, Any]) -> str:
        value = body.get("best_practices", "")
        text = "\n".join(f"- {_said(one)}" for one in value) if isinstance(value, list) else _said(value)
        rule = body.get("rule")
        return "\n".join(filter(None, (text, _said(rule))))

    def _mistakes(self, value: Any) -> tuple[Mistake, ...]:
        if value is None or value in _NOTHING:
            return ()
        if isinstance(value, dict):  # what goes wrong: what helps
            return tuple(Mistake(error, "", _said(solution)) for error, solution in value.items())
        if isinstance(value, str):
            return tuple(Mistake(_BULLET.sub("", line)) for line in value.splitlines() if line.strip())
        made = []
        for number, one in enumerate(self._list(value, "common_errors")):
            if isinstance(one, str):
                made.append(Mistake(one))
                continue
            error = one.get("error", one.get("name", "")) if isinstance(one, dict) else ""
            if not isinstance(error, str) or not error.strip():
                raise _Refused("an item of common_errors has no error", (*self._at, "common_errors", number))
            made.append(Mistake(error.strip(), _said(one.get("cause")), _said(one.get("solution", one.get("fix")))))
        return tuple(made)


def _case(value: Any) -> Case:
    if not isinstance(value, dict):
        return Case("", _said(value))
    rest = {key: one for key, one in value.items() if key != "name"}
    lines = [f"{key}: {_said(one)}" if "\n" not in _said(one) else f"{key}:\n{_said(one)}" for key, one in rest.items()]
    return Case(_said(value.get("name")), "\n".join(lines))


def _said(value: Any) -> str:
    """Whatever it is, in words."""
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_said(one)}" for key, one in value.items())
    return (written(value) or "").strip()


def _standard(value: Any) -> str | None:
    return None if value is None or value in ("~", "null") else written(value)


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "nothing") if value not in ("", None) else "nothing"


def _short(text: str) -> str:
    return repr(text) if len(text) <= 60 else repr(text[:60]) + "…"
