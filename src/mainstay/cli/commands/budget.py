"""`mainstay budget show`: spending per person, workspace and home, the limits, and when they reset."""

from __future__ import annotations

import argparse
import os
from typing import cast

import msgspec

from mainstay.agent.budget_report import BudgetReport, BudgetUsage, PeriodSpending, build_budget_report, scope_name
from mainstay.agent.home_budgets import build_budgets
from mainstay.agent.system_clock import SystemClock
from mainstay.cli.commands.home_access import resolve_home
from mainstay.cli.commands.output import print_json, print_table, style_text
from mainstay.cli.parser.root import UsageError
from mainstay.config.loader import LoadedConfig, load_config
from mainstay.config.schema import Config, resolve_data_folder
from mainstay.core.budget_reservations import NANODOLLARS_PER_DOLLAR
from mainstay.gateway.workspace_folders import list_workspace_names
from mainstay.metering.budgets import PERIODS, BudgetKind, format_amount, format_dollars, format_limit, format_time

NOTHING_SPENT = "Nothing was spent this month."


def show(options: argparse.Namespace) -> int:
    home = resolve_home(options)
    loaded = load_config(home, env=os.environ)
    data = resolve_data_folder(home, loaded.config)
    configs = _list_configs(options, loaded, list_workspace_names(data, loaded.config))
    totals = build_budget_report(data, configs, SystemClock().now_ms())
    if options.json:
        print_json({"ok": True, **_to_document(totals, configs)})
        return 0
    if totals.spent:
        print_table(
            ["WHO", "THIS HOUR", "TODAY", "THIS MONTH", "TOKENS", "TOOL CALLS"],
            _spending_rows(totals.spent),
            "bcdef",
            stack_if_narrow=True,
        )
    else:
        print(NOTHING_SPENT)
    if totals.budgets:
        print()
        lines = [_budget_row(budget) for budget in totals.budgets]
        print_table(["BUDGET", "WHO", "USED", "LIMIT", "", "RESETS"], lines, "cde", stack_if_narrow=True)
    for config in configs[:1]:
        for budget in build_budgets(config.budgets).for_scopes("turn", "session"):
            print(f"each {budget.scope}: at most {format_limit(budget.kind, budget.limit)}")
    if totals.reserved:
        print(
            style_text(
                f"includes reservations for calls that are still running: {format_dollars(totals.reserved)}", "dim"
            )
        )
    if totals.lost:
        lost = format_dollars(totals.lost)
        note = f"includes calls lost in crashes this month: {lost} (their actual cost is unknown)"
        print(style_text(note, "dim"))
    return 0


def _list_configs(options: argparse.Namespace, loaded: LoadedConfig, workspaces: list[str]) -> list[Config]:
    main = loaded.config.workspace
    known = dict.fromkeys((main, *workspaces, *loaded.config.workspaces))
    if options.workspace and options.workspace not in known:
        raise UsageError(f"there is no workspace {options.workspace[:80]!r}; workspaces: {', '.join(known)}")
    wanted = [options.workspace] if options.workspace else [main, *(name for name in workspaces if name != main)]
    return [loaded.for_workspace(name) for name in wanted]


def _spending_rows(spent: list[PeriodSpending]) -> list[list[str]]:
    """Return one row per home, workspace and person; within each kind, the highest spending comes first."""
    by_key = {(total.scope, total.name, total.period): total for total in spent}
    accounts = sorted({(total.scope, total.name) for total in spent})
    none = PeriodSpending("", "", "")
    rows = []
    for scope, name in accounts:
        hour, day, month = (by_key.get((scope, name, period), none) for period in PERIODS)
        money = [format_dollars(total.money) for total in (hour, day, month)]
        rows.append((-month.money, [scope_name(scope, name), *money, f"{month.tokens:,}", f"{month.calls:,}"]))
    order = {"home": 0, "workspace": 1, "person": 2}
    rows.sort(key=lambda row: (order[row[1][0].split()[0]], row[0], row[1][0]))
    return [row for _, row in rows]


def _budget_row(budget: BudgetUsage) -> list[str]:
    kind = cast(BudgetKind, budget.kind)
    share = f"{budget.used * 100 // budget.limit} %"
    return [
        budget.budget,
        scope_name(budget.scope, budget.name),
        format_amount(kind, budget.used),
        format_limit(kind, budget.limit),
        share,
        format_time(budget.frees_at),
    ]


def _to_document(totals: BudgetReport, configs: list[Config]) -> dict[str, object]:
    """Return the report for `--json`, with money in dollars."""
    spent = [
        {
            **msgspec.to_builtins(total),
            "money": total.money / NANODOLLARS_PER_DOLLAR,
            "lost": total.lost / NANODOLLARS_PER_DOLLAR,
        }
        for total in totals.spent
    ]
    budgets = []
    for budget in totals.budgets:
        unit = NANODOLLARS_PER_DOLLAR if budget.kind == "money" else 1
        budgets.append({**msgspec.to_builtins(budget), "used": budget.used / unit, "limit": budget.limit / unit})
    each = [budget.key for budget in build_budgets(configs[0].budgets).for_scopes("turn", "session")]
    return {"spent": spent, "budgets": budgets, "each": each, "under_way": totals.reserved / NANODOLLARS_PER_DOLLAR}
