"""A model call within a budget: what it may cost is put aside and on disk before it is sent, and settled after."""

from __future__ import annotations

import asyncio

import msgspec

from mainstay.core.accounts import Purse, Wish
from mainstay.core.errors import ModelSilent, ProviderError
from mainstay.core.events import Reserved, Settled, Warned
from mainstay.core.messages import AnyPart, Finish, FinishReason, Text, Thinking, ToolCall, Usage
from mainstay.core.ports import Context, Options, Provider
from mainstay.core.reservations import step_id
from mainstay.core.spending import estimate, full_cost, priced
from mainstay.turn.ask import Answer, Asking, Interrupted, ask
from mainstay.turn.means import Means

FRAME_TOKENS = 64  # of a prompt, that a provider may add of its own
FRAME_TOKENS_TOOLS = 512  # and where there are tools
WAIT_S = 3600.0  # for what others have put aside, before the watchdog finds it odd


async def ask_within(asking: Asking, means: Means, context: Context, options: Options) -> Answer:
    """Raises what `ask` does, and BudgetExhausted."""
    if means.purse is None:
        return await ask(asking, context, options)
    frame = FRAME_TOKENS_TOOLS if context.tools else FRAME_TOKENS
    prompt = means.contexts.prompt_tokens() + frame
    reserved = await _reserved(asking, means, means.purse, prompt, options)
    if isinstance(reserved, Answer):
        return reserved
    paying = _Paying(asking, means.purse, reserved, means.provider)
    try:
        answer = await ask(asking, context, msgspec.structs.replace(options, output_tokens=reserved.output))
        return paying.answered(answer)
    except Interrupted as broken:
        paying.broke_off(_size(broken.draft.parts(FinishReason.LENGTH, with_calls=True)))
        raise
    except ModelSilent:
        paying.broke_off(0)  # whatever it thought about all the time
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

    id = step_id(options.turn, options.step)
    wish = Wish(id, priced(means.provider), prompt, options.output_tokens, notice)
    try:
        async with asyncio.timeout(None) as scope:
            control.begin_generation(scope)
            reserved = await purse.reserve(wish)
    except TimeoutError:
        reason = FinishReason.ABORTED if control.aborted else FinishReason.STEERED
        return Answer((Finish(reason),), reason, Usage())
    finally:
        control.end_generation()
    reserved = msgspec.structs.replace(reserved, turn=options.turn, step=options.step)
    try:
        await asking.scribe.record(reserved)
    except BaseException:
        purse.settle(reserved, None, 0.0)
        raise
    return reserved


class _Paying:
    """One call that is under way. It is settled once; if nobody says how, as if all that was put aside was spent, which
    is what the journal says of it then."""

    __slots__ = ("_asking", "_open", "_provider", "_purse", "_reserved")

    def __init__(self, asking: Asking, purse: Purse, reserved: Reserved, provider: Provider) -> None:
        self._asking = asking
        self._purse = purse
        self._reserved = reserved
        self._provider = provider
        self._open = True

    def answered(self, answer: Answer) -> Answer:
        """The message that comes of it tells what it came to; where none does, a record by itself."""
        usage = answer.usage
        if not (usage.prompt or usage.completion):
            usage = estimate(self._reserved, _size(answer.parts))
            answer = msgspec.structs.replace(answer, usage=usage)
        cost = (answer.by or self._provider.model()).cost(usage)
        if len(answer.parts) == 1 and answer.reason in (FinishReason.ABORTED, FinishReason.STEERED):
            self._note(usage, cost)
        self._settle(usage, cost)
        return answer

    def broke_off(self, size: int) -> None:
        usage = estimate(self._reserved, size)
        cost = priced(self._provider).cost(usage)  # who it was that broke off is not known
        self._note(usage, cost)
        self._settle(usage, cost)

    def failed(self) -> None:
        """Before a word of it came: nobody charges for that."""
        self._note(None, 0.0)
        self._settle(None, 0.0)

    def close(self) -> None:
        if self._open:
            self._settle(*full_cost(self._reserved))
        asking = self._asking
        for sentence in self._purse.told():
            asking.emit(Warned(sentence, session=asking.session, turn=asking.turn))

    def _settle(self, usage: Usage | None, cost: float) -> None:
        self._open = False
        self._purse.settle(self._reserved, usage, cost)

    def _note(self, usage: Usage | None, cost: float) -> None:
        reserved = self._reserved
        self._asking.scribe.note(Settled(reserved.id, usage, cost, turn=reserved.turn, step=reserved.step))


def _size(parts: tuple[AnyPart, ...]) -> int:
    """Bytes of what was said."""
    total = 0
    for part in parts:
        match part:
            case Text(text=text) | Thinking(text=text):
                total += len(text.encode(errors="replace"))
            case ToolCall(name=name, input=input):
                total += len((name + input).encode(errors="replace"))
    return total
