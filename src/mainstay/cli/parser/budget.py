"""Argument parser of `mainstay budget`."""

from __future__ import annotations

from mainstay.cli.parser.base import CommandGroup


def add_budgets(commands: CommandGroup) -> None:
    budget = commands.add_group("budget", "Show spending and what is left of each budget.")
    about = "Print spending of this hour, day and month, and how much of each budget is used."
    budget.add_command("show", about, "budget:show")
