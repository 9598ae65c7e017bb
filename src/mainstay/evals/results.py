"""Results of an evaluation: of each attempt, of each case, and of the whole run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from mainstay.core.events import Judged, Score
from mainstay.evals.checks import CheckResult
from mainstay.evals.suite_schema import EvalCase
from mainstay.evals.transcript import Transcript

CaseStatus = Literal["passed", "failed", "error", "skipped"]


class CaseAttempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of a case."""

    result: CaseStatus
    score: float | None = None
    reasons: tuple[str, ...] = ()  # why it did not pass
    notes: tuple[str, ...] = ()  # judges that failed although the attempt passed
    answer: str = ""
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    steps: int = 0
    calls: tuple[str, ...] = ()
    judges: tuple[Score, ...] = ()

    @property
    def judge_cost(self) -> float:
        """Return the cost of its judges, in dollars."""
        return sum(score.cost for score in self.judges)


class CaseResult(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"judge_cost": "judging", "attempts": "tries"}
):
    """All attempts of a case. `tokens` and `cost` are of the answers; `judge_cost` is separate."""

    name: str
    result: CaseStatus
    score: float | None = None
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tokens: int = 0
    cost: float = 0.0
    judge_cost: float = 0.0
    seconds: float = 0.0
    weight: float = 1.0
    tags: tuple[str, ...] = ()
    attempts: tuple[CaseAttempt, ...] = ()


class EvalRun(msgspec.Struct, frozen=True, kw_only=True):
    """The results of all cases, in the order of the file. `stop_reason`: why it ended early; empty: it did not."""

    name: str
    results: tuple[CaseResult, ...]
    model: str = ""
    seconds: float = 0.0
    stop_reason: Literal["", "interrupted", "money"] = ""

    def count(self, status: CaseStatus) -> int:
        return sum(result.result == status for result in self.results)

    @property
    def score(self) -> float | None:
        """Return the weighted mean of all scores; None if there is none."""
        scored = [(result.score, result.weight) for result in self.results if result.score is not None]
        return sum(score * weight for score, weight in scored) / sum(weight for _, weight in scored) if scored else None

    @property
    def tokens(self) -> int:
        return sum(result.tokens for result in self.results)

    @property
    def cost(self) -> float:
        return sum(result.cost for result in self.results)

    @property
    def judge_cost(self) -> float:
        return sum(result.judge_cost for result in self.results)


def build_judged_attempt(transcript: Transcript, checks: Sequence[CheckResult], judged: Judged | None) -> CaseAttempt:
    """Build an attempt from its checks and verdict: every check must hold, and the judges must pass it.

    The score is the judges'; without judges, the share of checks that hold.
    """
    reasons = [f"{check.check}: {check.failure}" for check in checks if check.failure]
    share = sum(not check.failure for check in checks) / len(checks) if checks else 1.0
    scores = judged.scores if judged is not None else ()
    broken = [score for score in scores if score.score is None]
    status: CaseStatus = "failed" if reasons else "passed"
    if judged is not None and not judged.passed:
        status = "error" if status == "passed" and len(broken) == len(scores) else "failed"
        reasons += [_format_score(score) for score in scores]
    attempt = _build_attempt(transcript, status)
    return msgspec.structs.replace(
        attempt,
        score=round(judged.score if judged is not None else share, 4),
        reasons=tuple(reasons),
        notes=() if reasons else tuple(map(_format_score, broken)),
        judges=scores,
    )


def build_unjudged_attempt(transcript: Transcript, reason: str) -> CaseAttempt:
    return msgspec.structs.replace(_build_attempt(transcript, "skipped"), reasons=(reason,))


def build_unanswered_attempt(transcript: Transcript, sentence: str) -> CaseAttempt:
    return msgspec.structs.replace(_build_attempt(transcript, "error"), score=0.0, reasons=(sentence,))


def _build_attempt(transcript: Transcript, status: CaseStatus) -> CaseAttempt:
    return CaseAttempt(
        result=status,
        answer=transcript.answer,
        tokens=transcript.tokens,
        cost=transcript.cost,
        seconds=transcript.seconds,
        steps=transcript.steps,
        calls=tuple(call.tool for call in transcript.calls),
    )


def _format_score(score: Score) -> str:
    if score.error or score.score is None:
        return f"{score.judge} could not judge: {score.error or 'it gave no score'}"
    return f"{score.judge} gave {score.score:.2f}" + (f": {score.reason}" if score.reason else "")


def build_error_attempt(sentence: str) -> CaseAttempt:
    return CaseAttempt(result="error", score=0.0, reasons=(sentence,))


def combine_attempts(case: EvalCase, attempts: Sequence[CaseAttempt]) -> CaseResult:
    """Combine the attempts of a case. It is skipped if the skipped attempts could have made it pass."""
    needed = case.passes if case.passes is not None else case.repeat
    counts = Counter(attempt.result for attempt in attempts)
    status: CaseStatus = "passed" if counts["passed"] >= needed else "failed"
    if status == "failed":
        if counts["skipped"] and counts["failed"] + counts["error"] <= case.repeat - needed:
            status = "skipped"
        elif not counts["failed"] and not counts["passed"]:
            status = "error"
    reasons = () if status == "passed" else _collect_reasons(attempts)
    scores = [attempt.score for attempt in attempts if attempt.score is not None]
    return CaseResult(
        name=case.name,
        result=status,
        score=round(sum(scores) / len(scores), 4) if scores else None,
        reasons=reasons,
        notes=tuple(dict.fromkeys(note for attempt in attempts for note in attempt.notes)),
        tokens=sum(attempt.tokens for attempt in attempts),
        cost=sum(attempt.cost for attempt in attempts),
        judge_cost=sum(attempt.judge_cost for attempt in attempts),
        seconds=sum(attempt.seconds for attempt in attempts),
        weight=case.weight,
        tags=case.tags,
        attempts=tuple(attempts),
    )


def _collect_reasons(attempts: Sequence[CaseAttempt]) -> tuple[str, ...]:
    if len(attempts) == 1:
        return attempts[0].reasons
    reasons = [
        f"try {number}: {reason}" for number, attempt in enumerate(attempts, start=1) for reason in attempt.reasons
    ]
    passed = sum(attempt.result == "passed" for attempt in attempts)
    return (f"passed {passed} of {len(attempts)} times", *reasons)


def redact_run(run: EvalRun, redact: Callable[[str], str]) -> EvalRun:
    """Redact secrets in every text that a model or a judge wrote."""
    replace = msgspec.structs.replace

    def clean_attempt(attempt: CaseAttempt) -> CaseAttempt:
        judges = tuple(
            replace(score, reason=redact(score.reason), error=redact(score.error)) for score in attempt.judges
        )
        return replace(attempt, answer=redact(attempt.answer), judges=judges, **clean_texts(attempt))

    def clean_texts(item: CaseAttempt | CaseResult) -> dict[str, tuple[str, ...]]:
        return {"reasons": tuple(map(redact, item.reasons)), "notes": tuple(map(redact, item.notes))}

    results = tuple(
        replace(result, attempts=tuple(map(clean_attempt, result.attempts)), **clean_texts(result))
        for result in run.results
    )
    return replace(run, results=results)
