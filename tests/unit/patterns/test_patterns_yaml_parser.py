"""Reading pattern files: the shapes that people write, and what is refused with a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from mainstay.io.yaml import YamlRefused, load_all_yaml
from mainstay.patterns.pattern_template import FILE_BYTES_MAX, InstructionPattern, PatternParameter
from mainstay.patterns.yaml_parser import ParsedPatternFile, parse_file

WHOLE = """\
name: refund_order
title: "Refund an order"
description: |
  Give money back for an order, or for a part of it.
category: shop
intents: [refund, money_back]
use_cases:
  - A parcel never came
  - The customer sent it back
parameters:
  - {name: order, type: string, required: true, description: Its number, example: A-17}
  - {name: share, type: number, required: false, default: 1.0}
templates:
  letter:
    description: What the customer is told
    content: |
      Dear {{customer}}, we refunded {{order}}.
  check: SELECT * FROM orders WHERE id = '{{order}}'
examples:
  - name: a lost parcel
    parameters: {order: A-17}
    expected_result: refunded
best_practices: |
  - Never refund twice.
common_errors:
  - {error: already refunded, cause: a second click, solution: look first}
related_patterns: [cancel_order]
difficulty: easy
"""


def read(text: str | bytes) -> ParsedPatternFile:
    return parse_file("p.yaml", text if isinstance(text, bytes) else text.encode())


def only(text: str) -> InstructionPattern:
    page = read(text)
    assert not page.problems, page.problems
    (pattern,) = page.patterns
    return pattern


def about(text: str | bytes) -> str:
    """The one thing that is wrong."""
    page = read(text)
    (trouble,) = page.problems
    return str(trouble)


def test_a_pattern_with_everything_is_read_whole() -> None:
    pattern = only(WHOLE)
    assert (pattern.name, pattern.title, pattern.category) == ("refund_order", "Refund an order", "shop")
    assert pattern.intents == ("refund", "money_back")
    assert pattern.use_cases == ("A parcel never came", "The customer sent it back")
    assert pattern.parameters == (
        PatternParameter("order", "Its number", "string", True, None, "A-17"),
        PatternParameter("share", "", "number", False, "1.0", ""),
    )
    assert [(one.name, one.text) for one in pattern.templates] == [
        ("letter", "Dear {{customer}}, we refunded {{order}}."),
        ("check", "SELECT * FROM orders WHERE id = '{{order}}'"),
    ]
    assert pattern.examples[0].text == "parameters: order: A-17\nexpected_result: refunded"
    assert pattern.common_errors[0].solution == "look first"
    assert (pattern.related, pattern.path, pattern.line) == (("cancel_order",), "p.yaml", 1)


LIBRARIES = {
    "documents": "name: a\ndescription: x\n---\nname: b\ndescription: y\n",
    "documents with empty ones": "---\n---\nname: a\ndescription: x\n---\n---\nname: b\ndescription: y\n...\n---\n",
    "a list": "- {name: a, description: x}\n- {name: b, description: y}\n",
    "patterns": "kind: PatternLibrary\npatterns:\n  - {name: a, description: x}\n  - {name: b, description: y}\n",
    "patterns by name": "patterns:\n  a: {description: x}\n  b: {description: y}\n",
    "entries below spec": "kind: L\nmetadata: {name: l}\nspec:\n  entries:\n    - {name: a, description: x}\n"
    "    - {name: b, description: y}\n",
}


@pytest.mark.parametrize("shape", LIBRARIES, ids=[name.replace(" ", "-") for name in LIBRARIES])
def test_a_file_may_hold_several_patterns(shape: str) -> None:
    page = read(LIBRARIES[shape])
    assert not page.problems
    assert [one.name for one in page.patterns] == ["a", "b"]


SHAPES: dict[str, tuple[str, Any]] = {
    "intents: refund": ("intents", ("refund",)),
    "intents: |\n  - refund\n  - money back\n": ("intents", ("refund", "money back")),
    "trigger_conditions: [refund, money back]": ("intents", ("refund", "money back")),
    "intent_keywords: [refund]": ("intents", ("refund",)),
    "parameters: {order: Its number}": ("parameters", (PatternParameter("order", "Its number"),)),
    "parameters: {order: {type: string, required: yes}}": (
        "parameters",
        (PatternParameter("order", "", "string", True),),
    ),
    "parameters: [order, share]": ("parameters", (PatternParameter("order"), PatternParameter("share"))),
    "best_practices: [look first, then act]": ("best_practices", "- look first\n- then act"),
    "use_cases: ~": ("use_cases", ()),
    "templates: null": ("templates", ()),
}


@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_shapes_that_people_write_are_understood(number: int) -> None:
    text, (field, value) = list(SHAPES.items())[number]
    assert getattr(only(f"name: a\ndescription: x\n{text}\n"), field) == value


def test_f34_words_that_yaml_1_1_converts_stay_text() -> None:
    """F34: Norway, octal numbers and dates."""
    pattern = only(
        "name: no\ntitle: 0123\ndescription: 2024-01-31\nintents: [yes, off, 1e3, 12:30:45, .inf]\n"
        "parameters: {country: {default: no, example: 007}}\n"
    )
    assert (pattern.name, pattern.title, pattern.description) == ("no", "0123", "2024-01-31")
    assert pattern.intents == ("yes", "off", "1e3", "12:30:45", ".inf")
    assert (pattern.parameters[0].default, pattern.parameters[0].example) == ("no", "007")


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

REFUSED: dict[str, tuple[str | bytes, str]] = {
    "bomb": (BOMB, "p.yaml:4: more than 100 aliases would have to be followed"),
    "long alias": (
        "name: a\ndescription: x\nt: &t " + "y" * 40_000 + "\nuse_cases: [" + "*t, " * 90 + "z]\n",
        "p.yaml:1: the aliases would make the text too large",
    ),
    "object": ("name: a\ndescription: !!python/object/apply:os.system [id]\n", "p.yaml:2: only plain tags are allowed"),
    "own tag": ("name: !secret a\ndescription: x\n", "p.yaml:1: only plain tags are allowed"),
    "tab": ("name: a\n\tdescription: x\n", "p.yaml:2: a tab cannot be used for indentation; use spaces"),
    "repeated key": ("name: a\ndescription: x\nname: b\n", "p.yaml:3: the key 'name' is given twice"),
    "merge": ("name: a\ndescription: x\n<<: {b: c}\n", "p.yaml:3: merge keys (<<) are not supported"),
    "10 MB": (
        b"name: a\ndescription: " + b"x" * 10_000_000,
        f"p.yaml:1: the text is larger than {FILE_BYTES_MAX} bytes",
    ),
    "deep": ("name: a\ndescription: x\nq: " + "[" * 60 + "]" * 60, "p.yaml:3: it is nested deeper than 50 levels"),
    "binary": (bytes(range(256)), "p.yaml:2: the text is not UTF-8"),
    "zeros": (b"name: a\x00b\n", "p.yaml:1: a character is not allowed in YAML"),
    "half an escape": ('name: a\ndescription: "\\ud800"\n', "p.yaml:2: found invalid Unicode character escape code"),
    "no name": ("title: x\ndescription: y\n", "p.yaml:1: the pattern has no name"),
    "no description": ("\nname: a\n", "p.yaml:2: the pattern 'a' has no description"),
    "bad name": (
        "name: ../../etc\ndescription: x\n",
        "p.yaml:1: '../../etc' is not a valid name: letters, digits, '_', '-' and '.', at most 64",
    ),
    "name with a line": (
        'name: "a\\nb"\ndescription: x\n',
        "p.yaml:1: 'a\\nb' is not a valid name: letters, digits, '_', '-' and '.', at most 64",
    ),
    "list for a title": ("name: a\ndescription: x\ntitle: [b]\n", "p.yaml:3: title must be text, and is a list"),
    "map among intents": (
        "name: a\ndescription: x\nintents:\n  - b\n  - {c: d}\n",
        "p.yaml:5: an item of intents must be text, and is a map",
    ),
    "parameter twice": (
        "name: a\ndescription: x\nparameters:\n  - name: b\n  - name: b\n",
        "p.yaml:5: 'b' is in parameters twice",
    ),
    "parameter's name": (
        "name: a\ndescription: x\nparameters: ['b c']\n",
        "p.yaml:3: 'b c' is not a valid parameter name: letters, digits, '_' and '-'",
    ),
    "required maybe": (
        "name: a\ndescription: x\nparameters:\n  b:\n    required: maybe\n",
        "p.yaml:5: required must be true or false",
    ),
    "template without text": (
        "name: a\ndescription: x\ntemplates:\n  t: {description: d}\n",
        "p.yaml:4: the template 't' has no text: give it as content, text, template, sql",
    ),
    "not a map": ("just words\n", "p.yaml:1: a pattern is a map with name and description, and this is text"),
    "twice in a file": (
        "- {name: a, description: x}\n- {name: a, description: y}\n",
        "p.yaml:2: the pattern 'a' is in this file twice; the first one is used",
    ),
    "many items": (
        "name: a\ndescription: x\nintents: [" + "b, " * 501 + "]\n",
        "p.yaml:3: intents has more than 500 items",
    ),
}


@pytest.mark.parametrize("case", REFUSED, ids=[name.replace(" ", "-") for name in REFUSED])
def test_f34_an_invalid_pattern_is_refused_with_the_line_and_the_reason(case: str) -> None:
    text, sentence = REFUSED[case]
    assert about(text) == sentence


def test_f34_the_bomb_is_the_small_one() -> None:
    assert len(BOMB) < 330


def test_one_invalid_pattern_does_not_affect_the_others_of_its_file() -> None:
    page = read("- {name: a, description: x}\n- {name: b}\n- {name: c, description: z}\n")
    assert [one.name for one in page.patterns] == ["a", "c"]
    assert [str(one) for one in page.problems] == ["p.yaml:2: the pattern 'b' has no description"]


def test_a_misspelt_field_is_reported_and_the_pattern_is_used() -> None:
    page = read("name: a\ndescription: x\nuse_case: b\nauthor: c\nversion: 1\nroadmap: [d]\n")
    assert [one.name for one in page.patterns] == ["a"]
    (trouble,) = page.problems
    assert str(trouble) == "p.yaml:3: 'use_case' is not a field of a pattern; did you mean 'use_cases'?"
    assert not trouble.lost


def test_documents_of_one_text_share_their_caps_and_not_their_anchors() -> None:
    documents = load_all_yaml("a: &x 1\nb: *x\n---\nc: 2\n")
    assert [one.data for one in documents] == [{"a": 1, "b": 1}, {"c": 2}]
    assert documents[1].find_line(("c",)) == 4
    with pytest.raises(YamlRefused, match="line 4: the alias 'x' has no anchor above it"):
        load_all_yaml("a: &x 1\nb: *x\n---\nc: *x\n")
    piece = "a: &x 1\nb: [" + "*x, " * 60 + "]\n---\n"
    assert len(load_all_yaml(piece)) == 2
    with pytest.raises(YamlRefused, match="line 5: more than 100 aliases"):
        load_all_yaml(piece * 2)
