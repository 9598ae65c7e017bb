"""A judge that is a model with written criteria."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import aclosing

import msgspec

from mainstay.core.accounts import Wish
from mainstay.core.errors import MainstayError, StreamBroken
from mainstay.core.events import Score
from mainstay.core.judging import Exhibit, Spending
from mainstay.core.messages import FinishReason, Message, Text, Usage
from mainstay.core.ports import Context, Finished, ModelInfo, Options, Provider, TextPiece
from mainstay.core.reservations import judge_id
from mainstay.core.spending import FRAME_TOKENS, PaidCall, Patience, cautious, priced
from mainstay.evals.judges.material import shown, texts_of
from mainstay.evals.judges.verdict import SAID_CHARS_MAX, NoVerdict, read_verdict

OUTPUT_TOKENS = 2_048  # for the verdict, and for models that think first
OUTPUT_TOKENS_MIN = 64  # with less nobody can say why
WINDOW_SHARE = 0.5  # of the judging model's, for what it is shown
BYTES_PER_TOKEN = 2  # of what it is shown: rather more tokens than fewer, whatever the language
TIMEOUT_S = 60.0


class Terms(msgspec.Struct, frozen=True):
    """How one judge works: with which model (empty: the one that answered), for how long, for how much."""

    model: str = ""
    weight: float = 1.0
    timeout_s: float = TIMEOUT_S
    money: float | None = None  # dollars that one verdict may cost


USUAL = Terms()


class ModelJudge:
    """`instruct` makes the system prompt; `choose` gives the provider of a model."""

    def __init__(
        self, name: str, instruct: Callable[[], str], choose: Callable[[str], Provider], terms: Terms = USUAL
    ) -> None:
        self.name = name
        self.weight = terms.weight
        self._instruct = instruct
        self._choose = choose
        self._terms = terms

    async def score(self, exhibit: Exhibit, spending: Spending) -> Score:
        score, reason, error = None, "", ""
        call: PaidCall | None = None
        timeout_s = self._terms.timeout_s
        patience = Patience(timeout_s, spending.notice)
        count = spending.count or cautious
        try:
            async with patience.scope:
                provider = self._choose(self._terms.model or exhibit.model)
                info, context = self._request(provider, exhibit)
                prompt = count(context.system + context.messages[0].text, info) + FRAME_TOKENS
                id = judge_id(exhibit.turn, exhibit.step, self.name)
                wish = Wish(id, info, prompt, self._output(info, prompt), patience.notice)
                call = PaidCall(wish, provider, spending.purse, spending.scribe, count=count, patience=patience)
                said = await _listen(provider, context, call)
            score, reason = read_verdict(said, *texts_of(exhibit))
        except TimeoutError:
            if not patience.scope.expired():
                raise
            error = f"it gave no verdict within {timeout_s:g} s"
        except (MainstayError, NoVerdict) as trouble:
            error = str(trouble)
        usage, cost = (call.usage, call.cost) if call is not None else (None, 0.0)
        return Score(self.name, score, reason, error, self.weight, usage, cost)

    def _request(self, provider: Provider, exhibit: Exhibit) -> tuple[ModelInfo, Context]:
        info = priced(provider)
        asked = shown(exhibit, secrets.token_hex(8), int(info.window * WINDOW_SHARE) * BYTES_PER_TOKEN)
        return info, Context(self._instruct(), [Message(1, "user", (Text(asked),))])

    def _output(self, info: ModelInfo, prompt: int) -> int:
        """So many tokens that one verdict stays within its money; raises NoVerdict if that is none to speak of."""
        wanted = min(OUTPUT_TOKENS, info.output)
        money = self._terms.money
        if money is None or not (info.price_prompt or info.price_completion):
            return wanted
        left = money - info.cost(Usage(prompt=prompt))
        if info.price_completion:
            wanted = min(wanted, int(left * 1_000_000 / info.price_completion))
        if left < 0 or wanted < min(OUTPUT_TOKENS_MIN, info.output):
            shown = f"{money:.9f}".rstrip("0").rstrip(".")
            raise NoVerdict(f"one verdict may cost ${shown}, and this one could cost more")
        return wanted


async def _listen(provider: Provider, context: Context, call: PaidCall) -> str:
    said: list[str] = []
    length = 0
    async with call:
        options = call.granted(Options(tool_choice="none"))
        async with aclosing(provider.stream(context, options)) as stream:  # type: ignore[type-var]
            async for piece in stream:
                call.hear(piece)
                match piece:
                    case TextPiece(text=text):
                        length += len(text)
                        if length <= SAID_CHARS_MAX:  # more is too much, and is only counted
                            said.append(text)
                    case Finished(reason=FinishReason.FILTERED):
                        raise NoVerdict("its provider withheld the verdict")
                    case Finished() if length > SAID_CHARS_MAX:
                        raise NoVerdict(f"it said more than {SAID_CHARS_MAX} characters instead of a verdict")
                    case Finished():
                        return "".join(said)
    raise StreamBroken("the verdict stopped in the middle")
