"""MCP backend: an MCP server as a source of data."""
