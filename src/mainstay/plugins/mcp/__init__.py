"""Tools, resources and prompts of MCP servers that others made, under guard."""
