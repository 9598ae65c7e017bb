"""Exact checks of answers: what holds, what does not, and what is said about it."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from mainstay.core.messages import Usage
from mainstay.core.outcome import Answered, Exhausted, Failed
from mainstay.evals import checks
from mainstay.evals.checks import run_checks
from mainstay.evals.suite_schema import CaseChecks, ExpectedCall
from mainstay.evals.transcript import Transcript, TranscriptCall, merge_transcripts

LOOK = TranscriptCall("look", {"place": "sea", "deep": True}, "a light")
SAY = TranscriptCall("say", {"text": "hm"})
SEEN = Transcript(
    prompt="What is it?",
    answer="It is a lighthouse.",
    outcome=Answered(),
    calls=(LOOK, SAY, TranscriptCall("broken", None)),
    steps=3,
    usage=Usage(100, 20),
    cost=0.02,
    seconds=1.5,
)


async def wrong(seen: Transcript = SEEN, **checks: Any) -> list[str]:
    return [f"{one.check}: {one.failure}" for one in await run_checks(CaseChecks(**checks), seen) if one.failure]


@pytest.mark.parametrize(
    "checks",
    [
        {},
        {"contains": "light"},
        {"contains": ("It", "house")},
        {"not_contains": ("sorry", "house!")},
        {"equals": " It is a lighthouse.\n"},
        {"matches": (r"^It is", r"(?i)LIGHT\w+\.$")},
        {"called": ("say", "look")},
        {"called": (ExpectedCall(tool="look", arguments={"deep": True}),)},
        {"called": "l*k"},
        {"called": (ExpectedCall(tool="look", result="light"),)},
        {"called_in_order": ("look", "broken")},
        {"not_called": ("bash", "write*")},
        {"steps_max": 3, "tokens_max": 120, "cost_max": 0.02, "seconds_max": 1.5},
        {"outcome": "answered"},
    ],
    ids=range(14),
)
async def test_a_passing_check_reports_nothing(checks: dict[str, Any]) -> None:
    assert await wrong(**checks) == []


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        ({"contains": ("It", "boat")}, "contains 'boat': the answer is 'It is a lighthouse.'"),
        ({"contains": "it is"}, "contains 'it is': the answer is 'It is a lighthouse.'"),
        ({"not_contains": "house"}, "does not contain 'house': the answer is 'It is a lighthouse.'"),
        ({"equals": "It is"}, "equals 'It is': the answer is 'It is a lighthouse.'"),
        ({"matches": r"^light"}, "matches '^light': the answer is 'It is a lighthouse.'"),
        (
            {"called": "bash"},
            'called bash: it called look(place="sea", deep=true), say(text="hm"), broken(…)',
        ),
        (
            {"called": (ExpectedCall(tool="say", arguments={"text": "other"}),)},
            'called say(text="other"): it called look(place="sea", deep=true), say(text="hm"), broken(…)',
        ),
        (
            {"called": (ExpectedCall(tool="broken", arguments={"text": None}),)},
            'called broken(text=null): it called look(place="sea", deep=true), say(text="hm"), broken(…)',
        ),
        (
            {"called_in_order": ("say", "look")},
            "called in order say, look: look is missing there: it called "
            'look(place="sea", deep=true), say(text="hm"), broken(…)',
        ),
        ({"not_called": "s*"}, 'did not call s*: it called say(text="hm")'),
        ({"steps_max": 2}, "at most 2 steps: it took 3"),
        ({"tokens_max": 119}, "at most 119 tokens: it took 120"),
        ({"cost_max": 0.01}, "at most 0.01 dollars: it took 0.02"),
        ({"seconds_max": 1.0}, "at most 1.0 seconds: it took 1.5"),
        ({"outcome": "failed"}, "outcome failed: it ended as answered"),
        ({"json": True}, "is JSON: the answer is 'It is a lighthouse.'"),
    ],
    ids=range(16),
)
async def test_a_check_that_does_not_hold_says_what_it_found(checks: dict[str, Any], said: str) -> None:
    assert await wrong(**checks) == [said]


async def test_an_outcome_is_reported_with_its_reason() -> None:
    failed = Transcript(prompt="x", answer="", outcome=Failed("The model could not answer: no key"))
    assert await wrong(failed, outcome="answered", contains="x") == [
        "outcome answered: it ended as failed: The model could not answer: no key",
        "contains 'x': there is no answer",
    ]
    assert await wrong(failed, outcome="failed") == []


@pytest.mark.parametrize(
    ("answer", "schema", "said"),
    [
        ('{"a": 1}', True, []),
        ('```json\n{"a": 1}\n```', {"type": "object", "required": ["a"]}, []),
        ("[1, 2]", {"type": "array", "items": {"type": "integer"}}, []),
        ("[1, 2]", {"items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}, []),
        ('{"a": 1}', {"required": ["b"]}, ['fits the JSON Schema: answer: "b" is a required property']),
        ("[" * 100_000, True, [f"is JSON: the answer is '{'[' * 79}…'"]),
    ],
    ids=["any", "fenced", "list", "referring", "unfit", "deep"],
)
async def test_an_answer_is_checked_against_a_json_schema(answer: str, schema: Any, said: list[str]) -> None:
    pytest.importorskip("jsonschema_rs")
    assert await wrong(Transcript(prompt="", answer=answer, outcome=Answered()), json=schema) == said


async def test_a_pattern_that_takes_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "PATTERN_TIMEOUT_S", 0.5)
    hard = Transcript(prompt="", answer="a" * 60 + "!", outcome=Answered())
    began = time.monotonic()
    (said,) = await wrong(hard, matches=r"^(a+)+$")
    assert "took longer than" in said
    assert time.monotonic() - began < 120


def test_several_turns_are_one_with_the_last_answer_and_the_first_error() -> None:
    spent = Transcript(
        prompt="a", answer="b", outcome=Exhausted("steps"), steps=2, usage=Usage(1, 2), cost=0.5, calls=(SAY,)
    )
    whole = merge_transcripts([spent, SEEN])
    assert (whole.answer, whole.outcome) == (SEEN.answer, Exhausted("steps"))
    assert whole.prompt == "Earlier in this conversation:\n\nperson: a\n\nassistant: b\n\nNow:\n\nWhat is it?"
    assert (whole.steps, whole.tokens, whole.cost) == (5, 123, 0.52)
    assert [one.tool for one in whole.calls] == ["say", "look", "say", "broken"]
    assert merge_transcripts([spent, SEEN], expected_turns={0}).outcome == Answered()


async def test_a_call_of_a_tool_that_does_not_exist_is_no_call_of_it() -> None:
    seen = msgspec.structs.replace(SEEN, calls=(TranscriptCall("lok", {}, "There is no tool 'lok'.", exists=False),))
    assert await wrong(seen, called="lok") == [
        "called lok: it called lok() with the result \"There is no tool 'lok'.\""
    ]
    assert await wrong(seen, called_in_order="lok") == [
        "called in order lok: lok is missing there: it called lok() with the result \"There is no tool 'lok'.\""
    ]
    assert len(await wrong(seen, not_called="lok")) == 1, "the model tried it"


async def test_the_result_of_a_call_is_checked_and_shown() -> None:
    assert await wrong(called=(ExpectedCall(tool="look", arguments={"place": "sea"}, result="dark"),)) == [
        'called look(place="sea") with the result \'dark\': it called look(place="sea", deep=true) with the result '
        "'a light', say(text=\"hm\") with the result '', broken(…) with the result ''"
    ]
