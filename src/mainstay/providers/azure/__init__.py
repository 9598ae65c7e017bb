"""Azure OpenAI: the OpenAI APIs with Azure addresses and authentication."""
