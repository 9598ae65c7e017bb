"""Parses pattern files (YAML): lenient about their structure, strict about names and types.

A file is a pattern, several documents, a list, or a library: `patterns:` or `entries:`, at the top or below `spec:`.
Every scalar is read as text exactly as written, so that `no`, `0123` and dates are not converted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

import msgspec

from mainstay.core.json_types import JsonObject, JsonValue
from mainstay.io.yaml import YamlDocument, YamlPath, YamlRefused, load_all_yaml
from mainstay.patterns.pattern_template import (
    FILE_BYTES_MAX,
    InstructionPattern,
    PatternCommonError,
    PatternExample,
    PatternFileProblem,
    PatternParameter,
    PatternTemplate,
    format_value,
)

PATTERNS_MAX = 2_000  # in one file
ITEMS_MAX = 500  # in one list
_PATTERN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_PARAMETER_NAME = re.compile(r"[A-Za-z_][\w-]{0,63}")
_TYPE_NAMES: dict[type, str] = {dict: "a map", list: "a list", str: "text"}
_LIBRARY_KEYS = ("patterns", "entries")
_TEMPLATE_TEXT_KEYS = ("content", "text", "template", "sql", "body", "code", "query", "prompt")
_BULLET = re.compile(r"^\s*[-*]\s+")
_NULL_TEXTS = ("", "~", "null", "Null", "NULL")

# Fields of a pattern. Those in the last line are accepted for compatibility with other formats.
_FIELDS = (
    "name", "title", "description", "category", "intents", "use_cases", "parameters", "templates", "examples",
    "best_practices", "common_errors", "tags",
    "template", "example", "related_patterns", "trigger_conditions", "intent_keywords", "keywords", "rule",
)  # fmt: skip


class ParsedPatternFile(msgspec.Struct, frozen=True):
    """Patterns and problems of a parsed file."""

    patterns: tuple[InstructionPattern, ...] = ()
    problems: tuple[PatternFileProblem, ...] = ()


class _PatternInvalid(Exception):
    """The pattern is invalid; `path` is the location of the error in the document."""

    def __init__(self, sentence: str, path: YamlPath) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.path = path


def parse_file(path: str, data: bytes) -> ParsedPatternFile:
    """Parse all patterns of a file that can be read, and collect the problems of the others. Never raises."""
    try:
        documents = load_all_yaml(data, bytes_max=FILE_BYTES_MAX, scalars_as_text=True)
    except YamlRefused as refused:
        return ParsedPatternFile((), (PatternFileProblem(path, refused.line, refused.reason),))
    patterns: dict[str, InstructionPattern] = {}
    problems: list[PatternFileProblem] = []
    if any(document.root_position.alias_count for document in documents) and _count_chars(documents) > FILE_BYTES_MAX:
        return ParsedPatternFile((), (PatternFileProblem(path, 1, "the aliases would make the text too large"),))
    for document in documents:
        for at, body in _find_patterns(document.data):
            if len(patterns) >= PATTERNS_MAX:
                problems.append(
                    PatternFileProblem(path, document.find_line(at), f"there are more than {PATTERNS_MAX} patterns")
                )
                return ParsedPatternFile(tuple(patterns.values()), tuple(problems))
            try:
                pattern = _YamlPatternParser(document, at).parse_pattern(body, path)
            except _PatternInvalid as refused:
                problems.append(PatternFileProblem(path, document.find_line(refused.path), refused.sentence))
                continue
            if pattern.name in patterns:
                reason = f"the pattern {pattern.name!r} is in this file twice; the first one is used"
                problems.append(PatternFileProblem(path, pattern.line, reason))
                continue
            patterns[pattern.name] = pattern
            problems += _find_typos(document, at, body, path)
    return ParsedPatternFile(tuple(patterns.values()), tuple(problems))


def _count_chars(documents: list[YamlDocument]) -> int:
    """Count the characters with all YAML aliases expanded; the YAML parser has bounded the number of values."""
    total = 0
    pending: list[JsonValue] = [document.data for document in documents]
    while pending:
        match pending.pop():
            case str() as text:
                total += len(text)
            case dict() as mapping:
                pending += mapping.values()
            case list() as items:
                pending += items
    return total


def _find_patterns(data: JsonValue) -> Iterator[tuple[YamlPath, JsonValue]]:
    """Yield the location and the body of each pattern in a document."""
    at: YamlPath = ()
    if isinstance(data, dict) and isinstance(data.get("spec"), dict) and "name" not in data:
        at, data = ("spec",), data["spec"]
    if isinstance(data, dict) and (key := next((key for key in _LIBRARY_KEYS if key in data), None)) is not None:
        at, data = (*at, key), data[key]
        if isinstance(data, dict):  # by name
            yield from (((*at, name), _with_name(name, body)) for name, body in data.items())
            return
    if isinstance(data, list):
        yield from (((*at, number), body) for number, body in enumerate(data))
    elif data not in _NULL_TEXTS:
        yield at, data


def _with_name(name: str, body: JsonValue) -> JsonValue:
    return {"name": name, **body} if isinstance(body, dict) else body


def _find_typos(document: YamlDocument, at: YamlPath, body: JsonValue, path: str) -> Iterator[PatternFileProblem]:
    """Yield problems for probable typos in field names; other unknown fields are ignored."""
    fields = body if isinstance(body, dict) else {}
    for key in fields:
        if key in _FIELDS:
            continue
        near = get_close_matches(key, _FIELDS, n=1, cutoff=0.86)
        if near and near[0] not in fields:
            reason = f"{_quote_short(key)} is not a field of a pattern; did you mean {near[0]!r}?"
            yield PatternFileProblem(path, document.find_line((*at, key)), reason, lost=False)


class _YamlPatternParser:
    """Parses one pattern of a document."""

    def __init__(self, document: YamlDocument, at: YamlPath) -> None:
        self._document = document
        self._at = at

    def parse_pattern(self, body: JsonValue, path: str) -> InstructionPattern:
        if not isinstance(body, dict):
            raise _PatternInvalid(
                f"a pattern is a map with name and description, and this is {_type_name(body)}", self._at
            )
        name = self._parse_text(body, "name")
        if not name:
            raise _PatternInvalid("the pattern has no name", self._at)
        if not _PATTERN_NAME.fullmatch(name):
            raise _PatternInvalid(
                f"{_quote_short(name)} is not a valid name: letters, digits, '_', '-' and '.', at most 64",
                (*self._at, "name"),
            )
        description = self._parse_text(body, "description")
        if not description:
            raise _PatternInvalid(f"the pattern {name!r} has no description", self._at)
        return InstructionPattern(
            name=name,
            title=self._parse_text(body, "title") or name.replace("_", " ").replace("-", " "),
            description=description,
            category=self._parse_text(body, "category"),
            intents=self._parse_texts(body, "intents", "trigger_conditions", "intent_keywords", "keywords"),
            use_cases=self._parse_texts(body, "use_cases"),
            tags=self._parse_texts(body, "tags"),
            parameters=self._parse_parameters(body.get("parameters")),
            templates=self._parse_templates(body),
            examples=self._parse_examples(body),
            best_practices=self._parse_best_practices(body),
            common_errors=self._parse_common_errors(body.get("common_errors")),
            related=self._parse_texts(body, "related_patterns"),
            path=path,
            line=self._document.find_line((*self._at, "name")),
        )

    def _parse_text(self, body: JsonObject, key: str) -> str:
        value = body.get(key, "")
        if not isinstance(value, str):
            raise _PatternInvalid(f"{key} must be text, and is {_type_name(value)}", (*self._at, key))
        return "" if value in _NULL_TEXTS else value.strip()

    def _parse_texts(self, body: JsonObject, *keys: str) -> tuple[str, ...]:
        """Return a list of texts. A single text is split into lines."""
        texts: dict[str, None] = {}
        for key in keys:
            value = body.get(key, "")
            if isinstance(value, str):
                value = [] if value in _NULL_TEXTS else [_BULLET.sub("", line) for line in value.splitlines()]
            for number, item in enumerate(self._check_list(value, key)):
                if not isinstance(item, str):
                    raise _PatternInvalid(
                        f"an item of {key} must be text, and is {_type_name(item)}", (*self._at, key, number)
                    )
                if item.strip():
                    texts[item.strip()] = None
        return tuple(texts)

    def _check_list(self, value: JsonValue, key: str) -> list[JsonValue]:
        if not isinstance(value, list):
            raise _PatternInvalid(f"{key} must be a list, and is {_type_name(value)}", (*self._at, key))
        if len(value) > ITEMS_MAX:
            raise _PatternInvalid(f"{key} has more than {ITEMS_MAX} items", (*self._at, key))
        return value

    def _named_items(self, value: JsonValue, key: str) -> Iterator[tuple[YamlPath, str, JsonValue]]:
        """Yield location, name and body of named items: a list of maps, a list of names, or a map by name."""
        if value is None or value in _NULL_TEXTS:
            return
        if isinstance(value, dict):
            pairs = [((*self._at, key, name), name, body) for name, body in value.items()]
        elif not isinstance(value, list):
            raise _PatternInvalid(f"{key} must be a list or a map, and is {_type_name(value)}", (*self._at, key))
        else:
            pairs = []
            for number, item in enumerate(self._check_list(value, key)):
                at = (*self._at, key, number)
                name = item.get("name") if isinstance(item, dict) else item
                if not isinstance(name, str) or not name.strip():
                    raise _PatternInvalid(f"an item of {key} has no name", at)
                pairs.append((at, name.strip(), item if isinstance(item, dict) else {}))
        seen: set[str] = set()
        for at, name, body in pairs[: ITEMS_MAX + 1]:
            if name in seen or len(seen) >= ITEMS_MAX:
                many = f"{key} has more than {ITEMS_MAX} items"
                raise _PatternInvalid(f"{_quote_short(name)} is in {key} twice" if name in seen else many, at)
            seen.add(name)
            yield at, name, body

    def _parse_parameters(self, value: JsonValue) -> tuple[PatternParameter, ...]:
        parameters = []
        for at, name, body in self._named_items(value, "parameters"):
            if not _PARAMETER_NAME.fullmatch(name):
                raise _PatternInvalid(
                    f"{_quote_short(name)} is not a valid parameter name: letters, digits, '_' and '-'", at
                )
            if isinstance(body, str):
                body = {"description": body}
            if not isinstance(body, dict):
                raise _PatternInvalid(f"the parameter {name!r} must be a map or text, and is {_type_name(body)}", at)
            parameters.append(
                PatternParameter(
                    name=name,
                    description=_to_text(body.get("description")),
                    type=_to_text(body.get("type")),
                    required=self._parse_bool(body.get("required", ""), (*at, "required")),
                    default=_parse_default(body.get("default")),
                    example=_to_text(body.get("example")),
                )
            )
        return tuple(parameters)

    def _parse_bool(self, value: JsonValue, at: YamlPath) -> bool:
        text = value.lower() if isinstance(value, str) else None
        if text in ("true", "yes"):
            return True
        if text in ("false", "no", *_NULL_TEXTS):
            return False
        raise _PatternInvalid("required must be true or false", at)

    def _parse_templates(self, body: JsonObject) -> tuple[PatternTemplate, ...]:
        value = body.get("templates")
        if isinstance(value, str) and value not in _NULL_TEXTS:
            value = {"template": value}
        templates = [
            self._parse_template(at, name, template) for at, name, template in self._named_items(value, "templates")
        ]
        if (single := body.get("template")) is not None and single not in _NULL_TEXTS:
            templates.append(self._parse_template((*self._at, "template"), "template", single))
        return tuple(templates)

    def _parse_template(self, at: YamlPath, name: str, body: JsonValue) -> PatternTemplate:
        if isinstance(body, str):
            body = {"content": body}
        if not isinstance(body, dict):
            raise _PatternInvalid(
                f"the template {_quote_short(name)} must be a map or text, and is {_type_name(body)}", at
            )
        text = next((text for key in _TEMPLATE_TEXT_KEYS if isinstance(text := body.get(key), str)), "")
        if not text.strip():
            raise _PatternInvalid(
                f"the template {_quote_short(name)} has no text: give it as {', '.join(_TEMPLATE_TEXT_KEYS[:4])}", at
            )
        return PatternTemplate(name, text.rstrip("\n"), _to_text(body.get("description")))

    def _parse_examples(self, body: JsonObject) -> tuple[PatternExample, ...]:
        value = body.get("examples", "")
        if isinstance(value, dict):  # by name
            value = [
                _with_name(name, example) if isinstance(example, dict) else example for name, example in value.items()
            ]
        examples = [value] if isinstance(value, str) else self._check_list(value, "examples")
        examples = [*examples, body.get("example", "")]
        return tuple(_parse_example(example) for example in examples if example not in (None, *_NULL_TEXTS))

    def _parse_best_practices(self, body: JsonObject) -> str:
        value = body.get("best_practices", "")
        text = "\n".join(f"- {_to_text(item)}" for item in value) if isinstance(value, list) else _to_text(value)
        rule = body.get("rule")
        return "\n".join(filter(None, (text, _to_text(rule))))

    def _parse_common_errors(self, value: JsonValue) -> tuple[PatternCommonError, ...]:
        if value is None or value in _NULL_TEXTS:
            return ()
        if isinstance(value, dict):  # error: solution
            return tuple(PatternCommonError(error, "", _to_text(solution)) for error, solution in value.items())
        if isinstance(value, str):
            return tuple(PatternCommonError(_BULLET.sub("", line)) for line in value.splitlines() if line.strip())
        mistakes = []
        for number, item in enumerate(self._check_list(value, "common_errors")):
            if isinstance(item, str):
                mistakes.append(PatternCommonError(item))
                continue
            fields = item if isinstance(item, dict) else {}
            error = fields.get("error", fields.get("name", ""))
            if not isinstance(error, str) or not error.strip():
                raise _PatternInvalid("an item of common_errors has no error", (*self._at, "common_errors", number))
            mistakes.append(
                PatternCommonError(
                    error.strip(), _to_text(fields.get("cause")), _to_text(fields.get("solution", fields.get("fix")))
                )
            )
        return tuple(mistakes)


def _parse_example(value: JsonValue) -> PatternExample:
    if not isinstance(value, dict):
        return PatternExample("", _to_text(value))
    rest = {key: item for key, item in value.items() if key != "name"}
    lines = [
        f"{key}: {_to_text(item)}" if "\n" not in _to_text(item) else f"{key}:\n{_to_text(item)}"
        for key, item in rest.items()
    ]
    return PatternExample(_to_text(value.get("name")), "\n".join(lines))


def _to_text(value: JsonValue) -> str:
    """Return any value as text."""
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_to_text(item)}" for key, item in value.items())
    return (format_value(value) or "").strip()


def _parse_default(value: JsonValue) -> str | None:
    return None if value is None or value in ("~", "null") else format_value(value)


def _type_name(value: JsonValue) -> str:
    return _TYPE_NAMES.get(type(value), "nothing") if value not in ("", None) else "nothing"


def _quote_short(text: str) -> str:
    return repr(text) if len(text) <= 60 else repr(text[:60]) + "…"
