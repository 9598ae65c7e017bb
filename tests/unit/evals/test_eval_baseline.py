"""Baselines of evaluations: regressions against them, and results as JUnit XML."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import pytest

from mainstay.core.errors import ConfigError
from mainstay.core.events import Score
from mainstay.evals.baseline import (
    build_baseline,
    compare_with_baseline,
    format_baseline,
    list_failing_cases,
    read_baseline,
)
from mainstay.evals.junit_report import build_junit_report
from mainstay.evals.results import CaseAttempt, CaseResult, EvalRun, redact_run


def run(**cases: tuple[Any, float]) -> EvalRun:
    results = [
        CaseResult(name=name, result=result, score=score, reasons=() if result == "passed" else ("too little wind",))
        for name, (result, score) in cases.items()
    ]
    return EvalRun(name="cases", results=tuple(results), seconds=1.5)


BEFORE = run(
    steady=("passed", 0.9), sinks=("passed", 0.9), leaks=("failed", 0.5), rises=("failed", 0.1), gone=("error", 0)
)


def test_a_baseline_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "cases.baseline.json"
    path.write_text(format_baseline(build_baseline(BEFORE, None)))
    assert read_baseline(path) == build_baseline(BEFORE, None)
    assert '    "leaks": {"result":"failed","score":0.5},\n' in path.read_text(), "a line a case"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2, "cases": {}}', '{"version": 1, "cases": {"a": {}}}'])
def test_an_invalid_baseline_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "b.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"b\.json is not a baseline file: .*; create one with --save-baseline"):
        read_baseline(path)


def test_worse_better_missing_and_new_cases_are_named() -> None:
    now = run(
        steady=("passed", 0.85), sinks=("failed", 0.9), leaks=("failed", 0.4), rises=("passed", 1), new=("failed", 0)
    )
    found = compare_with_baseline(now, build_baseline(BEFORE, None), 0.05, [one.name for one in now.results])
    assert found.regressions == {"sinks": "it passed before", "leaks": "0.50 before, 0.40 now"}
    assert found.improvements == {"rises": "it passes now"}
    assert (found.missing, found.extra, found.known_failures) == (("gone",), ("new",), {"leaks"})
    assert list_failing_cases(now, found, strict=False) == ["sinks", "leaks", "new"]


def test_a_case_that_failed_before_fails_the_run_only_if_it_got_worse_or_all_must_pass() -> None:
    now = run(steady=("passed", 0.9), leaks=("failed", 0.5))
    found = compare_with_baseline(now, build_baseline(BEFORE, None), 0.05, ["steady", "leaks"])
    assert list_failing_cases(now, found, strict=False) == []
    assert list_failing_cases(now, found, strict=True) == ["leaks"]
    assert list_failing_cases(now, None, strict=False) == ["leaks"]


@pytest.mark.parametrize(("score", "worse"), [(0.90, False), (0.85, False), (0.8499, True), (0.2, True)])
def test_a_score_may_be_a_little_lower(score: float, worse: bool) -> None:
    found = compare_with_baseline(run(a=("passed", score)), build_baseline(run(a=("passed", 0.9)), None), 0.05, ["a"])
    assert bool(found.regressions) == worse


def test_a_case_that_was_not_chosen_is_not_missing_and_keeps_what_is_known_of_it() -> None:
    before = build_baseline(run(a=("passed", 1), b=("failed", 0)), None)
    now = run(a=("passed", 0.5))
    assert compare_with_baseline(now, before, 0.05, ["a", "b"]).missing == ()
    assert {name: one.score for name, one in build_baseline(now, before).cases.items()} == {"a": 0.5, "b": 0}


def test_a_case_that_was_skipped_is_neither_worse_nor_fine() -> None:
    now = run(steady=("skipped", 0))
    found = compare_with_baseline(now, build_baseline(BEFORE, None), 0.05, ["steady"])
    assert (found.regressions, list_failing_cases(now, found, strict=False)) == ({}, ["steady"])
    assert build_baseline(now, None).cases == {}


def test_junit_has_the_shape_that_tools_read() -> None:
    now = run(
        steady=("passed", 0.7), sinks=("failed", 0.9), leaks=("failed", 0.5), breaks=("error", 0), late=("skipped", 0)
    )
    found = compare_with_baseline(now, build_baseline(BEFORE, None), 0.05, [])
    whole = xml.fromstring(build_junit_report(now, found, strict=False))
    assert whole.tag == "testsuites"
    (suite,) = whole
    counts = {"tests": "5", "failures": "2", "errors": "1", "skipped": "2", "time": "1.500"}
    assert suite.attrib == {"name": "cases", **counts}
    assert whole.attrib == {"name": "mainstay eval", **counts}
    told = {one.get("name"): [(part.tag, part.get("type")) for part in one] for one in suite}
    out = ("system-out", None)
    assert told == {
        "steady": [("failure", "worse"), out],
        "sinks": [("failure", "failed"), out],
        "leaks": [("skipped", None), out],  # as an expected failure is
        "breaks": [("error", "error"), out],
        "late": [("skipped", None), out],
    }
    assert all(one.get("classname") == "cases" and float(one.get("time", "")) >= 0 for one in suite)
    sinks = suite[1][0]
    assert sinks.get("message") == "worse than the baseline: it passed before; too little wind"
    strict = xml.fromstring(build_junit_report(now, found, strict=True))
    assert strict[0].get("failures") == "3"


def test_junit_holds_any_text_of_a_model() -> None:
    nasty = "a\x00b\x1b[31m<&>]]>\ud800\uffff é\U0001f600"
    result = CaseResult(
        name=nasty, result="failed", reasons=(nasty,), attempts=(CaseAttempt(result="failed", answer=nasty),)
    )
    whole = xml.fromstring(build_junit_report(EvalRun(name=nasty, results=(result,)), None, strict=False).encode())
    case = whole[0][0]
    clean = "ab[31m<&>]]> é\U0001f600"
    assert (case.get("name"), case[0].get("message"), case[0].text) == (clean, clean, clean)
    assert (case.findtext("system-out") or "").endswith(clean)


def test_a_secret_is_redacted_in_every_field() -> None:
    judged = CaseAttempt(
        result="failed", answer="my key is 42", reasons=("42!",), judges=(Score("j", 0.1, "it said 42", "42"),)
    )
    result = CaseResult(name="a", result="failed", reasons=("42!",), notes=("42?",), attempts=(judged,))
    done = redact_run(EvalRun(name="x", results=(result,)), lambda text: text.replace("42", "[secret]"))
    assert "42" not in repr(done)
    assert repr(done).count("[secret]") == 6


def test_the_score_of_all_is_weighted() -> None:
    heavy = CaseResult(name="a", result="passed", score=1.0, weight=3)
    light = CaseResult(name="b", result="failed", score=0.0, weight=1)
    unscored = CaseResult(name="c", result="skipped")
    assert EvalRun(name="x", results=(heavy, light, unscored)).score == 0.75
    assert EvalRun(name="x", results=(unscored,)).score is None
