"""Schemas that others wrote: refused at registration, or checked in bounded time."""

from __future__ import annotations

import builtins
import os
import random
import socket
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainstay.core.errors import ConfigError
from mainstay.core.tools import BadArguments
from mainstay.guards.line_escaping import one_line
from mainstay.io.json_schema import CompiledJsonSchema, SchemaRefused, parse_object_arguments

EXAMPLES = 1000 if os.environ.get("MAINSTAY_TEST_ALL") else 60
SOON_S = 8.0  # of processor time, for what takes a fraction of a second; what has no bound takes minutes


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def nested(depth: int, key: str = "a") -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(depth):
        made = {key: made}
    return made


def test_a_valid_value_passes_and_an_invalid_one_is_reported_with_its_place() -> None:
    schema = CompiledJsonSchema(
        of(to={"type": "string"}, days={"type": "array", "items": {"type": "integer", "maximum": 7}})
    )
    assert schema.find_error({"to": "x", "days": [1, 2]}) is None
    assert schema.find_error({"days": [1, "2"]}) == 'days[1]: the value is not of type "integer"'
    assert schema.find_error({"to": 1}) == 'to: the value is not of type "string"'
    assert schema.find_error([]) == 'the value is not of type "object"'


def test_a_sentence_is_short_and_shows_no_value() -> None:
    schema = CompiledJsonSchema({**of(a={"enum": [f"choice {n}" for n in range(2000)]}), "additionalProperties": False})
    for value in ({"a": "sk-proj-" + "x" * 10_000}, {"\x1b[31m" + "y" * 10_000: 1}):
        said = schema.find_error(value)
        assert said is not None
        assert len(said) < 400
        assert "sk-proj" not in said
        assert said.isprintable()


# --- F49: at registration -----------------------------------------------------------------------

REFUSED = {
    "a reference by http": (of(a={"$ref": "http://example.com/a.json"}), "points outside of the schema"),
    "a reference to a file": (of(a={"$ref": "file:///etc/passwd"}), "points outside of the schema"),
    "a relative reference": (of(a={"$ref": "other.json#/a"}), "points outside of the schema"),
    "a reference without a scheme": (of(a={"$ref": "//example.com/a"}), "points outside of the schema"),
    "a reference by a name": (
        of(a={"$ref": "#a", "$anchor": "a"}),
        "is not supported; refer to the subschema by its path",
    ),
    "a reference that is no text": (of(a={"$ref": ["#"]}), "points outside of the schema"),
    "a reference to nothing": (of(a={"$ref": "#/$defs/a"}), "points to nothing"),
    "a reference into data": (
        {**of(a={"$ref": "#/properties/b/const"}, b={"const": {"$ref": "file:///etc/passwd"}})},
        "points to nothing",
    ),
    "a reference to a heading": (
        {**of(**{"$ref": {"type": "string"}}), "allOf": [{"$ref": "#/properties"}]},
        "points to nothing",
    ),
    "an id inside": (of(a={"$id": "http://example.com/", "$ref": "#"}), "would change what references mean"),
    "an old id inside": (
        {"$schema": "http://json-schema.org/draft-04/schema#", **of(a={"id": "http://example.com/"})},
        "would change what references mean",
    ),
    "a dynamic reference": ({**of(), "$dynamicRef": "#x"}, "only known during validation"),
    "a recursive reference": ({**of(), "$recursiveRef": "#"}, "only known during validation"),
    "another language": ({**of(), "$schema": "http://example.com/schema"}, "not a supported version"),
    "no object": ({"type": "array"}, "must be of type 'object'"),
    "no type": ({"properties": {}}, "must be of type 'object'"),
    "a type that is none": (of(a={"type": "strin"}), "invalid JSON Schema"),
    "properties that are none": ({"type": "object", "properties": []}, "invalid JSON Schema"),
    "looking ahead": (of(a={"pattern": "(?=a)b"}), "cannot be matched in linear time"),
    "looking behind": (of(a={"pattern": "(?<!a)b"}), "cannot be matched in linear time"),
    "a pattern that refers back": (of(a={"pattern": r"(a+)\1"}), "cannot be matched in linear time"),
    "a pattern that is huge when compiled": (of(a={"pattern": "(a{0,1000}){0,1000}"}), "linear time"),
    "a pattern of names": ({**of(), "patternProperties": {"(?=a)": {}}}, "linear time"),
    "many large patterns": (
        of(**{f"a{n}": {"pattern": f"[ab]*a[ab]{{{9000 + n}}}"} for n in range(20)}),
        "too large together",
    ),
    "a megabyte of text": (of(a={"description": "x" * 1_000_000}), "larger than 65536 bytes"),
    "a megabyte of parts": (of(**{f"a{n}": {} for n in range(100_000)}), "larger than 65536 bytes"),
    "a deep one": (of(a=nested(100_000, "properties")), "nested deeper"),
    "itself": ({**of(), "$ref": "#"}, "refers to itself endlessly"),
    "two that are each other": (
        {**of(), "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}},
        "refers to itself endlessly",
    ),
    "each twice the next": (
        {
            **of(a={"$ref": "#/$defs/a0"}),
            "$defs": {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(50)} | {"a50": {}},
        },
        "refer to each other",
    ),
    "a long way": (
        {**of(), "$defs": {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(1800)} | {"a1800": {}}},
        "refer to each other",
    ),
    "an endless number": (of(a={"maximum": 10**4000}), "a number in the schema is too long"),
    "no number": (of(a={"maximum": float("nan")}), "not JSON"),
    "something that is not JSON": (of(a={"const": object()}), "not JSON"),
    "half a character": (of(a={"const": "\ud800"}), "not JSON"),
    "what takes too long": ({**of(), "unevaluatedProperties": False}, "use additionalProperties"),
}


@pytest.mark.parametrize(("schema", "why"), [pytest.param(*case, id=name) for name, case in REFUSED.items()])
def test_f49_an_unusable_schema_is_refused_at_registration(schema: dict[str, Any], why: str) -> None:
    begun = time.process_time()
    with pytest.raises(SchemaRefused, match=why) as refused:
        CompiledJsonSchema(schema)
    assert time.process_time() - begun < SOON_S
    assert len(str(refused.value)) < 400
    assert str(refused.value).isprintable()


def test_f49_nothing_is_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/schema"
        for schema in (of(a={"$ref": address}), {**of(), "$schema": address}, of(a={"$id": address, "$ref": "x"})):
            with pytest.raises(SchemaRefused):
                CompiledJsonSchema(schema)
        assert CompiledJsonSchema({**of(a={"type": "string"}), "$id": address}).find_error({"a": 1}) is not None
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_property_named_like_a_keyword_is_accepted() -> None:
    schema = CompiledJsonSchema(
        {
            **of(**{"$ref": {"type": "integer"}, "$id": {"type": "string"}, "type": {"const": {"$ref": "http://x"}}}),
            "examples": [{"$ref": "file:///etc/passwd"}],
        }
    )
    assert schema.find_error({"$ref": 1, "$id": "x", "type": {"$ref": "http://x"}}) is None
    assert schema.find_error({"$ref": "x"}) is not None


@pytest.mark.parametrize("draft", ["draft-04", "draft-06", "draft-07", "draft/2019-09", "draft/2020-12"])
def test_every_version_in_use_is_understood(draft: str) -> None:
    scheme = "https" if "/" in draft else "http"
    schema = CompiledJsonSchema({"$schema": f"{scheme}://json-schema.org/{draft}/schema#", **of(a={"type": "integer"})})
    assert schema.find_error({"a": 1}) is None
    assert schema.find_error({"a": "1"}) is not None


def test_references_inside_may_be_recursive_and_escaped() -> None:
    tree = {"type": "object", "properties": {"name": {"type": "string"}, "left": {"$ref": "#/$defs/a~1b%20c"}}}
    schema = CompiledJsonSchema({**of(root={"$ref": "#/$defs/a~1b%20c"}), "$defs": {"a/b c": tree}})
    assert schema.find_error({"root": {"left": {"left": {"name": "x"}}}}) is None
    assert (
        schema.find_error({"root": {"left": {"left": {"name": 1}}}})
        == 'root.left.left.name: the value is not of type "string"'
    )


# --- F49: at every call -------------------------------------------------------------------------


def test_f49_explosive_patterns_end_at_once() -> None:
    for pattern in ("^(a+)+$", "^(a|a)*$", "(a*)*b", "^([a-zA-Z]+)*$", "(x+x+)+y"):
        schema = CompiledJsonSchema(of(a={"pattern": pattern}))
        begun = time.process_time()
        schema.find_error({"a": "a" * 200_000 + "!"})
        assert time.process_time() - begun < SOON_S


@pytest.mark.parametrize(
    "pattern", ["[ab]*a[ab]{10000}c", "^([ab]*a){5000}c$", r"(\w{0,5000}a)c", "(a|b|ab|ba){0,2000}c"]
)
def test_f49_a_pattern_with_many_states_meets_only_texts_that_it_can_take(pattern: str) -> None:
    schema = CompiledJsonSchema(of(a={"pattern": pattern}))
    text = "".join(random.Random(7).choices("ab", k=1_000_000))
    begun = time.process_time()
    assert schema.find_error({"a": text}) == "it is too large to be checked"
    assert "match" in (schema.find_error({"a": text[:500]}) or "")
    assert time.process_time() - begun < SOON_S


def test_f49_a_schema_that_asks_more_at_every_level_meets_only_what_is_flat() -> None:
    schema = CompiledJsonSchema({**of(), "anyOf": [{"properties": {"a": {"$ref": "#"}}}] * 4})
    begun = time.process_time()
    assert schema.find_error(nested(5)) is None
    assert schema.find_error(nested(40)) == "it is too large to be checked"
    assert time.process_time() - begun < SOON_S


def test_a_recursive_schema_of_any_json_takes_deep_values() -> None:
    any_json: dict[str, Any] = {
        "anyOf": [
            {"type": ["string", "number", "boolean", "null"]},
            {"type": "array", "items": {"$ref": "#/$defs/any"}},
            {"type": "object", "additionalProperties": {"$ref": "#/$defs/any"}},
        ]
    }
    schema = CompiledJsonSchema({**of(value={"$ref": "#/$defs/any"}), "$defs": {"any": any_json}})
    value: Any = 1
    for n in range(50):
        value = {"a": value, "b": [n]} if n % 2 else [value, None]
    assert schema.find_error({"value": value}) is None


@pytest.mark.parametrize(
    ("part", "value"),
    [
        pytest.param({"uniqueItems": True}, list(range(100_000)), id="numbers that differ"),
        pytest.param({"uniqueItems": True}, [{"a": [n]} for n in range(30_000)], id="objects that differ"),
        pytest.param({"items": {"enum": list(range(9_000))}}, [-n for n in range(1, 50_000)], id="many choices"),
        pytest.param({"items": {"anyOf": [{"const": n} for n in range(2_000)]}}, [-1] * 50_000, id="many branches"),
        pytest.param({"prefixItems": [{}] * 9_000}, [1] * 100_000, id="many places"),
        pytest.param({"contains": {"const": 1}, "minContains": 10**9}, [1] * 100_000, id="wanting many"),
        pytest.param({"items": {"multipleOf": 5e-324}}, [1e308] * 20_000, id="tiny steps"),
        pytest.param({"items": {"allOf": [{"multipleOf": 5e-324}] * 900}}, [1e308] * 50_000, id="many tiny steps"),
        pytest.param({"items": {"multipleOf": 1e300}}, [1e-308] * 20_000, id="giant steps"),
        pytest.param({"allOf": [{"multipleOf": 1e-300}] * 900}, 2**255, id="many steps"),
        pytest.param({"maxLength": 2**60, "minLength": 5}, "x" * 900_000, id="a long text"),
        pytest.param({"patternProperties": {f"^a{n}.*z$": {} for n in range(900)}},
                     {f"a{n}" * 50: 1 for n in range(2_000)}, id="many patterns of names"),
        pytest.param({"propertyNames": {"pattern": "(a|b)*c"}}, {f"{n}" * 50: 1 for n in range(5_000)}, id="names"),
        pytest.param({"const": {f"a{n}": n for n in range(2_000)}}, {f"a{n}": n for n in range(2)}, id="a constant"),
    ],
)  # fmt: skip
def test_f49_hostile_keywords_and_large_values_end_soon(part: dict[str, Any], value: Any) -> None:
    schema = CompiledJsonSchema(of(a=part))
    begun = time.process_time()
    said = schema.find_error({"a": value})
    assert time.process_time() - begun < SOON_S
    assert said is None or len(said) < 400


def test_values_that_are_too_deep_or_hold_endless_numbers_are_refused() -> None:
    schema = CompiledJsonSchema({"type": "object"})
    assert schema.find_error(nested(60)) is None
    assert schema.find_error(nested(100_000)) == "it is nested deeper than 64 levels"
    assert schema.find_error({"a": [10**4000]}) == "a number in it is too long"
    assert schema.find_error({"a": ["\ud800"]}) == "it contains half a character (a lone surrogate)"
    assert schema.find_error({"a": {"\ud800": 1}}) == "it contains half a character (a lone surrogate)"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=15,
)
REFERENCE = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "http://example.com/", "a.json", "#/x"])


def parts(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "$ref": REFERENCE,
            "type": st.sampled_from(["object", "array", "string", "integer", ["null", "number"]]),
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "additionalProperties": inner,
            "patternProperties": st.dictionaries(st.sampled_from(["^a+$", "(b|c)*", "(?=a)"]), inner, max_size=2),
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=3),
            "allOf": st.lists(inner, min_size=1, max_size=3),
            "not": inner,
            "if": inner,
            "enum": st.lists(JSON, max_size=3),
            "pattern": st.sampled_from(["^(a+)+$", "[0-9]{1,500}", r"\w*"]),
            "multipleOf": st.sampled_from([1, 0.1, 1e-300, 7]),
            "uniqueItems": st.booleans(),
        },
    )


SCHEMAS = st.recursive(st.booleans() | parts(st.just({})), parts, max_leaves=12)


@given(
    a=SCHEMAS,
    b=SCHEMAS,
    root=parts(SCHEMAS),
    values=st.lists(st.dictionaries(st.sampled_from("abc"), JSON), max_size=4),
)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_f49_any_schema_is_refused_in_a_sentence_or_answers_soon(a: Any, b: Any, root: Any, values: list[Any]) -> None:
    begun = time.process_time()
    try:
        schema = CompiledJsonSchema({**root, "type": "object", "$defs": {"a": a, "b": b}})
    except SchemaRefused:
        schema = None
    for value in values if schema is not None else ():
        said = schema.find_error(value)
        assert said is None or (len(said) < 400 and said == one_line(said))
    assert time.process_time() - begun < SOON_S


# --- arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "expected an object"),
        ("null", "expected an object"),
        ("{", "Expecting property name"),
        ('{"a": 1} x', "Extra data"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": -Infinity}', "-Infinity is not JSON"),
        ('{"a": 1e999}', "a number is too large"),
        ('{"a": 1, "a": 2}', "a key is repeated"),
        ('{"a": 1, "b": {"c": 1, "c": 1}}', "a key is repeated"),
        ('{"a": "1"}', 'a: the value is not of type "integer"'),
        ("{}", '"a" is a required property'),
        ('{"a": 1, "more": 2}', "'more' was unexpected"),
        ('{"a": ' + "9" * 5000 + "}", "a number is too long"),
        ('{"a": ' + "[" * 100_000, "nested too deeply"),
        ('{"a": ' + "1" + " " * 2_000_000 + "}", "longer than"),
    ],
    ids=range(15),
)
def test_invalid_arguments_are_reported_in_a_sentence_for_the_model(text: str, why: str) -> None:
    schema = CompiledJsonSchema({**of(a={"type": "integer"}, b={}), "required": ["a"], "additionalProperties": False})
    with pytest.raises(BadArguments) as refused:
        parse_object_arguments(text, schema)
    assert why in str(refused.value)
    assert str(refused.value).endswith("Nothing was run.")
    assert len(str(refused.value)) < 800


def test_arguments_that_fit_come_as_they_were_written() -> None:
    schema = CompiledJsonSchema(of(a={"type": "integer"}))
    assert parse_object_arguments('{"a": 1, "b": [1.5, "ü", null]}', schema) == {"a": 1, "b": [1.5, "ü", None]}
    assert parse_object_arguments("", schema) == {}


def test_without_its_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "jsonschema_rs":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ConfigError, match=r"pip install -e '.\[plugins\]'"):
        CompiledJsonSchema({"type": "object"})
