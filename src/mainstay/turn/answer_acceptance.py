"""The conclusion of a turn: validates and judges the answer, then accepts it or asks the model for a correction.

No state is kept here: the number of attempts, and whether an answer awaits its verdict, are read from the journal. An
answer that was on disk when its process stopped is judged after the restart, and not requested again.
"""

from __future__ import annotations

import asyncio

import msgspec

from mainstay.context.tokenizers import count_for_model
from mainstay.core.events import Judged, MessageAdded, Score
from mainstay.core.judges import JudgeBudget, JudgeInput, JudgePanel
from mainstay.core.memory_tiers import RUNTIME
from mainstay.core.messages import AnyPart, Finish, FinishReason, Text, parts_text
from mainstay.core.open_turn import OpenTurn
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Outcome
from mainstay.core.session import Session
from mainstay.turn.dependencies import TrustServices, TurnDependencies
from mainstay.turn.model_call import ModelCallEnvironment, ProvisionalState

_CUT_REASONS = (FinishReason.ABORTED, FinishReason.STEERED)


class AnswerAcceptance:
    """Decides the outcome whenever the model has answered without calling a tool."""

    def __init__(self, environment: ModelCallEnvironment, session: Session, dependencies: TurnDependencies) -> None:
        self._environment, self._session, self._dependencies = environment, session, dependencies
        self._rejections = 0
        self._problem = ""  # of the last answer that was not valid

    async def decide_outcome(self, reached_limit: str | None) -> Outcome | None:
        """Return the turn's outcome; None if the model must be called again, after a correction or a steer.

        An answer that was given because a limit was reached is not judged: there is no further attempt.
        """
        turn, dependencies = self._session.open_turn, self._dependencies
        assert turn is not None
        parts = self._session.messages[-1].parts
        if is_filtered_away(parts):
            return Failed(turn.wording.answer_filtered, turn=turn.turn, step=turn.step)
        problem = dependencies.validate_answer(parts_text(parts)) if dependencies.validate_answer is not None else None
        if problem is None:
            return (
                Exhausted(reached_limit)
                if reached_limit is not None
                else await _conclude_judged(self._environment, self._session, dependencies)
            )
        self._rejections += 1
        is_repeated, self._problem = problem == self._problem, problem
        if self._rejections >= dependencies.limits.output_attempts_max:
            return Failed(f"no answer of the wanted shape came: {problem}", turn=turn.turn, step=turn.step)
        correction = _build_correction(turn, problem, is_repeated=is_repeated)
        self._environment.recorder.record_nowait(correction, flush_soon=True)
        return None


async def _conclude_judged(
    environment: ModelCallEnvironment, session: Session, dependencies: TurnDependencies
) -> Outcome | None:
    turn, judges, control = session.open_turn, dependencies.judges, environment.control
    assert turn is not None
    if judges is None:
        return Answered()
    if control.aborted:
        return Aborted()
    judged = await _request_verdict(environment, session, dependencies, judges)
    if judged is None:
        return Aborted() if control.aborted else None
    is_repeated = turn.last_verdict is not None and _reasons_of(turn.last_verdict) == _reasons_of(judged)
    last = judged.last or turn.step >= dependencies.limits.steps_max
    environment.recorder.record_nowait(msgspec.structs.replace(judged, last=last, held=turn.provisional == "held"))
    if not judged.passed and not last:
        correction = _build_correction(turn, judges.correction_message(judged), is_repeated=is_repeated)
        environment.recorder.record_nowait(correction, flush_soon=True)
        return None
    if environment.control.aborted:  # aborted while the verdict arrived
        return Aborted()
    return Answered(judged.score, judged.passed) if not control.pending_steers else None


def _reasons_of(judged: Judged) -> list[tuple[str, float | None, str]]:
    return [(score.judge, score.score, score.reason) for score in judged.scores]


def find_provisional_state(turn: OpenTurn, dependencies: TurnDependencies) -> ProvisionalState:
    """Return the provisional state of an answer requested now; "" for the last attempt, which always stands."""
    judges = dependencies.judges
    if (
        judges is None
        or _attempt_number(turn) > judges.corrections_max
        or turn.step + 1 >= dependencies.limits.steps_max
    ):
        return ""
    return "held" if judges.streaming == "hold" else "shown"


def is_awaiting_verdict(session: Session) -> bool:
    """Return True if the turn's last event is a complete answer without a verdict."""
    turn, last = session.open_turn, session.messages[-1] if session.messages else None
    if turn is None or last is None or last.role != "assistant" or last.turn != turn.turn or turn.step_calls:
        return False
    return _find_finish_reason(last.parts) not in _CUT_REASONS and (
        turn.last_verdict is None or turn.last_verdict.step < turn.step
    )


def is_filtered_away(parts: tuple[AnyPart, ...]) -> bool:
    """Return True if the provider's content filter left no text of the answer."""
    return _find_finish_reason(parts) is FinishReason.FILTERED and not parts_text(parts).strip()


def _build_correction(turn: OpenTurn, correction: str, *, is_repeated: bool) -> MessageAdded:
    """Build the correction for the model; it may quote a held answer, and is then held as well.

    A correction that the model sees already is not repeated; a sentence says that this answer is not accepted either.
    """
    if turn.wording.correction_repeated and is_repeated:
        correction = turn.wording.correction_repeated
    text, held = Text(correction, origin=RUNTIME), turn.provisional == "held"
    return MessageAdded("system", (text,), provisional="held" if held else "", turn=turn.turn, step=turn.step)


def _find_finish_reason(parts: tuple[AnyPart, ...]) -> FinishReason:
    return next((part.reason for part in reversed(parts) if isinstance(part, Finish)), FinishReason.END)


def _attempt_number(turn: OpenTurn) -> int:
    return turn.last_verdict.attempt + 1 if turn.last_verdict is not None else 1


async def _request_verdict(
    environment: ModelCallEnvironment, session: Session, dependencies: TurnDependencies, judges: JudgePanel
) -> Judged | None:
    """Return the judges' verdict; None if an abort or a steer cancelled them."""
    turn, control = session.open_turn, environment.control
    assert turn is not None
    budget = JudgeBudget(dependencies.turn_budget, environment.recorder, environment.report_waiting, count_for_model)
    timeout_s = dependencies.limits.model_timeout_s
    control.set_activity("waiting for the judges", timeout_s)
    try:
        async with asyncio.timeout(timeout_s) as scope:
            control.begin_generation(scope)
            judged = await judges.judge(_build_judge_input(session, turn), _attempt_number(turn), budget)
    except TimeoutError:
        if control.aborted or control.is_generation_cut:
            return None
        late = Score("judges", error=f"no verdict came within {timeout_s:g} s")
        judged = Judged((late,), 0.0, False, _attempt_number(turn), last=True, turn=turn.turn, step=turn.step)
    finally:
        control.end_generation()
    return msgspec.structs.replace(
        judged, scores=tuple(_redact_score(score, dependencies.trust) for score in judged.scores)
    )


def _build_judge_input(session: Session, turn: OpenTurn) -> JudgeInput:
    messages = [message for message in session.messages if message.turn == turn.turn]
    return JudgeInput(
        prompt="\n".join(message.text for message in messages if message.role == "user"),
        answer=messages[-1].text,
        messages=tuple(messages),
        session=session.key,
        turn=turn.turn,
        step=turn.step,
        model=session.model,
    )


def _redact_score(score: Score, trust: TrustServices) -> Score:
    """Redact secrets from a score before it is journaled: a reason or an error may quote the judge's input."""
    if trust.guards is None or not (score.reason or score.error):
        return score
    reason, error = (trust.guards.redactor.redact(text)[0] for text in (score.reason, score.error))
    return msgspec.structs.replace(score, reason=reason, error=error)
