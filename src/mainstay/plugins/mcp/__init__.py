"""MCP client: tools, resources and prompts of third-party MCP servers, sandboxed, rate limited and pinned."""
