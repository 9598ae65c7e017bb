"""Findings about files of one kind."""

from __future__ import annotations

from mainstay.core.health import PROBLEMS_MAX, list_problems


def test_the_first_problems_are_listed_and_the_rest_is_counted() -> None:
    problems = [f"file {number} is broken" for number in range(PROBLEMS_MAX + 2)]
    findings = list(list_problems("Skills", 1, ["run `mainstay skill remove x`", *problems]))
    assert [finding.verdict for finding in findings] == ["ok", *["warn"] * PROBLEMS_MAX, "warn"]
    assert (findings[0].message, findings[-1].message) == ("1 skill", "and 3 more")
    assert [finding.fix for finding in findings[1:3]] == ["", "mainstay skill list"]
    assert list(list_problems("Skills", 0, [])) == []
