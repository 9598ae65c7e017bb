"""What came of cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from mainstay.core.events import Judged, Score
from mainstay.evals.checking import Found
from mainstay.evals.schema import Case
from mainstay.evals.seen import Seen

Verdict = Literal["passed", "failed", "error", "skipped"]


class Try(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A case, done once."""

    result: Verdict
    score: float | None = None
    reasons: tuple[str, ...] = ()  # why it did not pass
    notes: tuple[str, ...] = ()  # judges that failed, though it passed
    answer: str = ""
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    steps: int = 0
    calls: tuple[str, ...] = ()
    judges: tuple[Score, ...] = ()

    @property
    def judging(self) -> float:
        """What its judges cost."""
        return sum(one.cost for one in self.judges)


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A case: as often as it was done, all in all. Tokens and money are of the answers; judges are counted apart."""

    name: str
    result: Verdict
    score: float | None = None
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tokens: int = 0
    cost: float = 0.0
    judging: float = 0.0
    seconds: float = 0.0
    weight: float = 1.0
    tags: tuple[str, ...] = ()
    tries: tuple[Try, ...] = ()


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """All cases, in the order of the file. `cut` says why it did not come to its end."""

    name: str
    results: tuple[Result, ...]
    model: str = ""
    seconds: float = 0.0
    cut: Literal["", "interrupted", "money"] = ""

    def count(self, verdict: Verdict) -> int:
        return sum(one.result == verdict for one in self.results)

    @property
    def score(self) -> float | None:
        """Of all that have one, by their weights."""
        scored = [(one.score, one.weight) for one in self.results if one.score is not None]
        return sum(score * weight for score, weight in scored) / sum(weight for _, weight in scored) if scored else None

    @property
    def tokens(self) -> int:
        return sum(one.tokens for one in self.results)

    @property
    def cost(self) -> float:
        return sum(one.cost for one in self.results)

    @property
    def judging(self) -> float:
        return sum(one.judging for one in self.results)


def judged_try(seen: Seen, found: Sequence[Found], judged: Judged | None) -> Try:
    """Every check must hold, and the judges must be satisfied. The score is theirs; without any, the share of checks
    that hold."""
    reasons = [f"{one.check}: {one.wrong}" for one in found if one.wrong]
    holding = sum(not one.wrong for one in found) / len(found) if found else 1.0
    scores = judged.scores if judged is not None else ()
    broken = [one for one in scores if one.score is None]
    verdict: Verdict = "failed" if reasons else "passed"
    if judged is not None and not judged.passed:
        verdict = "error" if verdict == "passed" and len(broken) == len(scores) else "failed"
        reasons += [_opinion(one) for one in scores]
    tried = _seen_try(seen, verdict)
    return msgspec.structs.replace(
        tried,
        score=round(judged.score if judged is not None else holding, 4),
        reasons=tuple(reasons),
        notes=() if reasons else tuple(map(_opinion, broken)),
        judges=scores,
    )


def unjudged_try(seen: Seen, why: str) -> Try:
    return msgspec.structs.replace(_seen_try(seen, "skipped"), reasons=(why,))


def unanswered_try(seen: Seen, sentence: str) -> Try:
    return msgspec.structs.replace(_seen_try(seen, "error"), score=0.0, reasons=(sentence,))


def _seen_try(seen: Seen, verdict: Verdict) -> Try:
    return Try(
        result=verdict,
        answer=seen.answer,
        tokens=seen.tokens,
        cost=seen.cost,
        seconds=seen.seconds,
        steps=seen.steps,
        calls=tuple(one.tool for one in seen.calls),
    )


def _opinion(score: Score) -> str:
    if score.error or score.score is None:
        return f"{score.judge} could not judge: {score.error or 'it gave no score'}"
    return f"{score.judge} gave {score.score:.2f}" + (f": {score.reason}" if score.reason else "")


def broken_try(sentence: str) -> Try:
    return Try(result="error", score=0.0, reasons=(sentence,))


def summed(case: Case, tries: Sequence[Try]) -> Result:
    """Of all times that it was done. What was skipped might have passed."""
    needed = case.passes if case.passes is not None else case.repeat
    counts = Counter(one.result for one in tries)
    verdict: Verdict = "passed" if counts["passed"] >= needed else "failed"
    if verdict == "failed":
        if counts["skipped"] and counts["failed"] + counts["error"] <= case.repeat - needed:
            verdict = "skipped"
        elif not counts["failed"] and not counts["passed"]:
            verdict = "error"
    reasons = () if verdict == "passed" else _reasons(tries)
    scores = [one.score for one in tries if one.score is not None]
    return Result(
        name=case.name,
        result=verdict,
        score=round(sum(scores) / len(scores), 4) if scores else None,
        reasons=reasons,
        notes=tuple(dict.fromkeys(note for one in tries for note in one.notes)),
        tokens=sum(one.tokens for one in tries),
        cost=sum(one.cost for one in tries),
        judging=sum(one.judging for one in tries),
        seconds=sum(one.seconds for one in tries),
        weight=case.weight,
        tags=case.tags,
        tries=tuple(tries),
    )


def _reasons(tries: Sequence[Try]) -> tuple[str, ...]:
    if len(tries) == 1:
        return tries[0].reasons
    told = [f"try {number}: {reason}" for number, one in enumerate(tries, start=1) for reason in one.reasons]
    passed = sum(one.result == "passed" for one in tries)
    return (f"passed {passed} of {len(tries)} times", *told)


def cleaned(run: Run, clean: Callable[[str], str]) -> Run:
    """Without secrets, wherever a model or a judge may have put some."""
    replace = msgspec.structs.replace

    def once(one: Try) -> Try:
        judges = tuple(replace(score, reason=clean(score.reason), error=clean(score.error)) for score in one.judges)
        return replace(one, answer=clean(one.answer), judges=judges, **told(one))

    def told(one: Try | Result) -> dict[str, tuple[str, ...]]:
        return {"reasons": tuple(map(clean, one.reasons)), "notes": tuple(map(clean, one.notes))}

    results = tuple(replace(one, tries=tuple(map(once, one.tries)), **told(one)) for one in run.results)
    return replace(run, results=results)
