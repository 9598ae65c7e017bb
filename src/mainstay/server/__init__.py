"""Network interfaces: HTTP and WebSocket API, OpenAI-compatible API, gRPC, and the MCP server."""
