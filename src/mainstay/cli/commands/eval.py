"""`mainstay eval`: runs evaluation cases or recorded sessions, judges the answers, and compares with a baseline."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import msgspec

from mainstay.agent.model_discovery import DiscoveredModel, configure_provider, explain_missing_model, find_model
from mainstay.agent.model_providers import ModelProviders
from mainstay.agent.trust_setup import list_known_secrets
from mainstay.cli.commands.agent_setup import print_note
from mainstay.cli.commands.eval_report import EvalProgress, build_report, print_report
from mainstay.cli.commands.home_locator import (
    WorkspaceLocation,
    build_overrides,
    load_session_records,
    open_store_read_only,
    resolve_home,
    run_async,
)
from mainstay.cli.commands.output import print_json
from mainstay.cli.main import FAILED, INTERRUPTED
from mainstay.cli.parser.root import UsageError
from mainstay.config.loader import load_config
from mainstay.config.schema import Config, resolve_data_folder
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.core.judges import JudgePanel
from mainstay.evals.baseline import (
    Baseline,
    build_baseline,
    compare_with_baseline,
    format_baseline,
    list_failing_cases,
    read_baseline,
)
from mainstay.evals.junit_report import build_junit_report
from mainstay.evals.plan import (
    EvalCommandOptions,
    EvalPlan,
    EvalTaskDraft,
    SessionJournals,
    load_suite,
    plan_cases,
    plan_sessions,
)
from mainstay.evals.results import EvalRun, redact_run
from mainstay.evals.runner import EvalEnvironment, EvalTask, run_tasks
from mainstay.evals.temporary_home import HomeTemplate
from mainstay.guards.redaction import Redactor
from mainstay.guards.terminal_sanitizer import escape_line

SESSIONS_MAX = 1_000


def evaluate(options: argparse.Namespace) -> int:
    try:
        home = resolve_home(options)
        config = load_config(home, env=os.environ, overrides=build_overrides(options)).config
        wanted = _build_request(options)
        path = _find_baseline_path(options)
        before = _load_baseline(options, path)
        _check_output_paths(options.junit, options.out, path if options.save_baseline else None)
        plan = run_async(_build_plan(options, wanted, home, config))
        models = _build_models(options, plan, config)
        panels = _JudgePanelCache(models, resolve_data_folder(home, config))
        tasks = [draft.build_task(panels) for draft in plan.drafts]
    except MainstayError as error:
        raise UsageError(str(error)) from None
    run = run_async(_run_tasks(options, plan.name, tasks, home, config, models))
    redactor = Redactor(list_known_secrets(config, os.environ))
    return _report_results(options, redact_run(run, lambda text: redactor.redact(text)[0]), plan, path, before)


# --- planning ------------------------------------------------------------------------------------


def _build_request(options: argparse.Namespace) -> EvalCommandOptions:
    ways = [options.file is not None, bool(options.session), options.sessions]
    if ways.count(True) != 1:
        raise UsageError("give exactly one of: a file of cases, --session S, --sessions")
    if options.file is None and (options.case or options.tag):
        raise UsageError("--case and --tag need a file of cases")
    return EvalCommandOptions(
        file=Path(options.file) if options.file is not None else None,
        replay=options.replay,
        is_rerun=options.model is not None or options.script is not None,
        script=Path(options.script) if options.script is not None else None,
        judges=tuple(options.judge),
        case_globs=tuple(options.case),
        tags=tuple(options.tag),
    )


def _find_baseline_path(options: argparse.Namespace) -> Path | None:
    if options.baseline is not None:
        return Path(options.baseline)
    if options.file is not None:
        return Path(options.file).parent / f"{Path(options.file).stem}.baseline.json"
    if options.save_baseline:
        raise UsageError("--save-baseline needs --baseline FILE")
    return None


def _load_baseline(options: argparse.Namespace, path: Path | None) -> Baseline | None:
    """Read the baseline; None if there is none. One named with --baseline must exist, unless it is to be saved."""
    if path is None or (not path.exists() and (options.save_baseline or options.baseline is None)):
        return None
    return read_baseline(path)


def _check_output_paths(*paths: str | Path | None) -> None:
    """Raise ConfigError if an output file cannot be written, before a model call costs money."""
    for path in paths:
        if path is not None and (os.path.isdir(path) or not os.access(Path(path).absolute().parent, os.W_OK)):
            raise ConfigError(f"{path} cannot be written: it is a folder, or its folder is not writable")


async def _build_plan(options: argparse.Namespace, request: EvalCommandOptions, home: Path, config: Config) -> EvalPlan:
    suite = load_suite(request, config.judges) if request.file is not None else None
    names = [case.session for case in suite.cases if case.session] if suite is not None else options.session
    sessions = await _load_journals(
        WorkspaceLocation(home, resolve_data_folder(home, config), config.workspace),
        names,
        all_sessions=options.sessions,
    )
    if suite is not None:
        return plan_cases(request, suite, config.judges, sessions)
    return plan_sessions(request, config.judges, sessions)


async def _load_journals(location: WorkspaceLocation, names: list[str], *, all_sessions: bool) -> SessionJournals:
    """Return the journals of these sessions, or of all sessions; sub-agents' sessions belong to their parents."""
    if not names and not all_sessions:
        return {}
    async with open_store_read_only(location) as store:
        if all_sessions:
            sessions = await store.list_sessions(limit=SESSIONS_MAX)
            if len(sessions) == SESSIONS_MAX:
                print_note(f"only the newest {SESSIONS_MAX:,} sessions are evaluated")
            names = [
                session.key
                for session in sessions
                if session.spawned is None and session.status != "deleted" and session.turns
            ]
        return {name: (await load_session_records(store, name))[1] for name in dict.fromkeys(names)}


def _build_models(options: argparse.Namespace, plan: EvalPlan, config: Config) -> ModelProviders | None:
    """Return the models that cases and judges call; None if they call none."""
    judging = plan.judge_models()
    needed = any(draft.needs_model for draft in plan.drafts)
    if not needed and not judging:
        return None
    requested_model: str | None = options.model
    model = find_model(config, os.environ, probe=requested_model is None)
    if requested_model is not None:
        model = DiscoveredModel(requested_model, None, "you asked for it")
    if model is None and not needed and "" not in judging:
        model = DiscoveredModel(judging[0], None, "a judge uses it")
    if model is None:
        raise ConfigError(explain_missing_model(os.environ))
    return ModelProviders(model.spec, None, None, configure_provider(config, model))


class _JudgePanelCache:
    """Judge panels, shared by cases with the same judges.

    Functions named in the configuration are loaded from the home, those named in a file of cases from its folder.
    """

    def __init__(self, models: ModelProviders | None, home: Path) -> None:
        self._models = models
        self._home = home
        self._panels: dict[tuple[bytes, frozenset[str]], JudgePanel] = {}

    def __call__(self, draft: EvalTaskDraft) -> JudgePanel:
        key = msgspec.json.encode(draft.judges), draft.file_judges
        if key not in self._panels:
            self._panels[key] = self._build_panel(draft)
        return self._panels[key]

    def _build_panel(self, draft: EvalTaskDraft) -> JudgePanel:
        from mainstay.agent.judges import build_panel, load_function  # only needed if there are judges
        from mainstay.judges.judge_declaration import Judge

        settings = draft.judges
        assert settings is not None, "only called for a case with judges"
        local = {name: judge for name, judge in settings.panel.items() if name in draft.file_judges and judge.function}
        rest = {name: judge for name, judge in settings.panel.items() if name not in local}
        own = [
            Judge(
                name,
                function=load_function(judge.function, draft.folder),
                weight=judge.weight,
                timeout_s=judge.timeout_s,
            )
            for name, judge in local.items()
        ]
        return build_panel(msgspec.structs.replace(settings, panel=rest), self._models, self._home, own)


# --- running -------------------------------------------------------------------------------------


async def _run_tasks(
    options: argparse.Namespace,
    name: str,
    tasks: list[EvalTask],
    home: Path,
    config: Config,
    models: ModelProviders | None,
) -> EvalRun:
    progress = EvalProgress(len(tasks), is_quiet=options.json)
    bench = EvalEnvironment(
        home_template=await HomeTemplate.from_home(home, config),
        provider=models.provider_for("") if models is not None else None,
        cost_max=options.money,
        jobs=options.jobs,
    )
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    loop.add_signal_handler(signal.SIGTERM, task.cancel)  # like Ctrl-C, so that temporary homes are removed
    try:
        return await run_tasks(bench, name, tasks, progress)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        progress.clear()
        if models is not None:
            await models.close()


# --- reporting -----------------------------------------------------------------------------------


def _report_results(
    options: argparse.Namespace, run: EvalRun, plan: EvalPlan, path: Path | None, baseline: Baseline | None
) -> int:
    comparison = (
        compare_with_baseline(run, baseline, options.tolerance, plan.all_names) if baseline is not None else None
    )
    saved = options.save_baseline and not run.stop_reason
    failed = list_failing_cases(run, comparison, strict=options.strict)
    if saved and not options.strict:  # these results become the accepted ones
        failed = []
    name = path.name if path is not None else ""
    report = build_report(run, comparison, name, ok=not failed and not run.stop_reason)
    if options.junit is not None:
        _write_file(Path(options.junit), build_junit_report(run, comparison, strict=options.strict))
    if options.out is not None:
        _write_file(Path(options.out), _encode_report(report))
    if options.json:
        print_json(report)
    else:
        print_report(run, comparison, name)
    if options.save_baseline:
        _save_baseline(run, plan, path, baseline)
    if options.money is not None and run.tokens and not run.cost + run.judge_cost:
        print_note("this model's price is unknown, so --money had no effect")
    if run.stop_reason == "interrupted":
        return INTERRUPTED
    return FAILED if failed or run.stop_reason else 0


def _save_baseline(run: EvalRun, plan: EvalPlan, path: Path | None, baseline: Baseline | None) -> None:
    assert path is not None, "--save-baseline has a file"
    if run.stop_reason:
        print_note(f"{escape_line(str(path))} was not changed, because not all cases ran")
        return
    chosen = len(run.results) < len(plan.all_names)  # then the results of the other cases are kept
    _write_file(path, format_baseline(build_baseline(run, baseline if chosen else None)))
    print_note(f"baseline saved in {escape_line(str(path))}")


def _encode_report(report: dict[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def _write_file(path: Path, text: str) -> None:
    """Write a file atomically; write a device or a pipe directly."""
    data = text.encode(errors="backslashreplace")
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    draft = path.with_name(f".{path.name}.part")
    draft.write_bytes(data)
    os.replace(draft, path)
