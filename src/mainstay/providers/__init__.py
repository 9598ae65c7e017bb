"""Model APIs. `COMPONENTS` is the index of the built-in providers, in the order in which API keys are looked for."""

COMPONENTS = {
    "anthropic": "mainstay.providers.anthropic.manifest",
    "openai": "mainstay.providers.openai.manifest",
    "openai-responses": "mainstay.providers.openai_responses.manifest",
    "gemini": "mainstay.providers.gemini.manifest",
    "google": "mainstay.providers.gemini.manifest:GOOGLE",
    "openrouter": "mainstay.providers.openai.compatible_manifests:OPENROUTER",
    "mistral": "mainstay.providers.openai.compatible_manifests:MISTRAL",
    "groq": "mainstay.providers.openai.compatible_manifests:GROQ",
    "deepseek": "mainstay.providers.openai.compatible_manifests:DEEPSEEK",
    "azure": "mainstay.providers.azure.manifest",
    "xai": "mainstay.providers.openai.compatible_manifests:XAI",
    "together": "mainstay.providers.openai.compatible_manifests:TOGETHER",
    "bedrock": "mainstay.providers.bedrock.manifest",
    "local": "mainstay.providers.local.manifest",
    "ollama": "mainstay.providers.ollama.manifest",
    "lmstudio": "mainstay.providers.openai.compatible_manifests:LMSTUDIO",
    "llamacpp": "mainstay.providers.openai.compatible_manifests:LLAMACPP",
    "vllm": "mainstay.providers.openai.compatible_manifests:VLLM",
}
