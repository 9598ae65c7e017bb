"""The operation that shows budgets: spending, how much of each budget is used, and who may see what of it."""

from __future__ import annotations

import msgspec

from mainstay.core.budget_reports import BudgetReport, BudgetUsage, PeriodSpending
from mainstay.operations.caller import Caller, NotAllowed
from mainstay.operations.operation import Name, Operation
from mainstay.operations.operation_entry import OperationEntry, Route


class ShowBudget(Operation[BudgetReport], frozen=True, kw_only=True):
    """Show spending and how much of each budget is used."""

    # whose budgets. None: the caller's own workspace; all workspaces for administrators of the home, who may name any
    workspace: Name | None = None


async def show_budget(caller: Caller, request: ShowBudget) -> BudgetReport:
    if caller.can_administer_home:
        if caller.has_home or request.workspace not in (None, caller.workspace):
            return await caller.home.load_budget_report(request.workspace)
        return await (await caller.runtime()).load_budget_report()  # an agent that no server runs
    if request.workspace not in (None, caller.workspace):
        raise NotAllowed("the budgets of other workspaces are for administrators of the home")
    return _select_visible(caller, await (await caller.runtime()).load_budget_report(caller.person))


def _select_visible(caller: Caller, report: BudgetReport) -> BudgetReport:
    """Return what a caller may see who does not administer the home."""
    return msgspec.structs.replace(
        report,
        spent=[row for row in report.spent if _can_see(caller, row)],
        budgets=[row for row in report.budgets if _can_see(caller, row)],
        reserved=0.0,
    )


def _can_see(caller: Caller, row: PeriodSpending | BudgetUsage) -> bool:
    """True for the caller's own row, and for an administrator of the workspace the workspace's. Others' rows are not
    shown to the latter: a person's spending is that in all workspaces."""
    match row.scope:
        case "person":
            return row.name == caller.person
        case "workspace":
            return row.name == caller.workspace and caller.principal.has_scope("admin")
    return False


# Not for language models: over MCP the caller is often the owner, who sees what everybody spends.
ENTRIES = (OperationEntry(request=ShowBudget, run=show_budget, http=Route("GET", "/api/budgets")),)
