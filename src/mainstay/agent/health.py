"""Health checks of an agent: configuration, sandbox, store, audit log, rules, judges, skills, patterns, triggers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from mainstay.agent.home_audit import verify_audit
from mainstay.agent.home_paths import EVENTS_FOLDER, GATEWAY_DATABASE
from mainstay.agent.memory_context import AgentFolders
from mainstay.agent.trust_setup import has_skills_or_patterns
from mainstay.agent.workspace_stores import open_store
from mainstay.config.component_options import resolve_sandbox_options, resolve_store_options
from mainstay.config.loader import FILE, Config, load_config
from mainstay.config.schema import SandboxSettings, StorageSettings, resolve_data_folder
from mainstay.core.components import find_component
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.core.health import CheckContext, CheckFinding
from mainstay.core.machine_health import CLOCK_ADVICE, check_system_clock
from mainstay.core.outcome_text import format_count
from mainstay.core.sandbox_manifest import SandboxCheckContext
from mainstay.sandbox import health as sandbox_health
from mainstay.store.home import workspace_folder

SHOWN_MAX = 5  # problems of one kind
AUDIT_FINDINGS_MAX = 3  # `audit verify` prints all of them
CLOCK_TOLERANCE_S = 60.0


def check_configuration(home: Path) -> tuple[Config | None, CheckFinding]:
    try:
        loaded = load_config(home, env=os.environ)
    except ConfigError as error:
        return None, CheckFinding("Configuration", "FAIL", str(error), f"edit {home / FILE}")
    if not loaded.path.exists():
        return loaded.config, CheckFinding("Configuration", "ok", f"{loaded.path} does not exist; using the defaults")
    return loaded.config, CheckFinding("Configuration", "ok", f"{loaded.path} is valid")


def check_rules(config: Config, home: Path) -> list[CheckFinding]:
    """Find policy rules that match nothing, and configured folders that do not exist."""
    from mainstay.agent.config_warnings import check_without_home  # imports the tools that rules may name

    try:
        warnings = check_without_home(config)
    except ConfigError as error:
        return [CheckFinding("Folders", "FAIL", str(error), f"create it, or edit {home / FILE}")]
    return [CheckFinding("Rules", "warn", warning, f"edit {home / FILE}") for warning in warnings]


def check_judges(config: Config, home: Path) -> list[CheckFinding]:
    """Check that the functions of configured judges can be imported."""
    if not config.judges.panel and not any(space.judges is not None for space in config.workspaces.values()):
        return []
    from mainstay.config.check_judge_functions import check_judge_functions

    try:
        check_judge_functions(config, resolve_data_folder(home, config))
    except ConfigError as error:
        return [CheckFinding("Judges", "FAIL", str(error), f"create it, or edit {home / FILE}")]
    panel = len(config.judges.panel)
    message = f"{format_count(panel, 'judge')} on the panel" if panel else "some workspaces have their own panel"
    return [CheckFinding("Judges", "ok", message)]


# --- sandbox, store, audit log -------------------------------------------------------------------


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
    if missing := component.missing_libraries():
        message = f"{component.name}: {', '.join(missing)} not installed"
        yield CheckFinding("Database", "FAIL", message, component.install)
    elif (check := component.load_check()) is not None:
        yield from check(resolve_store_options(storage), context)
    else:
        yield CheckFinding("Database", "ok", f"{component.name}: {component.summary}")


async def check_clock(storage: StorageSettings, context: CheckContext) -> list[CheckFinding]:
    """Check the system clock, by itself and against the newest session."""
    found = check_system_clock()
    if found.verdict == "FAIL":
        return [found]
    try:
        async with open_store(storage, workspace_folder(context.data, context.workspace), read_only=True) as store:
            newest = next(iter(await store.list_sessions(limit=1)), None)
    except MainstayError as error:
        return [CheckFinding("Store", "FAIL", str(error), "restore a backup, or choose another home")]
    if newest is not None and newest.updated / 1000 > time.time() + CLOCK_TOLERANCE_S:
        message = f"the system's time is {found.message}, but a session was written later"
        return [CheckFinding("Clock", "warn", message, CLOCK_ADVICE)]
    return [found]


def check_audit(data: Path) -> Iterator[CheckFinding]:
    """Verify the whole audit log, which takes a while if it is long. No finding if there is none."""
    problems = list(islice((finding for finding in verify_audit(data) if not finding.is_note), AUDIT_FINDINGS_MAX))
    if not problems and (data / GATEWAY_DATABASE).exists():
        yield CheckFinding("Audit", "ok", "every entry is unchanged")
    for problem in problems:
        yield CheckFinding("Audit", "FAIL", str(problem), "mainstay audit verify; see docs/how-to/audit.md")


# --- skills, patterns, triggers ------------------------------------------------------------------


def check_skills_and_triggers(config: Config, home: Path) -> list[CheckFinding]:
    data = resolve_data_folder(home, config)
    place = AgentFolders(data, data / "workspaces" / config.workspace)
    findings = list(_check_skills_and_patterns(config, place)) if has_skills_or_patterns(config, place) else []
    return findings + list(_check_triggers(config, data, home))


def _check_skills_and_patterns(config: Config, folders: AgentFolders) -> Iterator[CheckFinding]:
    # slow to import, and only needed if there are some
    from mainstay.agent.skills_and_patterns import build_pattern_library, build_skill_registry

    if config.skills.enabled:
        shelf = build_skill_registry(config, folders)
        yield from _build_findings(
            "Skills", format_count(len(shelf.skills("")), "skill"), [*shelf.problems(""), *shelf.warnings("")]
        )
    if config.patterns.enabled:
        snapshot = build_pattern_library(config, folders).load()
        yield from _build_findings(
            "Patterns", format_count(len(snapshot.patterns), "pattern"), [str(problem) for problem in snapshot.problems]
        )


def _build_findings(check: str, contents: str, problems: Sequence[str]) -> Iterator[CheckFinding]:
    if not contents.startswith("0 "):
        yield CheckFinding(check, "ok", contents)
    for problem in problems[:SHOWN_MAX]:
        yield CheckFinding(check, "warn", problem, "" if "`" in problem else f"mainstay {check.lower()[:-1]} list")
    if len(problems) > SHOWN_MAX:
        yield CheckFinding(
            check, "warn", f"and {len(problems) - SHOWN_MAX} more", f"mainstay {check.lower()[:-1]} list"
        )


def _check_triggers(config: Config, data: Path, home: Path) -> Iterator[CheckFinding]:
    folder = data / EVENTS_FOLDER
    waiting = len(list(folder.glob("*.json"))) if folder.is_dir() else 0
    if waiting:
        yield CheckFinding("Triggers", "ok", f"{format_count(waiting, 'event file')} in {folder}")
    failed = len(list((folder / "failed").glob("*.json"))) if folder.is_dir() else 0
    if failed:
        message = f"{format_count(failed, 'event file')} could not be used; the reasons are in {folder / 'failed'}"
        yield CheckFinding("Triggers", "warn", message, f"correct it and move it back to {folder}, or remove it")
    for name, entry in config.triggers.webhooks.items():
        from mainstay.config.check_webhooks import build_webhook  # only needed if there are some

        try:
            build_webhook(name, entry)
        except ConfigError as error:
            yield CheckFinding("Webhook", "FAIL", str(error), f"see triggers.webhooks.{name} in {home / FILE}")
        else:
            yield CheckFinding("Webhook", "ok", f"{name}: /hooks/{name}, {entry.scheme}")
