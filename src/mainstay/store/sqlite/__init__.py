"""SQLite store: a workspace's journals and memory tiers in one database file."""
