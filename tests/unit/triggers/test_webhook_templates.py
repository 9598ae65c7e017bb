"""Templates put fields in, and do nothing else."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.core.errors import ConfigError
from mainstay.triggers.webhook_templates import (
    PATH_CHARS_MAX,
    PLACEHOLDERS_MAX,
    TEMPLATE_CHARS_MAX,
    TRUNCATION_NOTE,
    check_template,
    render_template,
)

EVENT: dict[str, Any] = {
    "issue": {"title": "It breaks", "number": 7, "labels": [{"name": "bug"}, {"name": "ci"}], "open": True},
    "sender": {"login": "ada", "bio": None},
    "app.kubernetes.io/name": "shop",
    "0": "zero",
    "größe": 2.5,
}


def shown(template: str, payload: Any = EVENT, chars_max: int = 10_000) -> str:
    check_template(template)
    return render_template(template, payload, chars_max=chars_max)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ issue.title }}", "It breaks"),
        ("#{{issue.number}}: {{  issue.title  }}!", "#7: It breaks!"),
        ("{{ issue.labels.1.name }}", "ci"),
        ("{{ issue.open }} {{ sender.bio }} {{ größe }}", "true null 2.5"),
        ("{{ 0 }}", "zero"),
        ('{{ "app.kubernetes.io/name" }}', "shop"),
        ('{{ issue."labels".0."name" }}', "bug"),
        ("{{ app.kubernetes.io/name }}", "(there is no app.kubernetes.io/name)"),
        ("{{ issue.labels.2.name }}", "(there is no issue.labels.2.name)"),
        ("{{ issue.labels.-1 }}", "(there is no issue.labels.-1)"),
        ("{{ issue.title.0 }}", "(there is no issue.title.0)"),
        ("{{ nothing }}", "(there is no nothing)"),
        ("{{ issue.__class__ }}", "(there is no issue.__class__)"),
        ("plain } text }} { with braces {x}", "plain } text }} { with braces {x}"),
        ("a\n\tb {{ 0 }}\r\nc", "a\n\tb zero\r\nc"),
    ],
)
def test_a_path_is_replaced_by_its_value_and_the_rest_is_kept(template: str, text: str) -> None:
    assert shown(template) == text


def test_objects_and_lists_are_put_in_as_json_that_can_be_read() -> None:
    assert shown("{{ issue.labels }}") == '[\n  {\n    "name": "bug"\n  },\n  {\n    "name": "ci"\n  }\n]'
    assert json.loads(shown("{{ issue }}")) == EVENT["issue"]
    assert shown("{{ e }}", {"e": []}) == "[]"
    assert shown("{{ e }}", {"e": "Zoë\n"}) == "Zoë\n"


@pytest.mark.parametrize("template", ["", "  \n", "{{ body }}", "{{body}}"])
def test_without_a_template_or_with_body_all_of_it_is_shown(template: str) -> None:
    assert json.loads(shown(template)) == EVENT
    assert shown(template, "just text") == "just text"
    assert json.loads(shown(template, [1, {"a": 2}])) == [1, {"a": 2}]


def test_a_field_that_is_called_body_comes_first() -> None:
    assert shown("{{ body }}", {"body": "of a comment"}) == "of a comment"
    assert shown("{{ body.text }}", {"body": {"text": "deep"}}) == "deep"
    assert shown("{{ body.text }}", "just text") == "(there is no body.text)"
    assert json.loads(shown("", {"body": "of a comment"})) == {"body": "of a comment"}


def test_inserted_values_are_not_expanded_again() -> None:
    payload = {"a": "{{ secret }} {{ b }} {% x %}", "b": "{{ a }}", "secret": "key"}
    assert shown("{{ a }}|{{ b }}", payload) == "{{ secret }} {{ b }} {% x %}|{{ a }}"


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{{ a", "not closed"),
        ("{{ a }} and {{ b } c", "not closed"),
        ("{{}}", "empty"),
        ("{{   }}", "empty"),
        ("{{ a b }}", "not a path"),
        ("{{ a | upper }}", "not a path"),
        ("{{ a() }}", "not a path"),
        ("{{ a[0] }}", "not a path"),
        ("{{ a..b }}", "not a path"),
        ("{{ .a }}", "not a path"),
        ("{{ a. }}", "not a path"),
        ('{{ "a }}', "not a path"),
        ('{{ "a\\x" }}', "not a path"),
        ('{{ "a"b }}', "not a path"),
        ("{{ {{ a }} }}", "not closed"),
        ("{% if a %}x{% endif %}", "only"),
        ("{# note #}", "only"),
        ("{{ " + "a" * (PATH_CHARS_MAX + 1) + " }}", "characters"),
        ("x" * (TEMPLATE_CHARS_MAX + 1), "characters"),
        ("{{ a }}" * (PLACEHOLDERS_MAX + 1), "placeholders"),
    ],
)
def test_an_invalid_template_is_refused_when_it_is_configured(template: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_template(template)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_a_long_value_is_cut_and_says_so() -> None:
    assert shown("{{ a }}", {"a": "x" * 1000}, 100) == "x" * (100 - len(TRUNCATION_NOTE)) + TRUNCATION_NOTE
    assert shown("{{ a }}", {"a": "x" * 100}, 100) == "x" * 100
    assert len(shown("y" * 90 + "{{ a }}{{ a }}", {"a": "x" * 1000}, 100)) == 100
    assert shown("{{ a }}", {"a": ["x" * 1000]}, 100).startswith('["xxx')  # on one line: it does not fit anyway
    assert len(shown("{{ a }}", {"a": "x" * 1000}, 5)) == 5


def test_control_characters_and_half_characters_do_not_get_through() -> None:
    evil = "a\x00b\x1b[2Jc\x7fd\x9be\ud800f\tg\r\nh"
    assert shown("{{ a }}", {"a": evil}) == "a\ufffdb\ufffd[2Jc\ufffdd\ufffde\ufffdf\tg\r\nh"
    whole = shown("", {"a": evil})
    assert not set(whole) & {"\x00", "\x1b", "\x7f", "\x9b", "\ud800"}
    assert shown("", evil) == shown("{{ a }}", {"a": evil})
    whole.encode()


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [40, 500, 100_000])
def test_deeply_nested_data_is_shown_on_one_line_or_not_at_all(depth: int) -> None:
    made = shown("{{ a }}", {"a": nested(depth)}, 5000)
    assert "\n" not in made
    assert made.startswith("[[[[") or "nested too deeply" in made


def test_no_template_and_no_payload_take_long() -> None:
    wide = {"a": [[n] for n in range(300_000)], "t": "}} {{" * 100_000}
    began = time.process_time()
    for template in ("{{ body }}" * PLACEHOLDERS_MAX, "{{ t }}" * PLACEHOLDERS_MAX, "{{ nothing }}" * PLACEHOLDERS_MAX):
        assert len(shown(template, wide, 32_768)) <= 32_768
    for hostile in ("{{" * 8000, "{{ " + '"' * 8000, "{{ " + "a." * 8000, "{{ a }}{" * 2000, "}}" * 8000):
        try:
            check_template(hostile)
        except ConfigError:
            pass
    assert time.process_time() - began < 3


@settings(max_examples=200, deadline=None)
@given(
    text=st.text(max_size=200),
    payload=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=20,
    ),
)
def test_any_template_is_refused_or_rendered_within_its_bound(text: str, payload: Any) -> None:
    for template in (text, "{{" + text + "}}", "{{ a." + text + " }} {{ body }}"):
        try:
            check_template(template)
        except ConfigError:
            continue
        made = render_template(template, payload, chars_max=300)
        assert len(made) <= 300
        made.encode(errors="strict") if not any("\ud800" <= char <= "\udfff" for char in template) else None
