"""Builds a GBNF grammar that constrains a model to text, or to one tool call whose arguments match the tool's schema.

GBNF is llama.cpp's grammar notation. Everything that the grammar allows can be parsed: a name and a JSON object without
optional spaces. A schema is followed as far as a grammar can express it; the rest may be any JSON. Objects have their
required properties in the schema's order, then optional ones, in that order too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mainstay.core.ports import Tool

DEPTH_MAX = 6  # of a schema; deeper values may be any JSON
PROPERTIES_MAX = 40
CHOICES_MAX = 100  # values of an enumeration
RULES_MAX = 400  # of all tools together; further tools accept any arguments

_COMMON_RULES = r"""
text ::= [^\x00-\x20] any*
any ::= [^\x00-\x08\x0b\x0c\x0e-\x1f]
value ::= object | array | string | number | boolean | "null"
boolean ::= "true" | "false"
object ::= "{" (pair ("," pair)*)? "}"
pair ::= string ":" value
array ::= "[" (value ("," value)*)? "]"
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1f\x7f] | "\\" ["\\/bfnrt]
integer ::= "-"? ("0" | [1-9] digits?)
digits ::= [0-9] [0-9]? [0-9]? [0-9]? [0-9]? [0-9]? [0-9]? [0-9]? [0-9]? [0-9]? [0-9]? [0-9]? [0-9]? [0-9]?
number ::= integer ("." digits)? ([eE] [-+]? [0-9] [0-9]?)?
"""
_RULE_BY_TYPE = {"string": "string", "integer": "integer", "number": "number", "null": '"null"', "array": "array"}


def build_grammar(tools: Sequence[Tool], text_keyword: str, is_loose: bool = False) -> str:
    """Return the grammar. `text_keyword` begins a text answer. `is_loose`: arguments may be any JSON object."""
    rules = GrammarRules()
    calls = []
    for number, tool in enumerate(tools):
        shape = "object" if is_loose else rules.build_arguments(f"t{number}", tool.schema)
        calls.append(f"{quote_literal(tool.name + ' ')} {shape}")
    answers = " | ".join([f"{quote_literal(text_keyword + ' ')} text", *calls])
    return "\n".join([f"root ::= {answers}", *rules.rules, _COMMON_RULES])


def quote_literal(text: str) -> str:
    """Return a grammar literal for exactly this text."""
    return '"' + "".join(_escape_char(char) for char in text) + '"'


def _escape_char(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char == "\n":
        return "\\n"
    code = ord(char)
    return char if 0x20 <= code < 0x7F else f"\\U{code:08X}"


class GrammarRules:
    """Collects the grammar rules that schemas need."""

    def __init__(self) -> None:
        self.rules: list[str] = []

    def build_arguments(self, name: str, schema: Any) -> str:
        """Return the rule for a tool's arguments: always an object."""
        if isinstance(schema, Mapping) and (
            isinstance(schema.get("properties"), Mapping) or _allows_no_properties(schema)
        ):
            return self._build_object(name, schema, 0)
        return "object"

    def _add_rule(self, name: str, body: str) -> str:
        self.rules.append(f"{name} ::= {body}")
        return name

    def _build_value(self, name: str, schema: Any, depth: int) -> str:
        """Return the name of a rule, or its body in parentheses."""
        if not isinstance(schema, Mapping) or depth > DEPTH_MAX or len(self.rules) >= RULES_MAX:
            return "value"
        if "const" in schema:
            return _build_choice([schema["const"]])
        if isinstance(schema.get("enum"), list) and 0 < len(schema["enum"]) <= CHOICES_MAX:
            return _build_choice(schema["enum"])
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list) and 0 < len(schema[key]) <= CHOICES_MAX:
                return self._build_alternatives(name, schema[key], depth)
        kind = schema.get("type")
        if isinstance(kind, list) and kind:
            return self._build_alternatives(name, [{**schema, "type": each} for each in kind], depth)
        return self._build_typed(name, kind, schema, depth)

    def _build_typed(self, name: str, kind: Any, schema: Mapping[str, Any], depth: int) -> str:
        if kind == "object" and (isinstance(schema.get("properties"), Mapping) or _allows_no_properties(schema)):
            return self._build_object(name, schema, depth)
        if kind == "array" and isinstance(schema.get("items"), Mapping):
            item = self._build_value(f"{name}i", schema["items"], depth + 1)
            items = f'{item} ("," {item})*'
            is_nonempty = schema.get("minItems") == 1
            return self._add_rule(name, f'"[" {items} "]"' if is_nonempty else f'"[" ({items})? "]"')
        if kind == "boolean":
            return "boolean"
        if kind == "object":
            return "object"
        return _RULE_BY_TYPE.get(kind, "value") if isinstance(kind, str) else "value"

    def _build_alternatives(self, name: str, schemas: list[Any], depth: int) -> str:
        parts = [self._build_value(f"{name}o{number}", schema, depth + 1) for number, schema in enumerate(schemas)]
        return f"({' | '.join(dict.fromkeys(parts))})"

    def _build_object(self, name: str, schema: Mapping[str, Any], depth: int) -> str:
        properties = schema.get("properties")
        known = properties if isinstance(properties, Mapping) else {}
        declared = schema.get("required")
        required = [key for key in declared if isinstance(key, str)] if isinstance(declared, list) else []
        keys = dict.fromkeys([*(key for key in known if key in required), *required])
        keys |= dict.fromkeys(list(known)[:PROPERTIES_MAX])
        if len(self.rules) + 2 * len(keys) >= RULES_MAX:
            return "object"
        pairs = {}
        for number, key in enumerate(keys):
            value = self._build_value(f"{name}p{number}", known.get(key), depth + 1)
            pairs[key] = f"{quote_literal(json.dumps(key, ensure_ascii=False) + ':')} {value}"
        optional = [pairs[key] for key in keys if key not in required]
        return self._add_rule(
            name, self._build_members(name, [pairs[key] for key in keys if key in required], optional)
        )

    def _build_members(self, name: str, required: list[str], optional: list[str]) -> str:
        """Return the body of an object: the required members, then any of the optional ones, once and in order."""
        rest = ""  # rule for the members that may follow
        starts: list[str] = []
        for number in reversed(range(len(optional))):
            starts.insert(0, f"{optional[number]} {rest}".rstrip())
            rest = self._add_rule(f"{name}r{number}", f'("," {optional[number]})? {rest}'.rstrip())
        if required:
            comma = ' "," '
            return f'"{{" {comma.join(required)} {rest} "}}"'
        return f'"{{" ({" | ".join(starts)})? "}}"' if starts else '"{}"'


def _build_choice(values: list[Any]) -> str:
    try:
        encoded = [json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False) for value in values]
    except (ValueError, TypeError, RecursionError):
        return "value"
    return f"({' | '.join(quote_literal(text) for text in encoded)})"


def _allows_no_properties(schema: Mapping[str, Any]) -> bool:
    """Return whether the schema is an object without additional properties."""
    return schema.get("type") == "object" and schema.get("additionalProperties") is False
