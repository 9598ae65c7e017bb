"""One turn: act on what is open, ask the model, until it has said all it had to say.

The loop keeps no state of its own. Where a turn stands is read from the session, and the session is what
the journal says; so a turn that a crash interrupted goes on here, in this same loop, and nowhere else.
"""

from __future__ import annotations

import msgspec

from mainstay.core.errors import BudgetExhausted, ContextTooLong, ProviderError, RequestRefused
from mainstay.core.events import Guarded, MessageAdded, Steered, StepRestarted
from mainstay.core.limits import Limits
from mainstay.core.messages import AnyPart, Finish, FinishReason, Text, ToolCall, text_of
from mainstay.core.open_turn import OpenTurn
from mainstay.core.outcome import Aborted, Exhausted, Failed, Outcome
from mainstay.core.ports import Emit, Options, Scribe
from mainstay.core.recall import RUNTIME, origin_of
from mainstay.core.session import Session
from mainstay.turn.act import Acting, act
from mainstay.turn.ask import Answer, Asking, Interrupted
from mainstay.turn.concluding import Ending, provisional_of, waits_for_verdict
from mainstay.turn.control import Control
from mainstay.turn.judging import Setting
from mainstay.turn.means import Means, is_tainted
from mainstay.turn.paying import ask_within


async def run_turn(session: Session, means: Means, control: Control, scribe: Scribe, emit: Emit) -> Outcome:
    turn = session.open
    assert turn is not None, "a turn is started by its lane"
    acting = Acting(Setting(session, turn, means, emit), control, scribe)
    asking = Asking(session, means, control, scribe, emit)
    ending = Ending(asking, session, means)
    too_long = 0
    while True:
        if turn.open_calls and (paused := await act(acting, turn)) is not None:
            return paused
        if control.aborted:
            return Aborted()
        if control.steers:
            scribe.note(Steered(control.take_steers(), turn=turn.turn, step=turn.step), soon=True)
        if waits_for_verdict(session):  # its process died before anybody knew what comes of it
            if (outcome := await ending.come(_was_spent(turn, means.limits))) is not None:
                return outcome
            continue
        spent = _spent(turn, means.limits)
        if spent is not None and not _was_told(session):
            scribe.note(_notice(turn, _LAST_WORD.format(bound=spent)), soon=True)
        asking.provisional = provisional_of(turn, means) if spent is None else ""
        try:
            context = await means.contexts.compile(scribe)
            if asking.control.aborted:  # while it waited for a summary
                return Aborted()
            answer = await ask_within(asking, means, context, _options(means, asking, turn, final=spent is not None))
        except BudgetExhausted as error:
            scribe.note(_refusal(turn, error))
            return Exhausted(str(error), error.budget, error.frees_at)
        except ContextTooLong as error:
            too_long += 1
            if too_long > means.limits.context_retries_max or not means.contexts.tighten(error):
                return _failure(turn, error)
            continue
        except RequestRefused as error:
            if not means.contexts.do_without_tools(error):
                return _failure(turn, error)
            continue
        except Interrupted as broken:
            if turn.restarts >= means.limits.step_restarts_max:
                return _failure(turn, broken.error)
            await _restart(turn, scribe, broken)
            continue
        except ProviderError as error:
            return _failure(turn, error)
        if spent is not None:
            answer = _without_calls(answer, spent)
        if answer.redacted:
            news = Guarded("output", "redacted", answer.redacted, turn=turn.turn, step=turn.step + 1)
            scribe.note(news)
        if len(answer.parts) > 1 or answer.reason not in (FinishReason.ABORTED, FinishReason.STEERED):
            scribe.note(_added(session, means, answer), soon=bool(answer.calls) or means.panel is not None)
        if answer.reason is FinishReason.ABORTED:
            return Aborted()
        if answer.calls or control.steers:
            continue
        if (outcome := await ending.come(spent)) is not None:
            return outcome


def _options(means: Means, asking: Asking, turn: OpenTurn, *, final: bool) -> Options:
    return Options(
        tool_choice="none" if final else "auto",
        output_tokens=means.limits.output_tokens_max,
        turn=turn.turn,
        step=turn.step + 1,
        notice=asking.notice,
        weigh=means.contexts.prompt_tokens,
    )


def _added(session: Session, means: Means, answer: Answer) -> MessageAdded:
    turn = session.open
    assert turn is not None
    info = answer.by or means.provider.model()
    usage = answer.usage
    return MessageAdded(
        "assistant",
        _marked(answer.parts, session, untrusted=is_tainted(session, means)),
        model=answer.by.name if answer.by is not None else "",
        usage=usage if usage.prompt or usage.completion else None,
        cost=info.cost(usage),
        provisional=answer.provisional,
        turn=turn.turn,
        step=turn.step + 1,
    )


def _marked(parts: tuple[AnyPart, ...], session: Session, *, untrusted: bool) -> tuple[AnyPart, ...]:
    """What a model says that has read something from outside may be that: also if that was what a foreign tool, or a
    skill, says of itself. Its last part says so for all of them."""
    if not untrusted and not session.private:
        return parts
    *others, last = parts
    origin = origin_of("conversation", untrusted=untrusted, private=session.private)
    return (*others, last if last.origin else msgspec.structs.replace(last, origin=origin))


# --- bounds --------------------------------------------------------------------------------------

_LAST_WORD = (
    "This turn has reached its limit ({bound}). No more tools can be used in it. Answer now with what you "
    "have: say what was done, and what is still missing because of the limit."
)


def _spent(turn: OpenTurn, limits: Limits, steps: int | None = None) -> str | None:
    """The bound that this turn has reached, in words; or had, when it had made so many steps."""
    if (turn.step if steps is None else steps) >= limits.steps_max:
        return f"{limits.steps_max} steps"
    if turn.calls >= limits.tool_calls_max:
        return f"{limits.tool_calls_max} tool calls"
    return None


def _was_spent(turn: OpenTurn, limits: Limits) -> str | None:
    """The bound that it had reached when its last message was asked for; what was to be judged was not asked for
    then."""
    if turn.provisional:
        return None
    return _spent(turn, limits, steps=turn.step - 1)


def _refusal(turn: OpenTurn, error: BudgetExhausted) -> MessageAdded:
    """The model cannot say it: there is nothing left to ask it with."""
    said = Text(f"I had to stop: {error}.", origin=RUNTIME)
    return MessageAdded("assistant", (said, Finish(FinishReason.END)), turn=turn.turn, step=turn.step + 1)


def _was_told(session: Session) -> bool:
    return bool(session.messages) and session.messages[-1].role == "system"


def _without_calls(answer: Answer, spent: str) -> Answer:
    """The last word has no tools, whatever the model tried, and is never empty."""
    parts = tuple(part for part in answer.parts if not isinstance(part, ToolCall | Finish))
    cut = answer.reason in (FinishReason.ABORTED, FinishReason.STEERED)  # then it is not the last word after all
    if not cut and not text_of(parts).strip():
        parts = (*parts, Text(f"I had to stop: this turn reached its limit ({spent}).", origin=RUNTIME))
    reason = answer.reason if cut else FinishReason.END
    return msgspec.structs.replace(answer, parts=(*parts, Finish(reason)), reason=reason)


def _notice(turn: OpenTurn, text: str) -> MessageAdded:
    return MessageAdded("system", (Text(text, origin="runtime"),), turn=turn.turn, step=turn.step)


# --- trouble -------------------------------------------------------------------------------------


async def _restart(turn: OpenTurn, scribe: Scribe, broken: Interrupted) -> None:
    """Visible: what had streamed is kept as an interrupted partial, and watchers are told to drop it."""
    partial = broken.draft.checkpoint()
    restarted = StepRestarted(str(broken.error), turn=turn.turn, step=turn.step + 1)
    await scribe.record(*([partial] if partial is not None else []), restarted)


MODEL_FAILED = "The model could not answer: "


def _failure(turn: OpenTurn, error: ProviderError) -> Failed:
    return Failed(f"{MODEL_FAILED}{error}", error.details, turn=turn.turn, step=turn.step + 1)
