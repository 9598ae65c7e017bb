"""An event file is a trigger or is refused with one sentence; one that merely ends too early is known as such (F11)."""

from __future__ import annotations

import codecs
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.core.triggers import Trigger, TriggerTarget
from mainstay.triggers.trigger_json import (
    DATA_BYTES_MAX,
    FIELDS,
    FILE_BYTES_MAX,
    TEXT_BYTES_MAX,
    TriggerRefused,
    check_is_future,
    check_trigger_name,
    encode_trigger,
    parse_trigger,
)

PERIODIC = {
    "type": "periodic",
    "threadId": "slack:C123ABC:1234567890.123456",
    "text": "Check for new GitHub notifications",
    "schedule": "0 9 * * 1-5",
    "timezone": "America/New_York",
}
ONE_SHOT = {
    "type": "one-shot",
    "channelId": "C123ABC",
    "adapterId": "slack",
    "text": "Time for the weekly report",
    "schedule": "2025-03-01T09:00:00",
    "timezone": "America/New_York",
}
IMMEDIATE = {"type": "immediate", "threadId": "t", "text": "go"}


def read(fields: Any, name: str = "x") -> Trigger:
    return parse_trigger(name, json.dumps(fields).encode())


def refused(raw: bytes, name: str = "x") -> TriggerRefused:
    with pytest.raises(TriggerRefused) as caught:
        parse_trigger(name, raw)
    sentence = str(caught.value)
    assert sentence.endswith((".", "?"))
    assert "\n" not in sentence
    assert len(sentence) < 400
    return caught.value


def test_the_published_examples_are_read() -> None:
    assert read(PERIODIC, "news") == Trigger(
        name="news",
        kind="periodic",
        text="Check for new GitHub notifications",
        target=TriggerTarget(session="slack:C123ABC:1234567890.123456"),
        schedule="0 9 * * 1-5",
        timezone="America/New_York",
    )
    assert read(ONE_SHOT, "report") == Trigger(
        name="report",
        kind="one-shot",
        text="Time for the weekly report",
        target=TriggerTarget(channel="slack", room="C123ABC"),
        schedule="2025-03-01T09:00:00",
        timezone="America/New_York",
    )


def test_everything_beyond_the_published_fields_is_read_too() -> None:
    more = {
        "missed": "all",
        "jitter_s": 30,
        "check": "test -e x",
        "paused": True,
        "person": "ann",
        "origin": "schedule",
    }
    trigger = read({**PERIODIC, **more, "workspace": "home", "data": {"a": [1, "é"]}})
    assert (trigger.missed, trigger.jitter_s, trigger.check, trigger.paused) == ("all", 30.0, "test -e x", True)
    assert (trigger.person, trigger.origin, trigger.target.workspace) == ("ann", "schedule", "home")
    assert json.loads(trigger.data) == {"a": [1, "é"]}
    assert read({**IMMEDIATE, "data": "as it is"}).data == "as it is"


def test_null_means_missing_and_a_byte_order_mark_is_ignored() -> None:
    assert read({**IMMEDIATE, "schedule": None, "data": None, "paused": None}) == read(IMMEDIATE)
    assert parse_trigger("x", codecs.BOM_UTF8 + json.dumps(IMMEDIATE).encode() + b"\r\n") == read(IMMEDIATE)


def test_a_time_that_is_over_is_read_but_nothing_new_is_made_for_it() -> None:
    """A file may have waited while no process ran; then the trigger's policy for missed times holds."""
    trigger = read(ONE_SHOT)
    check_is_future(trigger, 0)
    with pytest.raises(TriggerRefused, match="is in the past"):
        check_is_future(trigger, 1_800_000_000_000)
    check_is_future(read(PERIODIC), 1_800_000_000_000)
    check_is_future(read(IMMEDIATE), 1_800_000_000_000)


@pytest.mark.parametrize("cut", range(len(json.dumps(PERIODIC | {"text": "é 𝄞"}, ensure_ascii=False).encode())))
def test_cut_anywhere_a_file_is_known_to_end_too_early_f11(cut: int) -> None:
    raw = json.dumps(PERIODIC | {"text": "é 𝄞"}, ensure_ascii=False).encode()
    assert refused(raw[:cut]).incomplete
    assert refused(codecs.BOM_UTF8 + raw[:cut]).incomplete
    assert refused(raw[:cut] + bytes(len(raw) - cut)).incomplete  # what is not written yet is shown as zeros
    assert refused(raw[:cut] + b" \n").incomplete or b'"' in raw[:cut]  # a line break inside of a string is wrong


def test_cut_inside_of_the_byte_order_mark_or_empty_it_ends_too_early_as_well_f11() -> None:
    for raw in (b"", b" \n", b"\0" * 100, codecs.BOM_UTF8, codecs.BOM_UTF8[:1], codecs.BOM_UTF8[:2]):
        assert refused(raw).incomplete, raw


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"[]", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b"12", "not a JSON object"),
        (b"hello", "not a JSON object"),
        (b"no", "not a JSON object"),
        (b"{'type': 1}", "not JSON"),
        (b'{"type": "immediate",}', "not JSON: trailing comma"),
        (b'{"type": "immediate"} {}', "not JSON: trailing characters"),
        (b'{"text": NaN}', "not JSON"),
        (b'{"text": "\\ud800"}', "half a character"),
        (b'{"text": "\xff\xfe"}', "not UTF-8"),
        ('{"type": "immediate"}'.encode("utf-16"), "not UTF-8"),
        (b"\x7fELF\x02\x01\x01\0\0\0", "not a JSON object"),
        (b'{"type": "imm\0\0\0', "zero bytes"),
        (b"\x89PNG\r\n\x1a\n", "not UTF-8"),
        (b'{"data": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"jitter_s": ' + b"9" * 5000 + b"}", "too large"),
        (b" " * (FILE_BYTES_MAX + 1), "more than"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_json_is_refused_with_a_sentence(raw: bytes, said: str) -> None:
    error = refused(raw)
    assert said in str(error)
    assert error.incomplete == ("zero bytes" in said)


@pytest.mark.parametrize("many", [2, 100_000, 300_000], ids=["few", "many", "too many"])
def test_data_is_measured_before_it_is_laid_out(many: int) -> None:
    """Indented, many would be a hundred megabytes, and can be gigabytes."""
    data = "[" * 500 + ",".join(["1"] * many) + "]" * 500
    raw = b'{"type": "immediate", "threadId": "t", "text": "go", "data": ' + data.encode() + b"}"
    tracemalloc.start()
    try:
        if len(data) > DATA_BYTES_MAX:
            assert "`data` has at most" in str(refused(raw))
        else:
            assert parse_trigger("x", raw).data == data
        assert tracemalloc.get_traced_memory()[1] < 20 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_data_is_laid_out_to_be_read_unless_that_makes_it_too_long() -> None:
    assert read({**IMMEDIATE, "data": {"a": [1]}}).data == '{\n  "a": [\n    1\n  ]\n}'
    assert read({**IMMEDIATE, "data": [1] * 100_000}).data == str([1] * 100_000).replace(" ", "")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "`type` is one of immediate, one-shot, periodic"),
        ({**IMMEDIATE, "type": "weekly"}, "not 'weekly'"),
        ({**IMMEDIATE, "type": "webhook"}, "`type` is one of"),
        ({**IMMEDIATE, "type": 3}, "`type` is text, not a number"),
        ({**IMMEDIATE, "text": ""}, "`text` is missing"),
        ({**IMMEDIATE, "text": " \n "}, "`text` is missing"),
        ({**IMMEDIATE, "text": ["go"]}, "`text` is text, not a list"),
        ({**IMMEDIATE, "text": "é" * (TEXT_BYTES_MAX // 2 + 1)}, "`text` has at most"),
        ({**IMMEDIATE, "data": "x" * (DATA_BYTES_MAX + 1)}, "`data` has at most"),
        ({**IMMEDIATE, "data": ["x" * DATA_BYTES_MAX]}, "`data` has at most"),
        ({"type": "immediate", "text": "go"}, "has no target"),
        ({"type": "immediate", "text": "go", "adapterId": "slack"}, "has no target"),
        ({"type": "immediate", "text": "go", "channelId": "C1"}, "has no target"),
        ({**IMMEDIATE, "adapterId": "slack", "channelId": "C1"}, "but not both"),
        ({**IMMEDIATE, "threadId": " t"}, "names no session"),
        ({**IMMEDIATE, "threadId": "a\nb"}, "names no session"),
        ({**IMMEDIATE, "threadId": "x" * 600}, "names no session"),
        ({**IMMEDIATE, "threadId": 12}, "`threadId` is text"),
        ({**IMMEDIATE, "schedule": "* * * * *"}, "it has no `schedule`"),
        ({**IMMEDIATE, "check": "true"}, "it has no `check`"),
        ({**IMMEDIATE, "jitter_s": 5}, "it has no `jitter_s`"),
        ({**IMMEDIATE, "timezone": "Nowhere/Land"}, "there is no time zone"),
        ({**IMMEDIATE, "workspace": "a\nb"}, "`workspace` has at most"),
        ({**IMMEDIATE, "paused": "yes"}, "`paused` is true or false, not text"),
        ({**IMMEDIATE, "paused": 1}, "`paused` is true or false, not a number"),
        ({**IMMEDIATE, "tmezone": "UTC"}, "did you mean `timezone`"),
        ({**IMMEDIATE, "threadid": "t"}, "did you mean `threadId`"),
        ({**IMMEDIATE, "colour": "red"}, "there is no field 'colour'"),
        ({**IMMEDIATE, "x" * 5000: 1}, "there is no field"),
        ({**ONE_SHOT, "schedule": ""}, "a one-shot trigger needs a `schedule`: an ISO time"),
        ({**ONE_SHOT, "schedule": "0 9 * * *"}, "is an ISO time"),
        ({**ONE_SHOT, "schedule": "2025-02-30T09:00:00"}, "no such day"),
        ({**ONE_SHOT, "timezone": "America/NewYork"}, "did you mean America/New_York"),
        ({**PERIODIC, "schedule": None}, "a periodic trigger needs a `schedule`: five cron fields"),
        ({**PERIODIC, "schedule": "2025-03-01T09:00:00"}, "is cron fields"),
        ({**PERIODIC, "schedule": "0 0 30 2 *"}, "never comes"),
        ({**PERIODIC, "schedule": "0 0 9 * * *"}, "seconds are not supported"),
        ({**PERIODIC, "missed": "never"}, "`missed` is one of once, skip, all"),
        ({**PERIODIC, "jitter_s": -1}, "from 0 to 86400"),
        ({**PERIODIC, "jitter_s": 1e9}, "from 0 to 86400"),
        ({**PERIODIC, "jitter_s": True}, "`jitter_s` is a number"),
        ({**PERIODIC, "check": "x" * 5000}, "`check` has at most"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_rule_is_one_sentence(fields: dict[str, Any], said: str) -> None:
    error = refused(json.dumps(fields).encode())
    assert said in str(error)
    assert not error.incomplete


@pytest.mark.parametrize("name", ["", " x", "x ", ".hidden", "a/b", "a\nb", "a\x7fb", "x" * 151, "\udcff", "é" * 76])
def test_a_name_that_no_file_should_have_is_refused(name: str) -> None:
    with pytest.raises(TriggerRefused):
        check_trigger_name(name)
    with pytest.raises(TriggerRefused):
        parse_trigger(name, json.dumps(IMMEDIATE).encode())


def test_a_name_may_be_in_any_language() -> None:
    for name in ("weekly report", "wöchentlich", "週報", "a.b-c_d:e", "--x--"):
        assert read(IMMEDIATE, name).name == name


WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40).filter(
    lambda s: s == s.strip()
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200).filter(lambda s: bool(s.strip()))
TARGETS = st.one_of(
    st.builds(TriggerTarget, session=WORDS, workspace=st.one_of(st.just(""), WORDS)),
    st.builds(TriggerTarget, channel=WORDS, room=WORDS, workspace=st.one_of(st.just(""), WORDS)),
)
REST = {
    "name": st.just("x"),
    "text": TEXTS,
    "target": TARGETS,
    "timezone": st.sampled_from(["UTC", "Europe/Lisbon"]),
    "paused": st.booleans(),
    "data": st.one_of(st.just(""), TEXTS),
    "person": st.one_of(st.just(""), WORDS),
    "origin": st.one_of(st.just(""), WORDS),
}
TIMED = {
    "missed": st.sampled_from(["once", "skip", "all"]),
    "jitter_s": st.floats(0, 86_400),
    "check": st.one_of(st.just(""), TEXTS),
}
TRIGGERS = st.one_of(
    st.builds(Trigger, kind=st.just("immediate"), **REST),  # type: ignore[arg-type]
    st.builds(Trigger, kind=st.just("one-shot"), schedule=st.just("2030-01-01T10:00:00Z"), **REST, **TIMED),  # type: ignore[arg-type]
    st.builds(Trigger, kind=st.just("periodic"), schedule=st.sampled_from(["@daily", "*/5 * * * *"]), **REST, **TIMED),  # type: ignore[arg-type]
)


@settings(max_examples=200, deadline=None)
@given(TRIGGERS)
def test_written_files_read_back_the_same(trigger: Trigger) -> None:
    raw = encode_trigger(trigger)
    assert parse_trigger("x", raw) == trigger
    assert raw.endswith(b"}\n")
    assert next(iter(json.loads(raw))) == "type"
    assert set(json.loads(raw)) <= set(FIELDS)


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=60),
        st.dictionaries(
            st.one_of(st.sampled_from(FIELDS), st.text(max_size=5)),
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
                lambda inner: st.lists(inner, max_size=3),
            ),
            max_size=6,
        ).map(lambda fields: json.dumps(fields).encode()),
    )
)
def test_any_file_is_a_trigger_or_refused(raw: bytes) -> None:
    try:
        trigger = parse_trigger("x", raw)
    except TriggerRefused:
        return
    assert parse_trigger("x", encode_trigger(trigger)) == trigger
