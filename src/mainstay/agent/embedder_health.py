"""Health check of semantic search: the libraries and the check of the configured embedder."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mainstay.agent.workspace_memory import build_embedder_context, has_vectors
from mainstay.config.component_options import resolve_embedder_options
from mainstay.config.schema import Config
from mainstay.core.components import Component, find_component
from mainstay.core.embedder_settings import EmbedderCheckContext, split_embedding_model
from mainstay.core.errors import ConfigError
from mainstay.core.health import CheckContext, CheckFinding


def check_embedder(config: Config, context: CheckContext) -> Iterator[CheckFinding]:
    """Run the check of the configured embedder, built in or of another distribution. Without a usable embedder,
    full-text search still works: that is a warning."""
    if not has_vectors(config):
        yield CheckFinding("Memory", "ok", "full-text search; semantic search is turned off")
        return
    name, model = split_embedding_model(config.sessions.memory.embeddings.model)
    try:
        component = find_component("embedder", name)
        if missing := component.missing_libraries():
            problem = f"{component.described} needs {' and '.join(missing)}, not installed"
            yield _build_warning(problem, component.install_command())
            return
        yield from _run_check(component, config, model, context)
    except ConfigError as error:
        yield _build_warning(str(error), error.fix or "edit sessions.memory.embeddings")


def _run_check(component: Component, config: Config, model: str, context: CheckContext) -> Iterator[CheckFinding]:
    options = resolve_embedder_options(config.sessions.memory.embeddings)
    check = component.load_check()
    if check is None:
        yield CheckFinding("Memory", "ok", f"full-text and semantic search; {component.described}: {component.summary}")
        return
    factory_context = build_embedder_context(config, model)
    check_context = EmbedderCheckContext(
        **msgspec.structs.asdict(factory_context), timeout_s=context.timeout_s, is_offline=context.is_offline
    )
    yield from check(model, options, check_context)


def _build_warning(problem: str, fix: str) -> CheckFinding:
    return CheckFinding("Memory", "warn", f"full-text search only, no semantic search: {problem}", fix)
