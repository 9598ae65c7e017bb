"""SQL backend: a database as tools, for SQLite, PostgreSQL and MySQL."""
