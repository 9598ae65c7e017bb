"""`mainstay eval`: check and judge answers offline, and compare with how it was."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import msgspec

from mainstay.agent.discover import Found, find_model, no_model_help
from mainstay.agent.models import Models
from mainstay.agent.trust import known_secrets
from mainstay.cli.chat.safe import visible
from mainstay.cli.commands.eval_show import Progress, document, show
from mainstay.cli.commands.homes import Place, home_of, overrides_of, reading, records_of, run_async
from mainstay.cli.commands.out import print_json
from mainstay.cli.commands.talking import reaching, tell
from mainstay.cli.commands.tree import UsageError
from mainstay.cli.main import FAILED, INTERRUPTED
from mainstay.config.loading import load_config
from mainstay.config.schema import Config, data_home
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.core.judging import Panel
from mainstay.evals.baseline import Baseline, compare, failing, made_from, read_baseline, written
from mainstay.evals.junit import junit
from mainstay.evals.planning import Draft, Plan, Sessions, Wanted, plan_cases, plan_sessions, suite_of
from mainstay.evals.results import Run, cleaned
from mainstay.evals.running import Bench, Task, run_tasks
from mainstay.evals.throwaway import Original
from mainstay.trust.guards.redact import Redactor

SESSIONS_MAX = 1_000


def evaluate(options: argparse.Namespace) -> int:
    try:
        home = home_of(options)
        config = load_config(home, env=os.environ, overrides=overrides_of(options)).config
        wanted = _wanted(options)
        path = _baseline_path(options)
        before = _baseline(options, path)
        _refuse_places(options.junit, options.out, path if options.save_baseline else None)
        plan = run_async(_planned(options, wanted, home, config))
        models = _models(options, plan, config)
        panels = _Panels(models, data_home(home, config))
        tasks = [one.made(panels) for one in plan.drafts]
    except MainstayError as error:
        raise UsageError(str(error)) from None
    run = run_async(_done(options, plan.name, tasks, home, config, models))
    redactor = Redactor(known_secrets(config, os.environ))
    return _told(options, cleaned(run, lambda text: redactor.whole(text)[0]), plan, path, before)


# --- before --------------------------------------------------------------------------------------


def _wanted(options: argparse.Namespace) -> Wanted:
    ways = [options.file is not None, bool(options.session), options.sessions]
    if ways.count(True) != 1:
        raise UsageError("what should be looked at? Give a file of cases, or --session S, or --sessions")
    if options.file is None and (options.case or options.tag):
        raise UsageError("--case and --tag choose among the cases of a file")
    return Wanted(
        file=Path(options.file) if options.file is not None else None,
        replay=options.replay,
        asked=options.model is not None or options.script is not None,
        script=Path(options.script) if options.script is not None else None,
        judges=tuple(options.judge),
        names=tuple(options.case),
        tags=tuple(options.tag),
    )


def _baseline_path(options: argparse.Namespace) -> Path | None:
    if options.baseline is not None:
        return Path(options.baseline)
    if options.file is not None:
        return Path(options.file).parent / f"{Path(options.file).stem}.baseline.json"
    if options.save_baseline:
        raise UsageError("--save-baseline: say where, with --baseline FILE")
    return None


def _baseline(options: argparse.Namespace, path: Path | None) -> Baseline | None:
    """One that is asked for must be there, unless it is about to be made."""
    if path is None or (not path.exists() and (options.save_baseline or options.baseline is None)):
        return None
    return read_baseline(path)


def _refuse_places(*paths: str | Path | None) -> None:
    """Before anything is asked that costs money."""
    for one in paths:
        if one is not None and (os.path.isdir(one) or not os.access(Path(one).absolute().parent, os.W_OK)):
            raise ConfigError(f"{one} cannot be written: it is a folder, or lies in none that can be written")


async def _planned(options: argparse.Namespace, wanted: Wanted, home: Path, config: Config) -> Plan:
    suite = suite_of(wanted, config.judges) if wanted.file is not None else None
    names = [one.session for one in suite.cases if one.session] if suite is not None else options.session
    sessions = await _recorded(Place(home, data_home(home, config), config.workspace), names, every=options.sessions)
    if suite is not None:
        return plan_cases(wanted, suite, config.judges, sessions)
    return plan_sessions(wanted, config.judges, sessions)


async def _recorded(place: Place, names: list[str], *, every: bool) -> Sessions:
    """Sessions of sub-agents are part of those that sent them."""
    if not names and not every:
        return {}
    async with reading(place) as store:
        if every:
            found = await store.sessions(limit=SESSIONS_MAX)
            if len(found) == SESSIONS_MAX:
                tell(f"only the newest {SESSIONS_MAX:,} sessions are looked at")
            names = [one.key for one in found if one.errand is None and one.status != "deleted" and one.turns]
        return {name: (await records_of(store, name))[1] for name in dict.fromkeys(names)}


def _models(options: argparse.Namespace, plan: Plan, config: Config) -> Models | None:
    """What cases and judges ask; None if nobody asks anything."""
    judging = plan.judging_models()
    needed = any(one.needs_model for one in plan.drafts)
    if not needed and not judging:
        return None
    asked: str | None = options.model
    found = find_model(config, os.environ, probe=asked is None)
    if asked is not None:
        found = Found(asked, None, "you asked for it")
    if found is None and not needed and "" not in judging:
        found = Found(judging[0], None, "a judge asks it")
    if found is None:
        raise ConfigError(no_model_help(os.environ))
    return Models(found.spec, None, None, reaching(config, found))


class _Panels:
    """Cases with the same judges share them. Functions of the configuration are in files of the home, those of a file
    of cases beside it."""

    def __init__(self, models: Models | None, home: Path) -> None:
        self._models = models
        self._home = home
        self._made: dict[tuple[bytes, frozenset[str]], Panel] = {}

    def __call__(self, draft: Draft) -> Panel:
        key = msgspec.json.encode(draft.judges), draft.own
        if key not in self._made:
            self._made[key] = self._make(draft)
        return self._made[key]

    def _make(self, draft: Draft) -> Panel:
        from mainstay.agent.judges import Judge, load_function, make_panel  # only for those who have judges

        settings = draft.judges
        assert settings is not None, "there are some"
        beside = {name: one for name, one in settings.panel.items() if name in draft.own and one.function}
        rest = {name: one for name, one in settings.panel.items() if name not in beside}
        own = [
            Judge(name, function=load_function(one.function, draft.folder), weight=one.weight, timeout_s=one.timeout_s)
            for name, one in beside.items()
        ]
        return make_panel(msgspec.structs.replace(settings, panel=rest), self._models, self._home, own)


# --- while ---------------------------------------------------------------------------------------


async def _done(
    options: argparse.Namespace, name: str, tasks: list[Task], home: Path, config: Config, models: Models | None
) -> Run:
    progress = Progress(len(tasks), quiet=options.json)
    bench = Bench(
        original=await Original.of(home, config),
        provider=models.choose("") if models is not None else None,
        limits=config.limits,
        money=options.money,
        jobs=options.jobs,
    )
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    loop.add_signal_handler(signal.SIGTERM, task.cancel)  # as if somebody interrupted it: homes of cases are cleared
    try:
        return await run_tasks(bench, name, tasks, progress)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        progress.clear()
        if models is not None:
            await models.close()


# --- after ---------------------------------------------------------------------------------------


def _told(options: argparse.Namespace, run: Run, plan: Plan, path: Path | None, before: Baseline | None) -> int:
    comparison = compare(run, before, options.tolerance, plan.all_names) if before is not None else None
    saved = options.save_baseline and not run.cut
    failed = failing(run, comparison, strict=options.strict)
    if saved and not options.strict:  # from now on, this is how it is
        failed = []
    name = path.name if path is not None else ""
    told = document(run, comparison, name, ok=not failed and not run.cut)
    if options.junit is not None:
        _write(Path(options.junit), junit(run, comparison, strict=options.strict))
    if options.out is not None:
        _write(Path(options.out), _json(told))
    if options.json:
        print_json(told)
    else:
        show(run, comparison, name)
    if options.save_baseline:
        _keep(run, plan, path, before)
    if options.money is not None and run.tokens and not run.cost + run.judging:
        tell("no price of this model is known, so --money could not hold it back")
    if run.cut == "interrupted":
        return INTERRUPTED
    return FAILED if failed or run.cut else 0


def _keep(run: Run, plan: Plan, path: Path | None, before: Baseline | None) -> None:
    assert path is not None, "--save-baseline has a place"
    if run.cut:
        tell(f"{visible(str(path))} is left as it was: not all cases were done")
        return
    chosen = len(run.results) < len(plan.all_names)  # what is known of the others stays
    _write(path, written(made_from(run, before if chosen else None)))
    tell(f"kept in {visible(str(path))}")


def _json(told: dict[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(told), indent=2).decode() + "\n"


def _write(path: Path, text: str) -> None:
    """Whole or not at all; a device or a pipe as it comes."""
    data = text.encode(errors="backslashreplace")
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    draft = path.with_name(f".{path.name}.part")
    draft.write_bytes(data)
    os.replace(draft, path)
