"""A model call within a budget: reserves its maximum cost durably before the call is sent, and settles it after."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec

from mainstay.core.budget_ports import CallEstimate, TurnBudget
from mainstay.core.budget_reservation_ids import NANODOLLARS_PER_DOLLAR, full_usage, step_reservation_id
from mainstay.core.budgeted_side_calls import (
    FRAME_TOKENS,
    FRAME_TOKENS_TOOLS,
    AnswerMeter,
    estimate_usage,
    fill_missing_counts,
    most_expensive_model,
    reports_sending,
)
from mainstay.core.errors import ModelSilent, ProviderError, StoreError, StreamBroken
from mainstay.core.events import Reserved, Settled, Warned
from mainstay.core.messages import Finish, FinishReason, Usage
from mainstay.core.ports import Context, Options, Piece
from mainstay.turn.dependencies import TurnDependencies
from mainstay.turn.model_call import ModelAnswer, ModelCallEnvironment, StreamInterrupted, call_model

BUDGET_WAIT_S = 3600.0  # waiting for other calls' reservations; after that the watchdog reports the turn as stuck
_CUT_REASONS = (FinishReason.ABORTED, FinishReason.STEERED)


async def call_model_within_budget(
    environment: ModelCallEnvironment, dependencies: TurnDependencies, context: Context, options: Options
) -> ModelAnswer:
    """Call the model within the turn's budget. Raises what `call_model` does, and BudgetExhausted."""
    if dependencies.turn_budget is None:
        return await call_model(environment, context, options)
    frame = FRAME_TOKENS_TOOLS if context.tools else FRAME_TOKENS
    prompt = dependencies.context_compiler.prompt_tokens() + frame
    reservation = await _reserve_budget(environment, dependencies, dependencies.turn_budget, prompt, options)
    if isinstance(reservation, ModelAnswer):
        return reservation
    step_budget = _BudgetedStep(environment, dependencies, dependencies.turn_budget, reservation)
    options = msgspec.structs.replace(options, output_tokens_max=reservation.output, on_sent=step_budget.mark_sent)
    try:
        return step_budget.settle_answer(await call_model(environment, context, options, step_budget.observe_piece))
    except (StreamInterrupted, ModelSilent, StreamBroken):
        step_budget.settle_interrupted()
        raise
    except ProviderError:
        step_budget.settle_uncharged()
        raise
    finally:
        step_budget.close()


async def _reserve_budget(
    environment: ModelCallEnvironment,
    dependencies: TurnDependencies,
    turn_budget: TurnBudget,
    prompt_tokens: int,
    options: Options,
) -> Reserved | ModelAnswer:
    """Reserve the call's cost and record it; an empty answer if an abort or a steer ended the wait for budget."""
    control = environment.control

    def notice(sentence: str, seconds: float) -> None:
        control.set_activity("waiting for a budget", BUDGET_WAIT_S)
        environment.report_waiting(sentence, seconds)

    turn, step = options.turn, options.step
    model, output = most_expensive_model(dependencies.provider), options.output_tokens_max
    estimate = CallEstimate(step_reservation_id(turn, step), model, prompt_tokens, output, notice, turn=turn, step=step)
    reservation = None if control.aborted else turn_budget.try_reserve(estimate)
    if reservation is None:
        try:
            async with asyncio.timeout(None) as scope:
                control.begin_generation(scope)
                reservation = await turn_budget.reserve(estimate)
        except TimeoutError:
            reason = FinishReason.ABORTED if control.aborted else FinishReason.STEERED
            return ModelAnswer((Finish(reason),), reason, Usage())
        finally:
            control.end_generation()
    try:
        await environment.recorder.record(reservation)
    except BaseException:
        turn_budget.settle(reservation, None, 0.0)
        raise
    return reservation


class _BudgetedStep:
    """A model call with a reservation, which is settled exactly once.

    If its outcome is never known, it is settled as spent in full, as the journal then assumes too.
    """

    __slots__ = ("_dependencies", "_environment", "_is_open", "_is_sent", "_meter", "_reservation", "_turn_budget")

    def __init__(
        self,
        environment: ModelCallEnvironment,
        dependencies: TurnDependencies,
        turn_budget: TurnBudget,
        reservation: Reserved,
    ) -> None:
        self._environment = environment
        self._dependencies = dependencies
        self._turn_budget = turn_budget
        self._reservation = reservation
        self._meter = AnswerMeter(reservation.output)
        self._is_sent = not reports_sending(dependencies.provider)
        self._is_open = True

    def mark_sent(self) -> None:
        self._is_sent = True

    def observe_piece(self, piece: Piece) -> bool:
        """Count a piece of output; return True if the output is far beyond the reserved tokens."""
        self._is_sent = True
        return self._meter.add(piece)

    def settle_answer(self, answer: ModelAnswer) -> ModelAnswer:
        """Settle a complete or interrupted answer and return it with its usage.

        The usage is journaled with the message; an interrupted answer without output gets a `Settled` event.
        """
        usage, by, provider = answer.usage, answer.model, self._dependencies.provider
        cut = answer.reason in _CUT_REASONS
        if cut and not self._is_sent:
            self.settle_uncharged()
            return answer
        if not (usage.prompt or usage.completion):
            usage = self._charge_reservation(usage) if usage.correction else self._estimate_usage(is_cut=cut)
            if (
                by is None
                and (cut or self._meter.is_over_limit)
                and (most := most_expensive_model(provider)) != provider.model()
            ):
                by = msgspec.structs.replace(most, name="")  # which of the models was stopped is not known
            answer = msgspec.structs.replace(answer, usage=usage, model=by)
        else:
            usage = fill_missing_counts(usage, self._meter, partial(self._estimate_usage, is_cut=False))
            answer = msgspec.structs.replace(answer, usage=usage) if usage is not answer.usage else answer
        cost = (by or provider.model()).cost(usage)
        if len(answer.parts) == 1 and cut:
            self._note_settlement(usage, cost)
        self._settle(usage, cost)
        return answer

    def settle_interrupted(self) -> None:
        if not self._is_sent:
            self.settle_uncharged()
            return
        usage = self._estimate_usage(is_cut=True)
        cost = most_expensive_model(self._dependencies.provider).cost(usage)  # which model broke off is not known
        self._note_settlement(usage, cost)
        self._settle(usage, cost)

    def settle_uncharged(self) -> None:
        """Settle at no cost: the call was not sent, or failed before any output."""
        self._note_settlement(None, 0.0)
        self._settle(None, 0.0)

    def close(self) -> None:
        if self._is_open:  # the agent is closing: the output so far is known
            try:
                self.settle_interrupted() if self._is_sent else self.settle_uncharged()
            except StoreError:  # the journal cannot record it; settled in full below
                pass
        if self._is_open:
            self._settle(full_usage(self._reservation), self._reservation.cost / NANODOLLARS_PER_DOLLAR)
        asking = self._environment
        for sentence in self._turn_budget.take_warnings():
            asking.emit(Warned(sentence, session=asking.session, turn=asking.turn))

    def _charge_reservation(self, reported: Usage) -> Usage:
        """Return the usage to charge if what the provider reported cannot be believed."""
        self._dependencies.context_compiler.ignore_reported_usage()
        return full_usage(self._reservation, reported.correction)

    def _estimate_usage(self, *, is_cut: bool) -> Usage:
        contexts = self._dependencies.context_compiler
        contexts.ignore_reported_usage()
        unseen = is_cut and most_expensive_model(self._dependencies.provider).thinking
        return estimate_usage(self._reservation, self._meter, contexts.count_tokens, may_have_hidden_thinking=unseen)

    def _settle(self, usage: Usage | None, cost: float) -> None:
        self._is_open = False
        self._turn_budget.settle(self._reservation, usage, cost)

    def _note_settlement(self, usage: Usage | None, cost: float) -> None:
        reservation = self._reservation
        self._environment.recorder.record_nowait(
            Settled(reservation.id, usage, cost, turn=reservation.turn, step=reservation.step)
        )
