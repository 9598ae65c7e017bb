"""`mainstay doctor`: checks the installation, the home and the configuration, and says how to fix what is wrong."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from mainstay import __version__
from mainstay.agent import health as agent_health
from mainstay.agent.embedder_health import check_embedder
from mainstay.agent.external_tools_health import check_external_tools
from mainstay.agent.home_paths import GATEWAY_DATABASE
from mainstay.agent.model_health import MODEL_TIMEOUT_S, ModelCheckOptions, check_models, check_provider_files
from mainstay.agent.workspace_memory import has_vectors
from mainstay.cli.commands.doctor_gateway_checks import check_gateway
from mainstay.cli.commands.doctor_step_runner import DoctorStep, DoctorStepRunner
from mainstay.cli.commands.doctor_terminal_checks import check_chat_libraries, check_label, check_terminal
from mainstay.cli.commands.home_locator import resolve_home, run_async
from mainstay.cli.commands.output import print_json, style_text
from mainstay.config.health import check_configuration, check_judges
from mainstay.config.schema import FILE, Config, resolve_data_folder
from mainstay.config.schema_gateway import ServerSettings
from mainstay.core import machine_health
from mainstay.core.health import CheckContext, CheckFinding
from mainstay.core.third_party_component_health import check_components
from mainstay.gateway.home_socket import SOCKET_NAME
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.store import home_health as home_health

DATABASE_TIMEOUT_S = 120.0
EXTERNAL_TOOLS_TIMEOUT_S = 60.0
MODEL_SPARE_S = 30.0  # in addition to the model's own timeout
_COLOURS = {"ok": "green", "warn": "yellow", "FAIL": "red"}


def doctor(options: argparse.Namespace) -> int:
    home = resolve_home(options)
    model_options = ModelCheckOptions(
        is_offline=options.offline, is_deep=options.deep, timeout_s=options.wait or MODEL_TIMEOUT_S
    )
    findings = run_async(_run_and_print(home, model_options, fix=bool(options.fix), prints=not options.json))
    failed = list(dict.fromkeys(finding.check for finding in findings if finding.verdict == "FAIL"))
    if options.json:
        error = {"error": {"type": "CheckFailed", "message": f"failed: {', '.join(failed)}"}} if failed else {}
        print_json({"ok": not failed, **error, "version": __version__, "checks": findings})
    elif failed:
        print("\nSome checks failed; see the lines marked FAIL.")
    elif any(finding.verdict == "warn" for finding in findings):
        print("\nNothing is broken; see the lines marked warn.")
    else:
        print("\nReady. Start a chat with `mainstay chat`.")
    return 1 if failed else 0


async def _run_and_print(
    home: Path, model_options: ModelCheckOptions, *, fix: bool, prints: bool
) -> list[CheckFinding]:
    findings: list[CheckFinding] = []
    async for finding in _run_checks(DoctorStepRunner(shows_progress=prints), home, model_options, fix=fix):
        findings.append(finding)
        if prints:
            print(_format_finding(finding), flush=True)
    return findings


async def _run_checks(
    runner: DoctorStepRunner, home: Path, model_options: ModelCheckOptions, *, fix: bool
) -> AsyncIterator[CheckFinding]:
    """Run all checks, each after those that it depends on."""
    for step in _machine_steps(runner):
        for finding in await runner.run_step(step):
            yield finding
    config: Config | None = None
    configured: list[CheckFinding] = []

    def load() -> Iterable[CheckFinding]:
        nonlocal config
        # first: a file that others can read is refused
        permissions = list(home_health.check_permissions(home, FILE, fix=fix))
        config, finding = check_configuration(home)
        configured.append(finding)
        return permissions

    permitted = await runner.run_step(
        DoctorStep(check="Configuration", work=lambda: runner.run_in_thread(load), activity="reading it")
    )
    context = _build_context(home, config or Config(), is_offline=model_options.is_offline)
    for step in _home_steps(runner, context, config, fix=fix):
        for finding in await runner.run_step(step):
            yield finding
        if step.check == "Home":
            for finding in permitted:
                yield finding
    for finding in configured:
        yield finding
    if config is None:
        yield CheckFinding("Model", "warn", "not checked, because the configuration cannot be read", "fix that first")
        return
    for step in _configuration_steps(runner, home, config, model_options, fix=fix):
        for finding in await runner.run_step(step):
            yield finding


def _machine_steps(runner: DoctorStepRunner) -> Iterable[DoctorStep]:
    def installed() -> Iterable[CheckFinding]:
        return [
            machine_health.check_python(),
            check_chat_libraries(),
            *machine_health.check_extras(__version__),
            *check_components(),
        ]

    def machine() -> Iterable[CheckFinding]:
        encoding = getattr(sys.stdout, "encoding", None) or "ascii"
        return [
            check_terminal(os.environ, encoding, is_interactive=sys.stdout.isatty()),
            *machine_health.check_ram(),
        ]

    yield DoctorStep(
        check="Python", work=lambda: runner.run_in_thread(installed), activity="listing installed packages"
    )
    yield DoctorStep(check="Terminal", work=lambda: runner.run_in_thread(machine))


def _build_context(home: Path, config: Config, *, is_offline: bool) -> CheckContext:
    return CheckContext(
        home=home,
        data=resolve_data_folder(home, config),
        workspace=config.workspace,
        is_offline=is_offline,
        has_vectors=has_vectors(config),
        home_database=resolve_data_folder(home, config) / GATEWAY_DATABASE,
    )


def _home_steps(
    runner: DoctorStepRunner, context: CheckContext, config: Config | None, *, fix: bool
) -> Iterable[DoctorStep]:
    settings, home = config or Config(), context.home

    async def confined() -> Iterable[CheckFinding]:
        (chosen,) = await runner.run_in_thread(lambda: [agent_health.check_sandbox(settings.sandbox, context)])
        tried = [await agent_health.run_test_command(settings.sandbox)] if chosen.verdict != "FAIL" else []
        return [chosen, *tried, machine_health.check_open_files(_count_connections(config))]

    then = "choose another home with --home or MAINSTAY_HOME"
    yield DoctorStep(check="Sandbox", work=confined, activity="running a command", timeout_s=60.0)
    yield DoctorStep(
        check="Home", work=lambda: runner.run_in_thread(lambda: [home_health.check_home(home, fix=fix)]), advice=then
    )
    yield DoctorStep(
        check="Lock",
        work=lambda: runner.run_in_thread(lambda: home_health.check_lock(home / FILE, context.data)),
        advice=then,
    )
    yield DoctorStep(
        check="Leftovers",
        work=lambda: runner.run_in_thread(
            lambda: home_health.check_leftovers(home / FILE, context.data / SOCKET_NAME, fix=fix)
        ),
        advice=then,
    )
    yield DoctorStep(
        check="Disk",
        work=lambda: runner.run_in_thread(lambda: home_health.check_disk(context.data)),
        activity="writing a test file",
    )
    yield DoctorStep(
        check="Database",
        work=lambda: runner.run_in_thread(lambda: agent_health.check_store(settings.storage, context)),
        activity="reading all of it",
        timeout_s=DATABASE_TIMEOUT_S,
        timeout_verdict="warn",
        advice="it is large, or its disk is slow; `mainstay session list` shows sessions that can be deleted",
    )
    yield DoctorStep(
        check="Facts",
        work=lambda: runner.run_in_thread(
            lambda: agent_health.check_fact_store(settings.storage.memory.knowledge, context)
        ),
        timeout_verdict="warn",
    )
    yield DoctorStep(
        check="Memory",
        work=lambda: runner.run_in_thread(lambda: check_embedder(settings, context)),
        activity="loading the embedding model",
        timeout_verdict="warn",
    )
    yield DoctorStep(
        check="Audit",
        work=lambda: runner.run_in_thread(lambda: agent_health.check_audit(context.data)),
        activity="reading all of it",
        timeout_s=DATABASE_TIMEOUT_S,
        timeout_verdict="warn",
        advice="it is long, or its disk is slow; `mainstay audit verify` has no time limit",
    )
    yield DoctorStep(
        check="Clock",
        work=lambda: runner.run_async_in_thread(lambda: agent_health.check_clock(settings.storage, context)),
    )


def _count_connections(config: Config | None) -> int | None:
    """Return the limit of connections to the server; None if none is configured."""
    if config is None or not (config.channels or config.people or config.server != ServerSettings()):
        return None
    return config.server.connections_max


def _configuration_steps(
    runner: DoctorStepRunner, home: Path, config: Config, model_options: ModelCheckOptions, *, fix: bool
) -> Iterable[DoctorStep]:
    async def ask() -> Iterable[CheckFinding]:
        return [
            *await runner.run_in_thread(lambda: check_provider_files(fix=fix)),
            *await check_models(config, model_options),
        ]

    yield DoctorStep(check="Rules", work=lambda: runner.run_in_thread(lambda: agent_health.check_rules(config, home)))
    yield DoctorStep(check="Judges", work=lambda: runner.run_in_thread(lambda: check_judges(config, home)))
    yield DoctorStep(
        check="Elsewhere",
        work=lambda: runner.run_async_in_thread(lambda: check_external_tools(config, home)),
        activity="opening backends",
        timeout_s=EXTERNAL_TOOLS_TIMEOUT_S,
    )
    yield DoctorStep(
        check="Skills",
        work=lambda: runner.run_in_thread(lambda: agent_health.check_skills_and_triggers(config, home)),
        activity="reading them",
    )
    yield DoctorStep(
        check="Server",
        work=lambda: runner.run_async_in_thread(
            lambda: check_gateway(config, home, fix=fix, is_offline=model_options.is_offline)
        ),
        activity="checking it",
    )
    yield DoctorStep(
        check="Model",
        work=ask,
        activity="sending a tiny prompt",
        timeout_s=model_options.effective_timeout_s + MODEL_SPARE_S,
    )


def _format_finding(finding: CheckFinding) -> str:
    verdict = style_text(f"{finding.verdict:4}", _COLOURS[finding.verdict])
    message = _wrap_text(f"{check_label(finding.check)}: {escape_line(finding.message)}", "      ")
    fix = f"\n      → {_wrap_text(escape_line(finding.fix), '        ')}" if finding.fix else ""
    return f"{verdict}  {message}{fix}"


def _wrap_text(text: str, indent: str) -> str:
    """Wrap a long text at word boundaries to the terminal's width; unchanged if stdout is not a terminal."""
    if len(text) < 70 or not sys.stdout.isatty():
        return text
    from shutil import get_terminal_size
    from textwrap import fill

    width = max(min(get_terminal_size().columns, 120) - 1, 20)
    return fill(
        text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ).removeprefix(indent)
