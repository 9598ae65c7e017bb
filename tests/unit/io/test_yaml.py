"""YAML is read without surprises, and bombs are refused before they grow (F34)."""

import time
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.io.yaml import YamlRefused, load_yaml

PARSERS = ["python", "c"] if pyyaml.__with_libyaml__ else ["python"]


def choose_parser(name: str, patch: pytest.MonkeyPatch) -> None:
    if name == "python":
        patch.delattr(pyyaml, "CSafeLoader", raising=False)


@pytest.fixture(params=PARSERS, autouse=True)
def _parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything holds with the C parser and without it."""
    choose_parser(request.param, monkeypatch)


def refused(text: str | bytes) -> YamlRefused:
    with pytest.raises(YamlRefused) as caught:
        load_yaml(text)
    assert str(caught.value) == f"line {caught.value.line}: {caught.value.reason}"
    return caught.value


def bomb(levels: int, width: int = 9) -> str:
    lines = ["a0: &a0 [" + ", ".join(["lol"] * width) + "]"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [" + ", ".join([f"*a{level - 1}"] * width) + "]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("tRUE", "tRUE"),
        ("2024-01-31", "2024-01-31"),
        ("2024-01-31T10:00:00Z", "2024-01-31T10:00:00Z"),
        ("12:30:45", "12:30:45"),
        ("0123", "0123"),
        ("007.5", "007.5"),
        ("-08", "-08"),
        ("0o17", 15),
        ("0xFF", 255),
        ("1_000", "1_000"),
        ("12", 12),
        ("-3", -3),
        ("+4", 4),
        ("0", 0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("-.inf", float("-inf")),
        ("~", None),
        ("null", None),
        ("", None),
        ("'12'", "12"),
        ('"true"', "true"),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ("!!int '12'", 12),
        ("!!float 3", 3.0),
        ("hello world", "hello world"),
    ],
)
def test_a_scalar_is_what_it_looks_like(text: str, value: object) -> None:
    data = load_yaml(f"key: {text}\n").data["key"]
    assert data == value
    assert type(data) is type(value)


def test_keys_are_strings_as_written() -> None:
    assert load_yaml("no: 1\n1: 2\ntrue: 3\n2024-01-31: 4\n").data == {"no": 1, "1": 2, "true": 3, "2024-01-31": 4}


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---", "\ufeff"])
def test_an_empty_text_is_nothing(text: str) -> None:
    document = load_yaml(text)
    assert document.data is None
    assert document.find_line(("any", "key")) >= 1


def test_every_key_and_item_knows_its_line() -> None:
    document = load_yaml("# top\na: 1\nb:\n  c: [1, 2]\n  d:\n    - x\n    - y: 2\n      z: 3\n")
    assert document.find_line(("a",)) == 2
    assert document.find_line(("b",)) == 3
    assert document.find_line(("b", "c")) == 4
    assert document.find_line(("b", "c", 1)) == 4
    assert document.find_line(("b", "d", 0)) == 6
    assert document.find_line(("b", "d", 1, "z")) == 8


def test_a_path_that_does_not_exist_has_the_line_of_what_is_above_it() -> None:
    document = load_yaml("a: 1\nb:\n  c: 2\n")
    assert document.find_line(("b", "missing", "deeper")) == 2


def test_an_alias_repeats_its_anchor_and_keys_below_it_keep_their_lines() -> None:
    document = load_yaml("base: &base\n  x: 1\nother: *base\n")
    assert document.data == {"base": {"x": 1}, "other": {"x": 1}}
    assert document.find_line(("other",)) == 3
    assert document.find_line(("other", "x")) == 2


def test_a_place_is_the_extent_of_a_value_in_characters() -> None:
    text = 'é😀: "quoted😀" # why\nflow: {a: 1}\nempty:\n'
    document = load_yaml(text)

    def extent(*path: str | int) -> str:
        place = document.find_position(path)
        assert place is not None
        return text[place.start : place.end]

    assert extent("é😀") == '"quoted😀"'
    assert extent("flow") == "{a: 1}"
    assert extent("empty") == ""
    assert document.find_position(("flow", "b")) is None
    assert document.find_position(("nothing", "at", "all")) is None


def test_bytes_are_read_as_utf_8_with_or_without_a_mark() -> None:
    assert load_yaml("a: ä".encode()).data == {"a": "ä"}
    assert load_yaml("\ufeffa: ä".encode()).data == {"a": "ä"}
    assert refused(b"a: 1\nb: \xff").line == 2
    assert refused("a: 1\nb: \ud800").line == 2


def test_a_bomb_of_nine_levels_is_refused_at_parse() -> None:
    start = time.process_time()
    error = refused(bomb(9))
    assert time.process_time() - start < 1
    assert "more than 100 aliases" in error.reason
    assert error.line == 4


def test_aliases_of_something_large_are_refused_before_they_are_followed() -> None:
    text = "a: &a [" + "x," * 50_000 + "]\nb: [" + "*a ," * 50 + "]\n"
    assert "too large" in refused(text).reason


def test_aliases_are_counted() -> None:
    many = "a: &a 1\nb: [" + ", ".join(["*a"] * 4) + "]\n"
    assert load_yaml(many, aliases_max=4).data == {"a": 1, "b": [1, 1, 1, 1]}
    with pytest.raises(YamlRefused, match="line 2: more than 3 aliases"):
        load_yaml(many, aliases_max=3)


@pytest.mark.parametrize("text", ["[" * 200_000, "- " * 200_000, "? " * 200_000, '{"a":' * 100_000])
def test_deep_nesting_is_refused(text: str) -> None:
    start = time.process_time()
    refused(text)
    assert time.process_time() - start < 5


def test_depth_is_counted_through_aliases() -> None:
    text = "a: &a [[[1]]]\nb: [[*a]]\n"
    assert load_yaml(text, depth_max=6).data["b"] == [[[[[1]]]]]
    with pytest.raises(YamlRefused, match="line 2: it is nested deeper than 5 levels"):
        load_yaml(text, depth_max=5)
    with pytest.raises(YamlRefused, match="line 1: it is nested deeper than 2 levels"):
        load_yaml(text, depth_max=2)


def test_ten_megabytes_are_refused_unread() -> None:
    assert "larger than" in refused("a: " + "x" * 10_000_000).reason
    assert "larger than" in refused(b"a: " + b"x" * 10_000_000).reason
    assert "larger than" in refused("a: " + "ä" * 600_000).reason


@pytest.mark.parametrize(
    "text",
    [
        "a: !!python/object/apply:os.system ['true']",
        "a: !!python/name:os.system",
        "a: !!binary aGk=",
        "a: !!timestamp 2024-01-31",
        "a: !!set {x}",
        "a: !!map [1]",
        "a: !custom 1",
        "%TAG ! tag:yaml.org,2002:python/\n---\na: !name:os.system",
        "!!int 1: a",
    ],
)
def test_only_plain_tags_are_taken(text: str) -> None:
    assert refused(text).reason.startswith(("only plain tags", "a value does not fit"))


def test_a_value_that_does_not_fit_its_tag_is_refused() -> None:
    assert refused("a: !!int hello").reason == "a value does not fit its tag"


def test_a_text_that_ends_too_soon_is_refused_at_its_last_line() -> None:
    assert refused("a: 1\nb: [1").line == 2


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3", "{a: 1, b: 2,\n\n a: 1}", "a: 1\nb: 2\n'a': 3"])
def test_a_key_given_twice_is_refused_with_its_line(text: str) -> None:
    error = refused(text)
    assert (error.reason, error.line) == ("the key 'a' is given twice", 3)


def test_a_tab_is_explained() -> None:
    error = refused("a:\n\tb: 1\n")
    assert error.line == 2
    assert "tab" in error.reason


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\n---\nb: 2\n", "more than one document"),
        ("a: &a [*a]", "inside of the value that it refers to"),
        ("a: *missing", "no anchor above it"),
        ("? [1]\n: 2", "a key must be a plain string"),
        ("a: &a x\n*a : 2", "an alias cannot be a key"),
        ("a: &a {x: 1}\nb:\n  <<: *a", "merge keys"),
        ("? \n: 1", "a key is missing"),
        ("a: " + "9" * 5000, "a number is too long"),
        ("a: [1", ""),
        ("a: b: c", ""),
        ("a: \x00", "not allowed"),
        ('a: "\\ud800"', ""),
        ('a: "\\UFFFFFFFF"', ""),
        ("%A\n" * 50_000, "directives"),
        ("%YAML 1." + "9" * 5000 + "\n---\na: 1", ""),
    ],
)
def test_unreadable_input_is_refused_with_a_sentence(text: str, words: str) -> None:
    assert words in refused(text).reason


def test_a_megabyte_is_read_in_reasonable_time() -> None:
    text = "".join(f"key{n}: [1, two, {{three: 3}}]\n" for n in range(5_000))
    start = time.process_time()
    assert len(load_yaml(text).data) == 5_000
    assert time.process_time() - start < 10


ODD = st.text(alphabet=st.sampled_from(list("ab01:-?[]{},&*!|>'\"%@`#~<. \n\t\\ü\ud800\x00\u2028")), max_size=60)


@settings(max_examples=300, deadline=None)
@given(st.one_of(ODD, st.text(max_size=60), st.binary(max_size=60)))
def test_nothing_but_a_refusal_is_ever_raised(text: str | bytes) -> None:
    for name in PARSERS:
        with pytest.MonkeyPatch.context() as patch:
            choose_parser(name, patch)
            try:
                load_yaml(text)
            except YamlRefused:
                pass  # with a sentence, as the tests above show


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False),
    st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=10),
)
KEYS = st.text(alphabet="abcdefgh", min_size=1, max_size=5)
TREES = st.recursive(SCALARS, lambda inner: st.one_of(st.lists(inner), st.dictionaries(KEYS, inner)), max_leaves=15)


class Quoting(pyyaml.SafeDumper):
    """Quotes every string, since PyYAML leaves bare what only its own older rules call a string."""


Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


@settings(max_examples=100, deadline=None)
@given(TREES)
def test_output_of_a_yaml_writer_reads_back(tree: Any) -> None:
    assert load_yaml(pyyaml.dump({"tree": tree}, Dumper=Quoting)).data == {"tree": tree}
