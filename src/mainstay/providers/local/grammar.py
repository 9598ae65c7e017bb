"""A grammar for what a model may answer: words, or one call of a tool whose arguments fit the tool's schema.

It is llama.cpp's own notation. Whatever it lets through parses: a name and a JSON object, without a space where none
is needed. A schema that says more than a grammar can is followed as far as it goes, and what it leaves open is any
JSON. Objects name what is required, in the schema's order; what is optional may be there, in that order too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mainstay.core.ports import Tool

DEPTH_MAX = 6  # of a schema: below that, anything
PROPERTIES_MAX = 40
CHOICES_MAX = 100  # of an enumeration
RULES_MAX = 400  # of all tools together; those that are left get any arguments

_COMMON = r"""
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
_PLAIN = {"string": "string", "integer": "integer", "number": "number", "null": '"null"', "array": "array"}


def write_grammar(tools: Sequence[Tool], word: str, loose: bool = False) -> str:
    """`word` begins an answer in words. `loose`: any JSON object is taken for arguments."""
    rules = _Rules()
    calls = []
    for number, tool in enumerate(tools):
        shape = "object" if loose else rules.arguments(f"t{number}", tool.schema)
        calls.append(f"{literal(tool.name + ' ')} {shape}")
    answers = " | ".join([f"{literal(word + ' ')} text", *calls])
    return "\n".join([f"root ::= {answers}", *rules.made, _COMMON])


def literal(text: str) -> str:
    """Exactly this text."""
    return '"' + "".join(_escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char == "\n":
        return "\\n"
    code = ord(char)
    return char if 0x20 <= code < 0x7F else f"\\U{code:08X}"


class _Rules:
    """Rules that were made on the way, by their names."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def arguments(self, name: str, schema: Any) -> str:
        """Of a tool: an object, whatever its schema says."""
        if isinstance(schema, Mapping) and (isinstance(schema.get("properties"), Mapping) or _is_closed(schema)):
            return self._object(name, schema, 0)
        return "object"

    def _rule(self, name: str, body: str) -> str:
        self.made.append(f"{name} ::= {body}")
        return name

    def _value(self, name: str, schema: Any, depth: int) -> str:
        """The name of a rule, or its body in brackets."""
        if not isinstance(schema, Mapping) or depth > DEPTH_MAX or len(self.made) >= RULES_MAX:
            return "value"
        if "const" in schema:
            return _choice([schema["const"]])
        if isinstance(schema.get("enum"), list) and 0 < len(schema["enum"]) <= CHOICES_MAX:
            return _choice(schema["enum"])
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list) and 0 < len(schema[key]) <= CHOICES_MAX:
                return self._either(name, schema[key], depth)
        kind = schema.get("type")
        if isinstance(kind, list) and kind:
            return self._either(name, [{**schema, "type": one} for one in kind], depth)
        return self._typed(name, kind, schema, depth)

    def _typed(self, name: str, kind: Any, schema: Mapping[str, Any], depth: int) -> str:
        if kind == "object" and (isinstance(schema.get("properties"), Mapping) or _is_closed(schema)):
            return self._object(name, schema, depth)
        if kind == "array" and isinstance(schema.get("items"), Mapping):
            item = self._value(f"{name}i", schema["items"], depth + 1)
            some = f'{item} ("," {item})*'
            least = schema.get("minItems")
            return self._rule(name, f'"[" {some} "]"' if least == 1 else f'"[" ({some})? "]"')
        if kind == "boolean":
            return "boolean"
        if kind == "object":
            return "object"
        return _PLAIN.get(kind, "value") if isinstance(kind, str) else "value"

    def _either(self, name: str, schemas: list[Any], depth: int) -> str:
        parts = [self._value(f"{name}o{number}", one, depth + 1) for number, one in enumerate(schemas)]
        return f"({' | '.join(dict.fromkeys(parts))})"

    def _object(self, name: str, schema: Mapping[str, Any], depth: int) -> str:
        properties = schema.get("properties")
        known = properties if isinstance(properties, Mapping) else {}
        wanted = schema.get("required")
        required = [key for key in wanted if isinstance(key, str)] if isinstance(wanted, list) else []
        given = dict.fromkeys([*(key for key in known if key in required), *required])
        given |= dict.fromkeys(list(known)[:PROPERTIES_MAX])
        if len(self.made) + 2 * len(given) >= RULES_MAX:
            return "object"
        pairs = {}
        for number, key in enumerate(given):
            value = self._value(f"{name}p{number}", known.get(key), depth + 1)
            pairs[key] = f"{literal(json.dumps(key, ensure_ascii=False) + ':')} {value}"
        may = [pairs[key] for key in given if key not in required]
        return self._rule(name, self._members(name, [pairs[key] for key in given if key in required], may))

    def _members(self, name: str, must: list[str], may: list[str]) -> str:
        """First what is required, then any of the rest, each once and in order."""
        rest = ""  # what may follow: each rule goes on with the next
        starts: list[str] = []
        for number in reversed(range(len(may))):
            starts.insert(0, f"{may[number]} {rest}".rstrip())
            rest = self._rule(f"{name}r{number}", f'("," {may[number]})? {rest}'.rstrip())
        if must:
            comma = ' "," '
            return f'"{{" {comma.join(must)} {rest} "}}"'
        return f'"{{" ({" | ".join(starts)})? "}}"' if starts else '"{}"'


def _choice(values: list[Any]) -> str:
    try:
        written = [json.dumps(one, ensure_ascii=False, separators=(",", ":"), allow_nan=False) for one in values]
    except (ValueError, TypeError, RecursionError):
        return "value"
    return f"({' | '.join(literal(one) for one in written)})"


def _is_closed(schema: Mapping[str, Any]) -> bool:
    """It has no properties and allows none."""
    return schema.get("type") == "object" and schema.get("additionalProperties") is False
