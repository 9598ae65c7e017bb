"""A provider for Mainstay that needs no network: it answers by rules, as a program of 1966 did."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator
from typing import Annotated

from msgspec import Meta

from mainstay.core.errors import ConfigError, RequestRefused
from mainstay.core.health import CheckFinding
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import Context, ModelInfo, Options, Piece, StreamFinished, TextPiece
from mainstay.core.provider_manifest import (
    ProviderCheckContext,
    ProviderComponent,
    ProviderFactoryContext,
    ProviderSettings,
)


class ElizaSettings(ProviderSettings, frozen=True, kw_only=True):
    otherwise: Annotated[str, Meta(description="The answer where no rule matches.")] = "Please go on."


COMPONENT = ProviderComponent(
    name="eliza",
    title="ELIZA",
    summary="Answers by rules, on this machine.",
    settings=ElizaSettings,
    factory="mainstay_eliza_provider:build_eliza_provider",
    is_local=True,
    has_embeddings=False,
    model_info="mainstay_eliza_provider:find_eliza_model",
    check="mainstay_eliza_provider:check_eliza",
)

RULES = {"doctor": {r"\bI am ([\w ]+)": "Why are you {}?", r"\bmy (\w+)": "Tell me more about your {}."}}


def build_eliza_provider(model: str, settings: ElizaSettings, context: ProviderFactoryContext) -> ElizaProvider:
    if model not in RULES:
        raise ConfigError(f"eliza has no model {model!r}; there are: {', '.join(RULES)}")
    return ElizaProvider(context.info, RULES[model], settings.otherwise)


class ElizaProvider:
    def __init__(self, info: ModelInfo, rules: dict[str, str], otherwise: str) -> None:
        self._info = info
        self._rules = rules
        self._otherwise = otherwise

    def model(self) -> ModelInfo:
        return self._info

    async def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        prompts = [message.text for message in context.messages if message.role == "user"]
        if not prompts:
            raise RequestRefused("eliza needs a prompt")
        matches = ((re.search(rule, prompts[-1]), answer) for rule, answer in self._rules.items())
        answer = next((answer.format(found[1]) for found, answer in matches if found), self._otherwise)
        for word in re.findall(r"\S+\s*", answer):  # as a model would, piece by piece
            yield TextPiece(word)
        yield StreamFinished(FinishReason.END, Usage(len(prompts[-1]) // 4, len(answer) // 4))

    async def close(self) -> None:
        pass


def find_eliza_model(model: str) -> ModelInfo:
    return ModelInfo(name=model, window=8192, output=64, images=False)


def check_eliza(model: str, settings: ElizaSettings, context: ProviderCheckContext) -> Iterator[CheckFinding]:
    if rules := RULES.get(model):
        yield CheckFinding("Model", "ok", f"eliza/{model} has {len(rules)} rules")
