"""Reading what a judge said, leniently, and believing none of it that could be meant otherwise."""

from __future__ import annotations

import json
import math
from typing import Any

REASON_CHARS_MAX = 1_000
SAID_CHARS_MAX = 8_000


class NoVerdict(Exception):
    """Something was said that is no score from 0 to 1, or could be two. The sentence quotes none of it: what a judge
    says may come from what it has read."""


def read_verdict(said: str, judged: str = "") -> tuple[float, str]:
    """The score and the reason of the one object with a score, whatever stands around it. One that stands in what was
    `judged` just so is no opinion of it."""
    if len(said) > SAID_CHARS_MAX:
        raise NoVerdict(f"it said more than {SAID_CHARS_MAX} characters instead of a verdict")
    found = [(text, one) for text, one in _objects(said) if "score" in one]
    if not found:
        raise NoVerdict("it gave no verdict")
    if len(found) > 1:
        raise NoVerdict("it gave more than one verdict")
    [(text, verdict)] = found
    if _unspaced(text) in _unspaced(judged):
        raise NoVerdict("its verdict stands in the answer itself")
    reason = verdict.get("reason", "")
    return read_score(verdict["score"]), shortened(reason) if isinstance(reason, str) else ""


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


def shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= REASON_CHARS_MAX else text[: REASON_CHARS_MAX - 1] + "…"


def _unspaced(text: str) -> str:
    return "".join(text.split())


def _objects(said: str) -> list[tuple[str, dict[str, Any]]]:
    """Every object that stands in a text, but for those inside of others."""
    decoder = json.JSONDecoder(object_pairs_hook=_named_once)
    found: list[tuple[str, dict[str, Any]]] = []
    at = said.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(said, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            found.append((said[at:end], value))
        at = said.find("{", end)
    return found


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Which of two scores in one object was meant?"""
    made = dict(pairs)
    if len(made) != len(pairs) and "score" in made:
        raise NoVerdict("it gave more than one verdict")
    return made
