"""Names to providers, and what is known of models."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mainstay.core.errors import ConfigError
from mainstay.core.ports import ModelInfo
from mainstay.providers.anthropic import AnthropicProvider
from mainstay.providers.catalogue import PLACES, info, make
from mainstay.providers.openai import OpenAIProvider


def url(spec: str, environ: dict[str, str], base_url: str | None = None) -> str:
    made = make(spec, base_url=base_url, environ=environ)
    assert isinstance(made, OpenAIProvider | AnthropicProvider)
    return made._url


def test_models_are_found_by_the_longest_beginning_of_their_name() -> None:
    assert info("openai", "gpt-4.1-mini-2025-04-14").price_prompt == 0.4
    assert info("openai", "gpt-4.1-2025-04-14").price_prompt == 2.0
    assert info("anthropic", "claude-sonnet-4-5-20250929").output == 64_000
    assert info("openrouter", "anthropic/claude-sonnet-4.5").window == 200_000
    assert info("openrouter", "openai/gpt-4o").name == "openai/gpt-4o"
    assert info("ollama", "qwen3") == ModelInfo(name="qwen3")
    assert info("openai", "gpt-99") == ModelInfo(name="gpt-99")


@pytest.mark.parametrize("provider", PLACES)
def test_every_provider_can_be_made_or_says_which_key_is_missing(provider: str) -> None:
    variable = PLACES[provider].key_variable
    if variable:
        with pytest.raises(ConfigError, match=variable):
            make(f"{provider}/m", environ={})
    assert make(f"{provider}/m", environ={variable: "k"} if variable else {}).model().name == "m"


def test_the_model_keeps_its_slashes() -> None:
    assert make("openrouter/a/b:free", environ={"OPENROUTER_API_KEY": "k"}).model().name == "a/b:free"


def test_addresses_come_from_the_argument_then_the_environment() -> None:
    assert url("openai/m", {"OPENAI_BASE_URL": "http://x/v1"}) == "http://x/v1/chat/completions"
    assert url("openai/m", {"OPENAI_BASE_URL": "http://x/v1"}, "http://y/v1/") == "http://y/v1/chat/completions"
    assert url("anthropic/m", {"ANTHROPIC_BASE_URL": "http://x"}) == "http://x/v1/messages"
    assert url("my-own/m", {}, "http://z/v1") == "http://z/v1/chat/completions"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:5000", "http://127.0.0.1:5000/v1"),
        ("box", "http://box:11434/v1"),
        (":7000", "http://127.0.0.1:7000/v1"),
        ("http://box:80", "http://box:80/v1"),
        ("https://box/", "https://box:443/v1"),
        ("http://box/v1", "http://box:80/v1"),
        ("[::1]:99", "http://[::1]:99/v1"),
    ],
)
def test_ollama_is_found_wherever_its_variable_says(host: str, expected: str) -> None:
    assert url("ollama/m", {"OLLAMA_HOST": host}) == expected + "/chat/completions"


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("opnai/gpt", "did you mean 'openai'?"),
        ("zzzzzz/gpt", "known are openai, anthropic"),
        ("gpt-4.1", "write <provider>/<model>"),
        ("openai/", "write <provider>/<model>"),
    ],
)
def test_a_wrong_name_is_answered_with_the_right_one(spec: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make(spec, environ={})
    assert sentence in str(caught.value)


def test_a_wrong_ollama_host_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match="OLLAMA_HOST"):
        make("ollama/m", environ={"OLLAMA_HOST": "box:eleven"})


def test_making_a_provider_does_not_import_the_http_client() -> None:
    code = (
        "import sys; from mainstay.providers.catalogue import make; make('ollama/m', environ={});"
        "assert not {'aiohttp', 'urllib.request', 'yarl'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
