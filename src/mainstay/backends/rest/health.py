"""Health check of a REST backend: counts its operations and finds patterns of the scope that match none."""

from __future__ import annotations

from mainstay.backends.health import BackendContents, format_unmatched
from mainstay.backends.rest.backend import RestBackend
from mainstay.backends.rest.scope import RestScopeMatcher
from mainstay.core.outcome_text import format_count


async def check_rest_backend(backend: RestBackend, start_programs: bool) -> BackendContents:
    api, scope = await backend.load_api(), backend.settings.scope
    operations = api.document.operations.values()

    def matches_nothing(matcher: RestScopeMatcher) -> bool:
        return not any(map(matcher.contains, operations))

    paths = [path for path in scope.paths if matches_nothing(RestScopeMatcher((path,), (), write=True))]
    ids = [id for id in scope.operations if matches_nothing(RestScopeMatcher((), (id,), write=True))]
    return BackendContents(
        summary=format_count(len(api.operations), "operation"),
        warnings=(*format_unmatched("paths", paths), *format_unmatched("operations", ids)),
        is_empty=not api.operations,
    )
