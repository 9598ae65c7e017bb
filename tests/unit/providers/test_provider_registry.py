"""From names to providers, and the data of known models."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from support.model_tables import MODEL_TABLES
from support.streams.server import Loopback

from mainstay.core.errors import ConfigError, Unauthorised
from mainstay.core.ports import Context, ModelInfo, Options
from mainstay.core.provider_manifest import ProviderComponent, ProviderSettings
from mainstay.providers.bedrock.aws_auth import AwsCredentials, resolve_endpoint
from mainstay.providers.ollama.environment import DEFAULT_WINDOW
from mainstay.providers.registry import build_provider, find_model_info, list_built_in_providers

PLACED = {"AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com", "AWS_REGION": "eu-west-1"}


def url(spec: str, environ: dict[str, str], base_url: str | None = None) -> str:
    made: Any = build_provider(spec, ProviderSettings(base_url=base_url), environ=environ)
    return str(made._url)


def test_models_are_found_by_the_longest_beginning_of_their_name() -> None:
    assert find_model_info("openai", "gpt-4.1-mini-2025-04-14").price_prompt == 0.4
    assert find_model_info("openai", "gpt-4.1-2025-04-14").price_prompt == 2.0
    assert find_model_info("anthropic", "claude-sonnet-4-5-20250929").output == 64_000
    assert find_model_info("openrouter", "anthropic/claude-sonnet-4.5").window == 200_000
    assert find_model_info("openrouter", "openai/gpt-4o").name == "openai/gpt-4o"
    assert (
        find_model_info("openai-responses", "gpt-5").price_prompt
        == find_model_info("azure", "gpt-5").price_prompt
        == 1.25
    )
    assert find_model_info("google", "models/gemini-2.5-flash").thinking
    assert find_model_info("gemini", "gemini-2.5-flash-lite-preview-09-2025").price_prompt == 0.1
    assert (
        find_model_info("bedrock", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0").price_prompt == 3.3
    )  # regions cost more
    assert find_model_info("bedrock", "global.anthropic.claude-sonnet-4-5-20250929-v1:0").price_prompt == 3.0
    assert find_model_info("openrouter", "google/gemini-2.5-flash:free").price_prompt == 0.0


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-99"),
        ("openai", "gpt-5.9"),
        ("openai", "gpt-5-turbo-huge"),
        ("anthropic", "claude-opus-4-9"),
        ("anthropic", "claude-sonnet-45"),
        ("gemini", "gemini-2.5-flash-images"),
        ("bedrock", "amazon.nova-procession-v1:0"),
        ("nobody", "gpt-5"),
    ],
)
def test_a_model_that_is_not_known_is_never_taken_for_its_neighbour(provider: str, model: str) -> None:
    assert find_model_info(provider, model) == ModelInfo(name=model, guessed=True)


def test_known_model_data_is_plausible() -> None:
    for provider, table in MODEL_TABLES.items():
        for name, one in table.items():
            assert 1000 < one.output <= one.window, (provider, name)
            assert 0 < one.cached <= one.prompt <= one.completion, (provider, name)
            assert find_model_info(provider, name).window == one.window, (provider, name)


@pytest.mark.parametrize(
    "provider", [one for one in list_built_in_providers() if not one.runs_in_process], ids=lambda one: one.name
)
def test_every_provider_can_be_made_or_says_which_key_is_missing(provider: ProviderComponent) -> None:
    variable = provider.key_variable
    if variable:
        with pytest.raises(ConfigError, match=variable):
            build_provider(f"{provider.name}/m", environ=PLACED)
    environ = {**PLACED, variable: "k"} if variable else {}
    assert build_provider(f"{provider.name}/m", environ=environ).model().name == "m"


@pytest.mark.parametrize(
    ("provider", "key", "variable"),
    [
        ("azure", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT"),
        ("bedrock", "AWS_BEARER_TOKEN_BEDROCK", "AWS_REGION"),
    ],
)
def test_a_provider_at_a_custom_address_says_how_to_give_it(provider: str, key: str, variable: str) -> None:
    with pytest.raises(ConfigError, match=variable):
        build_provider(f"{provider}/m", environ={key: "k"})


@pytest.mark.parametrize("value", ['"sk-1"', "sk-1\nsk-2"])
def test_a_key_that_cannot_be_one_is_refused_by_the_name_of_its_variable(value: str) -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY has") as caught:
        build_provider("openai/m", environ={"OPENAI_API_KEY": value})
    assert "sk-1" not in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "base_url", "expected"),
    [
        ({}, None, "https://mine.openai.azure.com/openai/v1/chat/completions"),
        ({}, "https://x/openai/v1/", "https://x/openai/v1/chat/completions"),
        (
            {"AZURE_OPENAI_API_VERSION": "2024-10-21"},
            None,
            "https://mine.openai.azure.com/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21",
        ),
        (
            {},
            "https://x/openai/deployments/other/chat/completions?api-version=1",
            "https://x/openai/deployments/other/chat/completions?api-version=1",
        ),
    ],
    ids=["v1", "v1 given", "a version", "the whole address"],
)
def test_azure_is_asked_at_its_v1_address_or_by_version(
    environ: dict[str, str], base_url: str | None, expected: str
) -> None:
    assert url("azure/my gpt", {**PLACED, "AZURE_OPENAI_API_KEY": "k", **environ}, base_url) == expected


async def test_azure_gets_its_key_in_a_header_of_its_own() -> None:
    async with Loopback([b"HTTP/1.1 401 X\r\nContent-Length: 0\r\n\r\n"]) as server:
        made = build_provider("azure/m", ProviderSettings(base_url=server.url), api_key="k", environ={})
        with pytest.raises(Unauthorised):
            async for _ in made.stream(Context("", []), Options(output_tokens_max=5)):
                pass
        await made.close()
    assert server.asked[0].headers["api-key"] == "k"
    assert "authorization" not in server.asked[0].headers
    assert server.asked[0].body["max_completion_tokens"] == 5


def test_bedrock_takes_a_bearers_key_or_the_keys_of_an_account() -> None:
    pair = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"}
    place = "https://bedrock-runtime.eu-west-1.amazonaws.com"
    assert url("bedrock/a.b:0", {**PLACED, **pair}) == f"{place}/model/a.b%3A0/converse-stream"
    signs: Any = build_provider("bedrock/m", environ={**pair, **PLACED})
    assert signs._credentials == AwsCredentials("a", "s", "eu-west-1", "t")
    bears: Any = build_provider("bedrock/m", environ={**pair, **PLACED, "AWS_BEARER_TOKEN_BEDROCK": "b"})
    assert (bears._credentials, bears._api_key) == (None, "b")
    west = ProviderSettings(base_url="https://bedrock-runtime.us-west-2.amazonaws.com")
    there: Any = build_provider("bedrock/m", west, environ=pair)
    assert there._credentials.region == "us-west-2"


def test_ollama_has_the_window_that_its_server_was_given() -> None:
    assert build_provider("ollama/m", environ={}).model().window == DEFAULT_WINDOW
    assert build_provider("ollama/m", environ={"OLLAMA_CONTEXT_LENGTH": "65536"}).model().window == 65_536
    chosen = ModelInfo(name="m", window=8192)
    assert build_provider("ollama/m", info=chosen, environ={"OLLAMA_CONTEXT_LENGTH": "65536"}).model() == chosen


def test_bedrock_signs_for_the_region_of_its_address() -> None:
    """With any environment: a signature for another region is refused."""
    keys = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    _, signer = resolve_endpoint("https://bedrock-runtime.eu-west-1.amazonaws.com", None, keys)
    assert isinstance(signer, AwsCredentials)
    assert signer.region == "eu-west-1"


def test_google_has_two_names_and_two_variables_for_its_key() -> None:
    for spec in ("google/gemini-x", "gemini/gemini-x"):
        for variable in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
            assert url(spec, {variable: "k"}).endswith("/v1beta/models/gemini-x:streamGenerateContent?alt=sse")


def test_the_model_keeps_its_slashes() -> None:
    assert build_provider("openrouter/a/b:free", environ={"OPENROUTER_API_KEY": "k"}).model().name == "a/b:free"


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
def test_ollama_is_found_at_the_address_of_its_variable(host: str, expected: str) -> None:
    assert url("ollama/m", {"OLLAMA_HOST": host}) == expected.removesuffix("/v1") + "/api/chat"


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("opnai/gpt", "did you mean 'openai'?"),
        ("opnai/gpt", "or set base_url to a server with OpenAI's API"),
        ("zzzzzz/gpt", "there are: anthropic, openai, openai-responses, gemini"),
        ("zzzzzz/gpt", "an entry point in the group mainstay.providers"),
        ("gpt-4.1", "write <provider>/<model>"),
        ("openai/", "write <provider>/<model>"),
    ],
)
def test_a_wrong_name_is_answered_with_the_right_one(spec: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_provider(spec, environ={})
    assert sentence in str(caught.value)


@pytest.mark.parametrize("host", ["box:eleven", "[::1", "http://[::1", "box:99999", "ftp://box"])
def test_a_wrong_ollama_host_is_a_sentence(host: str) -> None:
    with pytest.raises(ConfigError, match="OLLAMA_HOST"):
        build_provider("ollama/m", environ={"OLLAMA_HOST": host})


@pytest.mark.parametrize(
    "address", ["http://[::1", "box.example/v1", "ftp://box/v1", "http://:secret@/v1", "https://b:x"]
)
@pytest.mark.parametrize("provider", ["openai", "openai-responses", "anthropic", "gemini", "azure", "bedrock", "mine"])
def test_an_invalid_address_is_a_sentence_that_does_not_repeat_it(provider: str, address: str) -> None:
    settings = ProviderSettings(base_url=address)
    with pytest.raises(ConfigError, match="must be an address that begins with http") as caught:
        build_provider(f"{provider}/m", settings, api_key="k", environ={"AWS_REGION": "eu-west-1"})
    assert address not in str(caught.value)


def test_making_a_provider_does_not_import_the_http_client() -> None:
    code = (
        "import sys; from mainstay.providers.registry import build_provider; build_provider('ollama/m', environ={});"
        "assert not {'aiohttp', 'urllib.request', 'yarl'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
