"""Exact checks of an answer: each returns what is wrong, as a sentence for the report."""

from __future__ import annotations

import asyncio
import fnmatch
import json
import re
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from mainstay.core.json_types import JsonObject
from mainstay.core.outcome_text import describe_outcome
from mainstay.evals.suite_schema import CaseChecks, ExpectedCall, to_expected_calls, to_texts
from mainstay.evals.transcript import Transcript, TranscriptCall, get_outcome_name

if TYPE_CHECKING:
    from mainstay.io.json_schema import CompiledJsonSchema

PATTERN_TIMEOUT_S = 5.0  # for one pattern and one answer
EXCERPT_CHARS_MAX = 80
_ANSWER_KEY = "answer"
_CODE_FENCE = re.compile(r"^\s*```[a-zA-Z]*\n(.*?)\n?```\s*$", re.DOTALL)
# A regular expression can take exponential time and cannot be interrupted, so it runs in a process that can be killed.
_SEARCH_SCRIPT = "import json,re,sys; arguments=json.load(sys.stdin); print(int(re.search(*arguments) is not None))"


class CheckResult(msgspec.Struct, frozen=True):
    """One check and its failure; empty if it holds."""

    check: str
    failure: str = ""


async def run_checks(checks: CaseChecks, transcript: Transcript) -> list[CheckResult]:
    results = [*_check_outcome(checks, transcript), *_check_texts(checks, transcript.answer)]
    results += [result async for result in _check_patterns(checks, transcript.answer)]
    return [
        *results,
        *_check_json(checks, transcript.answer),
        *_check_calls(checks, transcript.calls),
        *_check_limits(checks, transcript),
    ]


def _check_outcome(checks: CaseChecks, transcript: Transcript) -> Iterator[CheckResult]:
    if checks.outcome is not None:
        actual, ending_text = get_outcome_name(transcript.outcome), describe_outcome(transcript.outcome)
        reason = "" if ending_text in (actual, "stopped") else f": {ending_text}"
        yield CheckResult(
            f"outcome {checks.outcome}", "" if actual == checks.outcome else f"it ended as {actual}{reason}"
        )


def _check_texts(checks: CaseChecks, answer: str) -> Iterator[CheckResult]:
    for text in to_texts(checks.contains):
        yield CheckResult(f"contains {_quote_short(text)}", "" if text in answer else _describe_answer(answer))
    for text in to_texts(checks.not_contains):
        yield CheckResult(
            f"does not contain {_quote_short(text)}", _describe_answer(answer, text) if text in answer else ""
        )
    if checks.equals is not None:
        is_equal = answer.strip() == checks.equals.strip()
        yield CheckResult(f"equals {_quote_short(checks.equals)}", "" if is_equal else _describe_answer(answer))


async def _check_patterns(checks: CaseChecks, answer: str) -> AsyncIterator[CheckResult]:
    for pattern in to_texts(checks.matches):
        is_match = await _search_pattern(pattern, answer)
        failure = f"the pattern took longer than {PATTERN_TIMEOUT_S:.0f} s; make it simpler" if is_match is None else ""
        yield CheckResult(f"matches {_quote_short(pattern)}", failure or ("" if is_match else _describe_answer(answer)))


async def _search_pattern(pattern: str, text: str) -> bool | None:
    """Return whether the pattern matches; None if that takes too long."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-c", _SEARCH_SCRIPT),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(PATTERN_TIMEOUT_S):
            out, _ = await process.communicate(json.dumps([pattern, text]).encode())
        return out.strip() == b"1"
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _check_json(checks: CaseChecks, answer: str) -> Iterator[CheckResult]:
    if checks.json is None or checks.json is False:
        return
    fenced = _CODE_FENCE.match(answer)
    try:
        value = json.loads(fenced[1] if fenced else answer)
    except (ValueError, RecursionError):
        yield CheckResult("is JSON", _describe_answer(answer))
        return
    if not isinstance(checks.json, dict):
        yield CheckResult("is JSON")
        return
    yield CheckResult("fits the JSON Schema", build_answer_schema(checks.json).find_error({_ANSWER_KEY: value}) or "")


def build_answer_schema(schema: JsonObject) -> CompiledJsonSchema:
    """Return the JSON Schema for an answer, which need not be an object. Raises SchemaRefused."""
    from mainstay.io.json_schema import CompiledJsonSchema  # slow to import, and an optional dependency

    outer = {key: value for key, value in schema.items() if key in ("$schema", "$defs", "definitions")}
    inner = {key: value for key, value in schema.items() if key != "$schema"}
    return CompiledJsonSchema(
        {**outer, "type": "object", "properties": {_ANSWER_KEY: inner}, "required": [_ANSWER_KEY]}
    )


def _check_calls(checks: CaseChecks, tool_calls: Sequence[TranscriptCall]) -> Iterator[CheckResult]:
    for expected in to_expected_calls(checks.called):
        is_called = any(_matches_call(expected, call) for call in tool_calls)
        failure = "" if is_called else _describe_calls(tool_calls, with_results=bool(expected.result))
        yield CheckResult(f"called {_format_expected_call(expected)}", failure)
    if in_order := to_expected_calls(checks.called_in_order):
        remaining = iter(tool_calls)
        missing = next((step for step in in_order if not any(_matches_call(step, call) for call in remaining)), None)
        name = f"called in order {', '.join(map(_format_expected_call, in_order))}"
        yield CheckResult(
            name,
            ""
            if missing is None
            else f"{_format_expected_call(missing)} is missing there: "
            f"{_describe_calls(tool_calls, with_results=bool(missing.result))}",
        )
    for glob in to_texts(checks.not_called):
        forbidden = next((call for call in tool_calls if fnmatch.fnmatchcase(call.tool, glob)), None)
        yield CheckResult(f"did not call {glob}", "" if forbidden is None else f"it called {_format_call(forbidden)}")


def _matches_call(expected: ExpectedCall, call: TranscriptCall) -> bool:
    if not fnmatch.fnmatchcase(call.tool, expected.tool) or not call.exists or expected.result not in call.result:
        return False
    if not expected.arguments:
        return True
    missing = object()
    arguments = call.arguments or {}
    return all(arguments.get(name, missing) == value for name, value in expected.arguments.items())


def _check_limits(checks: CaseChecks, transcript: Transcript) -> Iterator[CheckResult]:
    if checks.steps_max is not None:
        yield _check_at_most("steps", checks.steps_max, transcript.steps)
    if checks.tokens_max is not None:
        yield _check_at_most("tokens", checks.tokens_max, transcript.tokens)
    if checks.cost_max is not None:
        yield _check_at_most("dollars", checks.cost_max, round(transcript.cost, 6))
    if checks.seconds_max is not None:
        yield _check_at_most("seconds", checks.seconds_max, round(transcript.seconds, 3))


def _check_at_most(unit: str, limit: float, actual: float) -> CheckResult:
    return CheckResult(f"at most {limit:,} {unit}", "" if actual <= limit else f"it took {actual:,}")


# --- formatting ----------------------------------------------------------------------------------


def _quote_short(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= EXCERPT_CHARS_MAX else line[: EXCERPT_CHARS_MAX - 1] + "…")


def _describe_answer(answer: str, around: str = "") -> str:
    if not answer.strip():
        return "there is no answer"
    start = max(0, answer.find(around) - EXCERPT_CHARS_MAX // 2) if around else 0
    return f"the answer is {_quote_short(('…' if start else '') + answer[start:])}"


def _describe_calls(tool_calls: Sequence[TranscriptCall], *, with_results: bool) -> str:
    if not tool_calls:
        return "no tool was called"
    shown = [
        f"{_format_call(call)} with the result {_quote_short(call.result)}"
        if with_results or not call.exists
        else _format_call(call)
        for call in tool_calls[:5]
    ]
    text = ", ".join(shown)
    return f"it called {text}" + (f" and {len(tool_calls) - 5} more" if len(tool_calls) > 5 else "")


def _format_call(call: TranscriptCall) -> str:
    return f"{call.tool}({_format_arguments(call.arguments) if call.arguments is not None else '…'})"


def _format_expected_call(expected: ExpectedCall) -> str:
    arguments = f"({_format_arguments(expected.arguments)})" if expected.arguments else ""
    result = f" with the result {_quote_short(expected.result)}" if expected.result else ""
    return f"{expected.tool}{arguments}{result}"


def _format_arguments(arguments: JsonObject) -> str:
    line = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return line if len(line) <= EXCERPT_CHARS_MAX else line[: EXCERPT_CHARS_MAX - 1] + "…"
