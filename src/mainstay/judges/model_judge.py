"""Judge that asks a model to score an answer by written criteria (LLM as a judge)."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import aclosing

import msgspec

from mainstay.core.budget_ports import CallEstimate
from mainstay.core.budget_reservation_ids import judge_reservation_id
from mainstay.core.budgeted_side_calls import (
    FRAME_TOKENS,
    BudgetedCall,
    PausableTimeout,
    estimate_tokens,
    most_expensive_model,
)
from mainstay.core.errors import MainstayError, StreamBroken
from mainstay.core.events import Score
from mainstay.core.judges import JudgeBudget, JudgeInput
from mainstay.core.messages import FinishReason, Message, Text, Usage
from mainstay.core.ports import Context, ModelInfo, Options, Provider, StreamFinished, TextPiece
from mainstay.judges.judge_prompt import build_judge_prompt, list_texts
from mainstay.judges.verdict_parser import REPLY_CHARS_MAX, NoVerdict, parse_verdict

OUTPUT_TOKENS_MAX = 2_048  # for the verdict and for reasoning
OUTPUT_TOKENS_MIN = 64  # less is too short for a reason
WINDOW_SHARE = 0.5  # part of the judge model's window that the prompt may fill
BYTES_PER_TOKEN = 2  # of the prompt: a low estimate, for all languages
TIMEOUT_S = 60.0


class ModelJudgeOptions(msgspec.Struct, frozen=True):
    """Options of one model judge."""

    model: str = ""  # empty: the model that answered
    weight: float = 1.0
    timeout_s: float = TIMEOUT_S
    cost_max: float | None = None  # dollars that one verdict may cost; None: unlimited


DEFAULT_OPTIONS = ModelJudgeOptions()


class ModelJudge:
    """A model judge. `build_system_prompt` contains the criteria; `get_provider` takes the name of a model."""

    def __init__(
        self,
        name: str,
        build_system_prompt: Callable[[], str],
        get_provider: Callable[[str], Provider],
        options: ModelJudgeOptions = DEFAULT_OPTIONS,
    ) -> None:
        self.name = name
        self.weight = options.weight
        self._build_system_prompt = build_system_prompt
        self._get_provider = get_provider
        self._options = options

    async def score(self, judge_input: JudgeInput, budget: JudgeBudget) -> Score:
        score, reason, error = None, "", ""
        call: BudgetedCall | None = None
        timeout_s = self._options.timeout_s
        patience = PausableTimeout(timeout_s, budget.on_wait)
        count = budget.count_tokens or estimate_tokens
        try:
            async with patience.scope:
                provider = self._get_provider(self._options.model or judge_input.model)
                info, context = self._build_request(provider, judge_input)
                prompt_tokens = count(context.system + context.messages[0].text, info) + FRAME_TOKENS
                id = judge_reservation_id(judge_input.turn, judge_input.step, self.name)
                estimate = CallEstimate(
                    id, info, prompt_tokens, self._compute_output_tokens(info, prompt_tokens), patience.extend
                )
                call = BudgetedCall(
                    estimate, provider, budget.turn_budget, budget.recorder, count_tokens=count, timeout=patience
                )
                reply = await _stream_reply(provider, context, call)
            score, reason = parse_verdict(reply, *list_texts(judge_input))
        except TimeoutError:
            if not patience.scope.expired():
                raise
            error = f"it gave no verdict within {timeout_s:g} s"
        except (MainstayError, NoVerdict) as problem:
            error = str(problem)
        usage, cost = (call.usage, call.cost) if call is not None else (None, 0.0)
        return Score(self.name, score, reason, error, self.weight, usage, cost)

    def _build_request(self, provider: Provider, judge_input: JudgeInput) -> tuple[ModelInfo, Context]:
        info = most_expensive_model(provider)
        prompt = build_judge_prompt(
            judge_input, secrets.token_hex(8), int(info.window * WINDOW_SHARE) * BYTES_PER_TOKEN
        )
        return info, Context(self._build_system_prompt(), [Message(1, "user", (Text(prompt),))])

    def _compute_output_tokens(self, info: ModelInfo, prompt_tokens: int) -> int:
        """Return the output limit that keeps a verdict within its cost limit; raises NoVerdict if it is too low."""
        tokens = min(OUTPUT_TOKENS_MAX, info.output)
        money = self._options.cost_max
        if money is None or not (info.price_prompt or info.price_completion):
            return tokens
        money_left = money - info.cost(Usage(prompt=prompt_tokens))
        if info.price_completion:
            tokens = min(tokens, int(money_left * 1_000_000 / info.price_completion))
        if money_left < 0 or tokens < min(OUTPUT_TOKENS_MIN, info.output):
            limit = f"{money:.9f}".rstrip("0").rstrip(".")
            raise NoVerdict(f"one verdict may cost ${limit}, and this one could cost more")
        return tokens


async def _stream_reply(provider: Provider, context: Context, call: BudgetedCall) -> str:
    texts: list[str] = []
    length = 0
    async with call:
        options = call.apply_grant(Options(tool_choice="none"))
        async with aclosing(provider.stream(context, options)) as stream:  # type: ignore[type-var]
            async for piece in stream:
                call.observe(piece)
                match piece:
                    case TextPiece(text=text):
                        length += len(text)
                        if length <= REPLY_CHARS_MAX:  # the rest is only counted
                            texts.append(text)
                    case StreamFinished(reason=FinishReason.FILTERED):
                        raise NoVerdict("its provider withheld the verdict")
                    case StreamFinished() if length > REPLY_CHARS_MAX:
                        raise NoVerdict(f"it wrote more than {REPLY_CHARS_MAX} characters instead of a verdict")
                    case StreamFinished():
                        return "".join(texts)
    raise StreamBroken("the verdict is incomplete")
