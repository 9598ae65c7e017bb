"""`mainstay doctor`: is everything there, and if not, what to do about it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from mainstay import __version__
from mainstay.cli.chat.safe import visible
from mainstay.cli.commands import checks, checks_home, checks_machine
from mainstay.cli.commands.checks import Finding
from mainstay.cli.commands.checks_audit import audit
from mainstay.cli.commands.checks_elsewhere import elsewhere
from mainstay.cli.commands.checks_gateway import gateway
from mainstay.cli.commands.checks_knowhow import knowhow
from mainstay.cli.commands.checks_local import kept
from mainstay.cli.commands.checks_model import MODEL_S, Wish, models
from mainstay.cli.commands.checks_steps import Step, Steps
from mainstay.cli.commands.homes import home_of, run_async
from mainstay.cli.commands.out import paint, print_json
from mainstay.config.schema import Config

DATABASE_S = 120.0
ELSEWHERE_S = 60.0
SPARE_S = 30.0  # beside the model's own time
_COLOURS = {"ok": "green", "warn": "yellow", "FAIL": "red"}


def doctor(options: argparse.Namespace) -> int:
    home = home_of(options)
    wish = Wish(offline=options.offline, deep=options.deep, seconds=options.wait or MODEL_S)
    findings = run_async(_examine(home, wish, fix=bool(options.fix), shown=not options.json))
    failed = list(dict.fromkeys(one.check for one in findings if one.verdict == "FAIL"))
    if options.json:
        error = {"error": {"type": "CheckFailed", "message": f"failed: {', '.join(failed)}"}} if failed else {}
        print_json({"ok": not failed, **error, "version": __version__, "checks": findings})
    elif failed:
        print("\nSomething has to be mended; see the lines with FAIL.")
    elif any(one.verdict == "warn" for one in findings):
        print("\nNothing is broken; see the lines with warn.")
    else:
        print("\nReady. `mainstay chat` starts a conversation.")
    return 1 if failed else 0


async def _examine(home: Path, wish: Wish, *, fix: bool, shown: bool) -> list[Finding]:
    findings: list[Finding] = []
    async for finding in _all(Steps(shown=shown), home, wish, fix=fix):
        findings.append(finding)
        if shown:
            print(_line(finding), flush=True)
    return findings


async def _all(steps: Steps, home: Path, wish: Wish, *, fix: bool) -> AsyncIterator[Finding]:
    """In the order in which one thing needs another."""
    for step in _of_machine(steps):
        for finding in await steps.take(step):
            yield finding
    config: Config | None = None
    configured: list[Finding] = []

    def load() -> Iterable[Finding]:
        nonlocal config
        kept = list(checks_home.permissions(home, fix=fix))  # a file that others may read is refused
        config, found = checks.configuration(home)
        configured.append(found)
        return kept

    permitted = await steps.take(Step(check="Configuration", work=lambda: steps.apart(load), doing="reading it"))
    for step in _of_home(steps, home, config, fix=fix):
        for finding in await steps.take(step):
            yield finding
        if step.check == "Home":
            for finding in permitted:
                yield finding
    for finding in configured:
        yield finding
    if config is None:
        yield Finding("Model", "warn", "not tried, because the configuration cannot be read", "mend that first")
        return
    for step in _of_configuration(steps, home, config, wish, fix=fix):
        for finding in await steps.take(step):
            yield finding


def _of_machine(steps: Steps) -> Iterable[Step]:
    def installed() -> Iterable[Finding]:
        return [checks.python(), *checks.libraries(), *checks_machine.extras()]

    def machine() -> Iterable[Finding]:
        encoding = getattr(sys.stdout, "encoding", None) or "ascii"
        return [checks_machine.terminal(os.environ, encoding, interactive=sys.stdout.isatty()), *checks_machine.ram()]

    yield Step(check="Python", work=lambda: steps.apart(installed), doing="looking what is installed")
    yield Step(check="Terminal", work=lambda: steps.apart(machine))
    yield Step(check="SQLite", work=lambda: steps.apart(lambda: [checks.sqlite()]), doing="trying a small database")


def _of_home(steps: Steps, home: Path, config: Config | None, *, fix: bool) -> Iterable[Step]:
    def sandbox() -> Iterable[Finding]:
        return [checks.sandbox(config), checks_machine.open_files(config)]

    async def confined() -> Iterable[Finding]:
        chosen, files = await steps.apart(sandbox)
        tried = await checks.ran(config) if chosen.verdict != "FAIL" else []
        return [chosen, *tried, files]

    then = "choose another home with --home or MAINSTAY_HOME"
    yield Step(check="Sandbox", work=confined, doing="running a command", seconds=60.0)
    yield Step(check="Home", work=lambda: steps.apart(lambda: [checks_home.home_private(home, fix=fix)]), then=then)
    yield Step(check="Lock", work=lambda: steps.apart(lambda: checks_home.home_free(home)), then=then)
    yield Step(check="Leftovers", work=lambda: steps.apart(lambda: checks_home.leftovers(home, fix=fix)), then=then)
    yield Step(check="Disk", work=lambda: steps.apart(lambda: checks_home.disk(home)), doing="writing a little")
    yield Step(
        check="Database",
        work=lambda: steps.apart(lambda: checks_home.databases(home)),
        doing="reading it whole",
        seconds=DATABASE_S,
        late="warn",
        then="it is large, or its disk is slow; `mainstay session list` says what may go",
    )
    yield Step(
        check="Audit",
        work=lambda: steps.apart(lambda: audit(home)),
        doing="reading it whole",
        seconds=DATABASE_S,
        late="warn",
        then="it is long, or its disk is slow; `mainstay audit verify` takes its time",
    )
    yield Step(check="Clock", work=lambda: steps.apart_async(lambda: checks_home.clock(home)))


def _of_configuration(steps: Steps, home: Path, config: Config, wish: Wish, *, fix: bool) -> Iterable[Step]:
    async def ask() -> Iterable[Finding]:
        return [*await steps.apart(lambda: kept(fix=fix)), *await models(config, wish)]

    yield Step(check="Rules", work=lambda: steps.apart(lambda: checks.rules(config, home)))
    yield Step(check="Judges", work=lambda: steps.apart(lambda: checks.judges(config, home)))
    yield Step(
        check="Elsewhere",
        work=lambda: steps.apart_async(lambda: elsewhere(config, home)),
        doing="opening backends",
        seconds=ELSEWHERE_S,
    )
    yield Step(check="Skills", work=lambda: steps.apart_async(lambda: knowhow(config, home)), doing="reading them")
    yield Step(
        check="Server", work=lambda: steps.apart_async(lambda: gateway(config, home, fix=fix)), doing="looking at it"
    )
    yield Step(check="Model", work=ask, doing="asking it something tiny", seconds=wish.bound_s + SPARE_S)


def _line(finding: Finding) -> str:
    verdict = paint(f"{finding.verdict:4}", _COLOURS[finding.verdict])
    says = _wrapped(f"{finding.check}: {visible(finding.says)}", "      ")
    fix = f"\n      → {_wrapped(visible(finding.fix), '        ')}" if finding.fix else ""
    return f"{verdict}  {says}{fix}"


def _wrapped(text: str, indent: str) -> str:
    """Not in the middle of words; only a person's terminal is asked how wide it is."""
    if len(text) < 70 or not sys.stdout.isatty():
        return text
    from shutil import get_terminal_size
    from textwrap import fill

    width = max(min(get_terminal_size().columns, 120) - 1, 20)
    return fill(
        text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ).removeprefix(indent)
