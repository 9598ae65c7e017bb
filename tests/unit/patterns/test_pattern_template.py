"""Filling in templates: strictly, at once, and never twice."""

from __future__ import annotations

from typing import Any

import pytest

from mainstay.patterns.pattern_template import (
    FILLED_CHARS_MAX,
    InstructionPattern,
    PatternParameter,
    PatternTemplate,
    TemplateUnfillable,
    fill_template,
)

LETTER = PatternTemplate("letter", "Dear {{customer}}, {{ order }} and {{.order}} cost {{share}} {left_alone} {}")
PATTERN = InstructionPattern(
    name="refund",
    title="Refund",
    description="x",
    parameters=(
        PatternParameter("customer", "Who is written to", required=True),
        PatternParameter("order"),
        PatternParameter("share", default="all"),
        PatternParameter("reason", "Not in this template"),
    ),
    templates=(LETTER,),
)


def filled(**given: Any) -> str:
    return fill_template(PATTERN, LETTER, given)


def test_every_place_gets_its_value_and_a_default_where_none_was_given() -> None:
    assert filled(customer="Ada", order="A-1") == "Dear Ada, A-1 and A-1 cost all {left_alone} {}"
    assert filled(customer="Ada", order="A-1", share="half", reason="late").endswith("cost half {left_alone} {}")


def test_a_value_is_never_parsed_again() -> None:
    assert filled(customer="{{order}} {{nobody}} \\1 \\g<0>", order="{{customer}}") == (
        "Dear {{order}} {{nobody}} \\1 \\g<0>, {{customer}} and {{customer}} cost all {left_alone} {}"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(5, "5"), (1.5, "1.5"), (True, "true"), (["a", "b"], "a, b"), ({"a": [1]}, '{"a":[1]}'), ([["a"]], '[["a"]]')],
    ids=["int", "float", "bool", "list", "map", "nested"],
)
def test_values_that_are_not_text_are_written_plainly(value: Any, text: str) -> None:
    assert filled(customer=value, order="x").startswith(f"Dear {text}, x")


def test_missing_values_are_named_with_their_description() -> None:
    with pytest.raises(
        TemplateUnfillable, match=r"^The template 'letter' needs customer \(Who is written to\), order\.$"
    ):
        filled()
    with pytest.raises(TemplateUnfillable, match="needs order"):
        filled(customer="Ada", order=None)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(
        TemplateUnfillable, match=r"^There is no parameter colour; there are: customer, order, share, reason\.$"
    ):
        filled(customer="Ada", order="x", colour="red")


@pytest.mark.parametrize(
    "place", ["{{#each items}}", "{{if .x}}", "{{a.b}}", "{{x|5}}", "{{}}", "{{ }}", "{{range $i, $x := .y}}"]
)
def test_a_template_with_more_than_names_says_so(place: str) -> None:
    template = PatternTemplate("t", f"{{{{customer}}}} {place}")
    with pytest.raises(TemplateUnfillable, match="has more than plain placeholders"):
        fill_template(PATTERN, template, {"customer": "x"})


def test_the_output_is_bounded() -> None:
    template = PatternTemplate("t", "{{customer}}" * 100)
    with pytest.raises(TemplateUnfillable, match=f"longer than {FILLED_CHARS_MAX} characters"):
        fill_template(PATTERN, template, {"customer": "x" * 5_000})
    with pytest.raises(TemplateUnfillable, match="The value of customer is longer than 20000 characters"):
        filled(customer="x" * 20_001, order="y")
