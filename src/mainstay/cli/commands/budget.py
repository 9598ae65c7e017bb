"""`mainstay budget show`: what was spent, what may be, and when there is more."""

from __future__ import annotations

import argparse
import os
from typing import cast

import msgspec

from mainstay.agent.accounts import budgets_of
from mainstay.agent.spent import Left, Report, Spent, report, scope_name
from mainstay.agent.world import SystemClock
from mainstay.cli.commands.homes import home_of
from mainstay.cli.commands.out import paint, print_json, print_table
from mainstay.cli.commands.tree import UsageError
from mainstay.config.loading import Loaded, load_config
from mainstay.config.schema import Config, data_home
from mainstay.core.reservations import NANO
from mainstay.gateway.workspace_folders import names
from mainstay.metering.budgets import PERIODS, Kind, amount, dollars, limit, when

NOBODY = "Nothing was spent this month."


def show(options: argparse.Namespace) -> int:
    home = home_of(options)
    loaded = load_config(home, env=os.environ)
    data = data_home(home, loaded.config)
    configs = _configs(options, loaded, names(data, loaded.config))
    found = report(data, configs, SystemClock().now_ms())
    if options.json:
        print_json({"ok": True, **_document(found, configs)})
        return 0
    if found.spent:
        print_table(
            ["WHO", "THIS HOUR", "TODAY", "THIS MONTH", "TOKENS", "TOOL CALLS"],
            _rows(found.spent),
            "bcdef",
            narrow=True,
        )
    else:
        print(NOBODY)
    if found.budgets:
        print()
        lines = [_line(one) for one in found.budgets]
        print_table(["BUDGET", "WHO", "USED", "OF", "", "FREES"], lines, "cde", narrow=True)
    for config in configs[:1]:
        for one in budgets_of(config.budgets).of("turn", "session"):
            print(f"each {one.scope}: at most {limit(one.kind, one.limit)}")
    if found.under_way:
        print(paint(f"of this, put aside for calls that have not ended: {dollars(found.under_way)}", "dim"))
    if found.lost:
        print(
            paint(f"of this, lost in crashes this month: {dollars(found.lost)} (nobody knows what was charged)", "dim")
        )
    return 0


def _configs(options: argparse.Namespace, loaded: Loaded, there: list[str]) -> list[Config]:
    main = loaded.config.workspace
    known = dict.fromkeys((main, *there, *loaded.config.workspaces))
    if options.workspace and options.workspace not in known:
        raise UsageError(f"there is no workspace {options.workspace[:80]!r}; there are {', '.join(known)}")
    wanted = [options.workspace] if options.workspace else [main, *(one for one in there if one != main)]
    return [loaded.of(name) for name in wanted]


def _rows(spent: list[Spent]) -> list[list[str]]:
    """A line for everybody, the dearest first."""
    by_key = {(one.scope, one.name, one.period): one for one in spent}
    everybody = sorted({(one.scope, one.name) for one in spent})
    none = Spent("", "", "")
    rows = []
    for scope, name in everybody:
        hour, day, month = (by_key.get((scope, name, period), none) for period in PERIODS)
        money = [dollars(one.money) for one in (hour, day, month)]
        rows.append((-month.money, [scope_name(scope, name), *money, f"{month.tokens:,}", f"{month.calls:,}"]))
    order = {"home": 0, "workspace": 1, "person": 2}
    rows.sort(key=lambda row: (order[row[1][0].split()[0]], row[0], row[1][0]))
    return [row for _, row in rows]


def _line(one: Left) -> list[str]:
    kind = cast(Kind, one.kind)
    share = f"{one.used * 100 // one.limit} %"
    return [
        one.budget,
        scope_name(one.scope, one.name),
        amount(kind, one.used),
        limit(kind, one.limit),
        share,
        when(one.frees_at),
    ]


def _document(found: Report, configs: list[Config]) -> dict[str, object]:
    """Money in dollars, as everywhere else."""
    spent = [{**msgspec.to_builtins(one), "money": one.money / NANO, "lost": one.lost / NANO} for one in found.spent]
    budgets = []
    for one in found.budgets:
        unit = NANO if one.kind == "money" else 1
        budgets.append({**msgspec.to_builtins(one), "used": one.used / unit, "limit": one.limit / unit})
    own = [one.key for one in budgets_of(configs[0].budgets).of("turn", "session")]
    return {"spent": spent, "budgets": budgets, "each": own, "under_way": found.under_way / NANO}
