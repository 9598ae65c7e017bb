"""OpenAI-compatible API: chat completions, responses and models, backed by sessions."""
