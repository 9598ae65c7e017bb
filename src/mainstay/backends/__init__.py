"""Domain data as tools: databases, APIs, folders of documents, MCP servers."""
