"""JUnit XML report of an evaluation, which CI systems can display."""

from __future__ import annotations

import re
from xml.etree import ElementTree as xml

from mainstay.evals.baseline import BaselineComparison
from mainstay.evals.results import CaseResult, EvalRun

ANSWER_CHARS_MAX = 10_000
_INVALID_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def build_junit_report(run: EvalRun, comparison: BaselineComparison | None, *, strict: bool) -> str:
    """Return one test suite. A known failure is reported as skipped, as expected failures are; a regression fails."""
    cases = [_build_test_case(case, run.name, comparison, strict=strict) for case in run.results]
    counts = {
        "tests": len(cases),
        "failures": sum(case.find("failure") is not None for case in cases),
        "errors": sum(case.find("error") is not None for case in cases),
        "skipped": sum(case.find("skipped") is not None for case in cases),
    }
    shared = {name: str(number) for name, number in counts.items()} | {"time": f"{run.seconds:.3f}"}
    root = xml.Element("testsuites", {"name": "mainstay eval", **shared})
    suite = xml.SubElement(root, "testsuite", {"name": _remove_invalid(run.name), **shared})
    suite.extend(cases)
    xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + xml.tostring(root, encoding="unicode") + "\n"


def _build_test_case(
    result: CaseResult, suite: str, comparison: BaselineComparison | None, *, strict: bool
) -> xml.Element:
    attributes = {
        "classname": _remove_invalid(suite),
        "name": _remove_invalid(result.name),
        "time": f"{result.seconds:.3f}",
    }
    test_case = xml.Element("testcase", attributes)
    reasons = list(result.reasons)
    worse = comparison.regressions.get(result.name) if comparison is not None else None
    if worse is not None:
        reasons.insert(0, f"worse than the baseline: {worse}")
    is_known = comparison is not None and result.name in comparison.known_failures and worse is None and not strict
    if result.result == "skipped" or (is_known and result.result != "passed"):
        message = "; ".join(result.reasons)
        xml.SubElement(
            test_case, "skipped", {"message": _to_line(f"known failure: {message}" if is_known else message)}
        )
    elif result.result == "error":
        _add_problem(test_case, "error", "error", reasons)
    elif result.result == "failed" or worse is not None:
        _add_problem(test_case, "failure", "failed" if result.result == "failed" else "worse", reasons)
    xml.SubElement(test_case, "system-out").text = _remove_invalid(_format_output(result))
    return test_case


def _add_problem(test_case: xml.Element, tag: str, kind: str, reasons: list[str]) -> None:
    problem = xml.SubElement(test_case, tag, {"message": _to_line("; ".join(reasons)), "type": kind})
    problem.text = _remove_invalid("\n".join(reasons))


def _format_output(result: CaseResult) -> str:
    score = "" if result.score is None else f"score {result.score:.2f}, "
    summary = f"{score}{result.tokens} tokens, ${result.cost + result.judge_cost:.6f}"
    answers = [attempt.answer[:ANSWER_CHARS_MAX] for attempt in result.attempts if attempt.answer]
    return "\n\n".join([summary, *answers])


def _to_line(text: str) -> str:
    return _remove_invalid(" ".join(text.split()))[:1_000]


def _remove_invalid(text: str) -> str:
    """Remove characters that XML cannot represent."""
    return _INVALID_XML.sub("", text)
