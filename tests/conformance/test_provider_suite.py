"""The suite that authors of providers run (`mainstay.testing.ProviderSuite`), over the example and built-in ones."""

from __future__ import annotations

import importlib
import json
from collections.abc import AsyncIterator

import pytest
from support.example_distributions import ROOT
from support.streams.more import FORMATS

from mainstay.core.errors import StreamBroken
from mainstay.core.limits import Limits
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.model_info import ModelInfo
from mainstay.core.ports import Context, Options, Piece, Provider, StreamFinished
from mainstay.core.provider_manifest import ProviderFactoryContext
from mainstay.providers.anthropic.provider import AnthropicProvider
from mainstay.providers.ollama.provider import OllamaProvider
from mainstay.providers.openai.provider import OpenAIProvider
from mainstay.testing import ProviderSuite

FORMAT_BY_NAME = {api.name: api for api in FORMATS}
EXAMPLE = ROOT / "examples" / "components" / "http_provider"


def say(name: str, text: str) -> list[bytes]:
    api = FORMAT_BY_NAME[name]
    return [*api.begin(), *api.text(*text.partition(" ")), *api.end("end"), *api.tail()]


class TestOpenAI(ProviderSuite):
    def make(self, base_url: str) -> Provider:
        return OpenAIProvider("m", base_url=base_url, api_key=self.KEY)

    def answer(self) -> list[bytes]:
        return say("openai", self.TEXT)


class TestAnthropic(ProviderSuite):
    def make(self, base_url: str) -> Provider:
        return AnthropicProvider("m", base_url=base_url, api_key=self.KEY)

    def answer(self) -> list[bytes]:
        return say("anthropic", self.TEXT)


class TestOllama(ProviderSuite):
    def make(self, base_url: str) -> Provider:
        return OllamaProvider("m", base_url=base_url, api_key=self.KEY, info=ModelInfo(name="m", window=4096))

    def answer(self) -> list[bytes]:
        return say("ollama", self.TEXT)


class TestExampleProvider(ProviderSuite):
    """The provider of `examples/components/http_provider`."""

    @pytest.fixture(autouse=True)
    def _example(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(EXAMPLE)

    def make(self, base_url: str) -> Provider:
        manifest = importlib.import_module("mainstay_acme_manifest")
        context = ProviderFactoryContext(
            component=manifest.COMPONENT,
            base_url=base_url,
            api_key=self.KEY,
            info=manifest.find_acme_model("small"),
            limits=Limits(),
            environ={},
        )
        build = importlib.import_module("mainstay_acme_provider").build_acme_provider
        provider: Provider = build("small", manifest.AcmeSettings(), context)
        return provider

    def answer(self) -> list[bytes]:
        lines = [
            *({"delta": part} for part in self.TEXT.partition(" ")),
            {"done": "stop", "usage": {"read": 12, "written": 5}},
        ]
        return [json.dumps(line).encode() + b"\n" for line in lines]


async def test_the_suite_finds_a_provider_that_takes_a_cut_answer_for_a_finished_one() -> None:
    class Careless:
        def __init__(self, inner: Provider) -> None:
            self._inner = inner

        def model(self) -> ModelInfo:
            return self._inner.model()

        async def close(self) -> None:
            await self._inner.close()

        async def stream(self, context: Context, options: Options) -> AsyncIterator[Piece]:
            try:
                async for piece in self._inner.stream(context, options):
                    yield piece
            except StreamBroken:
                yield StreamFinished(FinishReason.END, Usage(1, 1))

    class CarelessSuite(TestOpenAI):
        def make(self, base_url: str) -> Provider:
            return Careless(super().make(base_url))

    suite = CarelessSuite()
    await suite.test_an_answer_is_text_and_at_last_the_reason_and_the_usage()
    with pytest.raises(AssertionError):
        await suite.test_an_answer_that_is_cut_anywhere_is_an_error_and_never_finished()
