"""Under the grammar of a tool every output of a model is a call of that tool. The model is real, with random
weights."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.tiny_gguf import token, write_tiny_gguf

from mainstay.core.messages import Message, Text
from mainstay.core.ports import Context, ModelInfo, Options, StreamFinished
from mainstay.core.tools import FunctionTool
from mainstay.io.json_schema import CompiledJsonSchema
from mainstay.providers.local import provider as providers
from mainstay.providers.local.grammar import RULES_MAX, build_grammar, quote_literal
from mainstay.providers.local.process import LocalModelOptions, RunningModelServer, _stop_process, start_server
from mainstay.providers.local.prompt_cache import _post_json

pytest.importorskip("xllamacpp", reason="llama.cpp is not installed: pip install -e '.[local]'")
SEEDS = 20 if os.environ.get("MAINSTAY_TEST_ALL") == "1" else 3
ENDS = [[token(char), 3.0] for char in '"}],']  # else a babbling model finds no end


def _deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"in": schema}, "required": ["in"]}
    return schema


def _object(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


STRING, WHOLE = {"type": "string"}, {"type": "integer"}
FOLLOWED: dict[str, dict[str, Any]] = {
    "a string": _object("a", a=STRING),
    "numbers": _object("a", "b", a=WHOLE, b={"type": "number"}),
    "truth": _object("a", a={"type": "boolean"}, b=STRING),
    "a choice": _object("a", a={"type": "string", "enum": ['one "quoted"', "two\n", "drei \u00fc"]}),
    "one value": _object("a", a={"const": {"x": [1, None, True]}}),
    "nothing needed": _object(a=STRING, b=WHOLE, c={"type": "boolean"}),
    "nothing at all": {"type": "object", "properties": {}, "additionalProperties": False},
    "a list": _object("a", a={"type": "array", "items": WHOLE}),
    "a list of some": _object("a", a={"type": "array", "items": {"type": "boolean"}, "minItems": 1}),
    "things in things": _object("a", a=_object("b", b={"type": "array", "items": _object("c", c=STRING)})),
    "either": _object("a", a={"anyOf": [WHOLE, {"type": "null"}]}),
    "several types": _object("a", a={"type": ["integer", "null", "boolean"]}),
    "odd names": _object('a "b"', **{'a "b"': WHOLE, "\\": WHOLE, "\u00fc\U0001f600": WHOLE, "\n": WHOLE}),
    "required and unsaid": _object("a", "b", a=WHOLE),
}
LEFT_OPEN: dict[str, Any] = {
    "empty": {},
    "nothing": None,
    "a word": "string",
    "true": True,
    "no properties": {"type": "object"},
    "properties that are none": {"type": "object", "properties": 7, "required": "all"},
    "a reference": _object("a", a={"$ref": "#/$defs/x"}),
    "a circle": {"$defs": {"x": {"$ref": "#/$defs/x"}}, **_object("a", a={"$ref": "#/$defs/x"})},
    "a pattern": _object("a", a={"type": "string", "pattern": "^(a+)+$", "minLength": 3, "format": "date"}),
    "all of": _object("a", a={"allOf": [STRING, {"maxLength": 3}]}),
    "not": _object("a", a={"not": STRING}),
    "unknown types": _object("a", a={"type": "decimal"}, b={"type": 5}, c={"type": []}),
    "values that are no JSON": _object("a", a={"enum": [float("nan"), float("inf")]}),
    "an empty choice": _object("a", a={"enum": []}, b={"anyOf": []}),
    "a long choice": _object("a", a={"enum": list(range(1000))}),
    "deep": _deep(50),
    "wide": _object(*(f"p{n}" for n in range(60)), **{f"p{n}": WHOLE for n in range(60)}),
    "wide and open": _object(**{f"p{n}": {"type": "boolean"} for n in range(60)}),
    "wide and deep": _object("a", a=_object(**{f"p{n}": _object(x=_object(y=STRING)) for n in range(40)})),
    "tuples": _object("a", a={"type": "array", "prefixItems": [STRING], "items": False}),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningModelServer]:
    folder = tmp_path_factory.mktemp("grammar")
    made = start_server(LocalModelOptions(write_tiny_gguf(folder / "tiny.gguf"), 8192, 600.0, folder / "states"))
    yield made
    _stop_process(made.process)


def tool(schema: Any, name: str = "act") -> Any:
    return SimpleNamespace(name=name, description="Act.", schema=schema)


def babble(place: RunningModelServer, grammar: str, seed: int) -> tuple[str, bool]:
    """What it says, and whether it came to an end."""
    body = {"prompt": "act", "grammar": grammar, "seed": seed, "temperature": 1.0, "n_predict": 1500}
    said = _post_json(place.url, place.key, "/completion", body | {"logit_bias": ENDS})
    return said["content"], said["stop_type"] == "eos"


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    assert len(made) == len(pairs), "a name stands there twice"
    return made


def only_calls(grammar: str, name: str = "act") -> str:
    first, _, rest = grammar.partition("\n")
    return f"root ::= {first[first.index(quote_literal(name + ' ')) :]}\n{rest}"


@pytest.mark.parametrize("kind", [*FOLLOWED, *LEFT_OPEN])
def test_a_call_always_parses_and_fits_as_far_as_the_schema_can_be_followed(
    place: RunningModelServer, kind: str
) -> None:
    schema = {**FOLLOWED, **LEFT_OPEN}[kind]
    grammar = only_calls(build_grammar((tool(schema),), "say"))
    ended = 0
    for seed in range(SEEDS):
        said, whole = babble(place, grammar, seed)
        assert said.startswith("act {")
        if not whole:
            continue
        ended += 1
        arguments = json.loads(said.removeprefix("act "), object_pairs_hook=once if kind in FOLLOWED else None)
        assert isinstance(arguments, dict)
        if kind in FOLLOWED:
            assert CompiledJsonSchema(schema).find_error(arguments) is None, said
    assert ended or kind in ("wide", "wide and deep"), "none of them came to an end"


def test_words_and_calls_are_all_that_is_allowed(place: RunningModelServer) -> None:
    grammar = build_grammar((tool(FOLLOWED["truth"]), tool({}, "other")), "say")
    heads = {babble(place, grammar, seed)[0].split(" ")[0] for seed in range(12)}
    assert heads <= {"say", "act", "other"}
    assert len(heads) > 1
    assert {babble(place, build_grammar((), "say"), seed)[0].split(" ")[0] for seed in range(3)} == {"say"}


def test_many_large_tools_still_make_a_grammar(place: RunningModelServer) -> None:
    tools = tuple(tool(LEFT_OPEN["wide and deep"], f"tool_{number}") for number in range(60))
    grammar = build_grammar(tools, "say")
    assert grammar.count("::=") < RULES_MAX + 20
    said, _ = babble(place, only_calls(grammar, "tool_0"), 1)
    assert said.split(" ")[0] in {one.name for one in tools}


def test_a_refused_grammar_is_replaced_by_a_looser_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bool] = []

    def badly(tools: Any, word: str, loose: bool = False) -> str:
        written.append(loose)
        return build_grammar(tools, word, loose) if loose else "root ::= ("

    def act(what: str) -> str:
        """Act."""
        return what

    async def ask() -> None:
        path = write_tiny_gguf(tmp_path / "tiny.gguf")
        info = ModelInfo(name="tiny", window=4096, output=100, terse=True)
        made = providers.LocalProvider(path, tmp_path / "states", info=info)
        context = Context("", [Message(1, "user", (Text("hello"),))], (FunctionTool(act),))
        try:
            for _ in range(2):
                pieces = [piece async for piece in made.stream(context, Options(output_tokens_max=5))]
                assert isinstance(pieces[-1], StreamFinished)
        finally:
            await made.close()

    monkeypatch.setattr(providers, "build_grammar", badly)
    asyncio.run(ask())
    assert written == [False, True], "it is tried once"


def test_every_character_can_be_asked_for(place: RunningModelServer) -> None:
    odd = 'a"b\\c\nd\te\r\x7f\u00fc\u2028\U0001f600 ]['
    ask = partial(_post_json, place.url, place.key, "/completion")
    said = ask({"prompt": "x", "grammar": f"root ::= {quote_literal(odd)}", "n_predict": 200})
    assert said["content"] == odd
