"""Parses a judge's reply into a score and a reason; an ambiguous reply is no verdict."""

from __future__ import annotations

import json
import math
import re

from mainstay.core.events import Score
from mainstay.core.messages import Usage
from mainstay.core.usage_bounds import RECORD_DOLLARS_MAX, RECORD_TOKENS_MAX

REASON_CHARS_MAX = 1_000
ERROR_CHARS_MAX = 1_000
REPLY_CHARS_MAX = 8_000
_SCORE_KEY = re.compile(r"score[\"'`*_\\\s]{0,8}[:=]", re.IGNORECASE)
_BRACE = re.compile(r"[{}]")
_SCORE_NUMBER = re.compile(
    r"\bscore[sd]?\W{0,6}(?:(?:is|of|at|was|be|it|would)\W{1,3}){0,3}(\d+(?:\.\d+)?)", re.IGNORECASE
)


class NoVerdict(Exception):
    """The reply contains no score from 0 to 1, or several.

    The message quotes nothing of the reply, which may repeat third-party text.
    """


def parse_verdict(reply: str, *material: str) -> tuple[float, str]:
    """Return the score and the reason of the only object with a score, if the text around it gives no other score.

    An object that occurs in the `material` was copied from there and is no verdict.
    """
    if len(reply) > REPLY_CHARS_MAX:
        raise NoVerdict(f"it wrote more than {REPLY_CHARS_MAX} characters instead of a verdict")
    matches = [(at, end, value) for at, end, value in _find_objects(reply) if "score" in value]
    if not matches:
        raise NoVerdict("it gave no verdict")
    if len(matches) > 1:
        raise NoVerdict("it gave more than one verdict")
    [(at, end, verdict)] = matches
    bare = _normalize(reply[at:end])
    if any(bare in _normalize(text) for text in material):
        raise NoVerdict("its verdict is copied from the material that it was shown")
    score, reason = parse_score(verdict["score"]), verdict.get("reason", "")
    if any(_has_other_score(around, score) for around in (reply[:at], reply[end:])):
        raise NoVerdict("it gave more than one verdict")
    return score, truncate_reason(reason) if isinstance(reason, str) else ""


def _has_other_score(text: str, score: float) -> bool:
    """Return whether a text beside the verdict gives another score: the object may be only a quote."""
    return bool(_SCORE_KEY.search(text)) or any(float(number) != score for number in _SCORE_NUMBER.findall(text))


def parse_score(value: object) -> float:
    """Return a number from 0 to 1, also from a string. "8 of 10" and "85 %" are refused."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise NoVerdict("its score is not a number") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NoVerdict("its score is not a number")
    if not 0 <= value <= 1:  # also NaN
        raise NoVerdict("its score is not between 0 and 1")
    return float(value)


def parse_function_result(value: object) -> tuple[float, str]:
    """Parse the result of a function: a number from 0 to 1, a bool, or one of them with a reason."""
    match value:
        case (score, str(reason)):
            return parse_function_result(score)[0], truncate_reason(reason)
        case bool():
            return float(value), ""
        case int() | float() if math.isfinite(value) and 0 <= value <= 1:
            return float(value), ""
        case int() | float():
            raise NoVerdict("its score is not between 0 and 1")
    type_name = type(value).__name__
    raise NoVerdict(f"it returned {type_name}, not a number from 0 to 1, a bool, or one of these and a reason")


def check_score(result: object, judge: str, weight: float) -> Score:
    """Validate what a custom judge returned. Valid usage and cost are kept, even if the score is invalid."""
    if not isinstance(result, Score):
        return Score(judge, error=f"it returned {type(result).__name__}, not a Score", weight=weight)
    cost = float(result.cost) if _is_number(result.cost) and 0 <= result.cost <= RECORD_DOLLARS_MAX else 0.0
    usage = None
    if isinstance(result.usage, Usage):
        reported = result.usage
        counts = (reported.prompt, reported.completion, reported.cached, reported.reasoning, reported.written)
        usage = Usage(*counts) if all(map(_is_count, counts)) else None
    score, reason, error = None, "", result.error if isinstance(result.error, str) else "it failed"
    if not error and result.score is None:
        error = "it gave no verdict"
    elif not error:
        try:
            score = parse_score(result.score)
            reason = truncate_reason(result.reason) if isinstance(result.reason, str) else ""
        except NoVerdict as problem:
            error = str(problem)
    return Score(judge, score, reason, replace_surrogates(error)[:ERROR_CHARS_MAX], weight, usage, cost)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= RECORD_TOKENS_MAX


def truncate_reason(text: str) -> str:
    text = " ".join(replace_surrogates(text).split())
    return text if len(text) <= REASON_CHARS_MAX else text[: REASON_CHARS_MAX - 1] + "…"


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which cannot be encoded."""
    return text.encode(errors="replace").decode()


def _normalize(text: str) -> str:
    """Remove whitespace and backslashes, which change when a text is quoted."""
    return "".join(text.replace("\\", "").split())


def _find_objects(reply: str) -> list[tuple[int, int, dict[str, object]]]:
    """Return every outermost JSON object in a text with its position, skipping malformed ones entirely.

    If a judge quotes without escaping, the quoted object must not be taken for its verdict.
    """
    decoder = json.JSONDecoder(object_pairs_hook=_require_single_score)
    result: list[tuple[int, int, dict[str, object]]] = []
    at = reply.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(reply, at)
        except (ValueError, RecursionError):
            end = _find_closing_brace(reply, at)
        else:
            result.append((at, end, value))
        at = reply.find("{", end)
    return result


def _find_closing_brace(reply: str, start: int) -> int:
    """Return the position after the closing brace; the end of the text if there is none."""
    depth = 0
    for brace in _BRACE.finditer(reply, start):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return brace.end()
    return len(reply)


def _require_single_score(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Raise NoVerdict if an object has two scores."""
    result = dict(pairs)
    if len(result) != len(pairs) and "score" in result:
        raise NoVerdict("it gave more than one verdict")
    return result
