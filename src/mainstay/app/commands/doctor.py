"""`mainstay doctor`: is everything there, and if not, what to do about it."""

from __future__ import annotations

import argparse
from pathlib import Path

from mainstay.app.chat.safe import visible
from mainstay.app.commands import checks
from mainstay.app.commands.checks import Finding
from mainstay.app.commands.checks_elsewhere import elsewhere
from mainstay.app.commands.checks_gateway import gateway
from mainstay.app.commands.checks_knowhow import knowhow
from mainstay.app.commands.homes import home_of, run_async
from mainstay.app.commands.out import paint, print_json

_COLOURS = {"ok": "green", "warn": "yellow", "FAIL": "red"}


def doctor(options: argparse.Namespace) -> int:
    home = home_of(options)
    findings = run_async(_examine(home, fix=bool(options.fix), shown=not options.json))
    failed = [one.check for one in findings if one.verdict == "FAIL"]
    if options.json:
        error = {"error": {"type": "CheckFailed", "message": f"failed: {', '.join(failed)}"}} if failed else {}
        print_json({"ok": not failed, **error, "checks": findings})
    elif failed:
        print("\nSomething has to be mended; see the lines with FAIL.")
    elif any(one.verdict == "warn" for one in findings):
        print("\nNothing is broken; see the lines with warn.")
    else:
        print("\nReady. `mainstay chat` starts a conversation.")
    return 1 if failed else 0


async def _examine(home: Path, *, fix: bool, shown: bool) -> list[Finding]:
    findings: list[Finding] = []

    def add(finding: Finding) -> None:
        findings.append(finding)
        if shown:
            print(_line(finding), flush=True)

    add(checks.python())
    for finding in checks.libraries():
        add(finding)
    add(checks.sqlite())
    config, configured = checks.configuration(home)
    add(checks.sandbox(config))
    add(checks.home_private(home, fix=fix))
    for finding in checks.home_free(home):
        add(finding)
    add(checks.disk(home))
    add(checks.database(home))
    add(await checks.clock(home))
    add(configured)
    for finding in (*checks.rules(config, home), *await elsewhere(config, home), *await knowhow(config, home)):
        add(finding)
    for finding in await gateway(config, home, fix=fix):
        add(finding)
    add(await checks.model(config))
    return findings


def _line(finding: Finding) -> str:
    verdict = paint(f"{finding.verdict:4}", _COLOURS[finding.verdict])
    fix = f"\n      → {visible(finding.fix)}" if finding.fix else ""
    return f"{verdict}  {finding.check}: {visible(finding.says)}{fix}"
