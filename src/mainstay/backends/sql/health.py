"""Health check of a SQL backend: counts its tables and finds patterns of the scope that match none."""

from __future__ import annotations

import msgspec

from mainstay.backends.health import BackendContents, format_unmatched
from mainstay.backends.sql.backend import SqlBackend
from mainstay.backends.sql.engine import build_scope_matcher
from mainstay.core.outcome_text import format_count


async def check_sql_backend(backend: SqlBackend, start_programs: bool) -> BackendContents:
    """Query the database itself: a backend also starts without a connection, and retries later."""
    catalog, scope = await backend.engine.load_catalog()
    settings = backend.settings.scope
    granted = [table for table in catalog if scope.find_grant(table) and table.kind != "shadow table"]
    unmatched = []
    for pattern in settings.tables:
        alone = build_scope_matcher(msgspec.structs.replace(settings, tables=(pattern,)), catalog)
        if not any(alone.find_grant(table) for table in catalog):
            unmatched.append(pattern)
    return BackendContents(
        summary=format_count(len(granted), "table"),
        warnings=format_unmatched("tables", unmatched),
        is_empty=not granted,
    )
