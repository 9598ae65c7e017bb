"""Reading what a judge said, leniently, and believing none of it that could be meant otherwise."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from mainstay.core.events import Score
from mainstay.core.messages import Usage

REASON_CHARS_MAX = 1_000
ERROR_CHARS_MAX = 1_000
SAID_CHARS_MAX = 8_000
_KEY = re.compile(r"score[\"'`*_\\\s]{0,8}[:=]", re.IGNORECASE)
_BRACE = re.compile(r"[{}]")
_NUMBER = re.compile(r"\bscore[sd]?\W{0,6}(?:(?:is|of|at|was|be|it|would)\W{1,3}){0,3}(\d+(?:\.\d+)?)", re.IGNORECASE)


class NoVerdict(Exception):
    """Something was said that is no score from 0 to 1, or could be two. The sentence quotes none of it: what a judge
    says may come from what it has read."""


def read_verdict(said: str, *material: str) -> tuple[float, str]:
    """The score and the reason of the one object with a score, if nothing around it gives another. One that stands just
    so in the `material` was read there, and is no opinion of it."""
    if len(said) > SAID_CHARS_MAX:
        raise NoVerdict(f"it said more than {SAID_CHARS_MAX} characters instead of a verdict")
    found = [(at, end, one) for at, end, one in _objects(said) if "score" in one]
    if not found:
        raise NoVerdict("it gave no verdict")
    if len(found) > 1:
        raise NoVerdict("it gave more than one verdict")
    [(at, end, verdict)] = found
    bare = _bare(said[at:end])
    if any(bare in _bare(text) for text in material):
        raise NoVerdict("its verdict stands just so in what it was shown")
    score, reason = read_score(verdict["score"]), verdict.get("reason", "")
    if any(_gives_another(around, score) for around in (said[:at], said[end:])):
        raise NoVerdict("it gave more than one verdict")
    return score, shortened(reason) if isinstance(reason, str) else ""


def _gives_another(around: str, score: float) -> bool:
    """What stands beside a verdict may be the judge's own, and the object only quoted."""
    return bool(_KEY.search(around)) or any(float(one) != score for one in _NUMBER.findall(around))


def read_score(value: Any) -> float:
    """A number from 0 to 1, or one written as text; 8 of 10 and 85 % are neither."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise NoVerdict("its score is no number") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NoVerdict("its score is no number")
    if not 0 <= value <= 1:  # also what is not a number at all
        raise NoVerdict("its score is not between 0 and 1")
    return float(value)


def read_result(value: Any) -> tuple[float, str]:
    """What a function returned: a number from 0 to 1, true or false, or one of them with a reason."""
    match value:
        case (score, str(reason)):
            return read_result(score)[0], shortened(reason)
        case bool():
            return float(value), ""
        case int() | float() if math.isfinite(value) and 0 <= value <= 1:
            return float(value), ""
        case int() | float():
            raise NoVerdict("its score is not between 0 and 1")
    kind = type(value).__name__
    raise NoVerdict(f"it returned {kind}, not a number from 0 to 1, a bool, or one of these and a reason")


def checked(given: Any, judge: str, weight: float) -> Score:
    """What a judge gave back, as it may be written down. What it has spent is kept, whatever else is wrong."""
    if not isinstance(given, Score):
        return Score(judge, error=f"it gave back {type(given).__name__}, not a Score", weight=weight)
    usage, cost = given.usage, given.cost
    if not (isinstance(usage, Usage) and all(_is_count(getattr(usage, name)) for name in usage.__struct_fields__)):
        usage = None
    cost = float(cost) if _is_number(cost) and 0 <= cost < math.inf else 0.0
    score, reason, error = None, "", given.error if isinstance(given.error, str) else "it failed"
    if not error and given.score is None:
        error = "it gave no verdict"
    elif not error:
        try:
            score = read_score(given.score)
            reason = shortened(given.reason) if isinstance(given.reason, str) else ""
        except NoVerdict as trouble:
            error = str(trouble)
    return Score(judge, score, reason, written(error)[:ERROR_CHARS_MAX], weight, usage, cost)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def shortened(text: str) -> str:
    text = " ".join(written(text).split())
    return text if len(text) <= REASON_CHARS_MAX else text[: REASON_CHARS_MAX - 1] + "…"


def written(text: str) -> str:
    """As it can be: half a character (a lone surrogate) can be said, and not written."""
    return text.encode(errors="replace").decode()


def _bare(text: str) -> str:
    """Without what changes when a text is quoted: spaces, and what a string in a string has before its quotes."""
    return "".join(text.replace("\\", "").split())


def _objects(said: str) -> list[tuple[int, int, dict[str, Any]]]:
    """Every object that stands in a text, and where, but for those inside of others: also of what only looks like one.
    A judge that does not escape what it quotes has said nothing, and what it quotes is not taken for its own."""
    decoder = json.JSONDecoder(object_pairs_hook=_named_once)
    found: list[tuple[int, int, dict[str, Any]]] = []
    at = said.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(said, at)
        except (ValueError, RecursionError):
            end = _closed(said, at)
        else:
            found.append((at, end, value))
        at = said.find("{", end)
    return found


def _closed(said: str, at: int) -> int:
    """Behind the brace that closes the one there; the end, if none does."""
    depth = 0
    for brace in _BRACE.finditer(said, at):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return brace.end()
    return len(said)


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Which of two scores in one object was meant?"""
    made = dict(pairs)
    if len(made) != len(pairs) and "score" in made:
        raise NoVerdict("it gave more than one verdict")
    return made
