"""OpenAI Chat Completions API, and servers that are compatible with it."""
