"""A model call within a budget: what it may cost is put aside and on disk before it is sent, and settled after."""

from __future__ import annotations

import asyncio

import msgspec

from mainstay.core.accounts import Purse, Wish
from mainstay.core.errors import ModelSilent, ProviderError, StoreError, StreamBroken
from mainstay.core.events import Reserved, Settled, Warned
from mainstay.core.messages import Finish, FinishReason, Usage
from mainstay.core.ports import Context, Options, Piece
from mainstay.core.reservations import NANO, in_full, step_id
from mainstay.core.spending import FRAME_TOKENS, FRAME_TOKENS_TOOLS, Said, estimate, priced, says_when_sent
from mainstay.turn.ask import Answer, Asking, Interrupted, ask
from mainstay.turn.means import Means

WAIT_S = 3600.0  # for what others have put aside, before the watchdog finds it odd
_CUT = (FinishReason.ABORTED, FinishReason.STEERED)


async def ask_within(asking: Asking, means: Means, context: Context, options: Options) -> Answer:
    """Raises what `ask` does, and BudgetExhausted."""
    if means.purse is None:
        return await ask(asking, context, options)
    frame = FRAME_TOKENS_TOOLS if context.tools else FRAME_TOKENS
    prompt = means.contexts.prompt_tokens() + frame
    reserved = await _reserved(asking, means, means.purse, prompt, options)
    if isinstance(reserved, Answer):
        return reserved
    paying = _Paying(asking, means, means.purse, reserved)
    options = msgspec.structs.replace(options, output_tokens=reserved.output, sent=paying.goes_out)
    try:
        return paying.answered(await ask(asking, context, options, paying.hear))
    except (Interrupted, ModelSilent, StreamBroken):
        paying.broke_off()
        raise
    except ProviderError:
        paying.failed()
        raise
    finally:
        paying.close()


async def _reserved(asking: Asking, means: Means, purse: Purse, prompt: int, options: Options) -> Reserved | Answer:
    """An answer in which nothing was said, if the turn is stopped or steered while it waits."""
    control = asking.control

    def notice(sentence: str, seconds: float) -> None:
        control.busy("waiting for a budget", WAIT_S)
        asking.notice(sentence, seconds)

    turn, step = options.turn, options.step
    model, output = priced(means.provider), options.output_tokens
    wish = Wish(step_id(turn, step), model, prompt, output, notice, turn=turn, step=step)
    reserved = None if control.aborted else purse.reserve_now(wish)
    if reserved is None:
        try:
            async with asyncio.timeout(None) as scope:
                control.begin_generation(scope)
                reserved = await purse.reserve(wish)
        except TimeoutError:
            reason = FinishReason.ABORTED if control.aborted else FinishReason.STEERED
            return Answer((Finish(reason),), reason, Usage())
        finally:
            control.end_generation()
    try:
        await asking.scribe.record(reserved)
    except BaseException:
        purse.settle(reserved, None, 0.0)
        raise
    return reserved


class _Paying:
    """One call that is under way. It is settled once; if nobody says how, as if all that was put aside was spent, which
    is what the journal says of it then."""

    __slots__ = ("_asking", "_means", "_open", "_purse", "_reserved", "_said", "_sent")

    def __init__(self, asking: Asking, means: Means, purse: Purse, reserved: Reserved) -> None:
        self._asking = asking
        self._means = means
        self._purse = purse
        self._reserved = reserved
        self._said = Said(reserved.output)
        self._sent = not says_when_sent(means.provider)
        self._open = True

    def goes_out(self) -> None:
        self._sent = True

    def hear(self, piece: Piece) -> bool:
        """True if it has said far more than it was granted."""
        self._sent = True
        return self._said.hear(piece)

    def answered(self, answer: Answer) -> Answer:
        """The message that comes of it tells what it came to; where none does, a record by itself."""
        usage, by, provider = answer.usage, answer.by, self._means.provider
        cut = answer.reason in _CUT
        if cut and not self._sent:
            self.failed()
            return answer
        if not (usage.prompt or usage.completion):
            usage = self._estimate(cut=cut)
            if by is None and (cut or self._said.is_over) and (most := priced(provider)) != provider.model():
                by = msgspec.structs.replace(most, name="")  # whoever it was that was stopped
            answer = msgspec.structs.replace(answer, usage=usage, by=by)
        cost = (by or provider.model()).cost(usage)
        if len(answer.parts) == 1 and cut:
            self._note(usage, cost)
        self._settle(usage, cost)
        return answer

    def broke_off(self) -> None:
        if not self._sent:
            self.failed()
            return
        usage = self._estimate(cut=True)
        cost = priced(self._means.provider).cost(usage)  # who it was that broke off is not known
        self._note(usage, cost)
        self._settle(usage, cost)

    def failed(self) -> None:
        """Before a word of it came, or before it was sent: nobody charges for that."""
        self._note(None, 0.0)
        self._settle(None, 0.0)

    def close(self) -> None:
        if self._open:  # the agent closes: that is nobody's crash, and what came so far is known
            try:
                self.broke_off() if self._sent else self.failed()
            except StoreError:  # then nobody will know
                pass
        if self._open:
            self._settle(in_full(self._reserved), self._reserved.cost / NANO)
        asking = self._asking
        for sentence in self._purse.told():
            asking.emit(Warned(sentence, session=asking.session, turn=asking.turn))

    def _estimate(self, *, cut: bool) -> Usage:
        contexts = self._means.contexts
        contexts.unreported()
        unseen = cut and priced(self._means.provider).thinking
        return estimate(self._reserved, self._said, contexts.count, unseen=unseen)

    def _settle(self, usage: Usage | None, cost: float) -> None:
        self._open = False
        self._purse.settle(self._reserved, usage, cost)

    def _note(self, usage: Usage | None, cost: float) -> None:
        reserved = self._reserved
        self._asking.scribe.note(Settled(reserved.id, usage, cost, turn=reserved.turn, step=reserved.step))
