"""REST backend: an API with an OpenAPI description as tools."""
