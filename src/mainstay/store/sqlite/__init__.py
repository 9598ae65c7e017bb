"""Journals in one SQLite file."""

from mainstay.store.sqlite.store import SqliteStore as SqliteStore
