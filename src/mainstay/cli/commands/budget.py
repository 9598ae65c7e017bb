"""`mainstay budget show`: spending per person, workspace and home, the limits, and when they reset."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import msgspec

from mainstay.cli.commands.home_locator import resolve_home, run_async
from mainstay.cli.commands.output import print_json, print_table, style_text
from mainstay.cli.parser.root import UsageError
from mainstay.config.loader import LoadedConfig, load_config
from mainstay.config.schema import resolve_data_folder
from mainstay.core.budget_reports import BudgetReport, BudgetUsage, PeriodSpending
from mainstay.core.budget_reservation_ids import to_nanodollars
from mainstay.core.errors import HomeTaken
from mainstay.gateway.home_client import load_server_status
from mainstay.gateway.home_socket import RemoteAgent
from mainstay.gateway.offline_home import read_offline
from mainstay.gateway.workspace_folders import list_workspace_names
from mainstay.metering.budget_definitions import (
    PERIODS,
    BudgetKind,
    format_amount,
    format_dollars,
    format_limit,
    format_time,
)
from mainstay.operations.budgets import ShowBudget

NOTHING_SPENT = "Nothing was spent this month."


def show(options: argparse.Namespace) -> int:
    home = resolve_home(options)
    loaded = load_config(home, env=os.environ)
    data = resolve_data_folder(home, loaded.config)
    _check_workspace(options.workspace, loaded, data)
    totals = run_async(_load_report(loaded, data, ShowBudget(workspace=options.workspace)))
    if options.json:
        print_json({"ok": True, **_to_document(totals)})
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
    for limit in totals.each:
        print(f"each {limit.scope}: at most {format_limit(limit.kind, to_budget_units(limit.kind, limit.limit))}")
    if totals.reserved:
        reserved = format_dollars(to_nanodollars(totals.reserved))
        print(style_text(f"includes reservations for calls that are still running: {reserved}", "dim"))
    if totals.lost:
        lost = format_dollars(to_nanodollars(totals.lost))
        note = f"includes calls lost in crashes this month: {lost} (their actual cost is unknown)"
        print(style_text(note, "dim"))
    return 0


async def _load_report(loaded: LoadedConfig, data: Path, operation: ShowBudget) -> BudgetReport:
    """Run the operation in the server that owns the home; without one, or if it does not answer, in this process."""
    try:
        if await load_server_status(data) is not None:
            return await RemoteAgent(data).execute(operation)
    except HomeTaken:
        pass  # the database can be read beside the process that owns it
    return await read_offline(data, loaded, operation)


def _check_workspace(workspace: str | None, loaded: LoadedConfig, data: Path) -> None:
    known = dict.fromkeys((loaded.config.workspace, *list_workspace_names(data, loaded.config)))
    if workspace is not None and workspace not in known:
        raise UsageError(f"there is no workspace {workspace[:80]!r}; workspaces: {', '.join(known)}")


def to_budget_units(kind: BudgetKind, amount: float) -> int:
    """Convert an amount of a report to the unit that budgets are counted in: nanodollars, tokens or tool calls."""
    return to_nanodollars(amount) if kind == "money" else round(amount)


def _spending_rows(spent: list[PeriodSpending]) -> list[list[str]]:
    """Return one row per home, workspace and person; within each kind, the highest spending comes first."""
    by_key = {(total.scope, total.name, total.period): total for total in spent}
    accounts = sorted({(total.scope, total.name) for total in spent})
    none = PeriodSpending("home", "", "")
    rows = []
    for scope, name in accounts:
        hour, day, month = (by_key.get((scope, name, period), none) for period in PERIODS)
        money = [format_dollars(to_nanodollars(total.money)) for total in (hour, day, month)]
        rows.append((-month.money, [_scope_name(scope, name), *money, f"{month.tokens:,}", f"{month.calls:,}"]))
    order = {"home": 0, "workspace": 1, "person": 2}
    rows.sort(key=lambda row: (order[row[1][0].split()[0]], row[0], row[1][0]))
    return [row for _, row in rows]


def _budget_row(budget: BudgetUsage) -> list[str]:
    used, limit = (to_budget_units(budget.kind, amount) for amount in (budget.used, budget.limit))
    return [
        budget.budget,
        _scope_name(budget.scope, budget.name),
        format_amount(budget.kind, used),
        format_limit(budget.kind, limit),
        f"{used * 100 // limit} %",
        format_time(budget.frees_at),
    ]


def _scope_name(scope: str, name: str) -> str:
    match scope:
        case "home":
            return "home"
        case "person":
            return f"person {name or '(owner)'}"
    return f"{scope} {name}"


def _to_document(totals: BudgetReport) -> dict[str, object]:
    """Return the report for `--json`."""
    fields: dict[str, object] = {
        "spent": msgspec.to_builtins(totals.spent),
        "budgets": msgspec.to_builtins(totals.budgets),
    }
    return fields | {"each": [limit.budget for limit in totals.each], "under_way": totals.reserved}
