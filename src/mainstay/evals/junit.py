"""Results as JUnit XML, which every system that runs tests can show."""

from __future__ import annotations

import re
from xml.etree import ElementTree as xml

from mainstay.evals.baseline import Comparison
from mainstay.evals.results import Result, Run

ANSWER_CHARS_MAX = 10_000
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(run: Run, comparison: Comparison | None, *, strict: bool) -> str:
    """One suite. A case that failed before too is skipped, as an expected failure is; one that only got worse fails."""
    cases = [_case(one, run.name, comparison, strict=strict) for one in run.results]
    counts = {
        "tests": len(cases),
        "failures": sum(one.find("failure") is not None for one in cases),
        "errors": sum(one.find("error") is not None for one in cases),
        "skipped": sum(one.find("skipped") is not None for one in cases),
    }
    shared = {name: str(number) for name, number in counts.items()} | {"time": f"{run.seconds:.3f}"}
    whole = xml.Element("testsuites", {"name": "mainstay eval", **shared})
    suite = xml.SubElement(whole, "testsuite", {"name": _clean(run.name), **shared})
    suite.extend(cases)
    xml.indent(whole)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + xml.tostring(whole, encoding="unicode") + "\n"


def _case(one: Result, suite: str, comparison: Comparison | None, *, strict: bool) -> xml.Element:
    named = {"classname": _clean(suite), "name": _clean(one.name), "time": f"{one.seconds:.3f}"}
    made = xml.Element("testcase", named)
    reasons = list(one.reasons)
    worse = comparison.worse.get(one.name) if comparison is not None else None
    if worse is not None:
        reasons.insert(0, f"worse than the baseline: {worse}")
    known = comparison is not None and one.name in comparison.known and worse is None and not strict
    if one.result == "skipped" or (known and one.result != "passed"):
        said = "; ".join(one.reasons)
        xml.SubElement(made, "skipped", {"message": _line(f"failed before too: {said}" if known else said)})
    elif one.result == "error":
        _told(made, "error", "error", reasons)
    elif one.result == "failed" or worse is not None:
        _told(made, "failure", "failed" if one.result == "failed" else "worse", reasons)
    xml.SubElement(made, "system-out").text = _clean(_said(one))
    return made


def _told(made: xml.Element, tag: str, kind: str, reasons: list[str]) -> None:
    said = xml.SubElement(made, tag, {"message": _line("; ".join(reasons)), "type": kind})
    said.text = _clean("\n".join(reasons))


def _said(one: Result) -> str:
    score = "" if one.score is None else f"score {one.score:.2f}, "
    head = f"{score}{one.tokens} tokens, ${one.cost + one.judging:.6f}"
    answers = [one.answer[:ANSWER_CHARS_MAX] for one in one.tries if one.answer]
    return "\n\n".join([head, *answers])


def _line(text: str) -> str:
    return _clean(" ".join(text.split()))[:1_000]


def _clean(text: str) -> str:
    """What XML cannot hold, whatever a model says, is left out."""
    return _NOT_IN_XML.sub("", text)
