"""Manifests of services and servers with OpenAI's chat completions API."""

from __future__ import annotations

from mainstay.core.provider_manifest import ProviderComponent

_FACTORY = "mainstay.providers.openai.provider:build_openai_provider"
_MODELS = "mainstay.providers.openai.compatible_model_info"

OPENROUTER = ProviderComponent(
    name="openrouter",
    title="OpenRouter",
    summary="Models of many vendors behind one key.",
    factory=_FACTORY,
    base_url="https://openrouter.ai/api/v1",
    key_variables=("OPENROUTER_API_KEY",),
    setup=("create an API key at https://openrouter.ai/settings/keys",),
    default_model="openai/gpt-4.1-mini",
    model_info=f"{_MODELS}:find_openrouter_model",
)
MISTRAL = ProviderComponent(
    name="mistral",
    title="Mistral",
    telemetry_name="mistral_ai",
    summary="Mistral's chat completions.",
    factory="mainstay.providers.openai.mistral:build_mistral_provider",
    base_url="https://api.mistral.ai/v1",
    key_variables=("MISTRAL_API_KEY",),
    setup=("create an API key at https://console.mistral.ai/api-keys",),
    default_model="mistral-small-latest",
    model_info=f"{_MODELS}:find_mistral_model",
)
GROQ = ProviderComponent(
    name="groq",
    title="Groq",
    summary="Open models on Groq's hardware.",
    factory=_FACTORY,
    base_url="https://api.groq.com/openai/v1",
    key_variables=("GROQ_API_KEY",),
    setup=("create an API key at https://console.groq.com/keys",),
    default_model="openai/gpt-oss-20b",
    model_info=f"{_MODELS}:find_groq_model",
)
DEEPSEEK = ProviderComponent(
    name="deepseek",
    title="DeepSeek",
    summary="DeepSeek's chat completions.",
    factory=_FACTORY,
    base_url="https://api.deepseek.com/v1",
    key_variables=("DEEPSEEK_API_KEY",),
    setup=("create an API key at https://platform.deepseek.com/api_keys",),
    default_model="deepseek-v4-flash",
    model_info=f"{_MODELS}:find_deepseek_model",
)
XAI = ProviderComponent(
    name="xai",
    title="xAI",
    telemetry_name="x_ai",
    summary="xAI's chat completions.",
    factory=_FACTORY,
    base_url="https://api.x.ai/v1",
    key_variables=("XAI_API_KEY",),
    setup=("create an API key at https://console.x.ai",),
    default_model="grok-4.3",
    model_info=f"{_MODELS}:find_xai_model",
)
TOGETHER = ProviderComponent(
    name="together",
    title="Together AI",
    summary="Open models on Together AI's hardware.",
    factory=_FACTORY,
    base_url="https://api.together.xyz/v1",
    key_variables=("TOGETHER_API_KEY",),
    setup=("create an API key at https://api.together.ai/settings/api-keys",),
)
LMSTUDIO = ProviderComponent(
    name="lmstudio",
    title="LM Studio",
    summary="A server of LM Studio on this machine.",
    factory=_FACTORY,
    base_url="http://127.0.0.1:1234/v1",
    is_local=True,
    setup=("install LM Studio (https://lmstudio.ai), load a model and start its server",),
)
LLAMACPP = ProviderComponent(
    name="llamacpp",
    title="llama.cpp",
    summary="A server of llama.cpp on this machine.",
    factory=_FACTORY,
    base_url="http://127.0.0.1:8080/v1",
    is_local=True,
    setup=("start `llama-server -m MODEL.gguf` of llama.cpp",),
)
VLLM = ProviderComponent(
    name="vllm",
    title="vLLM",
    summary="A server of vLLM on this machine.",
    factory=_FACTORY,
    base_url="http://127.0.0.1:8000/v1",
    is_local=True,
    setup=("start `vllm serve MODEL`",),
)
