"""The agent loop: runs one turn by running the open tool calls and calling the model until the model has answered.

The loop keeps no state of its own: the progress of a turn is read from the session, which is a projection of the
journal. A turn that a crash interrupted is therefore resumed by this same loop.
"""

from __future__ import annotations

import msgspec

from mainstay.core.errors import BudgetExhausted, ContextTooLong, ProviderError, RequestRefused
from mainstay.core.events import Guarded, MessageAdded, Steered, StepRestarted
from mainstay.core.limits import Limits
from mainstay.core.memory_tiers import RUNTIME, format_origin
from mainstay.core.messages import AnyPart, Finish, FinishReason, Text, ToolCall, parts_text
from mainstay.core.open_turn import OpenTurn
from mainstay.core.outcome import Aborted, Exhausted, Failed, Outcome
from mainstay.core.ports import EventEmitter, EventRecorder, Options
from mainstay.core.session import Session
from mainstay.turn.answer_acceptance import AnswerAcceptance, find_provisional_state, is_awaiting_verdict
from mainstay.turn.budgeted_model_call import call_model_within_budget
from mainstay.turn.call_authorisation import TurnScope
from mainstay.turn.control import TurnControl
from mainstay.turn.dependencies import TurnDependencies, is_tainted
from mainstay.turn.model_call import ModelAnswer, ModelCallEnvironment, StreamInterrupted
from mainstay.turn.tool_calls import SharedToolCallState, run_tool_calls


async def run_turn(
    session: Session, dependencies: TurnDependencies, control: TurnControl, recorder: EventRecorder, emit: EventEmitter
) -> Outcome:
    """Run the session's open turn to its outcome; resume it if an earlier process left it unfinished.

    Raises `StoreError` if an event cannot be recorded. Provider errors become the outcome.
    """
    turn = session.open_turn
    assert turn is not None, "the lane starts the turn before it is run"
    state = SharedToolCallState(TurnScope(session, turn, dependencies, emit), control, recorder)
    environment = ModelCallEnvironment(session, dependencies, control, recorder, emit)
    conclusion = AnswerAcceptance(environment, session, dependencies)
    limits, context_compiler = dependencies.limits, dependencies.context_compiler
    too_long = 0
    while True:
        if turn.open_calls and (paused := await run_tool_calls(state, turn)) is not None:
            return paused
        if control.aborted:
            return Aborted()
        if control.pending_steers:
            recorder.record_nowait(Steered(control.take_steers(), turn=turn.turn, step=turn.step), flush_soon=True)
        if is_awaiting_verdict(session):  # the process stopped between the answer and its verdict
            last_limit = _find_limit_of_last_step(turn, limits)
            if (outcome := await conclusion.decide_outcome(last_limit)) is not None:
                return outcome
            continue
        reached_limit = _find_reached_limit(turn, limits)
        if reached_limit is not None and not _has_limit_notice(session):
            recorder.record_nowait(_build_limit_notice(turn, reached_limit), flush_soon=True)
        environment.provisional = find_provisional_state(turn, dependencies) if reached_limit is None else ""
        try:
            context = await context_compiler.compile(recorder)
            if environment.control.aborted:  # while compiling waited for a summary
                return Aborted()
            options = _build_options(dependencies, environment, turn, is_final=reached_limit is not None)
            answer = await call_model_within_budget(environment, dependencies, context, options)
        except BudgetExhausted as error:
            recorder.record_nowait(_build_budget_refusal(turn, error))
            return Exhausted(str(error), error.budget, error.frees_at)
        except ContextTooLong as error:
            too_long += 1
            if too_long > limits.context_retries_max or not context_compiler.shrink_window(error):
                return _build_model_failure(turn, error)
            continue
        except RequestRefused as error:
            if not context_compiler.drop_tools(error):
                return _build_model_failure(turn, error)
            continue
        except StreamInterrupted as interrupted:
            if turn.restarts >= limits.step_restarts_max:
                return _build_model_failure(turn, interrupted.error)
            await _restart_step(turn, recorder, interrupted)
            continue
        except ProviderError as error:
            return _build_model_failure(turn, error)
        if reached_limit is not None:
            answer = _build_final_answer(turn, answer, reached_limit)
        if answer.redacted_kinds:
            redaction = Guarded("output", "redacted", answer.redacted_kinds, turn=turn.turn, step=turn.step + 1)
            recorder.record_nowait(redaction)
        if len(answer.parts) > 1 or answer.reason not in (FinishReason.ABORTED, FinishReason.STEERED):
            message = _build_assistant_message(session, dependencies, answer)
            recorder.record_nowait(message, flush_soon=bool(answer.calls) or dependencies.judges is not None)
        if answer.reason is FinishReason.ABORTED:
            return Aborted()
        if answer.calls or control.pending_steers:
            continue
        if (outcome := await conclusion.decide_outcome(reached_limit)) is not None:
            return outcome


def _build_options(
    dependencies: TurnDependencies, environment: ModelCallEnvironment, turn: OpenTurn, *, is_final: bool
) -> Options:
    return Options(
        tool_choice="none" if is_final else "auto",
        output_tokens_max=dependencies.limits.output_tokens_max,
        turn=turn.turn,
        step=turn.step + 1,
        on_wait=environment.report_waiting,
        count_context_tokens=dependencies.context_compiler.prompt_tokens,
    )


def _build_assistant_message(session: Session, dependencies: TurnDependencies, answer: ModelAnswer) -> MessageAdded:
    turn = session.open_turn
    assert turn is not None
    info = answer.model or dependencies.provider.model()
    usage = answer.usage
    return MessageAdded(
        "assistant",
        _mark_origin(answer.parts, session, untrusted=is_tainted(session, dependencies)),
        model=answer.model.name if answer.model is not None else "",
        usage=usage if usage.prompt or usage.completion or usage.correction else None,
        cost=info.cost(usage),
        provisional=answer.provisional,
        turn=turn.turn,
        step=turn.step + 1,
    )


def _mark_origin(parts: tuple[AnyPart, ...], session: Session, *, untrusted: bool) -> tuple[AnyPart, ...]:
    """Mark the message's origin if the model has read untrusted or private content.

    Untrusted content includes the descriptions of external tools and skills: the model may repeat it. The origin is
    set on the last part and holds for the whole message.
    """
    if not untrusted and not session.private:
        return parts
    *others, last = parts
    origin = format_origin("conversation", untrusted=untrusted, private=session.private)
    return (*others, last if last.origin else msgspec.structs.replace(last, origin=origin))


# --- bounds --------------------------------------------------------------------------------------


def _find_reached_limit(turn: OpenTurn, limits: Limits, steps_made: int | None = None) -> str | None:
    """Return the limit that this turn has reached, as text for the model; `steps_made` replaces the turn's count."""
    if (turn.step if steps_made is None else steps_made) >= limits.steps_max:
        return turn.wording.steps_bound.format(count=limits.steps_max)
    if turn.calls >= limits.tool_calls_max:
        return turn.wording.tool_calls_bound.format(count=limits.tool_calls_max)
    return None


def _find_limit_of_last_step(turn: OpenTurn, limits: Limits) -> str | None:
    """Return the limit that the turn had reached when its last message was requested.

    A provisional answer is never the final answer after a limit, so for one this is None.
    """
    if turn.provisional:
        return None
    return _find_reached_limit(turn, limits, steps_made=turn.step - 1)


def _build_budget_refusal(turn: OpenTurn, error: BudgetExhausted) -> MessageAdded:
    """Build the answer for an exhausted budget; no budget is left for the model to write it."""
    text = Text(turn.wording.budget_answer.format(bound=error), origin=RUNTIME)
    return MessageAdded("assistant", (text, Finish(FinishReason.END)), turn=turn.turn, step=turn.step + 1)


def _build_limit_notice(turn: OpenTurn, reached_limit: str) -> MessageAdded:
    return _build_notice(turn, turn.wording.limit_notice.format(bound=reached_limit))


def _has_limit_notice(session: Session) -> bool:
    return bool(session.messages) and session.messages[-1].role == "system"


def _build_final_answer(turn: OpenTurn, answer: ModelAnswer, reached_limit: str) -> ModelAnswer:
    """Return the final answer after a limit: without tool calls, and never empty."""
    parts = tuple(part for part in answer.parts if not isinstance(part, ToolCall | Finish))
    cut = answer.reason in (FinishReason.ABORTED, FinishReason.STEERED)  # interrupted: this is not the final answer
    if not cut and not parts_text(parts).strip():
        parts = (*parts, Text(turn.wording.limit_answer.format(bound=reached_limit), origin=RUNTIME))
    reason = answer.reason if cut else FinishReason.END
    return msgspec.structs.replace(answer, parts=(*parts, Finish(reason)), reason=reason)


def _build_notice(turn: OpenTurn, text: str) -> MessageAdded:
    return MessageAdded("system", (Text(text, origin=RUNTIME),), turn=turn.turn, step=turn.step)


# --- failures ------------------------------------------------------------------------------------


async def _restart_step(turn: OpenTurn, recorder: EventRecorder, interrupted: StreamInterrupted) -> None:
    """Record the interrupted output as a checkpoint and emit `StepRestarted`, so that watchers discard it."""
    partial = interrupted.draft.take_checkpoint()
    restarted = StepRestarted(str(interrupted.error), turn=turn.turn, step=turn.step + 1)
    await recorder.record(*([partial] if partial is not None else []), restarted)


MODEL_FAILED_PREFIX = "The model could not answer: "


def _build_model_failure(turn: OpenTurn, error: ProviderError) -> Failed:
    return Failed(f"{MODEL_FAILED_PREFIX}{error}", error.details, turn=turn.turn, step=turn.step + 1)
