"""Data sources that are offered as tools, one folder per kind."""

COMPONENTS = {
    "sql": "mainstay.backends.sql.manifest",
    "rest": "mainstay.backends.rest.manifest",
    "documents": "mainstay.backends.documents.manifest",
    "mcp": "mainstay.backends.mcp.manifest",
}
