"""Health checks of the parts of an agent: finds the configured ones and runs the checks that live beside them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from mainstay.agent.home_audit import verify_audit
from mainstay.agent.home_paths import EVENTS_FOLDER, GATEWAY_DATABASE
from mainstay.agent.memory_context import AgentFolders
from mainstay.agent.trust_setup import has_skills_or_patterns
from mainstay.agent.workspace_stores import find_workspace_loss, open_store
from mainstay.config.component_options import resolve_fact_store_options, resolve_sandbox_options, resolve_store_options
from mainstay.config.health import check_webhooks
from mainstay.config.loader import FILE, Config
from mainstay.config.schema import KnowledgeStorageSettings, SandboxSettings, StorageSettings, resolve_data_folder
from mainstay.core.component_options import ComponentOptions
from mainstay.core.components import Component, find_component
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.core.health import CheckContext, CheckFinding
from mainstay.core.machine_health import CLOCK_ADVICE, check_system_clock
from mainstay.core.sandbox_manifest import SandboxCheckContext
from mainstay.observe.health import check_audit_log
from mainstay.sandbox import health as sandbox_health
from mainstay.store.home import workspace_folder
from mainstay.triggers.health import check_event_files

CLOCK_TOLERANCE_S = 60.0


def check_rules(config: Config, home: Path) -> list[CheckFinding]:
    """Find policy rules that match nothing, misspelled providers, and configured folders that do not exist."""
    # imports the tools that rules may name
    from mainstay.agent.config_warnings import check_without_home, find_misspelled_providers

    misspelled = [("Provider", warning) for warning in find_misspelled_providers(config)]
    try:
        warnings = check_without_home(config)
    except ConfigError as error:
        return [CheckFinding("Folders", "FAIL", str(error), f"create it, or edit {home / FILE}")]
    found = [*(("Rules", warning) for warning in warnings), *misspelled]
    if config.trust == "open":
        found.append(("Trust", "trust is open: content from outside may send data anywhere and change anything"))
    return [CheckFinding(check, "warn", warning, f"edit {home / FILE}") for check, warning in found]


# --- sandbox, stores, audit log ------------------------------------------------------------------


def check_sandbox(settings: SandboxSettings, context: CheckContext) -> CheckFinding:
    """Check the configured sandbox, or the one that `auto` uses."""
    sandbox_context = SandboxCheckContext(
        home=context.home, data=context.data, workspace=context.workspace, network=settings.network
    )
    return sandbox_health.check_sandbox(settings.kind, resolve_sandbox_options(settings), sandbox_context)


async def run_test_command(settings: SandboxSettings) -> CheckFinding:
    return await sandbox_health.run_test_command(settings.kind, resolve_sandbox_options(settings))


def check_store(storage: StorageSettings, context: CheckContext) -> Iterator[CheckFinding]:
    """Run the check of the configured store, which may take a while."""
    component = find_component("store", storage.backend)
    yield from _run_check("Database", component, resolve_store_options(storage), context)


def check_fact_store(settings: KnowledgeStorageSettings, context: CheckContext) -> Iterator[CheckFinding]:
    """Run the check of the configured fact store. No finding for the default: the check of the store includes it."""
    if settings != KnowledgeStorageSettings():
        component = find_component("fact store", settings.backend)
        yield from _run_check("Facts", component, resolve_fact_store_options(settings), context)


def _run_check(
    subject: str, component: Component, options: ComponentOptions, context: CheckContext
) -> Iterator[CheckFinding]:
    if missing := component.missing_libraries():
        message = f"{component.name}: {', '.join(missing)} not installed"
        yield CheckFinding(subject, "FAIL", message, component.install_command())
    elif (check := component.load_check()) is not None:
        yield from check(options, context)
    else:
        yield CheckFinding(subject, "ok", f"{component.name}: {component.summary}")


async def check_clock(storage: StorageSettings, context: CheckContext) -> list[CheckFinding]:
    """Check the system clock, by itself and against the newest session."""
    found = check_system_clock()
    if found.verdict == "FAIL":
        return [found]
    try:
        folder = workspace_folder(context.data, context.workspace)
        if find_workspace_loss(storage, folder) is not None:  # the check of the databases reports it
            return [found]
        async with open_store(storage, folder, read_only=True) as store:
            newest = next(iter(await store.list_sessions(limit=1)), None)
    except MainstayError as error:
        return [CheckFinding("Store", "FAIL", str(error), "restore a backup, or choose another home")]
    if newest is not None and newest.updated / 1000 > time.time() + CLOCK_TOLERANCE_S:
        message = f"the system's time is {found.message}, but a session was written later"
        return [CheckFinding("Clock", "warn", message, CLOCK_ADVICE)]
    return [found]


def check_audit(data: Path) -> Iterator[CheckFinding]:
    """Verify the whole audit log, which takes a while if it is long. No finding if there is none."""
    yield from check_audit_log(verify_audit(data), has_log=(data / GATEWAY_DATABASE).exists())


# --- skills, patterns, triggers ------------------------------------------------------------------


def check_skills_and_triggers(config: Config, home: Path) -> Iterator[CheckFinding]:
    data = resolve_data_folder(home, config)
    folders = AgentFolders(data, data / "workspaces" / config.workspace)
    if has_skills_or_patterns(config, folders):
        yield from _check_skills_and_patterns(config, folders)
    yield from check_event_files(data / EVENTS_FOLDER)
    yield from check_webhooks(config, home)


def _check_skills_and_patterns(config: Config, folders: AgentFolders) -> Iterator[CheckFinding]:
    # slow to import, and only needed if there are some
    from mainstay.agent.skills_and_patterns import build_pattern_library, build_skill_registry
    from mainstay.patterns.health import check_patterns
    from mainstay.skills.health import check_skills

    if config.skills.enabled:
        yield from check_skills(build_skill_registry(config, folders))
    if config.patterns.enabled:
        yield from check_patterns(build_pattern_library(config, folders))
