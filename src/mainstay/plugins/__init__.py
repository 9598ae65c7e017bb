"""Plugins and MCP servers: tools that run in sandboxed processes outside of the host process."""
