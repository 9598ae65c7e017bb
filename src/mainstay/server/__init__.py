"""What others reach Mainstay by. For now: as an MCP server, over standard streams or loopback HTTP."""
