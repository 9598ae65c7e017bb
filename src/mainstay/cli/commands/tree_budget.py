"""The tree's noun of what may be spent."""

from __future__ import annotations

from mainstay.cli.commands.verbs import Verbs


def add_budgets(verbs: Verbs) -> None:
    """To the tree itself."""
    noun = verbs.noun("budget", "See what was spent, and what is left of what may be.")
    about = "Print what was spent this hour, day and month, and how much of each budget is used."
    noun.verb("show", about, "budget:show")
